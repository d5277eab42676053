"""What we change about a process that is not ours: each with its reason, its gain and a switch.

`configure` switches all of them on, and so does the command line. A session that the user made takes those alone that a
query cannot run without, until the user sets others to true.
"""

from __future__ import annotations

from dataclasses import dataclass

from .flags import Setting, flag

_PREFIX = "spark.trijoin.liberties."


@dataclass(frozen=True, slots=True)
class Liberty:
    """Something that we do to the driver's process, its JVM or its workers, or inside of Spark by private names.

    Parameters
    ----------
    name
        In `taken`, and at the end of the setting.
    does
        What is done, and how long it stays.
    why
        The reason.
    gain
        As measured. It begins with "needed" where queries cannot run without.
    by_default
        Whether it is taken where nothing is set: for what is needed, and what only the command line does.
    variable
        An environment variable that is the switch, where no setting reaches.
    """

    name: str
    does: str
    why: str
    gain: str
    by_default: bool = False
    variable: str | None = None

    @property
    def switch(self) -> str:
        """The setting that switches it on and off, or the environment variable."""
        return self.variable or f"{_PREFIX}{self.name}"


LOCAL_FILES, JVM_PIPE, HUSH_FALSE_ALARM = "localFiles", "jvmPipe", "hushFalseAlarm"
PRELOAD_WORKERS, FREEZE_IMPORTS = "preloadWorkers", "freezeImports"
JVM_FLAGS, CLASS_ARCHIVE = "jvmFlags", "classArchive"
UNMEASURED = "unmeasured"
REFUSE_EARLY, END_AFTER_BATCH = "refuseEarly", "endAfterBatch"
JOIN_IN_PLAN, HOLD_BACK_IN_PLAN = "joinInPlan", "holdBackInPlan"
WHOLE_BATCHES, TELL_FAILURES = "wholeBatches", "tellFailures"

