"""Random runs of micro-batches, queries and layouts for the schemes of `simulation`, and what is expected of them."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from hypothesis import settings
from hypothesis import strategies as st

from .simulation import (
    Output,
    Part,
    Query,
    Row,
    Scheme,
    UnitName,
    Values,
    brute_force,
)

rules = settings(max_examples=120)

Theta = Callable[[Values, Values], bool]


def always(a: Values, b: Values) -> bool:
    return True


def equal(i: int, j: int) -> Theta:
    return lambda a, b: a[i] == b[j]


def both(one: Theta, other: Theta) -> Theta:
    return lambda a, b: one(a, b) and other(a, b)


# random runs ---------------------------------------------------------------------------------------------------------


@dataclass
class Run:
    """Rows with the micro-batch that each comes in, and the rank of the streams."""

    batch_of: dict[Row, int]
    ranks: tuple[str, ...]

    @property
    def batches(self) -> list[dict[str, list[Part]]]:
        last = max(self.batch_of.values(), default=0)
        return [
            {name: [(r,) for r, b in self.batch_of.items() if (b, r.stream) == (batch, name)] for name in self.ranks}
            for batch in range(last + 1)
        ]

    @property
    def streams(self) -> dict[str, list[Part]]:
        return {name: [(r,) for r in self.batch_of if r.stream == name] for name in self.ranks}

    def in_order(self, part: Part) -> list[Row]:
        """Sort by the total order."""
        return sorted(part, key=lambda r: (self.batch_of[r], self.ranks.index(r.stream)))

    def outputs(self, scheme: Scheme, at_border: Callable[[int], None] = lambda batch: None) -> list[Output]:
        """Let a scheme take the run; every result must come in the micro-batch of its last row."""
        outputs = []
        for number, delta in enumerate(self.batches):
            at_border(number)
            for output in scheme.batch(delta):
                assert max(self.batch_of[r] for r in output.part) == number
                outputs.append(output)
        return outputs


def results(outputs: Iterable[Output]) -> Counter[Part]:
    return Counter(output.part for output in outputs)


@st.composite
def runs(draw: st.DrawFn, streams: str = "RST", most: int = 6) -> Run:
    """Draw up to so many rows a stream: two columns of few values (hence duplicates), cut into up to four batches."""
    kinds = st.lists(
        st.integers(0, 3 * 3 * 4 * 12 - 1), min_size=draw(st.sampled_from([0, 0, most // 2])), max_size=most
    )
    batch_of = {}
    for name in streams:
        for i, code in enumerate(draw(kinds)):
            batch_of[Row(name, i, (code % 3, code // 3 % 3), code // 36)] = code // 9 % 4
    return Run(batch_of, tuple(draw(st.permutations(streams))))


columns = st.integers(0, 1)
tables = st.builds(
    lambda bits, i, j: lambda a, b: bool(bits >> (3 * a[i] + b[j]) & 1), st.integers(0, 2**9 - 1), columns, columns
)
"""Any relation whatsoever between two columns."""
named = st.builds(
    lambda theta, i, j: lambda a, b: theta(a[i], b[j]),
    st.sampled_from(
        [
            lambda a, b: a == b,
            lambda a, b: a != b,
            lambda a, b: a < b,
            lambda a, b: abs(a - b) <= 1,
            lambda a, b: a <= b <= 2 * a,
        ]
    ),
    columns,
    columns,
)
thetas = st.one_of(named, tables, st.just(always))
keyed = thetas.map(partial(both, equal(0, 0)))


def queries(edges: Sequence[str], theta: st.SearchStrategy[Theta] = thetas) -> st.SearchStrategy[Query]:
    return st.tuples(*(theta for _ in edges)).map(
        lambda drawn: Query({(a, b): t for (a, b), t in zip(edges, drawn, strict=True)})
    )


def sizes(streams: str = "RST") -> st.SearchStrategy[dict[str, int]]:
    return st.fixed_dictionaries({name: st.integers(1, 5) for name in streams})


@st.composite
def routings(draw: st.DrawFn, streams: str = "RST") -> dict[str, object]:
    """Draw units and subgroups for a key common to all inputs: `hash` when they are as many, `contrand` between."""
    units = draw(sizes(streams))
    subgroups = {name: draw(st.sampled_from([n, draw(st.integers(1, n))])) for name, n in units.items()}
    return {"units": units, "subgroups": subgroups, "key": lambda part: part[0].values[0]}


def home(scheme: Scheme, row: Row) -> UnitName:
    """Tell the only unit that stores a row."""
    (unit,) = scheme.homes()[(row,)]
    return unit


def check(run: Run, query: Query, scheme: Scheme, where: Callable[[list[Row]], Row] | None = None) -> list[Output]:
    """Expect brute force's results, and each in the unit that stores the row that `where` picks of the ordered rows."""
    outputs = run.outputs(scheme)
    assert results(outputs) == Counter(brute_force(run.streams, query))
    if where:
        for row in run.batch_of:
            home(scheme, row)
        for output in outputs:
            assert output.unit == home(scheme, where(run.in_order(output.part)))
    return outputs


def first(rows: list[Row]) -> Row:
    return rows[0]
