"""Writes micro-batches into PostgreSQL, each exactly once.

One transaction has the rows of a micro-batch and its number. If the job was killed after that transaction, and before
Spark's checkpoint had the batch, then Spark repeats the batch, with the same rows and the same number. The number is in
the database already, so nothing is written. If it was killed before the transaction, nothing of the batch is there.

The rows go through the driver, in one ``COPY``: several connections cannot share a transaction.
"""

from __future__ import annotations

import os
from datetime import datetime

import psycopg
from pyspark.sql import DataFrame

TABLES = """
CREATE TABLE IF NOT EXISTS near (ordered BIGINT, paid BIGINT, at TIMESTAMPTZ);
CREATE TABLE IF NOT EXISTS written (query TEXT PRIMARY KEY, batch BIGINT NOT NULL);
"""
#: Changes no row if the batch, or a later one, is there.
CLAIM = """
INSERT INTO written VALUES (%s, %s) ON CONFLICT (query) DO UPDATE SET batch = excluded.batch
WHERE written.batch < excluded.batch
"""


def write(frame: DataFrame, batch: int) -> None:
    """Write a micro-batch, unless the database has it.

    Parameters
    ----------
    frame
        Its rows.
    batch
        Its number, the same after a restart.
    """
    query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")  # that of the checkpoint
    # The block is a transaction: an exception, or a lost connection, undoes all of it.
    with psycopg.connect(os.environ["TRIJOIN_POSTGRES"]) as connection, connection.cursor() as cursor:
        cursor.execute(TABLES)
        cursor.execute(CLAIM, (query, batch))
        if cursor.rowcount == 0:
            return  # `trijoin-sql run` computes the rows all the same, so that the join keeps its state
        with cursor.copy(f"COPY near ({', '.join(frame.columns)}) FROM STDIN") as copy:
            for row in frame.toLocalIterator():
                # Spark's times are those of this process' zone, without saying so.
                copy.write_row([one.astimezone() if isinstance(one, datetime) else one for one in row])
