"""Job files with one mistake each, for the checks that need no Spark.

``^`` stands before the character that the caret has to mark, and is not part of the file. ``{data}`` is a folder with
files, ``{free}`` one that does not exist yet, ``{file}`` a file.
"""

from __future__ import annotations

from dataclasses import dataclass

STREAM = "CREATE STREAM r USING rate;\n"
SINK = "CREATE SINK o USING noop;\n"
_ROWS = "(id BIGINT, x DOUBLE, ts TIMESTAMP) USING json OPTIONS (path '{data}') WATERMARK ts DELAY OF INTERVAL 1 DAY;\n"
TWO = f"CREATE STREAM a {_ROWS}CREATE STREAM b {_ROWS}"
INSERT = "INSERT INTO o SELECT value FROM r;\n"
REST = SINK + INSERT


@dataclass(frozen=True, slots=True)
class Mistake:
    """A kind of mistake: a name, the job file, and what the message has to say."""

    name: str
    job: str
    says: str


def _source(text: str) -> str:
    return f"-- one mistake\n{text};\n{REST}"


def _late(sinks: str, end: str, results: str = "noop") -> str:
    return f"{STREAM}CREATE SINK o USING {results};\n{sinks}INSERT INTO o SELECT value FROM r {end};"


_NEAR = "FROM a JOIN b ON ABS(a.x - b.x) < 5 WITHIN 1 MINUTE"
_TOPICS = "".join(
    f"CREATE STREAM {name} USING kafka OPTIONS (kafka.bootstrap.servers 'h:1', subscribe '{name}')\n"
    "WATERMARK timestamp DELAY OF INTERVAL 1 SECOND;\n"
    for name in "ab"
)
_LATE = "CREATE SINK l USING noop;\n"


def _sink(text: str) -> str:
    return f"{STREAM}/* one mistake;\n */ {text};\n{INSERT}"


