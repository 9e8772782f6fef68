"""Ends that take every liberty that the predictive policy allows them: a wrong forecast or a foolish plan may cost
messages, never the promise.
"""

from __future__ import annotations

import numpy as np

from tolerant.edge.core import SourceCore
from tolerant.edge.sums import Sums, SumSet
from tolerant.filters.asking import Freed, sides
from tolerant.filters.book import Book
from tolerant.filters.forecasts import Forecasts
from tolerant.filters.forms import ITEMS, QUERIES
from tolerant.filters.planner import Planner
from tolerant.filters.plans import Plan
from tolerant.filters.rows import Rows
from tolerant.filters.state import Floats, Integers
from tolerant.spark.kinds.bounded import BoundedShard
from tolerant.streams import Stream, StreamOptions


class BoldSource(SourceCore):
    """A source whose forecasts are half of them nonsense, where its stream is predicted at all; and that goes over from
    items to sums and back whenever it likes.
    """

    def __init__(self, source: str, epoch: int, options: StreamOptions) -> None:
        super().__init__(source, epoch, options)
        self._sums = _BoldSums(epoch)
        if self._bank.forecasts:
            self._bank.forecasts = _BoldForecasts(epoch)


class BoldShard(BoundedShard):
    """A shard whose plans are drawn at random, where its stream is predicted at all."""

    def __init__(self, stream: Stream, shard: int, epoch: int, checkpoint: str, partitions: int = 1) -> None:
        super().__init__(stream, shard, epoch, checkpoint, partitions)
        self._engine.coordinator.planner = _BoldPlanner(stream.options.period)


class _BoldForecasts(Forecasts):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = np.random.default_rng(seed)

    def propose(self, handles: Integers, values: Floats, widths: Floats, offs: Floats) -> tuple[Floats, Floats]:
        levels, slopes = super().propose(handles, values, widths, offs)
        bold = (self._random.random(len(handles)) < 0.5) & np.isfinite(widths)
        width = np.where(bold, widths, 0.0)
        levels = np.where(bold, values + self._random.uniform(-0.45, 0.45, len(handles)) * width, levels)
        return levels, np.where(bold, self._random.normal(0.0, 0.1, len(handles)) * width, slopes)


class _BoldSums(Sums):
    every = 1

    def __init__(self, seed: int) -> None:
        super().__init__(predicts=False, period=1)
        self._random = np.random.default_rng((seed, 2))

    def better(self, one: SumSet) -> str:
        # Mostly sums, and for a while: it takes some boundaries to form them.
        return QUERIES if self._random.random() < (0.85 if one.active else 0.9) else ITEMS


class _BoldPlanner(Planner):
    def _plan(self, book: Book, rows: Rows, widths: Floats, tick: int) -> Plan:
        # By the tick alone: what a shard says must follow from the log.
        random = np.random.default_rng(tick)
        movable = self._movable(book, rows, widths)
        factor = random.uniform(0.3, 1.7, len(widths))
        wanted = np.where(movable & (random.random(len(widths)) < 0.7), widths * factor, np.nan)
        return Plan(np.minimum(wanted, rows.caps), 1.0, 0.0)

    def free(self, book: Book, tick: int) -> Freed:
        items, n = book.items, book.size
        random = np.random.default_rng((tick, 1))
        side = sides(n, book.queries, book.links())
        chosen = random.random(n) < 0.5
        depth = random.uniform(-1.0, 30.0, n)
        height = np.where(items.seen[:n] & (side != 0), side * items.level[:n], np.inf)
        chosen &= height > height.min(initial=np.inf)  # without any filter, everybody would be asked at once
        which = np.flatnonzero(chosen & (side != 0) & (items.far[:n] == 0) & np.isfinite(items.width[:n]))
        floors = items.level[which] - side[which] * depth[which]
        return Freed(which, side[which], floors)
