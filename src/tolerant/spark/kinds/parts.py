"""One shard of several."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tolerant.spark.kinds.codes import Integers, owner_of


@dataclass(frozen=True)
class Part:
    """One shard of several, whose rows are those that are joined on its own values."""

    shard: int = 0
    shards: int = 1

    @property
    def number(self) -> int | None:
        """The shard; None where there is but one."""
        return self.shard if self.shards > 1 else None

    def owns(self, joined: Integers) -> NDArray[np.bool_]:
        """Which rows, by the numbers of what they are joined on, are this shard's."""
        return owner_of(joined, self.shards) == self.shard


ALONE = Part()
