"""Conditions in Spark's plan, as SQL that the rewriter reads.

Spark writes an expression as text, but that text need not mean the expression: it may not parse, or mean another
instant, text or function. So each text is parsed again, and counts if Spark then has the same expression. What has no
such text and reads one input only becomes a column of that input, as Spark's own expression. The rest stays Spark's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from pyspark.errors import PySparkException

from ..operators.compile.logical_plans import frame_of, items, over, plan_of, sequence
from ..rewriter.predicates.terms import reread
from .quiet import errors_expected

#: Expressions whose meaning depends on their place.
_BOUND = frozenset({"ScalarSubquery", "Exists", "ListQuery", "InSubquery", "OuterReference", "LateralSubquery"})

#: Those that may leave operands out, which would fail where they are left out.
_LAZY = frozenset({"And", "Or", "If", "CaseWhen", "Coalesce"})


def is_bound(expression: Any) -> bool:
    """Return whether the meaning of an expression depends on its place in the plan."""
    return expression.nodeName() in _BOUND or any(map(is_bound, items(expression.children())))


class Conditions:
    """Reads the conditions of a join.

    Parameters
    ----------
    spark
        A classic session.
    inputs
        By input: its alias, and its columns with the names that they have in the conditions.
    """

    def __init__(self, spark: Any, inputs: Iterable[tuple[str, list[tuple[str, Any]]]]) -> None:
        self.spark = spark
        self.catalyst = spark._jvm.org.apache.spark.sql.catalyst
        # Whose settings Spark's parser and printer go by, as where PySpark makes a DataFrame.
        spark._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
        self.aliases: list[str] = []
        self._owners: dict[int, int] = {}  # by the id of a column: the number of its input
        self._known: dict[int, Any] = {}  # and it as an attribute, with its name here
        self._moved: dict[int, Any] = {}  # and the expression that it has the value of, if the input gets it from us
        for number, (alias, named) in enumerate(inputs):
            self.aliases.append(alias)
            for name, attribute in named:
                self._add(number, name, attribute)

    def text(self, condition: Any) -> str | None:
        """Return a condition as SQL, None if only Spark can evaluate it, on pairs of rows."""
        if not condition.deterministic() or is_bound(condition):
            return None
        with errors_expected():
            try:
                form = self._form(condition)
            except PySparkException:  # a part of it is constant, and fails
                return None
        return None if form is None else self._read(form)

    def under(self, plan: Any, number: int) -> Any:
        """Return the plan of an input with the names and the columns that conditions read."""
        own = [self.alias(one, self._known[_id(one)].name()) for one in items(plan.output())]
        moved = [(self._known[key].name(), one) for key, one in self._moved.items() if self._owners[key] == number]
        columns = [*own, *(self.alias(one, name) for name, one in moved)]
        return self.catalyst.plans.logical.Project(sequence(self.spark, columns), plan)

    def alias(self, expression: Any, name: str, attribute: Any = None) -> Any:
        """Return an expression under a name; in the place of an attribute, if one is given."""
        expressions, nothing = self.catalyst.expressions, sequence(self.spark, [])
        number = expressions.NamedExpression.newExprId() if attribute is None else attribute.exprId()
        qualifier = nothing if attribute is None else attribute.qualifier()
        return expressions.Alias(expression, name, number, qualifier, self.spark._jvm.scala.Option.empty(), nothing)

    def _add(self, number: int, name: str, attribute: Any) -> int:
        key = _id(attribute)
        qualifier = sequence(self.spark, [self.aliases[number]])
        self._owners[key], self._known[key] = number, attribute.withName(name).withQualifier(qualifier)
        return key

    def _form(self, expression: Any) -> Any | None:
        """Return an expression over names, whose text Spark reads as the given one; None if there is none."""
        plain = self._plain(expression)
        for form in (self._named(expression), self._named(plain, exact=True)):  # as written, as Spark evaluates it
            if self._means(form, plain):
                return form
        read = {self._owners[_id(one)] for one in items(plain.references().toSeq())}
        if not read or plain.nodeName() == "LambdaFunction" or self._goes_by_clock(plain):
            return None
        if len(read) == 1:
            return self._named(self._as_column(plain, *read))
        if plain.nodeName() in _LAZY:
            return None
        parts = [self._form(child) for child in items(plain.children())]
        form = None if None in parts else over(self.spark, plain, parts)
        return form if form is not None and self._means(form, plain) else None

    def _as_column(self, expression: Any, number: int) -> Any:
        """Return the column of an input that has the value of an expression."""
        for key, moved in self._moved.items():
            if moved.semanticEquals(expression):
                return self._known[key]
        # A restart compares the name, so it says all that matters, and nothing that varies.
        name = text = re.sub(r"#\d+(L|-T\d+ms)?", "", expression.toString())
        taken = {one.name().lower() for key, one in self._known.items() if self._owners[key] == number}
        while name.lower() in taken:
            name = f"{text} ({len(taken)})"
        key = self._add(number, name, self.alias(expression, name).toAttribute())
        self._moved[key] = expression
        return self._known[key]

    def _named(self, expression: Any, *, exact: bool = False) -> Any:
        """Return an expression over the names of columns, in a form that can be written.

        Parameters
        ----------
        exact
            Whether to write an instant as a number: as local time it may be ambiguous.
        """
        match str(expression.nodeName()):
            case "UnresolvedAttribute":
                return expression
            case "AttributeReference":
                known = self._known[_id(expression)]
                names = sequence(self.spark, [*items(known.qualifier()), known.name()])
                return self.catalyst.analysis.UnresolvedAttribute(names)
            case "VariableReference":  # a session variable keeps its current value, as in Spark
                return expression.varDef().currentValue()
            case "Between":  # compare each end separately with the shared value
                return self._named(_unshared(self.spark, expression.replacement()))
            case "Literal" if exact and expression.dataType().typeName() == "timestamp":
                return self._parsed(f"timestamp_micros({expression.value()})")
        parts = [self._named(child, exact=exact) for child in items(expression.children())]
        return over(self.spark, expression, parts)

    def _read(self, form: Any) -> str | None:
        """Return the text of an expression over names as we would write it again, None if we cannot read it."""
        return reread(form.sql(), self.aliases)

    def _means(self, form: Any, plain: Any) -> bool:
        """Tell whether Spark reads the text of a form as an expression."""
        text = self._read(form)
        if text is None:
            return False
        try:
            found = _computed(plan_of(frame_of(self.spark, self._computing(self._parsed(text)))))
            return bool(self._plain(self._moved_back(found)).semanticEquals(plain))
        except PySparkException:
            return False

    def _parsed(self, text: str) -> Any:
        return self.spark._jsparkSession.sessionState().sqlParser().parseExpression(text)

    def _computing(self, expression: Any) -> Any:
        """Return a plan that computes an expression over the inputs."""
        logical, nothing = self.catalyst.plans.logical, self.spark._jvm.scala.Option.empty()
        columns = sequence(self.spark, [*self._known.values()])
        relation = logical.LocalRelation(columns, sequence(self.spark, []), False, nothing)
        return logical.Project(sequence(self.spark, [self.alias(expression, "computed")]), relation)

    def _plain(self, expression: Any) -> Any:
        """Return what Spark evaluates for an expression: written out, and with its constant parts computed."""
        optimizer = self.catalyst.optimizer
        written_out = _unshared(self.spark, _computed(optimizer.ReplaceExpressions.apply(self._computing(expression))))
        if self._goes_by_clock(written_out):
            return written_out
        plan, before = self._computing(written_out), None
        while before is None or not plan.fastEquals(before):
            before, plan = plan, optimizer.SimplifyCasts.apply(optimizer.ConstantFolding.apply(plan))
        return _computed(plan)

    def _goes_by_clock(self, expression: Any) -> bool:
        """Tell whether an expression reads the clock, which Spark does when it finds a pair."""
        return bool(expression.containsPattern(self.catalyst.trees.TreePattern.CURRENT_LIKE()))

    def _moved_back(self, expression: Any) -> Any:
        """Return an expression with the expressions that became columns in their old places."""
        if not self._moved or expression.nodeName() == "AttributeReference":
            return self._moved.get(_id(expression), expression) if self._moved else expression
        return over(self.spark, expression, [self._moved_back(child) for child in items(expression.children())])


def _id(attribute: Any) -> int:
    return int(attribute.exprId().id())


def _computed(plan: Any) -> Any:
    """Return the expression that a plan of `Conditions._computing` computes."""
    return plan.projectList().apply(0).child()


def _unshared(spark: Any, expression: Any, shared: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """Return an expression with the common expressions in it written out."""
    if expression.nodeName() == "CommonExpressionRef":
        return shared[str(expression.id().toString())]
    if expression.nodeName() == "With":
        own = {str(one.id().toString()): _unshared(spark, one.child(), shared) for one in items(expression.defs())}
        return _unshared(spark, expression.child(), {**shared, **own})
    return over(spark, expression, [_unshared(spark, child, shared) for child in items(expression.children())])
