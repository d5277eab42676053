"""What a worker does about its memory between tasks."""

import gc
import sys
from types import ModuleType

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
