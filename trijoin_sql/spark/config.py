"""The Spark settings that make small triggers fast and state durable. A user's own settings always win."""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import sys
import threading
import warnings
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from importlib.metadata import distributions
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urlsplit
from weakref import WeakSet

from ..errors import UnavailableError
from .flags import PARTITIONS, settings_of
from .jvm import OPTIONS, java_options
from .liberties import HUSH_FALSE_ALARM, JVM_PIPE, LIBERTY_SETTINGS, PRELOAD_WORKERS, taken
from .versions import installed, minor, streaming_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("trijoin_sql")

_STREAMING = "org.apache.spark.sql.execution.python.streaming"
_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_SOCKETS, _SOCKETS_IN = "spark.python.unix.domain.socket.enabled", "spark.python.unix.domain.socket.dir"
_DAEMON, _PRELOAD = "spark.python.daemon.module", "trijoin_sql.operators.preload"
_SIMPLIFIED = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
_TRACEBACK = "spark.executorEnv.SPARK_SIMPLIFIED_TRACEBACK"
#: Whether Spark shuffles rows once that are needed at several places of a plan.
REUSE = "spark.sql.exchange.reuse"
#: Partitions on a cluster whose size the settings do not tell. Spark's 200 would start 200 Python tasks a trigger.
CLUSTER_PARTITIONS = 16

_PROVIDER, _STATE = "spark.sql.streaming.stateStore.providerClass", "org.apache.spark.sql.execution.streaming.state"
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"

#: Needed by every stateful query of ours; a session takes them at any time.
STATE_SETTINGS: Mapping[str, str] = {
    # The only provider of Spark's that transformWithState runs on.
    _PROVIDER: f"{_STATE}.RocksDBStateStoreProvider",
    # Upload a trigger's changes, not a snapshot of the whole store; snapshots follow in the background.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Version 2 names every state file by the attempt that wrote it: a task that runs twice leaves no ambiguous state.
    # In Spark 4.0 operators with one partition (LIMIT, an aggregation of all rows) fail with it, its reader of state
    # does not know it, and no newer Spark goes on from it.
    FORMAT: "2" if minor(installed()) >= (4, 1) else "1",
}

MAX_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"

#: How rows cross between the JVM and Python; a session takes them at any time.
ARROW_SETTINGS: Mapping[str, str] = {
    # createDataFrame and toPandas in columns, not in pickled rows.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Bounds what a Python worker decodes at once. The row limit stays: lowering it multiplies the packed rows. Spark
    # measures its vectors before every row for it, which takes as long as writing the row (0.15 us). But without it a
    # join's packed rows of a task would be one batch, and a batch of 2 GiB fails. See `unmeasured`.
    MAX_BYTES: "16m",
}

BUFFER_WAIT = "spark.shuffle.streaming.networkBufferMaxWaitTimeMs"

#: Read when the Spark context starts, so a running session cannot take them.
CONTEXT_SETTINGS: Mapping[str, str] = {
    # Over TCP, every Python task waits about 40 ms for a delayed acknowledgement.
    _SOCKETS: "true",
    # Spark gives this variable to workers that dispatch rows but not to those that join them, and keeps a pool of
    # workers for each environment. With it in both they are the same processes: half as many, half the memory.
    _TRACEBACK: "1",
    # In Real-Time Mode, how long a shuffle's buffer waits to be full: Spark's 50 ms would be most of a result's time.
    BUFFER_WAIT: "1",
    # Bars of a stage's progress would stand across the results of a query.
    "spark.ui.showConsoleProgress": "false",
}

#: For checkpoints on a local disk: the default manager opens files by another Hadoop class, which starts `chmod`
#: for each of them; files of this one go through `local_disk`. HDFS and object stores keep the default: atomic renames.
LOCAL_CHECKPOINT_SETTINGS: Mapping[str, str] = {
    _FILE_MANAGER: streaming_class("checkpointing.FileSystemBasedCheckpointFileManager", installed()),
}


