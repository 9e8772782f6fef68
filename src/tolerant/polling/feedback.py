"""Feedback on fidelity: adjusts each query's safety factor to what was delivered (`docs/design/polling.md` §2.9)."""

from __future__ import annotations

import math

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.polling.choice.risk import RiskRows
from tolerant.polling.choice.risk_calibration import calibrate
from tolerant.polling.fidelity_window import (
    clear_window,
    delivered_honest,
    delivered_interpolated,
    doubt_open_ends,
    first_tick,
)
from tolerant.polling.poller_arrays import Floats, HonestEstimate, Links, Record, Records, Settings, Window

LEAST, MOST = 0.05, 2.0
"""Limits of a safety factor: beyond them it would need many bad windows to return."""


@compiled
def adjust(query: Record, delivered: float, learning_rate: float) -> None:
    """Adjust gamma and safety by equations 13 and 14, the difference in percentage points."""
    ahead = 100.0 * (delivered - query.required)
    if abs(ahead) < 1e-9:
        ahead = 0.0
    before = query.before
    if not math.isnan(before):
        if ahead * before > 0.0:
            query.gamma /= learning_rate
        else:
            query.gamma *= learning_rate
    grown = query.safety * math.exp(query.gamma * ahead)
    query.safety = min(max(grown, LEAST), MOST)
    query.before = ahead


@compiled
def end_window(  # noqa: PLR0913
    queries: Records, links: Links, rows: RiskRows, items: Records, window: Window, tick: int, origin: int,
    settings: Settings, means: Floats,
) -> None:  # fmt: skip
    """Estimate what the window that ends at `tick` delivered, adjust safety factors or doubts, begin the next one.

    means: the mean of each of the two estimates over the queries, NaN where not made. Ticks up to `origin` were not
    observed and do not count, nor those before all items of a query had a value. A query of which some item was
    unreachable for a quarter of the window gets no feedback.
    """
    size = settings.window
    unseen = max(0, origin - first_tick(tick, size) + 1)
    counted = size - unseen
    means[:] = np.nan
    good, seen = np.empty(len(queries)), np.empty(len(queries), np.int64)
    honest = HonestEstimate(good, np.empty(good.size), np.empty(good.size), np.empty(good.size))
    for q in range(good.size):
        since = queries[q].since if queries[q].since >= 0 or window.excused.size == 0 else tick + 1
        seen[q] = min(max(unseen, since - first_tick(tick, size)), size)
    for source in range(1, 3 if counted > 0 else 0):
        if source == 1 and (settings.feedback == 1 or settings.report):
            delivered_interpolated(queries, links, window, size, good)
        elif source == 2 and (settings.feedback == 2 or settings.report):
            doubt_open_ends(window, items, tick, size)
            delivered_honest(queries, links, window, size, seen, honest)
            for q in range(good.size):
                queries[q].good += good[q]
                queries[q].ticks += honest.counted[q]
        else:
            continue
        means[source - 1] = (good.mean() - (unseen if source == 1 else 0)) / counted
        if settings.feedback != source:
            continue
        if settings.calibrated:
            if tick - origin > size:  # in the first window the items were not known yet
                calibrate(queries, rows, links, window, honest.missed, honest.judged, settings.cautious)
            continue
        for q in range(good.size):
            if window.excused.size > 0 and (window.excused[q] > 1).sum() > size // 4:
                continue
            of = float(counted) if source == 1 else max(honest.counted[q], 1.0)
            adjust(queries[q], (good[q] - (unseen if source == 1 else 0)) / of, settings.learning_rate)
    clear_window(window)
