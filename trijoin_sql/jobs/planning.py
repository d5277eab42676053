"""Plans a file's queries without Spark: what the rewriter refuses is said at its place in the file.

`trijoin-sql explain` shows what comes out. `trijoin-sql run` only looks for refusals, and only for those that Spark's
catalog and types cannot change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from ..errors import JobError, NotProvenError, PlanError, SqlSyntaxError, TriJoinError, UnsupportedQueryError
from ..rewriter.glance import glance, read_otherwise
from ..rewriter.job_heads import after, with_rate
from ..rewriter.names.resolve import resolve
from ..rewriter.on_streams import MODES, NOT_IN, Read, not_exists, read_operations, why_refused
from ..rewriter.options import Settings
from ..rewriter.pipeline import Rewrite, rewrite
from ..rewriter.plan.parts import Refusal
from ..rewriter.real_time import real_time_refusal
from ..rewriter.sql.catalog import DdlCatalog, TableInfo
from ..rewriter.sql.clauses import Word
from ..rewriter.sql.dialect import tokenize
from ..rewriter.sql.places import place_of, placed
from ..rewriter.sql.spark_types import UNKNOWN
from ..rewriter.sql.statement import Statement, parse_statement, tree_of
from ..settings import check_value, rewriter_settings
from .columns import why_unknown
from .job_text import Script
from .locate import locate
from .setting_names import assignment
from .statements import CreateSink

#: Spark's switch for its check of operations.
UNCHECKED = "spark.sql.streaming.unsupportedoperationcheck"

#: What is wrong with LATE ROWS of a query that only Spark runs, and with a query over tables; and what to do.
NO_LATE_ROWS = (
    "no join of this query is ours, and the late rows of Spark's own operators cannot be had",
    "leave LATE ROWS INTO out; the summary counts late rows",
)
NEVER_LATE = (
    "no stream that this query joins has a watermark, so no row is ever late",
    "declare one: CREATE STREAM ... WATERMARK column DELAY OF INTERVAL 10 SECONDS",
)
NO_STREAM = (
    "the query reads no stream",
    "declare an input with CREATE STREAM; a batch query belongs into spark-sql or a notebook",
)


def plan(script: Script, sql: Word, catalog: DdlCatalog, settings: Settings) -> Rewrite:
    """Rewrite a statement of a file.

    Raises
    ------
    JobError
        It is refused.
    PlanError
        A bug of ours.
    """
    try:
        return rewrite(sql.text, catalog, settings)
    except PlanError:
        raise
    except NotProvenError as error:
        raise script.error(sql.start + (error.offset or 0), error.unplaced, error.hint) from None
    except UnsupportedQueryError as error:
        unknown = why_unknown(script, sql.text, sql.start, catalog, error)
        raise unknown or _located(script, sql, error) from None
    except TriJoinError as error:
        raise locate(error, script, sql, list) from None


def _located(script: Script, sql: Word, error: UnsupportedQueryError | Refusal) -> Exception:
    return locate(placed(error, sql.text), script, sql, list)


def follow(
    script: Script, sql: Word, catalog: DdlCatalog, settings: Mapping[str, str]
) -> tuple[DdlCatalog, dict[str, str]]:
    """Return the catalog and the settings after a statement that is no query.

    Raises
    ------
    JobError
        The value is not usable.
    """
    found = assignment(sql.text)
    if found is None:
        return after(catalog, sql.text), dict(settings)
    try:
        check_value({found.key: found.value}.get, found.key)
        rewriter_settings({found.key: found.value}.get)
        return with_rate(catalog, found.key, found.value), {**settings, found.key: found.value}
    except TriJoinError as error:
        raise script.error(sql.start + found.start, error.message, error.hint) from None


@dataclass(slots=True)
class Refusals:
    """Finds the statements of a job that are refused, one after the other, as far as that is certain without Spark.

    It is where all relations of a statement are streams that the job declares, or views that we understand, with
    columns of known types, and the rewriter asks for no other type.

    Parameters
    ----------
    script
        The file.
    catalog, settings
        What is known before its first statement.
    """

    script: Script
    catalog: DdlCatalog
    settings: dict[str, str] = field(default_factory=dict)
    _changed: set[str] = field(default_factory=set)
    _views: dict[str, Read] = field(default_factory=dict)

    def look(self, sql: Word, sink: CreateSink | None = None, late: Word | None = None) -> None:
        """Look at a query, a view or a setting.

        Parameters
        ----------
        sql
            The statement; of an INSERT, its query.
        sink
            Where the rows of a query go. Without one, it may have any output mode.
        late
            Where its late rows go.

        Raises
        ------
        JobError
            It is refused.
        """
        assigned = assignment(sql.text) is not None
        if not assigned:
            self._refuse(sql, sink, late)
            self._refuse_operations(sql, sink)
        if not sql.text[:6].upper().startswith(("SELECT", "WITH", "FROM", "(", "EXPLAI")):
            read = None if assigned else self._read(sql)
            if not assigned and (read is None or read.view is None):
                self._changed |= {token.text.lower() for token in tokenize(sql.text)}
            self.catalog, self.settings = follow(self.script, sql, self.catalog, self.settings)

    def output(self, sql: Word) -> list[tuple[str, str]] | None:
        """Return the columns that a query puts out and their types, None if they are not certain."""
        tree = self._known(sql)
        fields = None if tree is None else resolve(tree, self.catalog).output.columns
        return None if fields is None else [(field.name, field.type) for field in fields]

    def _read(self, sql: Word) -> Statement | None:
        """Return a statement with a query that we read as Spark does."""
        try:
            statement = None if read_otherwise(sql.text, self.settings.get) else parse_statement(sql.text)
        except SqlSyntaxError:  # only Spark may be able to read it
            return None
        return statement if statement is not None and statement.tree is not None else None

    def _known(self, sql: Word) -> exp.Expr | None:
        """Return a query that we read as Spark does, if all of its relations are known."""
        statement = self._read(sql)
        return statement.tree if statement is not None and statement.tree and self._knows(statement.tree) else None

    def _refuse_operations(self, sql: Word, sink: CreateSink | None) -> None:
        """Refuse what Spark's check of operations refuses; of a view, the query that reads it."""
        statement = self._read(sql)
        if statement is None or statement.tree is None:
            return
        known = [(name, info) for name, info in self.catalog.tables if name.lower() not in self._changed]
        views = {name: read for name, read in self._views.items() if name not in self._changed}
        read = read_operations(resolve(statement.tree, DdlCatalog(tuple(known))), views)
        if (view := statement.view) is not None:
            self._views["global_temp." * view.everywhere + tokenize(view.name)[0].text.lower()] = read
            return
        found = why_refused(read, MODES if sink is None else (sink.output_mode,))
        if found is None or UNCHECKED in self.script.text.lower() or UNCHECKED in self.settings:
            return
        at = place_of(sql.text, found.what.words)
        by_mode = at is None and sink is not None and found.modes != MODES
        start = sink.mode.start if by_mode and sink is not None and sink.mode is not None else sql.start + (at or 0)
        raise self.script.error(start, found.what.reason, found.what.hint)

    def _refuse(self, sql: Word, sink: CreateSink | None, late: Word | None) -> None:
        if self._known(sql) is None:
            return
        read = self._streams_of(sql)
        try:
            if glance(sql.text).joins == "none":
                if late is not None and read is not None:
                    self.script.fail(late.start, *NO_LATE_ROWS)
                self._refuse_not_in(sql, sql.text)
                return
        except JobError:
            raise
        except TriJoinError as error:  # a hint
            raise locate(error, self.script, sql, list) from None
        if late is not None and read is not None and not any(info.times for info in read):
            self.script.fail(late.start, *NEVER_LATE)
        asked = _Asked(self.catalog.tables, self.catalog.rates)
        try:
            settings = rewriter_settings(self.settings.get)
        except TriJoinError as error:  # given beside the file
            raise locate(error, self.script, sql, list) from None
        try:
            rewritten = plan(self.script, sql, asked, settings)
        except PlanError:
            return
        except TriJoinError:
            if not asked.asks:
                raise
            return
        if asked.asks:
            return
        in_append = rewritten.append_refusals if sink is not None and sink.output_mode == "append" else ()
        slow = real_time_refusal(rewritten) if sink is not None and sink.in_real_time else None
        for one in (*rewritten.refusals, *in_append, *([slow] if slow is not None else [])):
            raise _located(self.script, sql, one)
        self._refuse_not_in(sql, rewritten.spark_sql)

    def _refuse_not_in(self, sql: Word, text: str) -> None:
        """Refuse NOT IN over a stream where it is left to Spark."""
        found, written = NOT_IN.search(text), NOT_IN.search(sql.text)
        info = self.catalog.table((found["stream"],)) if found is not None and found["stream"] else None
        if found is not None and written is not None and info is not None and info.streaming:
            raise self.script.error(sql.start + written.start("not"), *not_exists(found))

    def _knows(self, tree: exp.Expr) -> bool:
        """Tell whether all relations are tables of the catalog, with columns of known types."""
        derived = any(isinstance(one.parent, exp.From | exp.Join) for one in tree.find_all(exp.Subquery))
        if derived or tree.find(exp.With):
            return False
        names = [tuple(part.name for part in table.parts) for table in tree.find_all(exp.Table)]
        return bool(names) and all(self._is_known(name) for name in names)

    def _streams_of(self, sql: Word) -> list[TableInfo] | None:
        """Return the relations of a query that are all streams of the file; None if one may be a view of a join."""
        tree = self._known(sql)
        if tree is None or self._views:
            return None
        found = (self.catalog.table(tuple(part.name for part in table.parts)) for table in tree.find_all(exp.Table))
        return [info for info in found if info is not None]

    def _is_known(self, name: tuple[str, ...]) -> bool:
        info = self.catalog.table(name)
        return info is not None and _is_whole(info)


def reads_nothing(sql: str) -> bool:
    """Tell whether a query has no FROM at all."""
    tree = tree_of(sql)
    return isinstance(tree, exp.Select) and tree.find(exp.From) is None


def _is_whole(info: TableInfo) -> bool:
    return bool(info.streaming and info.columns) and all(column.type != UNKNOWN for column in info.columns)


@dataclass(frozen=True)
class _Asked(DdlCatalog):
    """A catalog that remembers whether it was asked for a type, which only Spark knows."""

    asks: list[str] = field(default_factory=list)

    def types_of(self, texts: Sequence[str], columns: Mapping[tuple[str, str], str]) -> Sequence[str]:
        """Return nothing."""
        self.asks.extend(texts)
        return ()
