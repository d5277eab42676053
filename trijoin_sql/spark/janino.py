"""Classes of Java that Spark does not have, compiled in the driver's JVM by Janino, as Spark's own queries are."""

from __future__ import annotations

from functools import lru_cache
from typing import Any


@lru_cache(maxsize=8)
def compiled(jvm: Any, name: str, source: str, beside: str) -> Any:
    """Return the constructor of a class.

    Parameters
    ----------
    jvm
        PySpark's view of the driver's JVM.
    name, source
        The class, without a package, and its text. It has one public constructor.
    beside
        A class whose loader finds all that the text names.

    Raises
    ------
    Py4JError
        The JVM refuses it.
    """
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Class.forName(beside).getClassLoader())
    compiler.cook(source)
    return compiler.getClassLoader().loadClass(name).getConstructors()[0]


def instance(gateway: Any, constructor: Any, *arguments: Any) -> Any:
    """Return a new object of a class."""
    given = gateway.new_array(gateway.jvm.java.lang.Object, len(arguments))
    for number, argument in enumerate(arguments):
        given[number] = argument
    return constructor.newInstance(given)
