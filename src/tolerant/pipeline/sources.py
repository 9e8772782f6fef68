"""The sources that a shard hears of: when each was last heard, its newest start, and when it falls silent.

A source is *silent* at t when no row of it has an `at` in [t − lease, t] (`docs/design/pipeline.md` §3). It has
*lived* up
to the greatest `through` of its rows that have been read, of the start that its items are known by: after that it may
have died, which shows only when its lease is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.compiled import compiled
from tolerant.kernels.snapshots import Coding, Fields, Restorable, State
from tolerant.kernels.versions import COUNTER_BITS

_NEVER = -(2**62)
_STARTS: Coding = (
    lambda coming: [[*start, at] for start, at in coming.items()],
    lambda rows: {(source, epoch): at for source, epoch, at in rows},
)


@compiled
def _raise(levels: NDArray[np.int64], which: NDArray[np.int64], values: NDArray[np.int64]) -> None:
    """`np.maximum.at`, in a tenth of its time."""
    for index in range(len(which)):
        levels[which[index]] = max(levels[which[index]], values[index])


class Sources(Restorable):
    """Sources by name and index. Times in microseconds."""

    FIELDS = Fields("names", "heard", "read", "epoch", "silent", "skew", "lived", _coming=_STARTS)

    def __init__(self, lease: int) -> None:
        self._lease = lease
        self.names: list[str] = []
        self._index: dict[str, int] = {}
        self.heard = np.zeros(0, np.int64)
        self.read = np.zeros(0, np.int64)
        self.epoch = np.zeros(0, np.int64)
        self.silent = np.zeros(0, np.bool_)
        self.skew = np.zeros(0, np.int64)
        self.lived = np.zeros(0, np.int64)
        self._coming: dict[tuple[int, int], int] = {}  # `lived` of starts that have not been reached, by source, epoch

    def __len__(self) -> int:
        return len(self.names)

    def find(self, names: Sequence[str]) -> NDArray[np.int64]:
        """The indices of sources, −1 for one that has none."""
        return np.fromiter(map(self._index.get, names, repeat(-1)), np.int64, len(names))

    def enlist(self, names: Sequence[str]) -> NDArray[np.int64]:
        """The indices of sources, which get one if they have none."""
        new = [name for name in dict.fromkeys(names) if name not in self._index]
        if new:
            self._index.update(zip(new, range(len(self.names), len(self.names) + len(new)), strict=True))
            self.names += new
            self.heard = np.append(self.heard, np.full(len(new), _NEVER))
            self.lived = np.append(self.lived, np.full(len(new), _NEVER))
            self.silent = np.append(self.silent, np.zeros(len(new), np.bool_))
            for name in ("read", "epoch", "skew"):
                setattr(self, name, np.append(getattr(self, name), np.zeros(len(new), np.int64)))
        return self.find(names)

    def count(self, rows: NDArray[np.void]) -> None:
        """Rows of sources have been read, though their time may not have come: `read` is the greatest sequence."""
        source, sequence = rows["source"], rows["sequence"]
        _raise(self.read, source, sequence)
        ahead = (sequence >> COUNTER_BITS) - self.epoch[source]
        current = ahead == 0
        _raise(self.lived, source[current], rows["through"][current])
        for row in rows[ahead > 0]:
            start, through = (int(row["source"]), int(row["sequence"]) >> COUNTER_BITS), int(row["through"])
            self._coming[start] = max(self._coming.get(start, through), through)

    def restart(self, source: int, epoch: int) -> None:
        """A source has started again: what it said before tells nothing about how long it has lived since."""
        self.epoch[source] = epoch
        self.lived[source] = self._coming.get((source, epoch), _NEVER)
        self._coming = {start: at for start, at in self._coming.items() if start[0] != source or start[1] > epoch}

    def hear(self, rows: NDArray[np.void]) -> None:
        """Rows of sources have been applied."""
        _raise(self.heard, rows["source"], rows["heard"])

    def heard_of(self) -> NDArray[np.bool_]:
        """Which sources were heard and are not known to be silent."""
        return ~self.silent & (self.heard > _NEVER)

    def next_silence(self, rows: NDArray[np.void], until: int) -> int | None:
        """The first moment up to `until` at which a source that was heard falls silent, given the rows to come."""
        live = self.heard_of()
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
        return np.flatnonzero(self.heard_of() & (self.heard + self._lease < at))

    def load(self, state: State) -> None:
        """Restore what `state` returned, bit for bit."""
        super().load(state)
        self._index = {name: index for index, name in enumerate(self.names)}
