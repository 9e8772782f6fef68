"""Where each item stands: whether it exists, who sends it, when it was last heard, since when it is gone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_MEMORY = 100
"""For this many leases an item that is gone is remembered, so that a repeated row does not bring it back."""

_ROOM = 16
_COLUMNS = {"present": np.bool_, "owner": np.int64, "last_at": np.int64, "gone_at": np.int64}


class Roll:
    """Arrays over item indices; `gone_at` is 0 for an item that is not gone."""

    def __init__(self) -> None:
        self.present = np.zeros(_ROOM, np.bool_)
        self.owner = np.zeros(_ROOM, np.int64)
        self.last_at = np.zeros(_ROOM, np.int64)
        self.gone_at = np.zeros(_ROOM, np.int64)

    def make_room(self, size: int) -> None:
        """Have room for `size` items."""
        if size > len(self.present):
            more = max(2 * len(self.present), size) - len(self.present)
            for name, kind in _COLUMNS.items():
                setattr(self, name, np.append(getattr(self, name), np.zeros(more, kind)))

    def items(self) -> NDArray[np.int64]:
        """The items that exist."""
        return np.flatnonzero(self.present)

    def of_source(self, source: int) -> NDArray[np.int64]:
        """The items that a source sends."""
        return np.flatnonzero(self.present & (self.owner == source))

    def appear(self, items: NDArray[np.int64], owners: NDArray[np.int64]) -> None:
        """Items begin to exist."""
        self.present[items] = True
        self.owner[items] = owners
        self.gone_at[items] = 0

    def depart(self, items: NDArray[np.int64], at: int) -> None:
        """Items cease to exist."""
        self.present[items] = False
        self.gone_at[items] = at

    def discard(self, items: NDArray[np.int64], at: int) -> None:
        """Of these keys nothing usable came: let their indices go after a while, like those of items that are gone."""
        unused = items[(items >= 0) & ~self.present[items] & (self.gone_at[items] == 0)]
        self.gone_at[unused] = at

    def forgotten(self, waiting: NDArray[np.int64], now: int, lease: int) -> NDArray[np.int64]:
        """The items that have been gone for long and that no row waits for; they are not gone any more, but nothing."""
        old = np.flatnonzero((self.gone_at > 0) & (self.gone_at + _MEMORY * lease < now))
        old = np.setdiff1d(old, waiting)
        self.gone_at[old] = 0
        return old

    def state(self, size: int) -> dict[str, NDArray[Any]]:
        """The first `size` entries; `load` takes them back."""
        return {f"roll.{name}": getattr(self, name)[:size] for name in _COLUMNS}

    def load(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Become what `state` said."""
        for name, kind in _COLUMNS.items():
            stored = arrays[f"roll.{name}"]
            setattr(self, name, np.append(stored, np.zeros(max(_ROOM - len(stored), 0), kind)))
