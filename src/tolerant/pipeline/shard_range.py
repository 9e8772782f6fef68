"""One shard of several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.pipeline.join_codes import Integers, codes, owner_of
from tolerant.sql.join_spreads import Ranges

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Part:
    """One shard of several, whose rows are those that are joined on its own values: hashed, or in `ranges`.

    >>> from tolerant.sql.join_spreads import Stretch
    >>> parts = [Part(shard, 4, Ranges("r", 4, Stretch(0.0, 100.0, 5.0))) for shard in range(4)]
    >>> [part.holds("r", np.array([-7.0, 25.0])).tolist() for part in parts]
    [[True, False], [False, True], [False, False], [False, False]]
    >>> [part.holds("s", np.array([31.0, 22.0])).tolist() for part in parts]
    [[False, True], [True, True], [False, False], [False, False]]
    """

    shard: int = 0
    shards: int = 1
    ranges: Ranges | None = None

    @property
    def number(self) -> int | None:
        """The shard; None where there is but one."""
        return self.shard if self.shards > 1 else None

    def owns(self, joined: Integers) -> NDArray[np.bool_]:
        """Which rows, by the numbers of what they are joined on, are this shard's."""
        return owner_of(joined, self.shards) == self.shard

    def holds(self, table: str, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Which rows of a table, by what they are joined on, this shard has."""
        if self.ranges is None:
            return self.owns(codes(values))
        if table == self.ranges.left:
            return self.counts(values)
        # For r in [begin, end) rounding keeps `s - end ≤ s - r ≤ s - begin`: whatever a band within reach joins with a
        # row of this shard is here, to the bit.
        begin, end = np.concatenate([[-np.inf], self._cuts(self.ranges), [np.inf]])[self.shard : self.shard + 2]
        compared, reach = values.astype(np.float64), self.ranges.stretch.reach
        return np.asarray((compared - begin >= -reach) & (compared - end <= reach))

    def counts(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of the rows that this shard has it counts: of those that several have, one does."""
        if self.ranges is None:
            return np.ones(len(values), np.bool_)
        home = np.searchsorted(self._cuts(self.ranges), values.astype(np.float64), side="right")
        return np.asarray(home == self.shard)

    @staticmethod
    def _cuts(ranges: Ranges) -> Floats:
        """Where one shard ends and the next begins, float64[shards - 1]."""
        return np.linspace(ranges.stretch.lowest, ranges.stretch.highest, ranges.shards + 1)[1:-1]


SINGLE_SHARD = Part()
