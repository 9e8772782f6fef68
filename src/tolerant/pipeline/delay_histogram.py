"""How late rows are, so that a stream can wait as long as all but a few of them take (`docs/design/filters.md`
§2.7).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_FINEST = 1000.0  # microseconds: what is faster counts as this
_STEPS = 4  # buckets an octave
_BUCKETS = 120  # up to nine days
_ENOUGH = 1000  # rows until the delays seen say more than a guess
_MEMORY = 40_000  # rows after which what was seen counts half


class Delays:
    """A histogram of delays that forgets; microseconds."""

    def __init__(self, counts: NDArray[np.float64] | None = None) -> None:
        self.counts = np.zeros(_BUCKETS) if counts is None else counts.copy()

    def note(self, delays: NDArray[np.int64]) -> None:
        """Rows came so long after their event times."""
        bucket = np.ceil(_STEPS * np.log2(np.maximum(delays, _FINEST) / _FINEST)).astype(np.int64)
        self.counts += np.bincount(np.minimum(bucket, _BUCKETS - 1), minlength=_BUCKETS)
        if self.counts.sum() > _MEMORY:
            self.counts /= 2

    def percentile(self, share: float) -> int | None:
        """Within which time `share` percent of the recent rows came; None: too few have come to say.

        At most a fifth more than the least such time.
        """
        total = self.counts.sum()
        if total < _ENOUGH:
            return None
        bucket = int(np.searchsorted(np.cumsum(self.counts), total * share / 100))
        return int(np.ceil(_FINEST * 2 ** (min(bucket, _BUCKETS - 1) / _STEPS))) + 1
