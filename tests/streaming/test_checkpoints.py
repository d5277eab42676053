"""Checkpoints that an earlier version wrote, in ``checkpoints/``: this version goes on from each of them.

``make fixtures`` writes them anew, which is right only when the state's format changes on purpose: old checkpoints are
what users have. A fixture holds no rows beside the state: the streams' files are made again from their seed.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
import zipfile
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession
from trijoin_sql.operators.state.manifest import FORMAT

import trijoin_sql

from ..crash.workload import CASES, make_views, write_streams
from .differential import Bag, bag, run_stream

FIXTURES = Path(__file__).parent / "checkpoints"
WRITE = os.environ.get("TRIJOIN_FIXTURES") == "write"
NAMES = ("symmetric", "semi_symmetric window", "matrix window", "tree", "pair window")

SEED, OLD, NEW, ROWS = 16, range(3), range(3, 5), 40
#: Stand for folders that Spark writes down: those of the streams' files, of the checkpoint.
HOME, CHECKPOINT = b"{HOME}", b"{CHECKPOINT}"
TEXTS = ("sources", "_metadata")


def archive(name: str) -> Path:
    return FIXTURES / f"{name.replace(' ', '_')}.tar.gz"


def batch_answer(spark: SparkSession, home: Path, name: str) -> Bag:
    make_views(spark, home, CASES[name], streaming=False)
    return bag(spark.sql(CASES[name].sql).collect())


def streamed(spark: SparkSession, home: Path, name: str, checkpoint: Path) -> Bag:
    make_views(spark, home, CASES[name], streaming=True)
    return run_stream(trijoin_sql.TriJoinSession.create(spark).sql(CASES[name].sql), checkpoint)


def write(name: str, checkpoint: Path, home: Path) -> None:
    """Archive a checkpoint without what belongs to the machine: its paths, checksums of files."""
    with tarfile.open(archive(name), "w:gz", compresslevel=9) as made:
        for path in sorted(checkpoint.rglob("*")):
            if not path.is_file() or path.suffix == ".crc":
                continue
            data = without_options(path) if path.suffix == ".zip" else path.read_bytes()
            if not {*path.parts}.isdisjoint(TEXTS):
                data = data.replace(str(home).encode(), HOME).replace(str(checkpoint).encode(), CHECKPOINT)
            entry = tarfile.TarInfo(str(path.relative_to(checkpoint)))
            entry.size = len(data)
            made.addfile(entry, io.BytesIO(data))


def without_options(path: Path) -> bytes:
    """Return RocksDB's snapshot without the options it was opened with: they name its folder, and nobody reads them."""
    found = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.infolist():
            if not member.filename.startswith("OPTIONS"):
                new.writestr(member.filename, old.read(member))
    return found.getvalue()


def unpack(name: str, checkpoint: Path, home: Path) -> None:
    with tarfile.open(archive(name)) as saved:
        saved.extractall(checkpoint, filter="data")
    for path in checkpoint.rglob("*"):
        if path.is_file() and not {*path.parts}.isdisjoint(TEXTS):
            data = path.read_bytes().replace(HOME, str(home).encode())
            path.write_bytes(data.replace(CHECKPOINT, str(checkpoint).encode()))


