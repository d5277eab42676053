"""The rules of every scheme give each result once, at the right place and time, on random arrivals."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .runs import (
    Run,
    always,
    both,
    check,
    equal,
    first,
    keyed,
    queries,
    results,
    routings,
    rules,
    runs,
    sizes,
)
from .simulated_matrix import Dimension, Matrix, iterative_delta
from .simulation import (
    Biclique,
    Context,
    Part,
    Query,
    Row,
    Scheme,
    SemiSymmetric,
    Symmetric,
    Tree,
    brute_force,
    left_deep,
)

# two streams ---------------------------------------------------------------------------------------------------------


@rules
@given(runs("RS"), queries(["RS"]), sizes("RS"))
def test_biclique_random(run: Run, query: Query, units: dict[str, int]) -> None:
    check(run, query, Biclique(run.ranks, Context(query), units), first)


@rules
@given(runs("RS"), queries(["RS"], keyed), routings("RS"))
def test_biclique_hash_and_contrand(run: Run, query: Query, routing: dict[str, object]) -> None:
    check(run, query, Biclique(run.ranks, Context(query), **routing), first)


# three streams -------------------------------------------------------------------------------------------------------

CYCLE = ["RS", "ST", "TR"]
CHAIN = ["RS", "TS"]


@rules
@given(runs(), queries(CYCLE), sizes(), st.booleans())
def test_symmetric(run: Run, query: Query, units: dict[str, int], pairs: bool) -> None:
    check(run, query, Symmetric(run.ranks, Context(query, pairs), units), first)


@rules
@given(runs(), queries(CYCLE, keyed), routings())
def test_symmetric_inside_subgroups_of_a_common_key(run: Run, query: Query, routing: dict[str, object]) -> None:
    check(run, query, Symmetric(run.ranks, Context(query), **routing), first)


def semi_symmetric_place(rows: list[Row]) -> Row:
    """Where the first row is, except that (r, t, s) arises where t is: R's pack travels there."""
    return rows[1] if [r.stream for r in rows] == ["R", "T", "S"] else rows[0]


@rules
@given(runs(), queries(CHAIN), sizes(), st.booleans())
def test_semi_symmetric(run: Run, query: Query, units: dict[str, int], pairs: bool) -> None:
    check(run, query, SemiSymmetric(run.ranks, Context(query, pairs), units), semi_symmetric_place)


@rules
@given(runs(), queries(CHAIN, keyed), routings())
def test_semi_symmetric_inside_subgroups_of_a_common_key(run: Run, query: Query, routing: dict[str, object]) -> None:
    check(run, query, SemiSymmetric(run.ranks, Context(query), **routing), semi_symmetric_place)


# any number of streams -----------------------------------------------------------------------------------------------


@rules
@given(runs("RSTU", 4), queries(["RS", "ST", "TU", "UR"]), st.data())
def test_tree(run: Run, query: Query, data: st.DataObject) -> None:
    """Any order of joining, and an intermediate may rank before or after the stream it meets."""
    order = data.draw(st.permutations(run.ranks))
    units = data.draw(st.lists(st.integers(1, 5), min_size=6, max_size=6))
    sides = data.draw(st.lists(st.booleans(), min_size=3, max_size=3))
    check(run, query, left_deep(order, Context(query), units, sides))


def sized(*dimensions: Dimension) -> st.SearchStrategy[list[Dimension]]:
    return st.tuples(*(st.integers(1, 3) for _ in dimensions)).map(
        lambda sizes: [d._replace(size=n) for d, n in zip(dimensions, sizes, strict=True)]
    )


def cells_of(row: Row, dimensions: Sequence[Dimension]) -> int:
    return prod(d.size for d in dimensions if row.stream != d.stream and row.stream not in (d.columns or {}))


def check_matrix(run: Run, query: Query, dimensions: Sequence[Dimension]) -> None:
    """Each result in the one cell that all its rows share; a row is copied along the dimensions it lacks, no other."""
    scheme = Matrix(run.ranks, Context(query), dimensions)
    outputs = check(run, query, scheme)
    homes = scheme.homes()
    for row in run.batch_of:
        assert len(homes[(row,)]) == len(set(homes[(row,)])) == cells_of(row, dimensions)
    for part, unit in outputs:
        (shared,) = set.intersection(*(set(homes[(row,)]) for row in part))
        assert shared == unit


ON_RS, ON_ST = Dimension(1, {"R": 0, "S": 0}), Dimension(1, {"S": 1, "T": 0})
MATRICES = {
    "common key": ({("R", "S"): equal(0, 0), ("S", "T"): equal(0, 0)}, [Dimension(1, {"R": 0, "S": 0, "T": 0})]),
    "two classes": ({("R", "S"): equal(0, 0), ("S", "T"): equal(1, 0)}, [ON_RS, ON_ST]),
    "triangle": (
        {("R", "S"): equal(0, 0), ("S", "T"): equal(1, 0), ("T", "R"): equal(1, 1)},
        [ON_RS, ON_ST, Dimension(1, {"R": 1, "T": 1})],
    ),
    "one class": ({("R", "S"): equal(0, 0)}, [ON_RS, Dimension(1, stream="T")]),
    "no class": ({}, [Dimension(1, stream=name) for name in "RST"]),
}