#: What a session imports that takes long.
_EARLY = ("..rewriter.pipeline", "pandas", "pyarrow.compute", "..operators.schemes")


class SessionBuilder(Protocol):
    """What `configure` needs of a builder: classic and Spark Connect builders have it."""

    def config(self, key: str, value: Any) -> Any:
        """Set one option and return the builder."""


#: Contexts whose Python workers were started.
_with_workers: WeakSet[Any] = WeakSet()
#: Clients of Spark Connect servers that have this package.
_served: WeakSet[Any] = WeakSet()

Builder = TypeVar("Builder", bound=SessionBuilder)


def configure(builder: Builder) -> Builder:
    """Add the Spark settings that TriJoin SQL runs best with to a session builder.

    They allow us all liberties with Spark's processes (`liberties`), each of which has a setting of its own.

    A key that the user has set is left alone, be it on the builder (before or after this call), in
    ``spark-defaults.conf``, through ``spark-submit --conf``, or in a session that is already running. Settings that a
    running context or a Spark Connect server cannot take are left out.

    With a local master, Python workers run on the interpreter of this process, unless ``PYSPARK_PYTHON`` is set:
    Spark's ``python3`` is another one if a virtual environment is used without activation.

    Parameters
    ----------
    builder
        ``SparkSession.builder``, classic or Spark Connect.

    Returns
    -------
    Builder
        The same builder.

    Raises
    ------
    UnavailableError
        Spark would have to be started, and there is no Java.

    Examples
    --------
    >>> import trijoin_sql
    >>> from pyspark.sql import SparkSession
    >>> spark = trijoin_sql.configure(SparkSession.builder.master("local[2,4]")).getOrCreate()  # doctest: +SKIP
    """
    if not callable(getattr(builder, "config", None)):
        raise TypeError(f"configure() takes a builder, SparkSession.builder, not {_what(builder)}")
    # A builder has no public way to read its options; without them our settings could only come first or last.
    options: dict[str, str] = dict(getattr(builder, "_options", None) or {})
    running = _running_settings(options)
    user = {**submitted_settings(), **(running or {}), **options}
    allowed = {**LIBERTY_SETTINGS, **user}
    if running is None and not _master(user).startswith("sc:") and not _has_jvm():
        _refuse_without_java()
        _import_early()
        if taken(JVM_PIPE, allowed.get):
            from .quiet import leave_out_chatter  # it asks this module for settings

            leave_out_chatter()
        here = _master(user).startswith("local") and "spark.remote" not in user and "SPARK_REMOTE" not in os.environ
        if here and (ours := java_options(allowed)):
            builder.config(OPTIONS, ours)
    if taken(HUSH_FALSE_ALARM, allowed.get):
        hush_pandas()  # making a session shows it already
    for key, value in settings_for(user, running=running is not None).items():
        if key not in user:
            builder.config(key, value)
    if _master(user).startswith("local") and "spark.pyspark.python" not in user:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return builder


def _what(value: object) -> str:
    name = value.__name__ if isinstance(value, type) else type(value).__name__
    return name if name != "SparkSession" else "a session, whose settings are made: configure(SparkSession.builder)"


def _import_early() -> None:
    """Import in the background what a session and a query need, while Python does nothing but wait for a JVM to start.

    Nothing in it imports PySpark, whose modules the program may be importing itself at that time.
    """

    def run() -> None:
        for module in _EARLY:
            with suppress(ImportError):  # what needs it says so
                import_module(module, __package__)

    threading.Thread(target=run, name="trijoin-import", daemon=True).start()