MISTAKES = [
    # values of settings
    Mistake(
        "a number of Spark's", f"SET ^spark.sql.shuffle.partitions = x;\n{STREAM}{REST}", "it takes a whole number"
    ),
    Mistake("a share", f"SET ^spark.trijoin.scaling.upper = 7;\n{STREAM}{REST}", "a share above 0 and up to 1"),
    Mistake("a size", f"SET ^spark.trijoin.warm.maxBytes = 16 gigs;\n{STREAM}{REST}", "it takes a number of bytes"),
    # operators
    Mistake(
        "=<", f"{STREAM}{SINK}INSERT INTO o SELECT value FROM r WHERE value =^< 3;", "=< is no comparison, write <="
    ),
    Mistake(
        "BETWEEN one bound",
        f"{STREAM}{SINK}INSERT INTO o SELECT value FROM r WHERE value BETWEEN 3 ^GROUP BY value;",
        "BETWEEN takes two bounds",
    ),
    # windows of rows
    Mistake(
        "MATCH_RECOGNIZE of a stream",
        f"{TWO}{SINK}INSERT INTO o SELECT * FROM a ^MATCH_RECOGNIZE (ORDER BY ts MEASURES p.x AS x PATTERN (p q));",
        "write a join for each step, FROM a AS p JOIN a AS q ON q.ts > p.ts WITHIN 10 MINUTES",
    ),
    Mistake(
        "MATCH_RECOGNIZE of a view of a join",
        f"{TWO}{SINK}CREATE TEMPORARY VIEW v AS SELECT a.id, a.ts {_NEAR};\n"
        "INSERT INTO o SELECT * FROM v ^MATCH_RECOGNIZE (PARTITION BY id ORDER BY ts PATTERN (p q));",
        "FROM v AS p JOIN v AS q ON q.id = p.id AND q.ts > p.ts",
    ),
    Mistake(
        "MATCH_RECOGNIZE in a view",
        f"{TWO}CREATE TEMPORARY VIEW v AS SELECT * FROM a ^MATCH_RECOGNIZE (ORDER BY ts PATTERN (p q));\n{REST}",
        "Spark has no MATCH_RECOGNIZE",
    ),
    Mistake(
        "QUALIFY of a stream",
        f"{TWO}{SINK}INSERT INTO o SELECT id FROM a ^QUALIFY row_number() OVER (PARTITION BY id ORDER BY ts) = 1;",
        "QUALIFY keeps rows by a function over a window of rows",
    ),
    Mistake(
        "QUALIFY above a join",
        f"{TWO}{SINK}INSERT INTO o SELECT a.id, rank() OVER (ORDER BY b.ts) AS n {_NEAR} ^QUALIFY n = 1;",
        "QUALIFY keeps rows by a function over a window of rows",
    ),
    # late rows
    Mistake("late rows, no such sink", _late("", "LATE ROWS INTO ^l"), "there is no sink named l"),
    Mistake("late rows into a stream", _late("", "LATE ROWS INTO ^r"), "r is a stream: late rows go into a sink"),
    Mistake("late rows into the results", _late("", "LATE ROWS INTO ^o"), "o gets the results of this query"),
    Mistake("late rows twice", _late(_LATE, "LATE ROWS INTO l ^LATE ROWS INTO l"), "LATE ROWS is given twice"),
    Mistake("late rows before WHERE", _late(_LATE, "^LATE ROWS INTO l WHERE value > 1"), "LATE ROWS INTO comes last"),
    Mistake("late rows inside", f"{STREAM}{SINK}{_LATE}INSERT INTO o (SELECT value FROM r ^LATE ROWS INTO l);", "last"),
    Mistake("late rows without INTO", _late(_LATE, "LATE ^ROWS l"), "ROWS was not expected here"),
    Mistake("late rows without a sink", _late(_LATE, "LATE ROWS INTO^"), "ends where the name of the sink"),
    Mistake("late rows into a dotted name", _late(_LATE, "LATE ROWS INTO l^.m"), "without a dot"),
    Mistake("late rows of nothing", f"{STREAM}{SINK}{_LATE}INSERT INTO o ^LATE ROWS INTO l;", "a SELECT is missing"),
    Mistake(
        "late rows of a view",
        f"{STREAM}{_LATE}CREATE TEMPORARY VIEW v AS SELECT value FROM r ^LATE ROWS INTO l;\n{REST}",
        "LATE ROWS belongs to an INSERT INTO",
    ),
    Mistake(
        "late rows into a sink with rows of its own",
        _late(f"{_LATE}INSERT INTO l SELECT value FROM r;\n", "LATE ROWS INTO ^l"),
        "the sink l gets rows from line 4 already",
    ),
    Mistake(
        "late rows of two queries",
        f"{STREAM}{SINK}{_LATE}CREATE SINK p USING noop;\nINSERT INTO p SELECT value FROM r LATE ROWS INTO ^l;\n"
        "INSERT INTO o SELECT value FROM r LATE ROWS INTO L;",
        "the sink l gets rows from line 6 already",
    ),
    Mistake(
        "late rows into complete mode", _late("CREATE SINK l USING noop MODE complete;\n", "LATE ROWS INTO ^l"), "MODE"
    ),
    Mistake(
        "late rows with a trigger", _late("CREATE SINK l USING noop TRIGGER ONCE;\n", "LATE ROWS INTO ^l"), "TRIGGER"
    ),
    Mistake(
        "late rows into another format",
        _late("CREATE SINK l USING iceberg OPTIONS (path 'l', checkpointLocation 'c');\n", "LATE ROWS INTO ^l"),
        "a sink of the format iceberg takes no late rows",
    ),
    Mistake(
        "late rows beside another format",
        f"{STREAM}CREATE SINK o USING iceberg OPTIONS (path 'l', checkpointLocation 'c');\n{_LATE}"
        "INSERT INTO ^o SELECT value FROM r LATE ROWS INTO l;",
        "takes no results beside late rows",
    ),
    # the text
    Mistake("nothing in it", "-- nothing^\n", "the job has no INSERT INTO"),
    Mistake("string without an end", _source("CREATE STREAM r USING csv OPTIONS (path ^'x)"), "a closing ' is missing"),
    Mistake("name without an end", f"{STREAM}{SINK}INSERT INTO ^`o SELECT 1", "a closing ` is missing"),
    Mistake("comment without an end", f"{STREAM}{SINK}{INSERT}^/* and so on", "a closing */ is missing"),
    Mistake(
        "semicolon missing", f"CREATE STREAM r USING rate\n^{SINK}{INSERT}", "a semicolon is missing before CREATE"
    ),
    Mistake("query without a sink", f"{STREAM}^SELECT value FROM r;", "nowhere to put its rows"),
    Mistake("explain", f"{STREAM}^EXPLAIN SELECT value FROM r;", "EXPLAIN runs nothing"),
    Mistake("comment of another language", f"^# my job\n{STREAM}{REST}", "a comment begins with --"),
    Mistake("comment with slashes", f"^// my job\n{STREAM}{REST}", "a comment begins with --"),
    Mistake("drop", f"{STREAM}^DROP STREAM r;\n{REST}", "there is no DROP STREAM"),
    Mistake("streaming table", f"CREATE ^STREAMING TABLE r;\n{REST}", "write CREATE STREAM"),
    Mistake(
        "semicolon missing after a setting",
        f"{STREAM}SET spark.sql.shuffle.partitions = 4\n ^{SINK}{INSERT}",
        "a semicolon is missing before CREATE",
    ),
    Mistake("slip in a setting of ours", f"{STREAM}SET ^spark.trijoin.unit = 4;\n{REST}", "mean spark.trijoin.units?"),
    Mistake("jars without a name", f"SET spark.jars.packages =^;\n{STREAM}{REST}", "spark.jars.packages has no value"),
    Mistake("slip in the first word", f"^CRATE STREAM r USING rate;\n{REST}", "did you mean CREATE?"),
    Mistake("slip in the verb", f"{STREAM}{SINK}^INSRT INTO o SELECT value FROM r;", "did you mean INSERT?"),
    Mistake(
        "column that no stream has", f"{STREAM}{SINK}INSERT INTO o SELECT value FROM r WHERE ^valu > 1;", "mean value?"
    ),
    Mistake(
        "column of a join that no stream has",
        f"{STREAM}CREATE STREAM q USING rate;\n{SINK}INSERT INTO o SELECT r.value FROM r JOIN q ON ^valeu < q.value;",
        "r, q have no column valeu",
    ),
    Mistake(
        "column of two streams",
        f"{STREAM}CREATE STREAM q USING rate;\n{SINK}INSERT INTO o SELECT ^value FROM r JOIN q ON r.value < q.value;",
        "write r.value or q.value",
    ),
    Mistake(
        "alias of no relation", f"{STREAM}{SINK}INSERT INTO o SELECT ^t.value FROM r;", "there is no relation t here"
    ),
    Mistake(
        "column of a view's stream",
        f"{STREAM}CREATE TEMPORARY VIEW v AS SELECT ^valu FROM r;\n{SINK}INSERT INTO o SELECT * FROM v;",
        "did you mean value?",
    ),
    Mistake(
        "groups that never close",
        f"{STREAM}{SINK}INSERT INTO o SELECT value, COUNT(*) FROM r ^GROUP BY value;",
        "group by window(...) over an event time, or use MODE complete",
    ),
    Mistake(
        "ASOF JOIN without a watermark",
        f"{STREAM}CREATE STREAM q USING rate;\n{SINK}INSERT INTO o SELECT r.value FROM r ^ASOF JOIN q "
        "MATCH_CONDITION (r.timestamp >= q.timestamp) ON r.value = q.value;",
        "the ASOF JOIN would never know that a row of r has its closest partners",
    ),
    Mistake(
        "ASOF JOIN by an equality",
        f"{STREAM}CREATE STREAM q USING rate;\n{SINK}INSERT INTO o SELECT r.value FROM r ASOF JOIN q "
        "^MATCH_CONDITION (r.timestamp = q.timestamp) ON r.value = q.value;",
        "MATCH_CONDITION takes one comparison by >=, >, <= or <",
    ),
    Mistake(
        "NEAREST by something else",
        f"{STREAM}CREATE STREAM q USING rate;\n{SINK}INSERT INTO o SELECT r.value FROM r JOIN q "
        "APPROX ^NEAREST 2 BY DISTANCE r.value / q.value;",
        "NEAREST of streams is by the difference of one value of each side, not by r.value / q.value",
    ),
    Mistake(
        "NEAREST without a bound",
        f"{STREAM}CREATE STREAM q USING rate WATERMARK timestamp DELAY OF INTERVAL 1 SECOND;\n{SINK}INSERT INTO o "
        "SELECT p.value FROM q AS p JOIN q APPROX ^NEAREST BY DISTANCE ABS(p.value - q.value);",
        "the NEAREST JOIN would never know that a row of p has its closest partners",
    ),
    Mistake(
        "ASOF JOIN that Spark reads as an alias",
        f"{STREAM}CREATE STREAM q USING rate;\n{SINK}INSERT INTO o SELECT r.value FROM r ^ASOF JOIN q "
        "ON r.value = q.value;",
        "ASOF JOIN needs MATCH_CONDITION (r.ts >= s.ts) behind the relation that it joins",
    ),
    Mistake("alias in WHERE", f"{STREAM}{SINK}INSERT INTO o SELECT value AS v FROM r WHERE ^v > 1;", "no column v"),
    Mistake("slip in STREAM", f"CREATE ^STREEM r USING rate;\n{REST}", "did you mean STREAM?"),
    Mistake("slip in SINK", f"{STREAM}CREATE ^SNK o USING noop;\n{INSERT}", "did you mean SINK?"),
    Mistake("temporary stream", _source("CREATE ^TEMPORARY STREAM r USING rate"), "takes no TEMPORARY"),
    Mistake("temporary sink", _sink("CREATE ^OR REPLACE TEMP SINK o USING noop"), "takes no OR REPLACE"),
    # streams
    Mistake("stream without a name", _source("CREATE STREAM ^USING rate"), "the stream has no name"),
    Mistake("stream that ends early", _source("CREATE STREAM^"), "the stream has no name"),
    Mistake("stream with a dot", _source("CREATE STREAM a^.r USING rate"), "a simple name"),
    Mistake("stream or replace", _source("CREATE ^OR REPLACE STREAM r USING rate"), "no OR REPLACE"),
    Mistake("stream if not exists", _source("CREATE STREAM ^IF NOT EXISTS r USING rate"), "no IF NOT EXISTS"),
    Mistake("stream without a format", _source("CREATE STREAM r^"), "USING and a format are missing"),
    Mistake("format is text", _source("CREATE STREAM r USING ^'rate'"), "a format such as parquet is expected here"),
    Mistake("unknown source", _source("CREATE STREAM r USING ^parket"), "there is no source format named parket"),
    Mistake("no table", _source("CREATE STREAM r USING ^delta"), "one of the options path, table"),
    Mistake(
        "path and table",
        _source("CREATE STREAM r USING iceberg OPTIONS (path 'p', table ^'a.b')"),
        "only one of the options path, table can be given",
    ),
    Mistake("no class", _source("CREATE STREAM r USING ^python OPTIONS (path 'p')"), "python needs the option class"),
    Mistake(
        "no checkpoint for a format of a package",
        _sink("CREATE SINK ^o USING hudi OPTIONS (path 'p')"),
        "has no checkpointLocation",
    ),
    Mistake("sink as a source", _source("CREATE STREAM r USING ^console"), "console is a sink, no source"),
    Mistake("unknown clause", _source("CREATE STREAM r USING rate ^WATERMRK t"), "did you mean WATERMARK?"),
    Mistake("clause of a sink", _source("CREATE STREAM r USING rate ^MODE append"), "the clauses are USING, OPTIONS"),
    Mistake("clause twice", _source("CREATE STREAM r USING rate ^USING rate"), "USING is given twice"),
    Mistake(
        "two streams of a name", f"{STREAM}CREATE STREAM ^R USING rate;\n{REST}", "already something named R, on line 1"
    ),
    Mistake("stream and sink of a name", f"{STREAM}CREATE SINK ^r USING noop;\n{INSERT}", "already something named r"),
    Mistake("stream with an empty name", _source("CREATE STREAM ^`` USING rate"), "the name of the stream is empty"),
    Mistake("stream in double quotes", _source('CREATE STREAM ^"r" USING rate'), "write r or `r`"),
    # columns
    Mistake("no column in parentheses", _source("CREATE STREAM r (^) USING csv"), "the name of a column"),
    Mistake("comma after the last column", _source("CREATE STREAM r (a INT,^) USING csv"), "the name of a column"),
    Mistake(
        "column with a default",
        _source("CREATE STREAM r (a INT ^DEFAULT 5) USING csv OPTIONS (path '{data}')"),
        "a column has a name and a type",
    ),
    Mistake(
        "column that is a key",
        _source("CREATE STREAM r (a INT, b BIGINT ^PRIMARY KEY) USING csv OPTIONS (path '{data}')"),
        "a column has a name and a type",
    ),
    Mistake(
        "columns without a comma",
        _source("CREATE STREAM r (a INT ^b INT) USING csv OPTIONS (path '{data}')"),
        "a column has a name and a type",
    ),
    Mistake("column without a type", _source("CREATE STREAM r (a^, b INT) USING csv"), "the column a has no type"),
    Mistake("columns without an end", _source("CREATE STREAM r (a INT USING csv^"), "a ) is missing"),
    Mistake("column twice", _source("CREATE STREAM r (a INT, ^A INT) USING csv"), "two columns named A"),
    Mistake(
        "unknown type",
        _source("CREATE STREAM r (a ^INTEGR) USING csv OPTIONS (path '{data}')"),
        "there is no type INTEGR",
    ),
    Mistake("columns of a rate", _source("CREATE STREAM r (^a INT) USING rate"), "always the same: timestamp, value"),
    Mistake("no columns", _source("CREATE STREAM ^r USING json OPTIONS (path '{data}')"), "needs its columns"),
    # options
    Mistake(
        "options without parentheses", _source("CREATE STREAM r USING rate OPTIONS ^rows 1"), "( is missing before"
    ),
    Mistake("option without a value", _source("CREATE STREAM r USING rate OPTIONS (rowsPerSecond^)"), "has no value"),
    Mistake(
        "option with a name for a value",
        _source("CREATE STREAM r USING rate OPTIONS (rowsPerSecond ^many)"),
        "quote it if it is text",
    ),
    Mistake(
        "option with an arrow",
        _source("CREATE STREAM r USING rate OPTIONS (rowsPerSecond ^=> 5)"),
        "is followed by its value",
    ),
    Mistake(
        "option with a colon", _source("CREATE STREAM r USING rate OPTIONS (rowsPerSecond^: 5)"), "write OPTIONS (key"
    ),
    Mistake(
        "typographic quotes",
        _source("CREATE STREAM r (a INT) USING json OPTIONS (path ^‘in’)"),
        "these are typographic quotes",
    ),
    Mistake(
        "options without a comma",
        _source("CREATE STREAM r USING rate OPTIONS (rowsPerSecond 1 ^numPartitions 2)"),
        ", is missing before numPartitions",
    ),
    Mistake("options without an end", _source("CREATE STREAM r USING rate OPTIONS (rowsPerSecond 1^"), ", is missing"),
    Mistake(
        "option twice",
        _source("CREATE STREAM r USING rate OPTIONS (numPartitions 1, ^numpartitions 2)"),
        "the option numpartitions is given twice",
    ),
    Mistake(
        "unknown option",
        _source("CREATE STREAM r USING rate OPTIONS (^rowsPerSecnd 1)"),
        "did you mean rowsPerSecond?",
    ),
    Mistake(
        "slip in a file option",
        _source("CREATE STREAM r (a INT) USING csv OPTIONS (path '{data}', ^maxFilePerTrigger 1)"),
        "did you mean maxFilesPerTrigger?",
    ),
    Mistake(
        "text for a number", _source("CREATE STREAM r USING rate OPTIONS (rowsPerSecond ^'x')"), "a whole number from 1"
    ),
    Mistake("number too small", _source("CREATE STREAM r USING rate OPTIONS (rowsPerSecond ^-5)"), "not '-5'"),
    Mistake(
        "no port", _source("CREATE STREAM r USING socket OPTIONS (host 'localhost', port ^99999)"), "99999 is no port"
    ),
    Mistake(
        "neither true nor false",
        _source("CREATE STREAM r USING socket OPTIONS (host 'h', port 1, includeTimestamp ^'yes')"),
        "takes true or false",
    ),
    Mistake(
        "path of a file",
        _source("CREATE STREAM r (value INT) USING json OPTIONS (path ^'{file}')"),
        "is a file, and a stream reads the files of a folder",
    ),
    Mistake("path missing", _source("CREATE STREAM r (a INT) USING ^csv"), "csv needs the option path"),
    Mistake(
        "host missing", _source("CREATE STREAM r USING ^socket OPTIONS (port 9999)"), "socket needs the option host"
    ),
    Mistake("rows missing", _source("CREATE STREAM r USING ^rate-micro-batch"), "needs the option rowsPerBatch"),
    Mistake(
        "topics missing",
        _source("CREATE STREAM r USING ^kafka OPTIONS (kafka.bootstrap.servers 'h:1')"),
        "one of the options subscribe, subscribePattern, assign",
    ),
    Mistake(
        "topics twice",
        _source("CREATE STREAM r USING kafka OPTIONS (kafka.bootstrap.servers 'h:1', subscribe 'a', assign ^'b')"),
        "only one of the options",
    ),
    Mistake(
        "broker missing", _source("CREATE STREAM r USING ^kafka OPTIONS (subscribe 'a')"), "kafka.bootstrap.servers"
    ),
    Mistake(
        "unreachable path",
        _source("CREATE STREAM r (value INT) USING csv OPTIONS (path ^'{free}/in')"),
        "/in does not exist",
    ),
    Mistake("empty path", _source("CREATE STREAM r (a INT) USING csv OPTIONS (path ^'')"), "path is empty"),
    # watermarks
    Mistake(
        "watermark without a delay",
        _source("CREATE STREAM r USING rate WATERMARK timestamp^"),
        "DELAY is missing",
    ),
    Mistake(
        "watermark without an interval",
        _source("CREATE STREAM r USING rate WATERMARK timestamp DELAY OF ^10 SECONDS"),
        "INTERVAL is missing",
    ),
    Mistake(
        "watermark with a bad interval",
        _source("CREATE STREAM r USING rate WATERMARK timestamp DELAY OF INTERVAL ^10 PARSECS"),
        "'10 parsecs' is no length of time",
    ),
    Mistake(
        "more behind a watermark",
        _source("CREATE STREAM r USING rate WATERMARK timestamp DELAY OF INTERVAL 10 SECONDS ^MODE append"),
        "MODE was not expected here",
    ),
    Mistake(
        "watermark on a column that is not there",
        _source("CREATE STREAM r USING rate WATERMARK ^timestmp DELAY OF INTERVAL 1 SECOND"),
        "r has no column timestmp",
    ),
    Mistake(
        "watermark on a number",
        _source("CREATE STREAM r USING rate WATERMARK ^value DELAY OF INTERVAL 1 SECOND"),
        "is of type BIGINT",
    ),
    Mistake(
        "watermark of a relation",
        _source("CREATE STREAM r USING rate WATERMARK r^.timestamp DELAY OF INTERVAL 1 SECOND"),
        "a column of the stream, without a dot",
    ),
    # sinks
    Mistake("sink without a name", _sink("CREATE SINK ^USING noop"), "the sink has no name"),
    Mistake("sink with columns", _sink("CREATE SINK o ^(a INT) USING noop"), "a sink declares no columns"),
    Mistake("sink without a format", _sink("CREATE SINK o MODE append^"), "where do the rows go to?"),
    Mistake("unknown sink", _sink("CREATE SINK o USING ^consol"), "did you mean console?"),
    Mistake("source as a sink", _sink("CREATE SINK o USING ^rate"), "rate is a source, no sink"),
    Mistake("unknown mode", _sink("CREATE SINK o USING noop MODE ^upsert"), "there is no mode upsert"),
    Mistake("mode missing", _sink("CREATE SINK o USING noop MODE^"), "append, update or complete"),
    Mistake(
        "mode that files refuse",
        _sink("CREATE SINK o USING csv OPTIONS (path '{free}/o', checkpointLocation '{free}/c') MODE ^complete"),
        "a csv sink takes MODE append only",
    ),
    Mistake(
        "checkpoint missing", _sink("CREATE SINK ^o USING csv OPTIONS (path '{free}')"), "has no checkpointLocation"
    ),
    Mistake(
        "output that is a file",
        _sink("CREATE SINK o USING csv OPTIONS (path ^'{file}', checkpointLocation '{free}')"),
        "is a file, where a folder is needed",
    ),
    Mistake(
        "checkpoint below a file",
        _sink("CREATE SINK o USING csv OPTIONS (path '{free}', checkpointLocation ^'{file}/c')"),
        "cannot be made",
    ),
    Mistake(
        "checkpoint in the output",
        _sink("CREATE SINK o USING csv OPTIONS (path ^'{free}', checkpointLocation '{free}')"),
        "is the checkpoint of the sink o",
    ),
    Mistake("trigger missing", _sink("CREATE SINK o USING noop TRIGGER^"), "the statement ends where"),
    Mistake("unknown trigger", _sink("CREATE SINK o USING noop TRIGGER ^EVERY '1 second'"), "EVERY is no trigger"),
    Mistake("trigger without a time", _sink("CREATE SINK o USING noop TRIGGER PROCESSING TIME ^10"), "how often?"),
    Mistake(
        "trigger with a bad time",
        _sink("CREATE SINK o USING noop TRIGGER PROCESSING TIME ^'often'"),
        "'often' is no length of time",
    ),
    Mistake(
        "continuous trigger",
        _sink("CREATE SINK o USING noop TRIGGER ^CONTINUOUS '1 second'"),
        "continuous processing cannot run joins",
    ),
    Mistake(
        "function missing",
        _sink("CREATE SINK o USING ^foreachBatch OPTIONS (checkpointLocation '{free}')"),
        "needs the option function",
    ),
    *(
        Mistake(
            name,
            _sink(f"CREATE SINK o USING foreachBatch OPTIONS (checkpointLocation '{{free}}', function ^'{function}')"),
            says,
        )
        for name, function, says in [
            ("function without a module", "save", "is not of the form 'module:name'"),
            ("function in no module", "no_such_module:save", "there is no module named no_such_module"),
            ("function that is not there", "json:dumb", "has no function dumb"),
            ("function that is none", "json:__name__", "is no function"),
            ("function of one argument", "builtins:len", "does not take two arguments"),
        ]
    ),
    # queries
    Mistake(
        "unknown sink of rows", f"{STREAM}{SINK}INSERT INTO ^out SELECT value FROM r", "there is no sink named out"
    ),
    Mistake("rows into a stream", f"{STREAM}{SINK}INSERT INTO ^r SELECT value FROM r", "r is a stream"),
    Mistake("rows into a sink twice", f"{STREAM}{SINK}{INSERT}INSERT INTO ^o SELECT 1 FROM r", "gets rows from line 3"),
    Mistake("into missing", f"{STREAM}{SINK}INSERT ^o SELECT value FROM r", "INTO is missing before o"),
    Mistake("into a table", f"{STREAM}{SINK}INSERT INTO ^TABLE o SELECT value FROM r", "without TABLE"),
    Mistake("sink with a dot", f"{STREAM}{SINK}INSERT INTO db^.o SELECT value FROM r", "without a dot"),
    Mistake(
        "within without a unit",
        f"{STREAM}{SINK}INSERT INTO o SELECT a.value FROM r a JOIN r b ON a.value < b.value WITHIN ^10",
        "a length of time such as 10 MINUTES",
    ),
    Mistake("overwrite", f"{STREAM}{SINK}INSERT ^OVERWRITE o SELECT value FROM r", "nothing is overwritten"),
    Mistake("values", f"{STREAM}{SINK}INSERT INTO o ^VALUES (1)", "takes the rows of a SELECT"),
    Mistake("list of columns", f"{STREAM}{SINK}INSERT INTO o ^(a) SELECT value FROM r", "a list of columns"),
    Mistake("query missing", f"{STREAM}{SINK}INSERT INTO o^", "a SELECT is missing"),
    Mistake("mistyped SELECT", f"{STREAM}{SINK}INSERT INTO o ^SELCT value FROM r", "did you mean SELECT?"),
    Mistake(
        "mistyped WITHIN",
        f"{STREAM}{SINK}INSERT INTO o SELECT a.value FROM r a JOIN r b ON a.value < b.value ^WITHN 10 MINUTES",
        "is WITHN meant to be WITHIN?",
    ),
    Mistake(
        "mistyped JOIN",
        f"{STREAM}{SINK}INSERT INTO o SELECT a.value FROM r a ^JION r b ON a.value < b.value",
        "is JION meant to be JOIN?",
    ),
    Mistake(
        "late rows without a join",
        f"{STREAM}{SINK}CREATE SINK l USING noop;\nINSERT INTO o SELECT value FROM r LATE ROWS INTO ^l",
        "no join of this query is ours",
    ),
    Mistake(
        "mistyped setting of Spark's",
        f"SET ^spark.sql.shufle.partitions = 4;\n{STREAM}{REST}",
        "did you mean spark.sql.shuffle.partitions?",
    ),
    *(
        Mistake(name, f"{TWO}{SINK}INSERT INTO o {query}", says)
        for name, query, says in [
            ("no FROM", "SELECT ^a.id, b.id AS other WITHIN 1 MINUTE", "there is no FROM"),
            (
                "EMIT CHANGES",
                "SELECT a.id FROM a JOIN b ON a.x < b.x WITHIN 1 DAY ^EMIT CHANGES",
                "EMIT was not expected",
            ),
            (
                "WITH with one name twice",
                "WITH v AS (SELECT 1), ^v AS (SELECT 2) SELECT a.id FROM a",
                "queries named v",
            ),
            ("UNION of other counts", "SELECT id FROM a UNION ALL SELECT ^id, x FROM b", "of 1 and of 2 columns"),
            ("UNION without ALL", "SELECT id FROM a ^UNION SELECT id FROM b", "UNION gives each row once"),
            ("rand in ON", "SELECT a.id FROM a JOIN b ON a.x < b.x * ^rand(3)", "ON reads"),
            (
                "number added to a time",
                "SELECT a.id FROM a JOIN b ON b.ts < ^a.ts + 5",
                "a.ts + 5 adds a number to a time",
            ),
            ("times apart by a number", "SELECT a.id FROM a JOIN b ON ABS(^b.ts - a.ts) < 5", "INTERVAL DAY TO SECOND"),
            (
                "unit that is none",
                "SELECT a.id FROM a JOIN b ON TIMESTAMPDIFF(^MINTUE, a.ts, b.ts) < 5",
                "mean MINUTE?",
            ),
            (
                "column of a query in FROM",
                "SELECT d.id FROM (SELECT id, x FROM a) d JOIN b ON ^d.xx < b.x",
                "d has no column xx",
            ),
            (
                "window that slides too far",
                "SELECT COUNT(*) FROM a GROUP BY window(ts, '1 minute', ^'5 minutes')",
                "which is longer than they are",
            ),
            (
                "window of nothing",
                "SELECT COUNT(*) FROM a GROUP BY window(ts, ^'0 seconds')",
                "is no length of a window",
            ),
            (
                "windows of two kinds",
                "SELECT window(^ts, '2 minutes'), COUNT(*) FROM a GROUP BY window(ts, '1 minute')",
                "windows of two kinds",
            ),
            (
                "aggregate of an aggregate",
                "SELECT SUM(COUNT(^x)) FROM a GROUP BY window(ts, '1 minute')",
                "COUNT(x), which is an aggregate itself",
            ),
        ]
    ),
    Mistake(
        "place that is none", f"{TWO}{SINK}INSERT INTO o ^SELECT x, COUNT(*) FROM a GROUP BY 3", "no place in SELECT"
    ),
    Mistake(
        "WITH before INSERT",
        f"{TWO}{SINK}^WITH v AS (SELECT id FROM a) INSERT INTO o SELECT id FROM v",
        "write it behind",
    ),
    Mistake("setting without =", f"SET ^spark.trijoin.units 4;\n{STREAM}{REST}", "has no ="),
    Mistake(
        "ansi that is no boolean", f"SET ^spark.sql.ansi.enabled = flase;\n{STREAM}{REST}", "it takes true or false"
    ),
    Mistake(
        "view of a stream's name", f"{STREAM}CREATE TEMPORARY VIEW ^r AS SELECT 1;\n{REST}", "already something named r"
    ),
    Mistake(
        "view twice", f"{STREAM}CREATE TEMP VIEW v AS SELECT 1;\nCREATE TEMP VIEW ^v AS SELECT 2;\n{REST}", "on line 2"
    ),
    Mistake(
        "late rows without a watermark",
        f"{STREAM}{SINK}{_LATE}INSERT INTO o SELECT a.value FROM r a JOIN r b ON a.value < b.value LATE ROWS INTO ^l",
        "no row is ever late",
    ),
    Mistake(
        "type of another system",
        _source("CREATE STREAM r (a ^DATETIME) USING json OPTIONS (path '{data}')"),
        "mean TIMESTAMP?",
    ),
    Mistake(
        "VARCHAR without a length",
        _source("CREATE STREAM r (a ^VARCHAR) USING json OPTIONS (path '{data}')"),
        "needs a length",
    ),
    Mistake(
        "DECIMAL too long",
        _source("CREATE STREAM r (a ^DECIMAL(50, 2)) USING json OPTIONS (path '{data}')"),
        "more than 38",
    ),
    Mistake("bad SQL", f"{STREAM}{SINK}INSERT INTO o\nSELECT value\nFROM r WHERE ^)", "something is missing here"),
    Mistake(
        "semicolon missing after a query",
        f"{STREAM}{SINK}INSERT INTO o SELECT value FROM r\n  ^CREATE SINK p USING noop;\n",
        "a semicolon is missing before CREATE",
    ),
    Mistake("view without a query", f"{STREAM}CREATE TEMPORARY VIEW v AS^ ;\n{REST}", "a query is missing"),
    Mistake(
        "negative within",
        f"{STREAM}{SINK}INSERT INTO o SELECT a.value FROM r a JOIN r b ON a.value < b.value ^WITHIN -5 MINUTES",
        "a length of time such as 10 MINUTES",
    ),
    Mistake("interval without a unit", f"{STREAM}{SINK}INSERT INTO o SELECT INTERVAL 5 ^FROM r", "has no unit"),
    Mistake("parameter", f"{STREAM}{SINK}INSERT INTO o SELECT value FROM r WHERE value < ^:most", "no parameters"),
    Mistake("marker", f"{STREAM}{SINK}INSERT INTO o SELECT value FROM r WHERE value < ^?", "no parameters"),
    Mistake("bad SQL in a view", f"{STREAM}CREATE TEMPORARY VIEW v AS SELECT (value ^FROM r;\n{REST}", "Expecting )"),
    # what the rewriter and the sink refuse
    *(
        Mistake(name, f"{STREAM}CREATE STREAM q (a INT, b STRING) USING json OPTIONS (path '{{data}}');\n{text}", says)
        for name, text, says in [
            (
                "within without event time",
                f"{SINK}INSERT INTO o SELECT r.value FROM r JOIN q ON r.value < q.a ^WITHIN 1 MINUTE",
                "WITHIN needs the event time of q",
            ),
            (
                "within without a join",
                f"{SINK}INSERT INTO o SELECT value FROM r ^WITHIN 1 MINUTE",
                "its SELECT has none",
            ),
            (
                "outer join that never emits",
                f"{SINK}INSERT INTO o SELECT r.value FROM r ^LEFT JOIN q ON r.value < q.a",
                "would never know that a row of r has no partner",
            ),
            (
                "unknown scheme",
                f"{SINK}INSERT INTO o SELECT /*+ ^SCHEME('nope') */ r.value FROM r JOIN q ON r.value < q.a",
                "the schemes are symmetric",
            ),
            ("setting with a bad value", f"SET ^spark.trijoin.units = abc;\n{REST}", "a whole number from 1"),
            (
                "rate with a bad value",
                f"SET ^spark.trijoin.rate.r = fast;\n{REST}",
                "a number of rows a second above 0",
            ),
            ("no stream", f"{SINK}INSERT INTO o ^SELECT 1 AS one", "the query reads no stream"),
            (
                "complete without groups",
                "CREATE SINK o USING noop MODE ^complete;\nINSERT INTO o SELECT value FROM r WHERE value > 3",
                "complete mode gives the groups of an aggregation",
            ),
            *(
                (
                    name,
                    f"CREATE SINK o USING {kind} OPTIONS (checkpointLocation '{{free}}/c', {options});\n{query}",
                    says,
                )
                for name, kind, options, query, says in [
                    (
                        "two columns of a name in files",
                        "parquet",
                        "path '{free}/o'",
                        "INSERT INTO o ^SELECT a, b AS A FROM q",
                        "two columns are named A",
                    ),
                    (
                        "text of two columns",
                        "text",
                        "path '{free}/o'",
                        "INSERT INTO o ^SELECT a, b FROM q",
                        "one STRING",
                    ),
                    (
                        "Kafka without a value",
                        "kafka",
                        "kafka.bootstrap.servers 'h:1', topic 't'",
                        "INSERT INTO o ^SELECT b FROM q",
                        "a STRING or BINARY column named value; there is none",
                    ),
                ]
            ),
        ]
    ),
    # SQL of other systems, which sqlglot reads as something of Spark's
    *(
        Mistake(name, f"{TWO}{SINK}INSERT INTO o {query};", says)
        for name, query, says in (
            ("a type of Oracle's", f"SELECT CAST(a.x AS ^NUMBER) AS n {_NEAR}", "did you mean DECIMAL(p, s)?"),
            ("a type of Postgres'", f"SELECT a.id::^INT8 AS n {_NEAR}", "no type INT8; did you mean BIGINT?"),
            ("a type inside", f"SELECT CAST(a.id AS ARRAY<^TEXT>) AS n {_NEAR}", "no type TEXT; did you mean STRING?"),
            ("names in brackets", f"SELECT ^[a.id] {_NEAR}", "names are quoted with backticks"),
            ("names in double quotes", f'SELECT ^"a"."id" {_NEAR}', "double quotes make texts in Spark"),
            (
                "typographic quotes in a condition",
                "SELECT a.id FROM a JOIN b ON a.x < b.x WHERE a.id = ^‘k1’ WITHIN 1 MINUTE",
                "‘k1’ has typographic quotes; write 'k1'",
            ),
            ("DISTINCT ON", f"SELECT ^DISTINCT ON (a.id) a.id {_NEAR}", "Spark has no DISTINCT ON"),
            ("SELECT INTO", f"SELECT a.id ^INTO zz {_NEAR}", "Spark has no SELECT INTO"),
            ("no ON", "SELECT a.id FROM a JOIN b ^ABS(a.x - b.x) < 5 WITHIN 1 MINUTE", "ON is missing before ABS"),
            ("no day", f"SELECT a.ts > TIMESTAMP ^'2024-13-01' AS n {_NEAR}", "'2024-13-01' is no TIMESTAMP"),
            (
                "another relation's column of the same name",
                f"SELECT a.id, ^b.id AS other, COUNT(*) AS n {_NEAR} GROUP BY a.id",
                "the column b.id is neither in GROUP BY",
            ),
            (
                "NOT IN beside WITHIN",
                "SELECT a.id FROM a WHERE a.id NOT IN (SELECT id FROM b) ^WITHIN 1 MINUTE",
                "write NOT EXISTS",
            ),
            (
                "groups of a computed time",
                f"SELECT date_trunc('HOUR', a.ts) AS h, COUNT(*) AS n {_NEAR} ^GROUP BY date_trunc('HOUR', a.ts)",
                "groups without a window of event time never close",
            ),
        )
    ),
    Mistake(
        "a stream that is declared behind its query",
        f"CREATE STREAM a {_ROWS}{SINK}INSERT INTO o SELECT a.id FROM a JOIN ^b ON a.x < b.x WITHIN 1 MINUTE;\n"
        f"CREATE STREAM b {_ROWS}",
        "b is declared on line 4, behind this statement",
    ),
    Mistake(
        "WITHIN over a stream without times",
        f"CREATE STREAM a {_ROWS}CREATE STREAM c (id BIGINT, x DOUBLE) USING json OPTIONS (path '{{data}}');\n"
        f"{SINK}INSERT INTO o SELECT a.id FROM a JOIN c ON a.x < c.x ^WITHIN 1 MINUTE;",
        "c has no column of times: give it one, with a watermark",
    ),
    # real time
    Mistake("real time without a time", _sink("CREATE SINK o USING console TRIGGER REAL TIME ^5"), "how often?"),
    Mistake(
        "real time into files",
        _sink(
            "CREATE SINK o USING ^parquet OPTIONS (path '{free}', checkpointLocation '{free}s')\n"
            "TRIGGER REAL TIME '5 minutes'"
        ),
        "a parquet sink takes no rows one by one",
    ),
    Mistake(
        "real time from files",
        "CREATE STREAM a (id BIGINT) USING ^json OPTIONS (path '{data}');\n"
        "CREATE SINK o USING console TRIGGER REAL TIME '5 minutes';\nINSERT INTO o SELECT id FROM a;",
        "a json stream gives no rows one by one",
    ),
    Mistake(
        "an outer join in real time",
        f"{_TOPICS}CREATE SINK o USING console TRIGGER REAL TIME '5 minutes';\n"
        "INSERT INTO o SELECT a.offset FROM a ^LEFT JOIN b ON a.offset < b.offset WITHIN 1 MINUTE;",
        "LEFT joins wait for the watermark",
    ),
    Mistake(
        "a history in real time",
        f"{_TOPICS}CREATE SINK o USING console TRIGGER REAL TIME '5 minutes';\n"
        "INSERT INTO o SELECT a.offset FROM a ^HISTORY old JOIN b ON a.offset < b.offset WITHIN 1 MINUTE;",
        "the rows of a table come in slices",
    ),
    Mistake(
        "a history behind an alias",
        f"{STREAM}{SINK}INSERT INTO o SELECT x.value FROM r AS x ^HISTORY old;",
        "HISTORY stands right behind the name of a stream",
    ),
    Mistake("no query at all", f"{STREAM}{SINK}-- the end^\n", "the job has no INSERT INTO"),
    Mistake(
        "column that a stream does not have",
        "CREATE STREAM a (x INT, z INT) USING json OPTIONS (path '{data}');\n"
        f"{STREAM}{SINK}INSERT INTO o SELECT r.value FROM r JOIN a ON r.value < ^a.xx WITHIN 1 MINUTE;",
        "`a`.`xx` cannot be resolved: a has no column xx",
    ),
    Mistake(
        "column in a subquery, of a stream around it",
        f"{STREAM}CREATE STREAM q USING rate;\n{SINK}INSERT INTO o SELECT r.value FROM r\n"
        "JOIN q ON q.value < r.value AND EXISTS (SELECT 1 FROM q AS t WHERE t.value = ^r.valu);",
        "did you mean value?",
    ),
]