@pytest.mark.parametrize("shape", MATRICES)
@settings(rules, max_examples=50)
@given(runs(), queries(CYCLE), st.data())
def test_matrix(shape: str, run: Run, query: Query, data: st.DataObject) -> None:
    """A hashed dimension per class, a spread one per stream in no class, any other predicate on top."""
    equalities, dimensions = MATRICES[shape]
    edges = dict(query.edges)
    for (a, b), same in equalities.items():
        edges[a, b] = both(same, edges.get((a, b), always))
    check_matrix(run, Query(edges), data.draw(sized(*dimensions)))


@rules
@given(
    runs("RSTU", 4),
    queries(["TU", "UR"]),
    sized(Dimension(1, {"R": 0, "S": 1}), Dimension(1, stream="T"), Dimension(1, stream="U")),
)
def test_matrix_of_four_streams(run: Run, query: Query, dimensions: list[Dimension]) -> None:
    check_matrix(run, Query({**query.edges, ("R", "S"): equal(0, 1)}), dimensions)


@rules
@given(runs("RSTU", 4), queries(["RS", "ST", "TU"]))
def test_iterative(run: Run, query: Query) -> None:
    check(run, query, Matrix(run.ranks, Context(query)))


@rules
@given(runs(), queries(CYCLE))
def test_iterative_is_the_sum_of_the_deltas(run: Run, query: Query) -> None:
    before: dict[str, list[Part]] = {name: [] for name in run.ranks}
    alone = Matrix(run.ranks, Context(query))
    for delta in run.batches:
        assert Counter(iterative_delta(run.ranks, query, before, delta)) == results(alone.batch(delta))
        for name, parts in delta.items():
            before[name] += parts


def test_iterative_stops_when_nothing_is_left() -> None:
    scheme = Matrix("RST", Context(Query({("R", "S"): equal(0, 0), ("S", "T"): equal(0, 0)})))
    scheme.batch({"S": [(Row("S", i, (0,)),) for i in range(5)], "T": [(Row("T", i, (0,)),) for i in range(7)]})
    scheme.context.counts.clear()
    assert scheme.batch({"R": [(Row("R", 0, (1,)),)]}) == []
    assert scheme.context.counts["comparisons"] == 5


# operator trees ------------------------------------------------------------------------------------------------------


def bushy(context: Context, n: int) -> Scheme:
    inner = {
        "(R S)": Biclique("RS", context, {"R": n, "S": 2}),
        "(T U)": Biclique("UT", context, {"T": 1, "U": n}),
    }
    return Tree(Biclique(["(T U)", "(R S)"], context, {"(R S)": 2, "(T U)": n}), inner)


def pair_in_symmetric(context: Context, n: int) -> Scheme:
    root = Symmetric(["S", "(T U)", "R"], context, {"R": n, "S": 2, "(T U)": 2})
    return Tree(root, {"(T U)": Biclique("TU", context, {"T": n, "U": 1})})


def symmetric_in_pair(context: Context, n: int) -> Scheme:
    root = Biclique(["U", "(R S T)"], context, {"(R S T)": n, "U": 2})
    return Tree(root, {"(R S T)": Symmetric("TRS", context, {"R": 2, "S": 1, "T": n})})


def semi_symmetric_over_matrix(context: Context, n: int) -> Scheme:
    grid = [Dimension(n, {"R": 0, "S": 0})]
    root = SemiSymmetric(["(R S)", "U", "T"], context, {"(R S)": 2, "T": n, "U": 2}, ("U", "T", "(R S)"))
    return Tree(root, {"(R S)": Matrix("RS", context, grid)})


def pair_in_matrix(context: Context, n: int) -> Scheme:
    grid = [Dimension(n, {"R": 0, "S": 0}), Dimension(2, stream="(T U)")]
    return Tree(Matrix(["(T U)", "S", "R"], context, grid), {"(T U)": Biclique("TU", context, {"T": n, "U": 2})})


@pytest.mark.parametrize(
    "tree", [bushy, pair_in_symmetric, symmetric_in_pair, semi_symmetric_over_matrix, pair_in_matrix]
)
@settings(rules, max_examples=40)
@given(runs("RSTU", 4), queries(["ST", "TU"]), st.integers(1, 5))
def test_operator_trees(tree: Callable[[Context, int], Scheme], run: Run, query: Query, n: int) -> None:
    query = Query({**query.edges, ("R", "S"): equal(0, 0)})
    check(run, query, tree(Context(query), n))


# a new layout at a restart -------------------------------------------------------------------------------------------


def relaid(run: Run, scheme: Scheme, layouts: Sequence[Mapping[str, int]]) -> Counter[Part]:
    """Take a run with another layout for every micro-batch; new rows go where the layout of their batch says."""

    def at_border(batch: int) -> None:
        for name, units in layouts[batch].items():
            scheme.layout(name, units)

    outputs = run.outputs(scheme, at_border)
    for (row,), units in scheme.homes().items():
        assert units == [(row.stream, row.place % layouts[run.batch_of[row]][row.stream])]
    return results(outputs)


LAYOUT = {"symmetric": (Symmetric, CYCLE), "semi_symmetric": (SemiSymmetric, CHAIN), "biclique": (Biclique, ["RS"])}


@pytest.mark.parametrize("name", LAYOUT)
@settings(rules, max_examples=60)
@given(st.data())
def test_units_may_change_at_a_border(name: str, data: st.DataObject) -> None:
    scheme, edges = LAYOUT[name]
    streams = "RS" if name == "biclique" else "RST"
    run, query = data.draw(runs(streams)), data.draw(queries(edges))
    layouts = data.draw(st.lists(sizes(streams), min_size=4, max_size=4))
    assert relaid(run, scheme(run.ranks, Context(query), layouts[0]), layouts) == Counter(
        brute_force(run.streams, query)
    )