@pytest.mark.parametrize("name", NAMES)
def test_trap_21_goes_on_from_an_old_checkpoint(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Old rows, kept as this or an earlier version kept them, join new ones; the results are Spark batch's.

    So they do in a session with other partitions: cells of a grid stay as they are.

    Spark 4.3 wrote these checkpoints; an older one refuses them.
    """
    home = tmp_path / "in"
    write_streams(home, SEED, OLD, ROWS)
    before = batch_answer(spark, home, name)
    if WRITE:
        assert streamed(spark, home, name, tmp_path / "made") == before
        write(name, tmp_path / "made", home)
    unpack(name, tmp_path / "checkpoint", home)
    write_streams(home, SEED, NEW, ROWS)
    spark = spark.newSession()
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    if spark.version < "4.3" and not WRITE:
        with pytest.raises(Exception, match=r"Spark 4.3 wrote its state, and this is Spark 4.\d"):
            streamed(spark, home, name, tmp_path / "checkpoint")
        return
    found = streamed(spark, home, name, tmp_path / "checkpoint")
    alone = batch_answer_of_new_rows(spark, tmp_path / "new", name)
    assert before + found == batch_answer(spark, home, name)
    assert found - alone, "no old row joins a new one: the fixture shows nothing"


@pytest.mark.skipif(pyspark.__version__ < "4.1", reason="Spark 4.0 cannot read state that 4.3 wrote")
def test_a_newer_spark_writes_down_that_it_went_on_and_an_older_one_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark 4.1 reads the state of 4.3 without an error, and finds a part of the rows."""
    home, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    write_streams(home, SEED, OLD, ROWS)
    unpack("tree", checkpoint, home)
    (file,) = (checkpoint / "trijoin").glob("joins-*.json")
    body = json.loads(file.read_text())
    file.write_text(json.dumps(body | {"spark": "4.1"}))
    write_streams(home, SEED, range(3, 4), ROWS)
    streamed(spark, home, "tree", checkpoint)
    (file,) = (checkpoint / "trijoin").glob("joins-*.json")
    body = json.loads(file.read_text())
    assert body["spark"] == ".".join(spark.version.split(".")[:2])
    file.write_text(json.dumps(body | {"spark": "4.99"}))
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    write_streams(home, SEED, range(4, 5), ROWS)
    with pytest.raises(Exception, match=r"Spark 4.99 wrote its state, and this is Spark 4.\d, which would misread it"):
        streamed(spark, home, "tree", checkpoint)


@pytest.mark.parametrize("said", [FORMAT - 1, FORMAT + 1, "cut short"])
def test_what_cannot_be_read_is_refused_before_anything_is(
    spark: SparkSession, tmp_path: Path, said: int | str
) -> None:
    """Earlier formats have their manifests elsewhere: what is not found there would look like no state at all."""
    home, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    write_streams(home, SEED, OLD, ROWS)
    unpack("tree", checkpoint, home)
    (file,) = (checkpoint / "trijoin").glob("joins-*.json")
    text = file.read_text()
    body = text[:100] if isinstance(said, str) else json.dumps({**json.loads(text), "version": said})
    file.write_text(body)
    write_streams(home, SEED, NEW, ROWS)
    before = sorted(path.name for path in (checkpoint / "offsets").iterdir())
    words = (
        "its file .* cannot be read" if isinstance(said, str) else f"has format {said}, and .* reads format {FORMAT}"
    )
    with pytest.raises(Exception, match=words) as caught:
        streamed(spark, home, "tree", checkpoint)
    condition = "TRIJOIN_CHECKPOINT_DAMAGED" if isinstance(said, str) else "TRIJOIN_CHECKPOINT_VERSION"
    assert condition in str(caught.value)
    assert sorted(path.name for path in (checkpoint / "offsets").iterdir()) == before


def batch_answer_of_new_rows(spark: SparkSession, home: Path, name: str) -> Bag:
    write_streams(home, SEED, NEW, ROWS)
    return batch_answer(spark, home, name)


def test_fixtures_are_small_and_tell_nothing_of_the_machine() -> None:
    """Tens of kilobytes each, and no path of the machine that wrote them."""
    assert {path.name for path in FIXTURES.iterdir()} == {archive(name).name for name in NAMES}
    for name in NAMES:
        assert archive(name).stat().st_size < 100_000
        with tarfile.open(archive(name)) as saved:
            for entry in saved.getmembers():
                file = saved.extractfile(entry)
                assert file is not None
                texts = [file.read()]
                if entry.name.endswith(".zip"):
                    with zipfile.ZipFile(io.BytesIO(texts[0])) as snapshot:
                        texts = [snapshot.read(member) for member in snapshot.namelist()]
                for text in texts:
                    assert not any(folder in text for folder in (b"/tmp/", b"/home/", b"/root/", b"/work")), entry.name
