"""What a worker does about its memory between tasks."""

import gc
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest
from trijoin_sql.operators import worker_memory as memory


def test_what_is_imported_is_kept_out_of_collection_once_and_again_after_further_imports(monkeypatch):
    # PySpark collects after every task; with all modules in it that was 44 ms of processor time a task.
    monkeypatch.setattr(memory, "_settled", 0)
    gc.unfreeze()
    try:
        memory.settle()
        first = gc.get_freeze_count()
        assert first > 10_000
        kept = [[] for _ in range(10_000)]
        memory.settle()
        assert gc.get_freeze_count() <= first, "nothing was imported: what tasks hold stays in collection"
        monkeypatch.setitem(sys.modules, "imported_later", ModuleType("imported_later"))
        memory.settle()
        assert gc.get_freeze_count() > first + len(kept) // 2, "some of what was there before may be gone"
    finally:
        gc.unfreeze()


@pytest.mark.skipif(memory._trim() is None, reason="this C library has no mallopt")
@pytest.mark.parametrize("bound", [None, 512 << 20])
def test_what_is_freed_within_a_micro_batch_serves_the_next_array(bound):
    # Page faults were a third of a probe's time: the C library gave every large array back as soon as it was free.
    code = f"""
import resource, numpy as np
from trijoin_sql.operators import worker_memory as memory
memory.hold({bound})
def work():
    for _ in range(20):
        several = [np.ones(1 << 20) for _ in range(4)]
        del several
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    faults = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    pages = 20 * 4 * (8 << 20) // 4096
    assert faults < pages / 10


@pytest.mark.skipif(memory._trim() is None, reason="this C library has no mallopt")
def test_each_task_has_its_own_bound_and_a_tight_one_leaves_small_objects_alone(monkeypatch):
    # With a threshold of 0 every object is a mapping of its own; a bound that was there before must count again.
    told = []
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda _: SimpleNamespace(mallopt=lambda *given: told.append(given)))
    memory.hold.cache_clear()
    for bound in (1, None, 1, 1):
        memory.hold(bound)
    memory.hold.cache_clear()
    tight, loose = [(-1, 128 << 10), (-3, 128 << 10)], [(-1, 256 << 20), (-3, 32 << 20)]
    assert told == [*tight, *loose, *tight]
