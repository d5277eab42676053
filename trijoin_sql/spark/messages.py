"""What Spark, its JVM and its Python workers say went wrong, in one sentence."""

from __future__ import annotations

import re

from ..errors import cause_of

#: Begins what a query says that has told by itself why it failed (`running.failures`).
FAILED = "The query failed: "

#: Conditions of Spark that only say that something below failed.
_WRAPPERS = (
    "STREAM_FAILED",
    "FOREACH_BATCH_USER_FUNCTION_ERROR",
    "TASK_WRITE_FAILED",
    "FAILED_EXECUTE_UDF",
    "PYTHON_EXCEPTION",
)


def sentence(error: Exception) -> str:
    r"""Return the readable sentence in an error of Spark, followed by the condition's name.

    Of a JVM exception that PySpark has no class for, the last cause.

    Examples
    --------
    >>> sentence(Exception("[NO_SUCH.COLUMN] There is no\ncolumn x. SQLSTATE: 42703;\n'Project ['x]"))
    'There is no column x [NO_SUCH.COLUMN]'
    """
    from py4j.protocol import Py4JError

    text = str(error)
    if isinstance(error, Py4JError):
        return without_class(last_cause(text))
    condition, plain = _parts(text.partition("\n\nJVM stacktrace")[0].partition("\n\n== SQL ==")[0].partition(";\n")[0])
    return f"{plain} [{condition}]" if condition else plain


def first_sentence(error: Exception) -> str:
    """Return the first line of Spark's message without its condition, its SQLSTATE and the plan below it."""
    return _parts(str(error).partition("\n")[0])[1].rstrip(" ;.")


def last_cause(text: str) -> str:
    r"""Return the most useful line of a message about a JVM exception: that of its last cause, with its class.

    Examples
    --------
    >>> last_cause("An error occurred.\n: a.b.Outer: it failed\n\tat x\nCaused by: java.lang.Inner: no file\n\tat y")
    'java.lang.Inner: no file'
    """
    lines = [text.partition("\n: ")[2].partition("\n")[0], *re.findall(r"^Caused by: (.*)", text, re.MULTILINE)]
    return next(filter(None, reversed(lines)), text.partition("\n")[0]).strip()


def without_class(cause: str) -> str:
    """Return a line about a JVM exception without the name of its class."""
    return re.sub(r"^(?:[\w$]+\.)+[\w$]+: ", "", cause)


def reason(error: object) -> str:
    """Return why a query failed: our condition, the Python exception below all wrappers, or Spark's own sentence."""
    text = str(error)
    if text.startswith(FAILED):
        return text.removeprefix(FAILED).partition("\n")[0]
    if (why := cause_of(text)) is not None:
        return why
    ours = re.search(r"\[TRIJOIN_\w+\] .*?(?=\s*SQLSTATE: |$)", text, re.MULTILINE)
    if ours:
        return ours[0].strip()
    spark = [found for found in re.finditer(r"\[([A-Z][A-Z_0-9.]+)\] (?=([^\n]+))", text) if found[1] not in _WRAPPERS]
    python = _python_exception(text)
    passed = ("pyspark.errors.", "Py4JJavaError")  # through Python
    of_spark = spark and python is not None and python.startswith(passed)
    if python is not None and not of_spark and not (spark and spark[0].start() < text.find("Traceback")):
        return python
    if spark:
        causes = [f"{_parts(one[2])[1]} [{one[1]}]" for one in spark]
        below = next((one for one in causes if one != causes[0]), None)
        return f"{causes[0]}: {below}" if below and spark[0][1].startswith("FAILED_READ_FILE") else causes[0]
    told = text.partition("terminated with exception: ")[2].partition("\n")[0]
    return _parts(told)[1] if told else text.partition("\n")[0].rstrip(".")


def _python_exception(text: str) -> str | None:
    """Return the last line of the first Python traceback: the exception's name and message."""
    lines = text.partition("Traceback (most recent call last):")[2].splitlines()
    found = None
    for line in lines:
        if re.match(r"\s*(at |Driver stacktrace|\.\.\. \d+ more)", line):
            break
        if re.match(r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Warning|Exit|Iteration)\b(?::|$)", line):
            found = line.strip()
    return None if found is None else found.removeprefix("py4j.protocol.")


def _parts(text: str) -> tuple[str | None, str]:
    """Return the condition of a message, and the message in one line without it and its SQLSTATE."""
    text = re.sub(r"\s*SQLSTATE: \w{5}.*", "", text, flags=re.DOTALL).strip()
    found = re.match(r"\[([\w.]+)\] ", text)
    return (found[1] if found else None), " ".join(text[found.end() if found else 0 :].split()).rstrip(".")
