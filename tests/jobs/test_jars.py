"""Jars that a job needs: who names them, and what wins."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from trijoin_sql.errors import JobError
from trijoin_sql.jobs.jars import NEEDED, jar_files, start_settings, with_packages
from trijoin_sql.jobs.job_text import Script
from trijoin_sql.jobs.parse_statements import parse_job
from trijoin_sql.jobs.statements import Job

KAFKA = "CREATE STREAM k USING Kafka OPTIONS (kafka.bootstrap.servers 'h:1', subscribe 'a');\n"
RATE = "CREATE STREAM k USING rate;\n"
DELTA = "CREATE SINK d USING delta OPTIONS (path 'out', checkpointLocation 'state');\n"
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"


def job(text: str) -> Job:
    return parse_job(Script("job.sql", text))


def test_the_connector_of_sparks_own_version_is_fetched_where_a_job_needs_it() -> None:
    assert with_packages({}, job(RATE)) == {}
    assert with_packages({}, job(KAFKA)) == {"spark.jars.packages": CONNECTOR}


def test_other_packages_stay_beside_it() -> None:
    user = {"spark.jars.packages": "org.example:codec:1.0"}
    assert with_packages(user, job(KAFKA))["spark.jars.packages"] == f"org.example:codec:1.0,{CONNECTOR}"
    # Kafka's own client is not the connector.
    user = {"spark.jars.packages": "org.apache.kafka:kafka-clients:4.1.0"}
    assert CONNECTOR in with_packages(user, job(KAFKA))["spark.jars.packages"]


@pytest.mark.parametrize(
    "user",
    [
        {"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"},
        {"spark.jars": "/jars/a.jar,/jars/spark-sql-kafka-0-10_2.13-4.2.0.jar"},
        {"spark.driver.extraClassPath": "/jars/spark-sql-kafka-0-10_2.13-4.2.0.jar"},
    ],
)
def test_a_connector_that_the_user_names_is_left_alone(user: dict[str, str]) -> None:
    assert with_packages(user, job(KAFKA)) == user


def test_a_job_file_names_jars_too() -> None:
    text = (
        "SET spark.jars.packages = org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0,\n  a.b:c-d_2.13:1.0 ;\n"
        "SET spark.jars='/some where/x.jar';\nSET spark.sql.shuffle.partitions = 2;\n"
    )
    assert start_settings(job(text)) == {
        "spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0,a.b:c-d_2.13:1.0",
        "spark.jars": "/some where/x.jar",
    }


def test_a_folder_stands_for_its_jars(tmp_path: Path) -> None:
    for name in ("b.jar", "a.jar", "notes.txt"):
        (tmp_path / name).write_text("")
    one = tmp_path / "b.jar"
    assert jar_files([tmp_path, one]) == [str(tmp_path / "a.jar"), str(one), str(one)]
    (tmp_path / "empty").mkdir()
    for missing in (tmp_path / "empty", tmp_path / "c.jar"):
        with pytest.raises(FileNotFoundError, match="neither a jar nor a folder with jars"):
            jar_files([missing])


def test_a_table_format_brings_its_package_and_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.2.7")
    known = NEEDED["delta"].versions["4.2"]
    settings = with_packages({"spark.sql.extensions": "mine"}, job(KAFKA + DELTA))
    kafka = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.7"
    assert settings["spark.jars.packages"] == f"{kafka},io.delta:delta-spark_4.2_2.13:{known}"
    assert settings["spark.sql.catalog.spark_catalog"].startswith("org.apache.spark.sql.delta.")
    assert settings["spark.sql.extensions"] == "mine"
    named = {"spark.jars": "/jars/delta-spark_4.2_2.13-9.jar"}
    assert "spark.jars.packages" not in with_packages(named, job(DELTA))


def test_a_spark_without_a_build_of_a_package_says_which_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.9.0")
    with pytest.raises(JobError, match=r"job\.sql:1:21: Delta Lake has no package for Spark 4\.9\.0") as refused:
        with_packages({}, job(DELTA))
    assert "install PySpark 4.2, for which it is io.delta:delta-spark_4.2_2.13:" in str(refused.value)
    user = {"spark.jars.packages": "io.delta:delta-spark_4.9_2.13:5.0.0"}
    assert with_packages(user, job(DELTA)) == {**NEEDED["delta"].settings, **user}
