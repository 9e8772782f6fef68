"""Records for each item whether it exists, its owner, the time of its last row, and when it was removed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.snapshots import Fields, Restorable

_MEMORY = 100
"""Leases for which a removed item is remembered, so that a repeated row does not add it again."""

_ROOM = 16
_COLUMNS = {"present": np.bool_, "owner": np.int64, "last_at": np.int64, "gone_at": np.int64}


class ItemRegistry(Restorable):
    """Arrays over item indices; `gone_at` is 0 for an item that has not been removed."""

    FIELDS = Fields(*_COLUMNS)

    def __init__(self) -> None:
        self.present = np.zeros(_ROOM, np.bool_)
        self.owner = np.zeros(_ROOM, np.int64)
        self.last_at = np.zeros(_ROOM, np.int64)
        self.gone_at = np.zeros(_ROOM, np.int64)

    def make_room(self, size: int) -> None:
        """Grows the arrays to at least `size` items."""
        if size > len(self.present):
            more = max(2 * len(self.present), size) - len(self.present)
            for name, kind in _COLUMNS.items():
                setattr(self, name, np.append(getattr(self, name), np.zeros(more, kind)))

    def items(self) -> NDArray[np.int64]:
        """The items that exist."""
        return np.flatnonzero(self.present)

    def of_source(self, source: int) -> NDArray[np.int64]:
        """The items that a source owns."""
        return np.flatnonzero(self.present & (self.owner == source))

    def appear(self, items: NDArray[np.int64], owners: NDArray[np.int64]) -> None:
        """Adds items with their owners."""
        self.present[items] = True
        self.owner[items] = owners
        self.gone_at[items] = 0

    def depart(self, items: NDArray[np.int64], at: int) -> None:
        """Removes items at `at`."""
        self.present[items] = False
        self.gone_at[items] = at

    def discard(self, items: NDArray[np.int64], at: int) -> None:
        """Marks keys without a usable row like removed items, so that `forgotten` releases their indices later."""
        unused = items[(items >= 0) & ~self.present[items] & (self.gone_at[items] == 0)]
        self.gone_at[unused] = at

    def forgotten(self, waiting: NDArray[np.int64], now: int, lease: int) -> NDArray[np.int64]:
        """Returns the items removed long ago that no waiting row refers to, and clears their removal times."""
        old = np.flatnonzero((self.gone_at > 0) & (self.gone_at + _MEMORY * lease < now))
        old = np.setdiff1d(old, waiting)
        self.gone_at[old] = 0
        return old
