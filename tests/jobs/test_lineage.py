"""``explain --format lineage``: valid for OpenLineage's own classes, with the names of the data behind streams."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from openlineage.client.generated.column_lineage_dataset import (
    ColumnLineageDatasetFacet,
    Fields,
    InputField,
    Transformation,
)
from typer.testing import CliRunner

from trijoin_sql.cli import app

JOB = """
CREATE STREAM views (id BIGINT, ad STRING, ts TIMESTAMP) USING parquet OPTIONS (path '/data/views')
  WATERMARK ts DELAY OF INTERVAL 10 SECONDS;
CREATE STREAM clicks USING kafka OPTIONS (kafka.bootstrap.servers 'a:9092,b:9092', subscribe 'clicks');
CREATE STREAM sales (id BIGINT, price DOUBLE) USING json OPTIONS (path 's3://shop/sales/eu/');
CREATE SINK found USING noop;
CREATE SINK dear USING noop;
CREATE TEMPORARY VIEW c (name, id) AS SELECT CAST(value AS STRING), offset FROM clicks WHERE topic = 'clicks';
INSERT INTO found SELECT v.ad, c.name FROM views AS v JOIN c ON c.id = v.id;
INSERT INTO dear SELECT price FROM sales WHERE id > 3;
"""


def facets(tmp_path: Path, *options: str) -> Any:
    (tmp_path / "job.sql").write_text(JOB, "utf-8")
    done = CliRunner().invoke(app, ["explain", str(tmp_path / "job.sql"), "--format", "lineage", *options])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_the_facets_are_openlineages(tmp_path: Path) -> None:
    """Its classes, generated of the schema, take them, lack nothing, and give the same back."""
    for one in facets(tmp_path):
        told = one["columnLineage"]
        fields = {}
        for name, column in told["fields"].items():
            assert list(column) == ["inputFields"]
            fields[name] = Fields([field_of(**of) for of in column["inputFields"]])
        made = ColumnLineageDatasetFacet(
            fields=fields,
            dataset=[field_of(**of) for of in told["dataset"]],
            producer=told["_producer"],
        )
        assert told["_schemaURL"] == made._get_schema()


def field_of(transformations: list[dict[str, Any]], **more: Any) -> InputField:
    assert {one["type"] for one in transformations} <= {"DIRECT", "INDIRECT"}
    return InputField(transformations=[Transformation(**one) for one in transformations], **more)


def test_data_has_the_names_that_it_has_elsewhere(tmp_path: Path) -> None:
    """A folder, a topic, an object store; through a view with names of its own, and no view in between."""
    found, dear = (one["columnLineage"] for one in facets(tmp_path))
    names = {
        name: [(of["namespace"], of["name"], of["field"]) for of in one["inputFields"]]
        for name, one in found["fields"].items()
    }
    assert names == {"ad": [("file", "/data/views", "ad")], "name": [("kafka://a:9092", "clicks", "value")]}
    decide = {(of["name"], of["field"], of["transformations"][0]["subtype"]) for of in found["dataset"]}
    assert decide == {("/data/views", "id", "JOIN"), ("clicks", "offset", "JOIN"), ("clicks", "topic", "FILTER")}
    (price,) = dear["fields"]["price"]["inputFields"]
    assert (price["namespace"], price["name"]) == ("s3://shop", "sales/eu")


def test_one_query_is_no_list(tmp_path: Path) -> None:
    assert list(facets(tmp_path, "--statement", "2")["columnLineage"]["fields"]) == ["price"]
