"""Creates files on a local disk without a process for each.

Hadoop sets the permissions of every file that it creates on a local disk. Without its native library, which PySpark
does not bring, it starts ``chmod`` for that: some milliseconds a file, and a micro-batch of one stage creates two files
and two more for each partition, each with a ``.crc`` file. Java has the system call, so we give Hadoop a file
system that uses it.
"""

from __future__ import annotations

import logging
from typing import Any

from .janino import compiled, instance

_log = logging.getLogger("trijoin_sql")

_CLASS = "TriJoinLocalFileSystem"

#: Compiled by Janino, as Spark's own queries are. All but the call stays with Hadoop; so does the sticky bit, for
#: which Java has no name.
_SOURCE = f"""
public class {_CLASS} extends org.apache.hadoop.fs.RawLocalFileSystem {{
  public void setPermission(
      org.apache.hadoop.fs.Path path, org.apache.hadoop.fs.permission.FsPermission permission)
      throws java.io.IOException {{
    if (permission.getStickyBit()) {{
      super.setPermission(path, permission);
      return;
    }}
    String text = permission.getUserAction().SYMBOL
      + permission.getGroupAction().SYMBOL
      + permission.getOtherAction().SYMBOL;
    java.nio.file.Files.setPosixFilePermissions(
      pathToFile(path).toPath(), java.nio.file.attribute.PosixFilePermissions.fromString(text));
  }}
}}
"""


def set_permissions_without_processes(context: Any) -> bool:
    """Make Hadoop set permissions of local files by a system call, in this JVM, from now on; return whether it does.

    It does not if the master is not local (other machines write the files then), if it has its native library, if the
    user has set another class for local files, on Windows, or if the JVM refuses a step.
    """
    if not str(context.master).startswith("local"):
        return False
    from py4j.protocol import Py4JError

    jvm, conf = context._jvm, context._jsc.hadoopConfiguration()
    try:
        hadoop = jvm.org.apache.hadoop
        local = hadoop.fs.FileSystem.getLocal(conf)
        inner = jvm.java.lang.Class.forName("org.apache.hadoop.fs.FilterFileSystem").getDeclaredField("fs")
        inner.setAccessible(True)
        now = inner.get(local)
        name = now.getClass().getName()
        if name == _CLASS:
            return True
        theirs = name != "org.apache.hadoop.fs.RawLocalFileSystem"
        if theirs or hadoop.util.NativeCodeLoader.isNativeCodeLoaded() or jvm.java.io.File.separator != "/":
            return False
        ours = instance(context._gateway, compiled(jvm, _CLASS, _SOURCE, "org.apache.hadoop.fs.FilterFileSystem"))
        ours.initialize(now.getUri(), conf)
        ours.setWorkingDirectory(now.getWorkingDirectory())
        inner.set(local, ours)
    except (Py4JError, TypeError, AttributeError) as error:  # the latter two are py4j's for a missing class
        _log.info("Hadoop goes on starting chmod for each file on a local disk: %s", error)
        return False
    return True
