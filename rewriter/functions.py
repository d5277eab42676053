"""Spark functions that the rewriter has to know something about; all others are just calls."""

from __future__ import annotations


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

#: Functions that give another value each time, or that depend on where they run.
VOLATILE = _names("""
    rand random randn randstr uniform uuid shuffle monotonically_increasing_id spark_partition_id input_file_name
    input_file_block_start input_file_block_length now current_timestamp localtimestamp reflect java_method try_reflect
    raise_error assert_true
""")

#: Functions that make several rows of one.
GENERATORS = _names("""
    explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple
""")
