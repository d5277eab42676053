"""Spark functions that the rewriter has to know something about; all others are just calls."""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.dialects.databricks import Databricks

#: Calls without parentheses (CURRENT_DATE) of which sqlglot makes nodes of their own.
_OWN_NODES = tuple(set(Databricks.Parser.NO_PAREN_FUNCTIONS.values()))


def called(node: object) -> str:
    """Return the name of the function that a node calls, in small letters; empty if it calls none."""
    return node.name.lower() if isinstance(node, exp.Anonymous) else ""


def is_builtin(name: str) -> bool:
    """Return whether a function may be Spark's: sqlglot knows nearly all of them, and some of other engines."""
    return name.upper() in Databricks.Parser.FUNCTIONS or name in SPARKS


def of_a_row(name: str) -> bool:
    """Return whether a function is known to give one value for each row. One that nobody knows may be an aggregate."""
    return any(name in some for some in (PURE, PARTS_OF_DATES, TIME_ARITHMETIC, CASTS, SCALARS, TWINS))


def read_anew(node: exp.Expr) -> bool:
    """Return whether Spark may give a node another value for each row, micro-batch, task or start.

    A key is computed when its row arrives, and kept. So a condition with such a node is Spark's, over the results.
    """
    name = called(node)
    return (
        name in RANDOM
        or name in OF_NOW
        or (name == "unix_timestamp" and not node.expressions)
        or isinstance(node, _OWN_NODES)
        or _is_special(node)
    )


def _is_special(node: exp.Expr) -> bool:
    """Return whether a node is a text such as 'now' or 'today', which Spark reads from the clock where it wants a time.

    Compared with a text it is one.
    """
    if not (isinstance(node, exp.Literal) and node.is_string and _SPECIAL.match(node.this)):
        return False
    beside = node.parent
    return not (isinstance(beside, exp.Predicate) and _is_text(beside, node))


def _is_text(comparison: exp.Expr, literal: exp.Expr) -> bool:
    """Return whether a literal is compared with texts, as far as types of columns are known."""
    others = [one for one in comparison.iter_expressions() if one is not literal]
    types = [getattr(one.meta.get("field"), "type", "") for one in others]
    return all(kind.startswith(("string", "varchar", "char")) for kind in types if kind) and any(types)


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
RANDOM = _names("""
    rand random randn randstr uniform uuid shuffle monotonically_increasing_id spark_partition_id input_file_name
    input_file_block_start input_file_block_length reflect java_method try_reflect raise_error assert_true
""")

#: Functions that have one value in a micro-batch, and another one later, for another user or in another session.
OF_NOW = _names("""
    now current_timestamp localtimestamp current_date curdate current_time current_user session_user user
    current_catalog current_database current_schema current_path current_timezone
""")

#: Those among them that are called without parentheses, unless a column has the name.
WITHOUT_PARENTHESES = _names("current_timestamp current_date current_time current_user session_user user")

#: What Spark reads from the clock where a text is to be a date or a time; a time zone may follow.
_SPECIAL = re.compile(r"\s*(now|today|yesterday|tomorrow)\b", re.IGNORECASE)

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
    named_struct map lpad rpad cast try_cast months_between add_months make_dt_interval make_ym_interval
    make_timestamp_ltz make_timestamp_ntz try_make_interval try_make_timestamp
    try_make_timestamp_ltz try_make_timestamp_ntz to_timestamp_ltz to_timestamp_ntz
    try_to_timestamp try_to_date try_to_time
""")

#: All of these.
SPARKS = tuple(
    sorted(AGGREGATES | RANDOM | OF_NOW | GENERATORS | PURE | PARTS_OF_DATES | TIME_ARITHMETIC | CASTS | SCALARS)
)