#: Names that only look like columns of a stream, or are hidden by something else: Spark decides.
NOT_A_MISTAKE = (
    "SELECT window(timestamp, '60 seconds') AS w, COUNT(*) AS n FROM r GROUP BY window(r.timestamp, '1 minute')",
    "SELECT COUNT(*) AS n FROM r GROUP BY 'x', window(timestamp, '1 minute')",
    "WITH r AS (SELECT value AS v FROM q) SELECT r.v FROM r",
    "SELECT r.v FROM (SELECT value AS v FROM r) AS r",
    "SELECT r.v FROM r AS r(t, v)",
    "SELECT R.VALUE, `r`.`value`, r.* FROM r",
    "SELECT r._metadata FROM r",
    "SELECT transform(array(struct(value AS y)), r -> r.y) FROM r",
    "SELECT v.nope FROM v",
    "SELECT t.nope, r.value FROM r LATERAL VIEW explode(array(1)) t AS nope",
    "SELECT q.value.x FROM q, (SELECT struct(1 AS x) AS q) AS w",
    "FROM r |> SELECT r.nope",
    "SELECT DATEADD(MINUTE, 1, timestamp), EXTRACT(DAY FROM timestamp), current_date, current_user FROM r",
    "SELECT c.id FROM r JOIN (SELECT id, count(*) FROM range(3) GROUP BY ALL ORDER BY ALL) AS c ON c.id = r.value",
    "SELECT c.b FROM r JOIN (SELECT id AS a, a + 1 AS b FROM range(3) ORDER BY b) AS c ON c.a = r.value",
    "SELECT struct(value AS a) AS st, st.a FROM r",
    "SELECT window.start, count(*) FROM r GROUP BY window(timeColumn => timestamp, windowDuration => '1 minute')",
    "SELECT value FROM r JOIN q USING (value)",
    "SELECT value FROM r LEFT SEMI JOIN q ON r.value = q.value AND r.timestamp = q.timestamp",
    "SELECT pos, col FROM r LATERAL VIEW posexplode(array(1))",
    "SELECT t.value, k FROM r AS t JOIN LATERAL (SELECT t.value AS k) ON TRUE",
    "SELECT v FROM (SELECT value AS v FROM r) WHERE EXISTS (SELECT 1 FROM q WHERE q.value = v)",
    "SELECT aggregate(array(1), 0, (acc, x) -> acc + x + value), _metadata.file_path FROM r",
    "SELECT nope, value FROM r, elsewhere",
    "SELECT asof.value FROM r asof JOIN q ON asof.value = q.value",
    "SELECT asof.value FROM r AS asof JOIN q ON asof.value = q.value",
    "SELECT window(timestamp, '1 minute') AS w, COUNT(*) FROM r GROUP BY w",
    "SELECT w.start, COUNT(*) FROM (SELECT window(timestamp, '1 minute') AS w FROM r) GROUP BY w",
    "SELECT timestamp, COUNT(*) FROM r GROUP BY timestamp",
    "SELECT value, (SELECT MAX(id) FROM range(3) GROUP BY id % 1) FROM r",
    "SELECT value, COUNT(*) FROM elsewhere GROUP BY value",
    "SELECT value FROM r WHERE EXISTS (SELECT 1 FROM elsewhere WHERE elsewhere.id = r.value)",
)
