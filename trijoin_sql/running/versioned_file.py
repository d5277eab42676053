"""A small file of ours in a checkpoint, written whole or not at all, on any file system."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import UnavailableError
from ..spark.messages import last_cause, without_class
from ..spark.versions import streaming_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def reached(path: str, reach: Callable[[], Any]) -> Any:
    """Return what a call of Java's returns that looks for a file system; where there is none, say so.

    Raises
    ------
    UnavailableError
        Spark cannot reach the path.
    """
    from py4j.protocol import Py4JJavaError

    try:
        return reach()
    except Py4JJavaError as error:
        why = without_class(last_cause(str(error))).rstrip(".")
        hint = "look at how the path begins, or give Spark the package that reaches it (spark.jars.packages)"
        raise UnavailableError(path, why, hint) from None


class VersionedFile:
    """A file that is replaced as a whole, through Spark's own file manager.

    Each version is a file of its own, and the highest number counts: where a file system cannot rename one file over
    another, Spark's manager keeps the old one and says nothing.

    Parameters
    ----------
    spark
        A classic session.
    folder
        The folder of its versions.
    name
        The name of a version, with ``{}`` for the number.
    """

    def __init__(self, spark: SparkSession, folder: str, name: str) -> None:
        self.name = name
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._folder = jvm.org.apache.hadoop.fs.Path(folder)
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        manager = getattr(jvm, streaming_class("checkpointing.CheckpointFileManager", spark.version))
        self._manager = reached(folder, lambda: manager.create(self._folder, conf))

    def _versions(self) -> list[int]:
        """Return the numbers of the files, in order."""
        if not self._manager.exists(self._folder):
            return []
        pattern = re.escape(self.name).replace(r"\{\}", r"(\d+)")
        names = [status.getPath().getName() for status in self._manager.list(self._folder)]
        return sorted(int(found[1]) for name in names if (found := re.fullmatch(pattern, name)))

    def _path(self, version: int) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._folder, self.name.format(version))

    def read(self) -> tuple[str, bytes] | None:
        """Return the name and the bytes of the newest version, None if there is none."""
        versions = self._versions()
        if not versions:
            return None
        stream = self._manager.open(self._path(versions[-1]))
        try:
            data = bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()
        return self.name.format(versions[-1]), data

    def write(self, data: bytes) -> None:
        """Write a version, and delete those before it."""
        self._manager.mkdirs(self._folder)
        versions = self._versions()
        stream = self._manager.createAtomic(self._path(versions[-1] + 1 if versions else 0), False)
        try:
            stream.write(data)
        except BaseException:
            stream.cancel()
            raise
        stream.close()
        for version in versions:
            self._manager.delete(self._path(version))
