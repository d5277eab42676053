"""Spark functions that the rewriter has to know something about; all others are just calls."""

from __future__ import annotations

from sqlglot import exp


def called(node: object) -> str:
    """Return the name of the function that a node calls, in small letters; empty if it calls none."""
    return str(node.this).lower() if isinstance(node, exp.Anonymous) else ""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Functions over a group of rows.
AGGREGATES = _names("""
    sum count avg mean min max first last any_value collect_list collect_set stddev stddev_pop stddev_samp std variance
    var_pop var_samp corr covar_pop covar_samp bool_and bool_or every some any percentile approx_percentile
    percentile_approx percentile_cont percentile_disc approx_count_distinct count_if max_by min_by median mode kurtosis
    skewness array_agg listagg string_agg bit_and bit_or bit_xor grouping grouping_id histogram_numeric regr_avgx
    regr_avgy regr_count regr_r2 regr_slope regr_intercept regr_sxx regr_sxy regr_syy try_avg try_sum first_value
    last_value
""")

#: Functions that return another value each time, or that depend on where they run.
VOLATILE = _names("""
    rand random randn randstr uniform uuid shuffle monotonically_increasing_id spark_partition_id input_file_name
    input_file_block_start input_file_block_length now current_timestamp localtimestamp reflect java_method try_reflect
    raise_error assert_true
""")

#: Functions that make several rows of one.
GENERATORS = _names("""
    explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple
""")

#: Functions of a row that always return the same value for it and raise no error (except for overflow).
PURE = _names("""
    abs coalesce nvl ifnull nvl2 nullif greatest least upper lower ucase lcase ltrim rtrim btrim concat concat_ws
    length char_length character_length substr substring replace reverse initcap left right isnull isnotnull isnan nanvl
    sign positive md5 sha1 xxhash64 hash startswith endswith contains instr
""")

#: Those among them that cast their arguments to one type.
ALIKE = _names("coalesce nvl ifnull nullif greatest least nanvl")

#: The same for dates and times; a text would have to be cast, which may raise an error.
PARTS_OF_DATES = _names("""
    year month day dayofmonth quarter hour minute second weekofyear dayofweek dayofyear last_day date_trunc trunc
""")

#: What is computed from dates and times (and whole numbers), except from a text.
TIME_ARITHMETIC = _names("""
    datediff date_diff date_add date_sub dateadd add_months months_between unix_date unix_timestamp unix_seconds
    unix_millis unix_micros to_date date timestampdiff timestampadd
""")

#: Functions that cast their argument to the type of their name.
CASTS = _names("tinyint smallint int bigint float double decimal date timestamp boolean")

#: Functions that raise an error where their twins give NULL.
TWINS = {
    name: f"TRY_{name.upper()}"
    for name in _names("element_at mod to_binary to_date to_number to_timestamp make_timestamp parse_json url_decode")
}

#: More functions of a row; they may raise errors.
SCALARS = _names("""
    round bround floor ceil ceiling sqrt exp ln log log10 log2 pow power cbrt try_divide try_add try_subtract
    try_multiply mod pmod format_number format_string printf date_format to_date to_timestamp date_add date_sub datediff
    from_unixtime unix_timestamp bigint int double float decimal string date timestamp boolean if array struct
    named_struct map lpad rpad cast try_cast months_between add_months
""")
