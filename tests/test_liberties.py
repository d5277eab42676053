"""Every liberty with the process has a switch that is read, and a bare session takes none but what it needs."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark import java_gateway
from trijoin_sql.operators.state import warm_file
from trijoin_sql.operators.state.layout import History
from trijoin_sql.operators.task import dispatch, processor, stage
from trijoin_sql.operators.task.micro_batch import Told

import trijoin_sql
from trijoin_sql.errors import InvalidSettingError
from trijoin_sql.running import stopping
from trijoin_sql.running.listener import LayoutListener
from trijoin_sql.settings import hint_if_unknown
from trijoin_sql.spark import config, liberties
from trijoin_sql.spark.liberties import LIBERTIES, LIBERTY_SETTINGS, taken
from trijoin_sql.spark.quiet import quiet_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent
NEEDED = {one.name for one in LIBERTIES if one.gain.startswith("needed: ")}


def off(name: str) -> dict[str, str]:
    return {f"spark.trijoin.liberties.{name}": "false"}


def on(name: str) -> dict[str, str]:
    return {f"spark.trijoin.liberties.{name}": "true"}


def fake(settings: dict[str, str]) -> Any:
    """A session of which only settings are asked."""
    return SimpleNamespace(_jsparkSession=None, conf=SimpleNamespace(get=settings.get))


def test_the_table_is_whole() -> None:
    assert len({one.switch for one in LIBERTIES}) == len(LIBERTIES)
    for one in LIBERTIES:
        assert all((one.does, one.why, one.gain)), one.name
    assert {one.name for one in LIBERTIES if one.by_default} == {*NEEDED, "jvmPipe"}


def test_every_switch_is_read_where_it_says() -> None:
    """By its constant, or as the environment variable; what only the driver knows is asked for there."""
    files = [path for room in ("trijoin_sql", "operators") for path in (ROOT / room).rglob("*.py")]
    code = "".join(path.read_text("utf-8") for path in files if path.name != "liberties.py")
    names = {value: name for name, value in vars(liberties).items() if name.isupper() and isinstance(value, str)}
    for one in LIBERTIES:
        asked = (
            rf"taken\({names.get(one.name)}|{names.get(one.name)} in |environ.*{one.variable}|{one.variable}.*environ"
        )
        assert re.search(asked, code), one.name


def test_a_bare_session_takes_what_it_needs_and_configure_allows_all() -> None:
    switched = [one.name for one in LIBERTIES if one.variable is None]
    bare = {name for name in switched if taken(name, {}.get)}
    assert bare - NEEDED == {"jvmPipe"}, "which is the command line's"
    assert {config.settings_for({"spark.master": "local[2]"})[key] for key in LIBERTY_SETTINGS} == {"true"}
    assert all(taken(name, LIBERTY_SETTINGS.get) for name in switched)


@pytest.mark.parametrize("name", [one.name for one in LIBERTIES if one.variable is None])
def test_a_setting_switches_each(name: str) -> None:
    assert taken(name, on(name).get)
    assert not taken(name, off(name).get)
    with pytest.raises(InvalidSettingError, match="true or false"):
        taken(name, lambda _: "perhaps")
    assert hint_if_unknown(f"spark.trijoin.liberties.{name}") is None
    assert hint_if_unknown(f"spark.trijoin.liberties.{name}s") is not None


def test_the_pipe_of_the_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    before = vars(java_gateway)["Popen"]
    with quiet_jvm(settings={}):
        assert vars(java_gateway)["Popen"] is not before
    with quiet_jvm(settings=off("jvmPipe")):
        assert vars(java_gateway)["Popen"] is before
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.trijoin.liberties.jvmPipe=false pyspark-shell")
    with quiet_jvm():
        assert vars(java_gateway)["Popen"] is before


def test_inside_a_query(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[Any] = []
    monkeypatch.setattr(stopping, "no_further_batch", lambda spark, query: ended.append(query))
    for settings in ({}, off("endAfterBatch")):
        assert stopping.end_after_batch(fake(settings), "query") is None
    assert not ended
    stopping.end_after_batch(fake(on("endAfterBatch")), "query")
    assert ended == ["query"]
    for settings in ({}, off("refuseEarly")):
        LayoutListener(fake(settings))._refuse(SimpleNamespace(), "why")  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="_jvm"):
        LayoutListener(fake(on("refuseEarly")))._refuse(SimpleNamespace(), "why")  # type: ignore[arg-type]


@pytest.mark.parametrize("allowed", [False, True])
def test_workers_do_what_the_driver_allows(allowed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from trijoin_sql.operators import worker_memory

    done: list[bool] = []
    for module in (dispatch, worker_memory):
        monkeypatch.setattr(module, "settle", lambda: done.append(True))
    monkeypatch.setattr(stage, "for_this_batch", lambda spec: Told(spec, History(((0, 1),))))
    monkeypatch.setattr(dispatch, "for_this_batch", lambda spec: Told(spec, History(((0, 1),))))
    spec: Any = SimpleNamespace(
        scheme="symmetric",
        slots=1,
        earlier=(),
        tested=(),
        fixed_width=False,
        drops_late=False,
        has_stateful_input=False,
        streams=[SimpleNamespace(alias="r", alike=False, time=None)],
    )
    routing = SimpleNamespace(router=lambda spec: None, spreads=lambda spec, rank: False)
    monkeypatch.setitem(dispatch.SCHEMES, "symmetric", SimpleNamespace(routing=routing))
    assert not list(dispatch.Dispatcher(spec, [dispatch.Reading(0)], None, allowed)([]))
    assert done == [True] * allowed
    done.clear()
    work = processor.JoinProcessor(stage.Stage(spec, 0, freezes=allowed, packed=True))
    work.task = stage.StageTask(processor._stage(work.pickled), None, None)  # type: ignore[arg-type]
    work.close()
    assert done == [True] * allowed


def test_files_are_mapped_by_python_where_the_variable_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"abc" * 1000)
    monkeypatch.setattr(warm_file, "_Mapping", None)
    monkeypatch.setenv("TRIJOIN_MAP_FILES", "false")
    found = warm_file.mapped(tmp_path / "file")
    assert isinstance(found, pa.Buffer)
    assert found.to_pybytes() == b"abc" * 1000


def test_a_bare_session_of_sparks(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is in a session by its making, and by a query of it."""
    from trijoin_sql import compile_statement, session
    from trijoin_sql.running import listener

    done: list[str] = []
    monkeypatch.setattr(session, "hush_false_alarm", lambda _: done.append("hushFalseAlarm"))
    monkeypatch.setattr(listener, "set_permissions_without_processes", lambda _: done.append("localFiles"))
    sent: list[bool] = []
    compiled = compile_statement.compile_join

    def compile_join(compiling: Any, node: Any) -> Any:
        sent.append(compiling.freezes)
        return compiled(compiling, node)

    monkeypatch.setattr(compile_statement, "compile_join", compile_join)
    theirs = spark.newSession()
    for key in LIBERTY_SETTINGS:
        theirs.conf.set(key, "false")  # a new session has the context's settings, which configure made
    for name in "rs":
        theirs.readStream.format("rate").load().createOrReplaceTempView(f"bare_{name}")
    query = "SELECT r.value FROM bare_r AS r JOIN bare_s AS s ON r.value < s.value AND r.timestamp = s.timestamp"

    def run() -> None:
        frame = trijoin_sql.TriJoinSession.create(theirs).sql(query)
        frame.writeStream.format("noop").trigger(once=True).start().awaitTermination()
        theirs._jsparkSession.sparkContext().listenerBus().waitUntilEmpty()

    run()
    assert not done
    assert not any(sent)
    piped = "FROM bare_r AS r |> JOIN bare_s AS s ON r.value < s.value |> SELECT r.value"
    plan = str(trijoin_sql.TriJoinSession.create(theirs).sql(piped)._jdf.queryExecution().analyzed().toString())
    assert "TransformWithState" in plan
    theirs.conf.set("spark.trijoin.liberties.joinInPlan", "false")
    with pytest.raises(Exception, match=r"(?i)stream"):
        trijoin_sql.TriJoinSession.create(theirs).sql(piped).writeStream.format("noop").start()
    theirs.conf.set("spark.trijoin.liberties.localFiles", "true")
    theirs.conf.set("spark.trijoin.liberties.hushFalseAlarm", "true")
    run()
    assert done == ["hushFalseAlarm", "localFiles"]
