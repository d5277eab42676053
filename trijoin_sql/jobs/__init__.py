"""SQL jobs: a file of statements that declare streams and sinks, and the queries between them.

The life of a job, in order: `job_text` (text and places), `parse_statements` (text to `statements`), `check` (mistakes
that show without Spark, by the tables in `formats` and the names in `setting_names`), `start_spark` (quiet), `prepare`
(streams, views and queries, nothing running yet; `locate` finds the place of what Spark refuses), `run`
(start and follow) with `sinks`, `progress` and `stopping`. The command line calls `run_command`.
"""
