"""State larger than its copy on disk, long runs of small micro-batches, and workers that come and go."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from trijoin_sql.operators.checks import Band, EdgeSpec
from trijoin_sql.operators.results.bundle import Part
from trijoin_sql.operators.results.outcomes import RESULT_BYTES, joined
from trijoin_sql.operators.schemes.base import Work
from trijoin_sql.operators.spec import JoinSpec, Options
from trijoin_sql.operators.state import slot_state as state_module
from trijoin_sql.operators.state import warm, warm_file
from trijoin_sql.operators.state.manifest import MANIFEST
from trijoin_sql.operators.state.slot_state import SlotState
from trijoin_sql.operators.state.worker import WORKER
from trijoin_sql.operators.store import store as store_module
from trijoin_sql.operators.store.store import Store

from .reference import batch_of, nested_loop, streams
from .slots import ONE, Chunks, OneStore, Task, all_rows, another_worker
from .test_state import SCHEMA, SPECS, inputs

SECOND = 1_000_000


@pytest.fixture(autouse=True)
def files_for_all(local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All segments have files, however small."""
    monkeypatch.setattr(warm, "SMALL_BYTES", 0)


def rows(times: Sequence[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"t": np.array(times, np.int64), "n": np.arange(len(times))})


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of any size have numbers of their own, as those of more than a few rows have."""
    monkeypatch.setattr(state_module, "INSIDE_BYTES", 0)


@pytest.mark.parametrize("inside", [0, state_module.INSIDE_BYTES])
@pytest.mark.parametrize("keep_for", [600 * SECOND, None], ids=["window", "for ever"])
def test_thousands_of_micro_batches_leave_tens_of_chunks(keep_for: int | None, inside: int, monkeypatch: Any) -> None:
    """A micro-batch writes a chunk; if they stayed, manifests and restarts would grow without end.

    `make soak` runs micro-batches by the ten thousand.
    """
    monkeypatch.setattr(state_module, "INSIDE_BYTES", inside)
    monkeypatch.setattr(warm.WarmCopy, "save", lambda *_: None)
    random = Random(1)
    chunks, most, written = Chunks(), 0, 0
    for number in range(2_000):
        state = SlotState(lambda: OneStore(keep_for), chunks, "q", ONE)
        times = [(number + random.randrange(-5, 5)) * SECOND for _ in range(3)]
        state.slot.stores["r"].append(rows(times))
        state.expire(max((number - 10) * SECOND, 1))
        state.save(number)
        if number % 50 == 0:
            most = max(most, len(chunks.now), len(state.slot.stores["r"].segments))
            written = max(written, len(chunks.now[MANIFEST]))
    assert most < 80
    assert written < (100_000 if inside else 16_000)
    if keep_for is not None:
        assert state.size()["state_rows"] < 3 * 1000
    else:
        assert state.size()["state_rows"] == 6_000


def test_the_manifest_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written every micro-batch: chunks go into it up to a bound, and find their way out by merging."""
    monkeypatch.setattr(state_module, "ALL_INSIDE_BYTES", 8 << 10)
    chunks, sizes = Chunks(), []
    for number in range(200):
        if number % 3 == 0:
            another_worker()
        state = SlotState(lambda: OneStore(None), chunks, "q", ONE)
        store = state.slot.stores["r"]
        store.append(rows(range(number * 150, number * 150 + 150)))
        assert all_rows(store)["t"].to_pylist() == list(range((number + 1) * 150))
        state.save(number)
        sizes.append(state.manifest.inside())
    assert 4 << 10 < max(sizes) <= 8 << 10
    assert min(sizes[8:]) < 4 << 10
    assert len(chunks.now) > 2


