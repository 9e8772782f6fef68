"""The sources that a shard hears of: when each was last heard, its newest start, and when it falls silent.

A source is *silent* at t when no row of it has an `at` in [t − lease, t] (`specs/0-pipeline.md` §3).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.compiled import compiled

_NEVER = -(2**62)
_COLUMNS = ("heard", "read", "epoch", "silent", "skew")


@compiled
def _raise(levels: NDArray[np.int64], which: NDArray[np.int64], values: NDArray[np.int64]) -> None:
    """`np.maximum.at`, in a tenth of its time."""
    for index in range(len(which)):
        levels[which[index]] = max(levels[which[index]], values[index])


class Sources:
    """Sources by name and index. Times in microseconds."""

    def __init__(self, lease: int) -> None:
        self._lease = lease
        self.names: list[str] = []
        self._index: dict[str, int] = {}
        self.heard = np.zeros(0, np.int64)
        self.read = np.zeros(0, np.int64)
        self.epoch = np.zeros(0, np.int64)
        self.silent = np.zeros(0, np.bool_)
        self.skew = np.zeros(0, np.int64)

    def enlist(self, name: str) -> int:
        """The index of a source, which gets one if it has none."""
        if name not in self._index:
            self._index[name] = len(self.names)
            self.names.append(name)
            self.heard = np.append(self.heard, _NEVER)
            self.read = np.append(self.read, 0)
            self.epoch = np.append(self.epoch, 0)
            self.silent = np.append(self.silent, False)
            self.skew = np.append(self.skew, 0)
        return self._index[name]

    def count(self, rows: NDArray[np.void]) -> None:
        """Rows of sources have been read, though their time may not have come: `read` is the greatest sequence."""
        _raise(self.read, rows["source"], rows["sequence"])

    def hear(self, rows: NDArray[np.void]) -> None:
        """Rows of sources have been applied."""
        _raise(self.heard, rows["source"], rows["heard"])

    def next_silence(self, rows: NDArray[np.void], until: int) -> int | None:
        """The first moment up to `until` at which a source that was heard falls silent, given the rows to come."""
        live = ~self.silent & (self.heard > _NEVER)
        if not live.any() or int(self.heard[live].min()) + self._lease >= until:
            return None
        source = np.concatenate([np.flatnonzero(live), rows["source"], np.flatnonzero(live)])
        at = np.concatenate([self.heard[live], rows["heard"], np.full(int(live.sum()), until)])
        order = np.lexsort((at, source))
        source, at = source[order], at[order]
        gaps = (source[1:] == source[:-1]) & (at[1:] - at[:-1] > self._lease) & live[source[1:]]
        return int(at[:-1][gaps].min()) + self._lease + 1 if gaps.any() else None

    def fallen_silent(self, at: int) -> NDArray[np.int64]:
        """The sources that were heard, are not known to be silent, and are silent at `at`."""
        return np.flatnonzero(~self.silent & (self.heard > _NEVER) & (self.heard + self._lease < at))

    def state(self) -> tuple[dict[str, NDArray[Any]], Any]:
        """Everything as arrays and plain values; `load` takes it back."""
        arrays = {f"source.{name}": getattr(self, name) for name in _COLUMNS}
        return arrays, self.names

    def load(self, arrays: dict[str, NDArray[Any]], names: Any) -> None:
        """Become what `state` said."""
        self.names = names
        self._index = {name: index for index, name in enumerate(names)}
        for name in _COLUMNS:
            setattr(self, name, arrays[f"source.{name}"])
