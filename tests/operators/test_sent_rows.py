"""What the cost model says that an operator sends is what its slots send."""

from __future__ import annotations

from random import Random

import pytest
from trijoin_sql.operators.results.outcomes import Forwarded, PartialBlock, Result
from trijoin_sql.operators.schemes import SCHEMES
from trijoin_sql.operators.schemes.base import Work
from trijoin_sql.operators.spec import Band, Compare, EdgeSpec, JoinSpec, Options
from trijoin_sql.rewriter.choose.cost import stores
from trijoin_sql.rewriter.plan.cost_model import Model

from .reference import Row, batch_of, streams
from .scheme_runs import COLUMNS, SCHEMA

KEPT, RATE, KEYS = 300, 20, 20


def rows_of(random: Random, count: int, start: int) -> list[Row]:
    """Rows of which one in `KEYS` pairs is equal in a column."""
    return [
        {"id": start + at, "a": random.randrange(KEYS), "b": random.randrange(KEYS), "route": random.getrandbits(62)}
        for at in range(count)
    ]


@pytest.mark.parametrize("units", [1, 4, 16])
@pytest.mark.parametrize("order", [(1, 0, 2), (1, 2, 0), (1, 0, 2, 3), (1, 3, 2, 0)], ids=str)
def test_an_operator_that_stores_its_inputs_alone(order: tuple[int, ...], units: int) -> None:
    """A star with its centre first: rows and partial results go to all units, own rows and results once."""
    random, count = Random(1), len(order)
    edges = tuple(
        EdgeSpec(*sorted((1, other)), ((Compare("=", "a", "a"),) if other % 2 else (Band("b", "b", 0, 0),)))
        for other in range(count)
        if other != 1
    )
    spec = JoinSpec("j", streams(count, COLUMNS), edges, "non_materializing", units, options=Options(order=order))
    stages = [[make(spec, slot) for slot in range(units)] for make in SCHEMES[spec.scheme].stages(spec)]
    sent = 0
    for number, size in enumerate((KEPT, RATE)):
        works = [Work() for _ in range(units)]
        for rank in range(count):
            rows = batch_of(rows_of(random, size, 10_000 * rank + 1000 * number), SCHEMA)
            for work in works:
                work.rows[rank] = [rows]
        sent = units * size * count
        for stage, slots in enumerate(stages):
            following = [Work() for _ in works]
            for at, (slot, work) in enumerate(zip(slots, works, strict=True)):
                for found in slot.process(work):
                    if isinstance(found, Forwarded):
                        following[at].rows.setdefault(found.rank, []).append(found.rows)
                        sent += found.rows.num_rows
                    elif isinstance(found, PartialBlock):
                        to = [at] if found.stays else range(units)
                        sent += len(found) * len(to)
                        for other in to:
                            following[other].blocks.append(found)
                    elif isinstance(found, Result) and stage < count - 1:
                        sent += len(found)
            works = following
    share = [[1 / KEYS if (one == 1) != (other == 1) else 1.0 for other in range(count)] for one in range(count)]
    kept = (float(KEPT + RATE / 2),) * count
    model = Model(tuple("rstu"[:count]), (float(RATE),) * count, kept, tuple(map(tuple, share)), units)
    assert sent == pytest.approx(stores(model, order, units).network, rel=0.2)
