"""Which rows of a store are settled: a bit a row, or several, beside immutable segments.

An outer join has to know which rows have met a partner; of several such joins, in which. A row's id never changes, so
its bits are found by it. They come in pages; a page is read when it is needed, and written when one of its bits has
changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import numpy as np
import numpy.typing as npt

from ..kernels.order_keys import Int64s

#: The number of bits of a page, as a power of two: 8 KiB when they are packed.
PAGE_BITS = 16

_PAGE = 1 << PAGE_BITS

#: So many pages are looked through one after the other.
_NEARBY = 8

#: What a page takes where it is stored.
PAGE_BYTES = _PAGE // 8


class Settled:
    """A set of row ids, or several.

    Parameters
    ----------
    width
        How many sets there are.
    """

    def __init__(self, width: int = 1) -> None:
        self.width = width
        #: Returns the bytes of a page that is stored, None if there is none.
        self.read: Callable[[int], bytes | None] = lambda _: None
        self.pages: dict[int, npt.NDArray[np.bool_]] = {}
        #: Pages with bits that were set since `changes` was last asked.
        self.changed: set[int] = set()

    def add(self, ids: Int64s, mark: int = 0) -> None:
        """Settle rows, shape (k,), in one of the sets."""
        for page, at, _ in self._by_page(ids * self.width + mark):
            self.pages[page][at] = True
            self.changed.add(page)

    def has(self, ids: Int64s, mark: int = 0) -> npt.NDArray[np.bool_]:
        """Return which rows are settled in one of the sets, shape (k,)."""
        found = np.zeros(len(ids), np.bool_)
        for page, at, some in self._by_page(ids * self.width + mark):
            found[some] = self.pages[page][at]
        return found

    def pages_of(self, start: int, stop: int) -> range:
        """Return the pages with the bits of some ids."""
        return range(start * self.width >> PAGE_BITS, (stop * self.width - 1 >> PAGE_BITS) + 1)

    def changes(self) -> Iterator[tuple[int, bytes]]:
        """Yield the pages that have changed, as bytes."""
        for page in sorted(self.changed):
            yield page, np.packbits(self.pages[page]).tobytes()
        self.changed.clear()

    def keep(self, pages: Collection[int]) -> None:
        """Forget all pages but these."""
        self.pages = {page: bits for page, bits in self.pages.items() if page in pages}
        self.changed.intersection_update(pages)

    def _by_page(self, ids: Int64s) -> Iterator[tuple[int, Int64s, Int64s | slice]]:
        """Yield each page of some ids, their places in it, and which of the ids they are; it is in memory then."""
        if not len(ids):
            return
        of = ids >> PAGE_BITS
        if of[0] == of[-1] and (of == of[0]).all():
            yield self._loaded(int(of[0])), ids & (_PAGE - 1), slice(None)
            return
        first, last = int(of.min()), int(of.max())
        # Ids are close together, but for those of rows far ahead: to look for each page is faster than to sort.
        for page in range(first, last + 1) if last - first < _NEARBY else np.unique(of):
            some = np.flatnonzero(of == page)
            if len(some):
                yield self._loaded(int(page)), ids[some] & (_PAGE - 1), some

    def _loaded(self, page: int) -> int:
        if page not in self.pages:
            stored = self.read(page)
            if stored is None:
                self.pages[page] = np.zeros(_PAGE, np.bool_)
            else:
                bits = np.frombuffer(stored, np.uint8)
                self.pages[page] = np.unpackbits(bits, count=_PAGE).astype(np.bool_)
        return page
