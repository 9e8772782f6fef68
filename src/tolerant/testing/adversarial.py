"""Ends that take every liberty that the predictive policy allows them: a wrong forecast or a bad plan may cost
messages, never the promise.
"""

from __future__ import annotations

import numpy as np

from tolerant.edge.source_core import SourceCore
from tolerant.edge.source_sums import SourceSumGroup, SourceSums
from tolerant.filters.constraints import WidthConstraints
from tolerant.filters.form_costs import ITEMS, QUERIES
from tolerant.filters.item_membership import Membership
from tolerant.filters.probing import Suppressions, suppressible_sides
from tolerant.filters.source_forecasts import Forecasts
from tolerant.filters.state import Floats, Integers
from tolerant.filters.width_planner import WidthPlanner
from tolerant.filters.width_plans import WidthPlan
from tolerant.filters.width_policies import PredictiveWidths
from tolerant.kinds.bounded.shard import BoundedShard
from tolerant.streams import Stream, StreamOptions


class AdversarialSource(SourceCore):
    """A source whose forecasts are half of them nonsense, where its stream is predicted at all; and that goes over from
    items to sums and back whenever it likes.
    """

    def __init__(self, source: str, epoch: int, options: StreamOptions) -> None:
        super().__init__(source, epoch, options)
        self._sum_filter.sums = _BoldSums(epoch)
        if self._filters.forecasts:
            self._filters.forecasts = _BoldForecasts(epoch)


class AdversarialShard(BoundedShard):
    """A shard whose plans are drawn at random, where its stream is predicted at all."""

    def __init__(self, stream: Stream, shard: int, epoch: int, checkpoint: str, partitions: int = 1) -> None:
        super().__init__(stream, shard, epoch, checkpoint, partitions)
        policy = self._engine._coordinator.policy
        if isinstance(policy, PredictiveWidths):
            policy.planner = _BoldPlanner(stream.options.period)


class _BoldForecasts(Forecasts):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = np.random.default_rng(seed)

    def propose(self, handles: Integers, values: Floats, widths: Floats, offs: Floats) -> tuple[Floats, Floats]:
        levels, slopes = super().propose(handles, values, widths, offs)
        chosen = (self._random.random(len(handles)) < 0.5) & np.isfinite(widths)
        width = np.where(chosen, widths, 0.0)
        levels = np.where(chosen, values + self._random.uniform(-0.45, 0.45, len(handles)) * width, levels)
        return levels, np.where(chosen, self._random.normal(0.0, 0.1, len(handles)) * width, slopes)


class _BoldSums(SourceSums):
    every = 1

    def __init__(self, seed: int) -> None:
        super().__init__(predicts=False, period=1)
        self._random = np.random.default_rng((seed, 2))

    def better(self, group: SourceSumGroup) -> str:
        # Mostly sums, and for a while: it takes some boundaries to form them.
        return QUERIES if self._random.random() < (0.85 if group.active else 0.9) else ITEMS


class _BoldPlanner(WidthPlanner):
    def _plan(self, membership: Membership, rows: WidthConstraints, widths: Floats, tick: int) -> WidthPlan:
        # By the tick alone: what a shard says must follow from the log.
        random = np.random.default_rng(tick)
        movable = self._movable(membership, rows, widths)
        factor = random.uniform(0.3, 1.7, len(widths))
        wanted = np.where(movable & (random.random(len(widths)) < 0.7), widths * factor, np.nan)
        return WidthPlan(np.minimum(wanted, rows.caps), 1.0, 0.0)

    def suppressions(self, membership: Membership, tick: int) -> Suppressions:
        items, n = membership.items, membership.size
        random = np.random.default_rng((tick, 1))
        side = suppressible_sides(n, membership.queries, membership.links())
        chosen = random.random(n) < 0.5
        depth = random.uniform(-1.0, 30.0, n)
        height = np.where(items.seen[:n] & (side != 0), side * items.level[:n], np.inf)
        chosen &= height > height.min(initial=np.inf)  # without any filter, everybody would be asked at once
        which = np.flatnonzero(chosen & (side != 0) & (items.suppress_side[:n] == 0) & np.isfinite(items.width[:n]))
        floors = items.level[which] - side[which] * depth[which]
        return Suppressions(which, side[which], floors)