#: All of them.
LIBERTIES = (
    Liberty(
        LOCAL_FILES,
        does="puts a class that Janino compiles into a private field of Hadoop's local file system; for the whole JVM, "
        "until it ends",
        why="Hadoop starts a chmod process for each file that it creates on a local disk",
        gain="a seventh of a small micro-batch's time: twelve processes",
    ),
    Liberty(
        JVM_PIPE,
        does="replaces Popen in pyspark.java_gateway while Spark starts: the JVM gets a pipe for its stderr, of which "
        "we pass on all but known chatter; on the command line nothing, and there the JVM gets its own process group",
        why="Spark and its workers write to a terminal that shows our lines, and Ctrl-C would end the JVM "
        "in the middle of a micro-batch",
        gain="not measured: 22 lines less until the first row; on the command line, what failed is known",
        by_default=True,
    ),
    Liberty(
        HUSH_FALSE_ALARM,
        does="switches off the logger of a class of Spark's, for the whole JVM, and PySpark's warning about pandas 3, "
        "for the process; until they end",
        why="over Unix domain sockets it reports an error whenever a query of ours starts, and nothing is wrong; what "
        "joins use of pandas 3 works",
        gain="a stack of a hundred lines less for each query that starts",
    ),
    Liberty(
        FREEZE_IMPORTS,
        does="gc.freeze in Python workers after a task that imported something; until the worker ends",
        why="PySpark collects garbage after every task, and walks over all modules each time",
        gain="a third of a small micro-batch's processor time on executors of a cluster; the daemon of preloadWorkers "
        "does it too",
    ),
    Liberty(
        PRELOAD_WORKERS,
        does="makes a module of ours the daemon of Python workers, with a local master, for all of its queries; "
        "a small job starts it while a first query is made ready",
        why="each worker of PySpark's imports pandas, Arrow and our operators by itself, in its first micro-batch",
        gain="a third less processor time of workers until the first row, which comes 0.7 s sooner; shared memory",
    ),
    Liberty(
        JVM_FLAGS,
        does="gives the JVM of a local master flags for its compiler and, up to 4 GiB of heap, its collector, where "
        "nobody else has given it any",
        why="in its first minutes a JVM takes half of its processor time to optimize code that runs a few times",
        gain="a quarter of the processor time until the first row, which comes 2 s sooner",
    ),
    Liberty(
        CLASS_ARCHIVE,
        does="gives the JVM of a local master the archive of classes that trijoin-sql doctor --warm has made, if there "
        "is one, where nobody else has given it flags",
        why="Spark loads 24,000 classes until the first row, and a JVM reads, checks and links each",
        gain="a fifth more of that processor time, and 2 s more; 200 MiB of disk",
    ),
    Liberty(
        UNMEASURED,
        does="sets maxBytesPerBatch to Spark's own default in the private session of a query whose joins take no "
        "texts, where it has the value that configure sets; for that query",
        why="for that bound Spark measures all columns before each row that it hands to Python, and rows of a few "
        "numbers cannot exceed it",
        gain="a tenth of the processor time of a band join of INT columns",
    ),
    Liberty(
        REFUSE_EARLY,
        does="sets the private streamDeathCause of a query that does not fit its checkpoint, and its state",
        why="a listener cannot end a query, and Spark might fail on changed sources for reasons of its own",
        gain="not measured: the query ends before its first micro-batch; without it, its tasks refuse to run",
    ),
    Liberty(
        TELL_FAILURES,
        does="lets PySpark's StreamingQueryException begin with a sentence, and leave out the plan, for queries with a "
        "join of ours, its errors over tables show what fails in the query's own words, and its DataStreamWriter say "
        "which checkpoint cannot be read, and make ready a session without us that runs a global view of ours; keeps "
        "PySpark from logging errors that it raises; until the process ends",
        why="Spark's text shows a plan and SQL that no user has written, and of some damages no word; the log of an "
        "error is 9 KB of JSON with Java's stack, before the error",
        gain="forty lines less; without it, Spark's own text",
    ),
    Liberty(
        END_AFTER_BATCH,
        does="sets the private state of a query to TERMINATED",
        why="StreamingQuery.stop cancels the running micro-batch, whose rows a sink may have taken already",
        gain="not measured: a job that is stopped leaves no micro-batch half done, and scaling waits for no pause",
    ),
    Liberty(
        JOIN_IN_PLAN,
        does="replaces joins in Spark's analysed plan by way of py4j; for one DataFrame. Where enable was called, "
        "PySpark's class DataFrame has a writeStream that looks for such joins in that session; until the process ends",
        why="Spark's grammar is larger than ours, and joins may be written with DataFrames",
        gain="needed: Spark refuses these joins of streams",
        by_default=True,
    ),
    Liberty(
        HOLD_BACK_IN_PLAN,
        does="replaces a watermark's delay in Spark's analysed plan by way of py4j; for one DataFrame",
        why="results lag behind the watermark, and Spark takes no second one",
        gain="needed: without it, event time does not pass through a join whose results lag behind",
        by_default=True,
    ),
    Liberty(
        WHOLE_BATCHES,
        does="puts a sink whose class Janino compiles into a private field of a query's execution, before the query's "
        "own; for that query",
        why="a sink may leave rows unread, such as those of a micro-batch that it has already and that is repeated "
        "after a crash, and then no state is saved",
        gain="needed: such a query ends, and at every further start again",
        by_default=True,
    ),
    Liberty(
        "interpreter",
        does="sets the context's pythonExec with a local master; for all its queries. configure sets PYSPARK_PYTHON",
        why="Spark's python3 is another one where a virtual environment is not activated",
        gain="needed: the workers would not find our packages",
        by_default=True,
        variable="PYSPARK_PYTHON",
    ),
    Liberty(
        "mapFiles",
        does="maps files of the warm copy by the C library's mmap in Python workers; as long as they are read",
        why="Python's own maps hold a file descriptor each, of which a process has a thousand",
        gain="needed: a state of 16 GiB has more segments than a process may have descriptors",
        by_default=True,
        variable="TRIJOIN_MAP_FILES",
    ),
)

_BY_NAME = {liberty.name: liberty for liberty in LIBERTIES}

#: The settings among the switches.
SWITCHES = tuple(liberty.switch for liberty in LIBERTIES if liberty.variable is None)

#: What `configure` sets.
LIBERTY_SETTINGS = {liberty.switch: "true" for liberty in LIBERTIES if not liberty.by_default}


def taken(name: str, get: Setting) -> bool:
    """Return whether a liberty, whose switch is a setting, is to be taken.

    Raises
    ------
    InvalidSettingError
        The setting is neither true nor false.
    """
    return flag(get, _BY_NAME[name].switch, default=_BY_NAME[name].by_default)
