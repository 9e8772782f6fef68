"""Learns how strongly to prefer tight aggregators, from how many plans needed repair (`docs/design/planning.md`
§2.10).
"""

from __future__ import annotations

from tolerant.kernels.snapshots import Fields, Restorable
from tolerant.planning.query_plan import Plan

LARGEST = 20.0
"""The upper limit of alpha."""


class AlphaController(Restorable):
    """Adjusts alpha after every `window` plans until a fraction `target` of them needs no repair.

    >>> controller = AlphaController(window=1)
    >>> controller.alpha
    0.0
    """

    FIELDS = Fields("target", "alpha", "window", "_seen", "_unrepaired")

    def __init__(self, target: float = 0.95, alpha: float = 0.0, window: int = 50) -> None:
        if not 0 < target <= 1:
            raise ValueError(f"target must be above 0 and at most 1, got {target}")
        if not 0 <= alpha <= LARGEST:
            raise ValueError(f"alpha must be from 0 to {LARGEST:g}, got {alpha}")
        if window < 1:
            raise ValueError(f"window must be at least 1 plan, got {window}")
        self.target, self.alpha, self.window = target, float(alpha), window
        self._seen = self._unrepaired = 0

    def observe(self, plan: Plan) -> None:
        """Count a plan."""
        self._seen += 1
        self._unrepaired += plan.repairs == 0
        if self._seen < self.window:
            return
        share = self._unrepaired / self._seen
        if share < self.target:
            self.alpha = min(LARGEST, max(2 * self.alpha, 0.1))
        elif share > self.target + 0.02:
            self.alpha = self.alpha / 1.25 if self.alpha / 1.25 >= 0.01 else 0.0
        self._seen = self._unrepaired = 0
