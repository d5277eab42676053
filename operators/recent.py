"""What was set last, and no more: for what a process remembers of things that come without end."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(dict[K, V]):
    """A dictionary with a limit: it forgets the keys that were set longest ago.

    Parameters
    ----------
    most
        How many it remembers.

    Examples
    --------
    >>> known = Recent(2)
    >>> known["a"], known["b"], known["a"], known["c"] = 1, 2, 3, 4
    >>> known
    {'a': 3, 'c': 4}
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: K, value: V) -> None:
        self.pop(key, None)
        super().__setitem__(key, value)
        while len(self) > self.most:
            del self[next(iter(self))]
