"""SQL jobs: a file of statements that declare streams and sinks, and the queries between them.

The order of a job's life: `script` (text and places), `parse` (text to `statements`), `check` (every mistake that
shows without Spark, by the tables in `formats` and the names in `settings`), `session` (Spark, quiet), `prepare`
(streams, views and queries in that session, nothing running yet; `locate` finds the place of what Spark refuses), `run`
(start and follow) with `sinks`, `progress`, `stopping` and `failures`. `command` is what the command line calls.
"""