def _has_jvm() -> bool:
    """Return whether PySpark need not start a JVM: it has, or spark-submit did."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def _refuse_without_java() -> None:
    """Raise if PySpark would fail with JAVA_GATEWAY_EXITED."""
    from .java import missing_java

    if why := missing_java():
        raise UnavailableError("Spark", why, "trijoin-sql doctor says what else this machine lacks")


def has_default_store(spark: SparkSession) -> bool:
    """Return whether a session has Spark's default state store, which transformWithState refuses.

    Spark is asked without a default of ours: it would answer that one where nobody has set the key.
    """
    return str(spark.conf.get(_PROVIDER)).endswith("HDFSBackedStateStoreProvider")


def prepare_state_store(spark: SparkSession) -> None:
    """Give a session the settings of `STATE_SETTINGS`, where it has Spark's default state store."""
    if has_default_store(spark):
        for key, value in STATE_SETTINGS.items():
            spark.conf.set(key, value)


def refuse_default_store(spark: SparkSession) -> None:
    """Raise for a join of streams in a session that got Spark's default state store after it was made ours.

    Raises
    ------
    UnavailableError
        It has.
    """
    if has_default_store(spark):
        raise UnavailableError(
            "a join of streams",
            "the session's state store is Spark's HDFSBackedStateStoreProvider, which cannot keep its rows",
            f"spark.conf.set('{_PROVIDER}', '{STATE_SETTINGS[_PROVIDER]}')",
        )


def refuse_server_without_us(spark: SparkSession) -> None:
    """Raise for a join of ours on a Spark Connect server whose Python workers do not have this package.

    Only the server's environment says which Python that is, so the server is asked, once.

    Raises
    ------
    UnavailableError
        They have not.
    """
    if hasattr(spark, "_jsparkSession") or spark in _served:
        return
    from pyspark.errors import PySparkException

    from ..operators.task.dispatch import unchanged

    try:
        spark.range(1, numPartitions=1).mapInArrow(unchanged, "id long").collect()
    except PySparkException as error:
        if lacking := re.search(r"No module named '([\w.]+)'", str(error)):
            raise UnavailableError(
                "a join on this Spark Connect server",
                f"its Python cannot import {lacking[1]}",
                "install trijoin-sql where the server and its workers run; a server started with another Python in "
                "PYSPARK_PYTHON uses that one",
            ) from None
        raise
    _served.add(spark)


def prepare_client(spark: SparkSession) -> None:
    """Give a session of Spark Connect shuffle partitions, where nobody chose any: no listener can choose a query's."""
    if not hasattr(spark, "_jsparkSession") and settings_of(spark)(PARTITIONS) is None:
        spark.conf.set(PARTITIONS, str(CLUSTER_PARTITIONS))


def tasks_at_once(spark: SparkSession) -> int:
    """Return how many tasks Spark runs side by side, for a session in which nobody chose its partitions."""
    context = getattr(spark, "_sc", None)
    return CLUSTER_PARTITIONS if context is None else max(1, min(int(context.defaultParallelism), 200))


def choose_partitions(spark: SparkSession, execution: Any) -> None:
    """Give a query's own session as many shuffle partitions as tasks run side by side, where nobody chose any.

    Spark's 200 would be as many Python tasks a stage in every micro-batch. A restart takes those of its checkpoint.
    See `prepare_client` for Spark Connect.

    Parameters
    ----------
    spark
        The user's session, a classic one.
    execution
        Spark's execution of the query, before its first micro-batch.
    """
    from py4j.protocol import Py4JError

    if spark.conf.get(PARTITIONS, None) is None:
        try:
            execution.sparkSessionForStream().conf().set(PARTITIONS, str(tasks_at_once(spark)))
        except (Py4JError, TypeError):  # Spark's inside is not as we know it
            _log.debug("%s stays as it is", PARTITIONS, exc_info=True)