def test_another_machine_catches_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slot moves to another executor and back: there only what came in between is read from the state store."""
    chunks = Chunks()

    def batch(number: int) -> int:
        another_worker()
        state = SlotState(lambda: OneStore(None), chunks, "q", ONE)
        store = state.slot.stores["r"]
        store.append(rows(range(number * 1000, number * 1000 + 1000)))
        assert [segment.rows.num_rows for segment in store.segments] == [segment.count for segment in store.segments]
        assert all_rows(store)["t"].to_pylist() == list(range((number + 1) * 1000))
        fetched = state.fetched
        state.save(number)
        return fetched

    for number in range(20):
        assert batch(number) == 0
    whole = sum(len(data) for data in chunks.now.values())
    monkeypatch.setenv("TRIJOIN_LOCAL_DIR", str(tmp_path / "another"))
    assert batch(20) >= whole * 0.9
    for number in (21, 22, 23):
        assert batch(number) == 0
    monkeypatch.setenv("TRIJOIN_LOCAL_DIR", str(tmp_path))
    assert 0 < batch(24) < whole / 2
    assert batch(25) == 0


@pytest.mark.usefixtures("outside")
def test_a_lost_file_costs_its_rows_only(local: Path) -> None:
    """Damage to one segment: the others are used as they are."""
    chunks = Chunks()
    for number in range(12):
        state = SlotState(lambda: OneStore(None), chunks, "q", ONE)
        state.slot.stores["r"].append(rows(range(4 ** (6 - number // 2))))
        state.save(number)
    another_worker()
    wanted = all_rows(state.slot.stores["r"])
    least = min(state.slot.stores["r"].segments, key=lambda segment: segment.count)
    (smallest,) = local.glob(f"*/{least.file}")
    data = bytearray(smallest.read_bytes())
    data[-16:] = bytes(16)  # the length is right, but the end was never written
    smallest.unlink()
    smallest.write_bytes(data)
    state = SlotState(lambda: OneStore(None), chunks, "q", ONE)
    assert sum(segment.body is None for segment in state.slot.stores["r"].segments) == 1
    assert all_rows(state.slot.stores["r"]) == wanted
    assert 0 < state.fetched < sum(len(data) for data in chunks.now.values())


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize("lost", ["*", "*.seg"])
def test_long_texts_of_segments_that_are_not_in_memory_are_known(lost: str, local: Path) -> None:
    """By the mean 4 MiB of results are as many rows as have 100 MB: what tells is what the view says, or the chunks."""
    texts = pa.RecordBatch.from_pydict({"t": np.arange(5001), "a": ["x" * 100_000] + [""] * 5000})
    chunks = Chunks()
    state = SlotState(lambda: OneStore(None), chunks, "q", ONE)
    state.slot.stores["r"].append(texts)
    state.save(0)
    another_worker()
    for path in local.glob(f"*/{lost}"):
        path.unlink()
    store = SlotState(lambda: OneStore(None), chunks, "q", ONE).slot.stores["r"]
    assert [segment.body for segment in store.segments] == [None]
    assert store.longest >= 100_000
    assert lost == "*" or store.longest == 100_000
    ids = np.concatenate([np.zeros(300, np.int64), np.arange(1, 3000)])
    pieces = [result.parts[0].nbytes for result in joined({0: Part(store, ids)}, [["a", "t"]])]
    assert max(pieces) < 1.1 * RESULT_BYTES
    assert store.longest == 100_000, "once it was read it is known"


@pytest.mark.parametrize("scheme", ["symmetric", "matrix", "semi_symmetric", "non_materializing"])
def test_state_many_times_the_limit(scheme: str, local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files stay within the limit, rows in memory within theirs, and every result is found.

    A slot looks at all files twice a micro-batch, not once a segment that it brings back: there may be 20,000.
    """
    monkeypatch.setattr(store_module, "SEGMENT_BYTES", 500)
    monkeypatch.setattr(state_module, "VISITING_BYTES", 1000)
    monkeypatch.setattr(state_module, "BROUGHT_BYTES", 500)
    limit = 20_000
    made = SlotState.__init__

    def bounded(self: SlotState, *arguments: Any) -> None:
        made(self, *arguments, limit)

    monkeypatch.setattr(SlotState, "__init__", bounded)
    looks, look = Counter[str](), warm._bytes
    monkeypatch.setattr(warm, "_bytes", lambda: looks.update(("look",)) or look())
    data, batches = inputs(120, 12)
    task, found, fetched = Task(SPECS[scheme]), Counter[tuple[Any, ...]](), 0
    for number, batch in enumerate(batches):
        another_worker()
        looks.clear()
        found += task.batch(number, batch)
        assert looks.total() <= 2 * len(task.stages)
        files = [path.stat().st_size for path in local.glob("*/*.seg")]
        assert sum(files) <= limit
        assert sum(WORKER.visiting.values()) <= 1000 + max(WORKER.visiting.values(), default=0)
        fetched += sum(len(chunks.now) for chunks, _ in task.stages)
    assert found == nested_loop(SPECS[scheme], data)


