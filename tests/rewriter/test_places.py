"""The place of what is refused: the caret must not stand at a word that only looks like it."""

from __future__ import annotations

import pytest
from trijoin_sql.rewriter.plan.joins import written
from trijoin_sql.rewriter.plan.parts import Refusal
from trijoin_sql.rewriter.sql.places import place_of, placed

SUBQUERY = "EXISTS ( SELECT|IN ( SELECT|LATERAL (|( SELECT"


@pytest.mark.parametrize(
    ("marked", "words"),
    [
        ("SELECT max(x) OVER (PARTITION BY y ORDER BY z) FROM r ^ORDER BY x", "ORDER BY|SORT BY"),
        ("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM r ^ORDER   BY x", "ORDER BY"),
        ("SELECT x FROM r ^SORT BY x", "ORDER BY|SORT BY"),
        ("SELECT 'ORDER BY' AS `order`, x FROM r -- ORDER BY\n^order by x", "ORDER BY"),
        ("SELECT x FROM r WHERE ^EXISTS (SELECT 1 FROM s)", SUBQUERY),
        ("SELECT x FROM (SELECT x FROM r) WHERE x ^IN (SELECT x FROM s)", SUBQUERY),
        ("SELECT ^(SELECT max(x) FROM s) AS m FROM (SELECT x FROM r)", SUBQUERY),
        ("WITH q AS (SELECT x FROM r) SELECT x, ^(SELECT max(x) FROM s) FROM q", SUBQUERY),
        ("SELECT count(x), count^(DISTINCT y) FROM r", "( DISTINCT"),
        ("SELECT x FROM r ^LEFT OUTER JOIN s ON true", "LEFT JOIN|LEFT OUTER JOIN"),
    ],
)
def test_the_first_phrase_that_means_it(marked: str, words: str) -> None:
    before, _, after = marked.partition("^")
    assert place_of(before + after, words) == len(before)


@pytest.mark.parametrize("text", ["SELECT max(x) OVER (ORDER BY z) FROM r", "SELECT 'no end"])
def test_nothing_is_marked_where_it_does_not_stand(text: str) -> None:
    assert place_of(text, "ORDER BY") is None
    assert place_of(text, "") is None


def test_a_refusal_is_placed_where_its_subject_stands() -> None:
    text = "SELECT * FROM r JOIN s ON r.x < s.x LEFT SEMI JOIN t ON t.x < r.x WITHIN 1 MINUTE"
    for subject, place in ((written("semi", None), text.index("LEFT")), ("WITHIN", text.index("WITHIN")), ("", None)):
        error = placed(Refusal("it is so", "do this", subject), text)
        assert (error.offset, error.reason, error.hint) == (place, "it is so", "do this")