def plan_exchanges_anew(settings: Any) -> None:
    """Have Spark plan each exchange of a query for itself, not once for all places where the same rows are shuffled.

    An operator with state above an exchange that is planned at another place never gets a watermark: Spark looks for
    it below the operator, in the plan of the micro-batch before, and does not look into such an exchange (seen in 4.3,
    with Spark's own aggregations too). So of two uses of one join only one would expire rows, and give those without
    a partner.

    Parameters
    ----------
    settings
        Of the query's own session; on Spark Connect, where nobody has that, of the client's.
    """
    from py4j.protocol import Py4JError

    try:
        settings.set(REUSE, "false")
    except (Py4JError, TypeError):  # Spark's inside is not as we know it
        _log.debug("%s stays as it is", REUSE, exc_info=True)


def prepare_workers(context: Any) -> None:
    """Make the workers of a context that `configure` did not make find our packages, as far as that is known.

    With a local master the context gets this process's interpreter, if Spark's ``python3`` is another one and the user
    chose none. Settings that only a new context can take, and that the user has to choose, are named in the log.
    """
    settings = dict(context.getConf().getAll())
    if not str(context.master).startswith("local"):
        return
    chosen = "PYSPARK_PYTHON" in os.environ or "spark.pyspark.python" in settings
    found = shutil.which(context.pythonExec)
    if not chosen and (found is None or Path(found).parent != Path(sys.executable).parent):
        _log.info("workers run on %s instead of %s", sys.executable, found or context.pythonExec)
        context.pythonExec = sys.executable
    late = [key for key, value in CONTEXT_SETTINGS.items() if settings.get(key) != value]
    if late:
        _log.info("triggers take longer without %s: make the session with trijoin_sql.configure", ", ".join(late))


def start_workers(spark: SparkSession) -> None:
    """Let Spark start its daemon of Python workers in the background, once, while a first query is made ready.

    It takes a second, for which the first micro-batch would wait. Only in contexts that `configure` made.
    """
    context = spark.sparkContext
    if context in _with_workers or spark.conf.get(_DAEMON, None) != _PRELOAD:
        return
    _with_workers.add(context)

    def run() -> None:
        with suppress(Exception):  # Spark has been stopped, or says the same to a query
            context.setJobDescription("TriJoin SQL starts Python workers")
            spark.range(1, numPartitions=1).mapInArrow(lambda batches: batches, "id long").collect()

    threading.Thread(target=run, name="trijoin-start-workers", daemon=True).start()


def hush_pandas() -> None:
    """Leave out PySpark's warning about pandas 3: what we use works."""
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)


def hush_false_alarm(context: Any) -> None:
    """Switch off a logger that reports an error, with a stack of a hundred lines, whenever a query of ours starts.

    Over Unix domain sockets, Spark 4.3 closes a server socket that it never opened. The query is fine, and
    the class logs nothing else that is not raised too.
    """
    hush_pandas()
    name = f"{_STREAMING}.TransformWithStateInPySparkPythonPreInitRunner"
    try:
        log4j = context._jvm.org.apache.logging.log4j
        log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)
    except (AttributeError, TypeError):  # another logging library behind Spark's: the user has configured it
        return


def settings_for(user: Mapping[str, str], *, running: bool = False) -> dict[str, str]:
    """Return our settings for a session that has the user's; where a key is in both, the user's counts.

    If the Spark context is running, it is too late for its own settings.
    """
    settings = {**STATE_SETTINGS, **ARROW_SETTINGS, **LIBERTY_SETTINGS}
    master = _master(user)
    if master.startswith("sc:"):
        return settings  # we neither know nor set a server's cores, disks and context
    settings[PARTITIONS] = str(_cores(master, user) or CLUSTER_PARTITIONS)
    if not running:
        settings.update(CONTEXT_SETTINGS)
        if user.get(_SIMPLIFIED, "true").lower() == "false":  # then no worker of Spark has it either
            settings.pop(_TRACEBACK)
        if _has_deep_folders(master, user):
            settings.pop(_SOCKETS)
    if master.startswith("local") and _on_local_disk(user):
        settings.update(LOCAL_CHECKPOINT_SETTINGS)
    preload = taken(PRELOAD_WORKERS, {**settings, **user}.get)
    if preload and master.startswith("local") and not running and _workers_know_us(user):
        settings[_DAEMON] = _PRELOAD
    return settings


