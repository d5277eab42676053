"""The aggregation of a join node once the types are known: what units compute, and what Spark does if they must not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

from ...rewriter.plan.comparison import decimal_digits, sum_type
from ...rewriter.plan.conjuncts import Term
from ...rewriter.plan.nodes import JoinNode
from ...rewriter.plan.parts import Aggregation, PartialState
from ..spec import AggregateSpec, KeySpec, StateSpec, StreamSpec
from .compiling import NotAsPlannedError
from .inputs import Input
from .travel_types import quoted

_EXTREMES = re.compile(
    r"(tinyint|smallint|int|bigint|float|double|boolean|date|timestamp|timestamp_ntz|string|binary|decimal.*)"
)


def output_types(node: JoinNode, inputs: Mapping[str, Input]) -> dict[str, str]:
    """Return the types of the keys and states by name.

    Raises
    ------
    NotAsPlannedError
        A sum has another type than the SQL above it was written for.
    """
    aggregation = node.aggregation
    assert aggregation is not None
    types = {key.name: argument_type(key.term, inputs) for key in aggregation.keys}
    for state in aggregation.states:
        kind = argument_type(state.term, inputs) if state.term is not None else "bigint"
        if state.function == "sum" and sum_type(kind) != state.type:
            told = f"{state.term and state.term.sql} is {kind} to Spark, and its sum was taken for {state.type}"
            raise NotAsPlannedError(told)
        types[state.name] = {"count": "bigint", "sum": state.type}.get(state.function, kind)
    return types


def argument_type(term: Term, inputs: Mapping[str, Input]) -> str:
    """Return the type of a key or an argument as Spark sees it."""
    return inputs[term.relations[0]].type_of("argument", term.sql)


def can_reduce(aggregation: Aggregation, types: Mapping[str, str]) -> bool:
    """Tell whether units can compute all states: extremes need an order that the kernel knows."""
    return all(
        _EXTREMES.fullmatch(types[state.name]) for state in aggregation.states if state.function in ("min", "max")
    )


def payload(alias: str, aggregation: Aggregation, side: Input) -> list[tuple[str, str]]:
    """Return a stream's columns that the aggregation needs, as ``(packed column, output name)``."""
    return [
        (side.pack_read("argument", one.term.sql), one.name)
        for one in aggregation.columns
        if one.term is not None and alias in one.term.relations
    ]


def aggregate_spec(aggregation: Aggregation, streams: Sequence[StreamSpec], types: Mapping[str, str]) -> AggregateSpec:
    """Return what units compute."""
    place = {name: (rank, column) for rank, stream in enumerate(streams) for column, name in stream.payload}
    keys = tuple(KeySpec(*place[key.name], key.name) for key in aggregation.keys)
    states = []
    for state in aggregation.states:
        rank, column = place.get(state.name, (None, None))
        digits = decimal_digits(types[state.name]) if state.function == "sum" else None
        precision, scale = digits or (None, 0)
        states.append(
            StateSpec(state.function, state.name, rank, column, precision, scale, state.term.sql if state.term else "")
        )
    return AggregateSpec(keys, tuple(states))


def states_of_rows(frame: DataFrame, aggregation: Aggregation) -> DataFrame:
    """Return each result as a group of its own: where Spark has to filter the results first."""
    keys = [F.col(quoted(key.name)) for key in aggregation.keys]
    return frame.select(*keys, *[_state_of_row(state).alias(state.name) for state in aggregation.states])


def _state_of_row(state: PartialState) -> Column:
    if state.function == "count":
        one = F.lit(1).cast("bigint")
        return one if state.term is None else F.when(F.col(state.name).isNotNull(), one).otherwise(F.lit(0))
    return F.col(state.name).cast(state.type) if state.function == "sum" else F.col(state.name)