def test_a_worker_looks_at_all_files_once_it_has_written_enough(local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots come and go between workers: not one look for each that came, nor none because each wrote little."""
    looks, look, limit = Counter[str](), warm._bytes, 40_000
    monkeypatch.setattr(warm, "_bytes", lambda: looks.update(("look",)) or look())
    monkeypatch.setattr(store_module, "SEGMENT_BYTES", 2000)
    chunks = Chunks()
    for number in range(120):
        WORKER.recent.clear()  # meanwhile the slot was on another worker
        state = SlotState(lambda: OneStore(None), chunks, "q", ONE, limit)
        if number % 2:
            state.slot.stores["r"].append(rows(range(20)))
        before = looks.total()
        state.save(number)
        assert number % 2 or looks.total() == before, "it wrote nothing"
        assert sum(path.stat().st_size for path in local.glob("*/*.seg")) <= limit * 1.1
    assert 10 < looks.total() <= 60
    assert len(state.slot.stores["r"]) == 1200


def test_an_eviction_makes_room_for_more_than_the_next_file(local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks at every file of the machine: not each time that one more is written."""
    listed, files, limit = Counter[str](), warm._files, 100_000
    monkeypatch.setattr(warm, "_files", lambda: listed.update(("files",)) or files())
    monkeypatch.setattr(WORKER, "unseen", math.inf)
    folder = local / "one"
    folder.mkdir(parents=True)
    copy = warm.WarmCopy("one", limit)
    for number in range(200):
        (folder / f"{number:03}.seg").write_bytes(bytes(1000))
        os.utime(folder / f"{number:03}.seg", (number, number))
        WORKER.unseen = math.inf
        copy._evict({})
        assert sum(path.stat().st_size for path in folder.glob("*.seg")) <= limit
    assert listed.total() < 20
    assert "199.seg" in {path.name for path in folder.iterdir()}, "the oldest go first"


def test_only_folders_that_have_changed_are_opened(local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots of queries that ended leave folders behind; with thousands of them a look took a tenth of a second."""
    opened, measure = Counter[str](), warm._segment_bytes
    monkeypatch.setattr(warm, "_segment_bytes", lambda path: opened.update((Path(path).name,)) or measure(path))
    for name, size in (("one", 10), ("two", 200)):
        (local / name).mkdir(parents=True)
        (local / name / "a.seg").write_bytes(bytes(size))
        (local / name / "b.view").write_bytes(bytes(1000))
    assert [warm._bytes(), warm._bytes()] == [210, 210]
    assert opened == {"one": 2, "two": 2}, "a change of this very moment could be missed"
    for name in ("one", "two"):
        os.utime(local / name, (time.time() - 60, time.time() - 60))
    assert [warm._bytes(), warm._bytes()] == [210, 210]
    assert opened == {"one": 3, "two": 3}
    (local / "two" / "c.seg").write_bytes(bytes(3000))
    assert warm._bytes() == 3210
    assert opened == {"one": 3, "two": 4}
    (local / "two" / "a.seg").unlink()
    (local / "one" / "a.seg").unlink()
    (local / "one" / "b.view").unlink()
    (local / "one").rmdir()
    assert warm._bytes() == 3000


@pytest.mark.parametrize(
    ("small", "hours", "stays"), [(0, 2, True), (0, 25, False), (1 << 14, 0.5, True), (1 << 14, 2, False)]
)
def test_copies_of_queries_that_are_gone_are_deleted(
    small: int, hours: float, stays: bool, local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a day; after an hour where they hold so little that reading it back costs nothing."""
    monkeypatch.setattr(warm, "SMALL_BYTES", small)
    chunks = Chunks()
    state = SlotState(lambda: OneStore(None), chunks, "q", ONE)
    state.slot.stores["r"].append(rows(range(20)))
    state.save(0)
    (copy,) = local.iterdir()
    os.utime(copy, (time.time() - 3600 * hours, time.time() - 3600 * hours))
    monkeypatch.setattr(WORKER, "swept", -math.inf)
    warm.sweep()
    assert copy.exists() == stays
    another_worker()
    state = SlotState(lambda: OneStore(None), chunks, "q", ONE)
    assert len(state.slot.stores["r"]) == 20


def test_another_users_folder_is_left_alone(
    local: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its name can be guessed. Rows must not be written where others read them, nor read where others write them."""
    monkeypatch.setattr(WORKER, "warned", False)
    kept, batches = inputs(40, 10)
    task = Task(SPECS["symmetric"])
    found = sum((task.batch(number, batch) for number, batch in enumerate(batches[:5])), Counter())
    assert [oct(local.stat().st_mode & 0o777), len(list(local.iterdir()))] == ["0o700", 1]
    theirs = {path: path.stat().st_mtime_ns for path in local.rglob("*")}
    monkeypatch.setattr(warm, "root", lambda: local)  # its name has the user's number in it
    monkeypatch.setattr(os, "getuid", lambda: local.stat().st_uid + 1)
    for number, batch in enumerate(batches[5:], 5):
        another_worker()
        found += task.batch(number, batch)
    assert found == nested_loop(SPECS["symmetric"], kept)
    assert {path: path.stat().st_mtime_ns for path in local.rglob("*")} == theirs
    assert caplog.text.count("is not ours") == 1


def test_a_link_in_the_folders_place_is_not_followed(
    local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is swept away there would be somebody's own folders."""
    home = tmp_path / "home"
    (home / "old").mkdir(parents=True)
    os.utime(home / "old", (0, 0))
    local.symlink_to(home)
    monkeypatch.setattr(WORKER, "swept", -math.inf)
    copy = warm.WarmCopy("one", 100)
    store = Store("r", [])
    store.append(rows(range(100)))
    copy.keep(store)
    copy.save("n", {"r": store})
    assert [path.name for path in home.iterdir()] == ["old"]
    assert warm._bytes() == 0


def test_without_a_copy_a_worker_holds_no_more_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is another user's, or the disk is full: segments come for a visit, and go."""
    monkeypatch.setattr(store_module, "SEGMENT_BYTES", 2000)
    monkeypatch.setattr(state_module, "VISITING_BYTES", 10_000)
    monkeypatch.setattr(state_module, "BROUGHT_BYTES", 2000)
    monkeypatch.setattr(warm, "_is_ours", lambda folder: False)
    chunks = Chunks()
    for number in range(60):
        state = SlotState(lambda: OneStore(None), chunks, "q", ONE)
        state.slot.stores["r"].append(rows(range(100)))
        state.save(number)
        chunks.commit()
    another_worker()
    store = SlotState(lambda: OneStore(None), chunks, "q", ONE).slot.stores["r"]
    assert sum(segment.rows.num_rows for segment in store.segments) == 6000
    assert sum(segment.size for segment in store.segments if segment.body is not None) <= 20_000


def test_a_folder_that_others_could_read_is_closed(local: Path) -> None:
    local.mkdir(0o755, parents=True)
    task = Task(SPECS["symmetric"])
    task.batch(0, inputs(40, 10)[1][1])
    assert local.stat().st_mode & 0o777 == 0o700


def test_a_file_that_goes_before_it_is_mapped_costs_the_file_alone(
    local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another attempt of the task cleans up, or the process has too many maps: the rows are at hand all the same."""
    kept, batches = inputs(60, 10)
    task = Task(SPECS["symmetric"])
    found = sum((task.batch(number, batch) for number, batch in enumerate(batches[:6])), Counter())

    def gone(path: Path) -> pa.Buffer:
        raise FileNotFoundError(path)

    monkeypatch.setattr(warm, "mapped", gone)
    for number, batch in enumerate(batches[6:], 6):
        another_worker()
        found += task.batch(number, batch)
    assert found == nested_loop(SPECS["symmetric"], kept)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="not Linux")
def test_mapped_files_are_not_open_files(local: Path) -> None:
    """A worker may have a thousand open files, and a state of 16 GiB with segments of any size has more segments."""
    local.mkdir(parents=True)
    (local / "file").write_bytes(b"abc" * 1000)
    before = len(list(Path("/proc/self/fd").iterdir()))
    maps = Path("/proc/self/maps")
    buffers = [warm_file.mapped(local / "file") for _ in range(50)]
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert maps.read_text().count(str(local / "file")) == 50
    views = [buffer.slice(1000, 100) for buffer in buffers[:7]]
    del buffers
    assert maps.read_text().count(str(local / "file")) == 7
    assert {view.to_pybytes() for view in views} == {(b"abc" * 1000)[1000:1100]}
    (local / "empty").touch()
    with pytest.raises(OSError, match="mapped"):
        warm_file.mapped(local / "empty")


def test_what_a_killed_worker_left_half_written_goes(local: Path) -> None:
    task = Task(SPECS["symmetric"])
    _, batches = inputs(120, 40)
    task.batch(0, batches[0] or batches[1])
    (copy, *_) = local.iterdir()
    halves = [copy / "1234.tmp", copy / "5678.seg.tmp", copy / "now.tmp"]
    for half in halves:
        half.write_bytes(b"half")
    for half in halves[:2]:
        os.utime(half, (time.time() - 3600, time.time() - 3600))
    for number, batch in enumerate(batches[1:30], 1):
        task.batch(number, batch)
    assert [half.exists() for half in halves] == [False, False, True]


@pytest.mark.usefixtures("outside")
def test_segments_out_of_reach_are_not_brought_back(local: Path) -> None:
    """Zones of keys: a probe of recent times leaves older segments where they are."""
    edge = EdgeSpec(0, 1, (Band("a", "a", 0, 0),))
    spec = JoinSpec("j", streams(2, ("a", "t"), {r: ((r, "route"),) for r in range(2)}), (edge,), "matrix", 1)
    spec = JoinSpec(**{**{name: getattr(spec, name) for name in spec.__slots__}, "options": Options(grid=(1, 1))})
    task, found = Task(spec), Counter[tuple[Any, ...]]()
    for number in range(10):
        another_worker()
        values = [{"id": 100 * number + at, "a": 100 * number + at, "t": "", "route": 0} for at in range(100)]
        found += task.batch(number, {rank: batch_of(values, SCHEMA) for rank in range(2)})
    assert len(found) == 1000
    another_worker()
    for path in local.glob("*/*.seg"):
        path.unlink()
    chunks, make = task.stages[0]
    state = SlotState(lambda: make(spec, 0), chunks, "stream r: id", ONE)
    probe = {0: [batch_of([{"id": 1, "a": 950, "t": "", "route": 0}], SCHEMA)]}
    assert sum(len(result) for result in state.slot.process(Work(dict(probe)))) == 1  # type: ignore[arg-type]
    first = state.fetched
    # A worker that never saw them knows their zones from the view, or it would read all of the state to learn them.
    assert 0 < first < sum(len(data) for data in chunks.now.values()) / 3
    assert sum(len(result) for result in state.slot.process(Work(dict(probe)))) == 1  # type: ignore[arg-type]
    assert state.fetched <= first


@pytest.mark.usefixtures("outside")
def test_the_timer_is_when_rows_expire() -> None:
    """A slot that gets no more rows is called once its oldest chunk is over, and then again for the next."""
    chunks, keep = Chunks(), 80 * SECOND
    for number, second in enumerate((10, 20, 90)):
        state = SlotState(lambda: OneStore(keep), chunks, "q", ONE)
        state.slot.stores["r"].append(rows([second * SECOND]))
        state.save(number)
    seen = []
    while state.manifest.timer is not None:
        seen.append(state.manifest.timer)
        state = SlotState(lambda: OneStore(keep), chunks, "q", ONE)
        before = len(chunks.now)
        state.expire(state.manifest.timer * 1000)
        state.save(9)
        assert len(chunks.now) < before
    assert [90_000 <= seen[0] <= 101_000, 170_000 <= seen[-1] <= 181_000] == [True, True]
    assert list(chunks.now) == [MANIFEST]