def submitted_settings() -> dict[str, str]:
    """Return the settings that reach Spark from outside the program: spark-defaults.conf, then the command line."""
    settings: dict[str, str] = {}
    folder = os.environ.get("SPARK_CONF_DIR") or (
        str(Path(os.environ["SPARK_HOME"], "conf")) if "SPARK_HOME" in os.environ else None
    )
    defaults = Path(folder, "spark-defaults.conf") if folder else None
    if defaults and defaults.is_file():
        for line in defaults.read_text(encoding="utf-8").splitlines():
            key, _, value = re.sub(r"[=:\s]+", " ", line.strip(), count=1).partition(" ")
            if key and not key.startswith("#"):
                settings[key] = value.strip()
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # started by spark-submit: its JVM knows the --conf arguments
        from pyspark import SparkConf, SparkContext

        SparkContext._ensure_initialized()
        settings.update(SparkConf().getAll())
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    for flag, word in pairwise(words):
        key, equals, value = word.partition("=")
        if flag in ("--conf", "-c") and equals:
            settings[key] = value
        elif flag == "--master":
            settings["spark.master"] = word
    return settings


def _master(user: Mapping[str, str]) -> str:
    """Return where Spark will run: a master, or the address of a Spark Connect server."""
    if "spark.master" in user:
        return user["spark.master"]
    remote = user.get("spark.remote") or os.environ.get("SPARK_REMOTE")
    return remote or os.environ.get("MASTER") or "local[*]"


def _workers_know_us(user: Mapping[str, str]) -> bool:
    """Return whether workers on this machine run on this interpreter, with our package installed."""
    theirs = user.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable
    return theirs == sys.executable and any(True for _ in distributions(name="trijoin-sql"))


def _has_deep_folders(master: str, user: Mapping[str, str]) -> bool:
    """Return whether the path of a socket may be too long: about a hundred characters are allowed.

    Spark puts sockets into the JVM's folder for temporary files. On YARN that is deep below the folder of a container.
    """
    both = product(("driver", "executor"), ("extra", "default"))
    options = (user.get(f"spark.{who}.{which}JavaOptions", "") for who, which in both)
    return _SOCKETS_IN not in user and (master.startswith("yarn") or any("java.io.tmpdir" in one for one in options))


def _cores(master: str, user: Mapping[str, str]) -> int | None:
    """Return how many tasks run at once, None if the settings do not tell."""
    local = re.fullmatch(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\])?", master)
    if local:
        return {None: 1, "*": os.cpu_count() or 1}.get(local[1]) or int(local[1])
    if user.get("spark.cores.max", "").isdigit():
        return int(user["spark.cores.max"])
    executors, each = user.get("spark.executor.instances", ""), user.get("spark.executor.cores", "")
    return int(executors) * int(each) if executors.isdigit() and each.isdigit() else None


def _on_local_disk(user: Mapping[str, str]) -> bool:
    """Return whether a path without a scheme, and the default checkpoint location, mean this machine's disk."""
    default = urlsplit(user.get("spark.hadoop.fs.defaultFS", "file:///")).scheme
    location = urlsplit(user.get("spark.sql.streaming.checkpointLocation", "")).scheme
    return default == "file" and location in ("", "file")


def _running_settings(options: Mapping[str, str]) -> dict[str, str] | None:
    """Return the settings of the session that the builder would return, None if it would start one."""
    if options.get("spark.remote", "").startswith("sc:"):
        return None  # asking would cost a call to the server; Spark Connect sessions are cheap and mostly new
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        return None
    settings = dict(session.conf.getAll)
    late = [key for key, value in CONTEXT_SETTINGS.items() if settings.get(key) != value]
    if late:
        _log.warning("Spark is running already: too late for %s. Call configure() before getOrCreate().", late)
    return settings
