"""Applies a pull: updates the chain, its correction, the variance, and the record of what was missed meanwhile
(`docs/design/polling.md` §2.3, §2.4, §2.10).
"""

from __future__ import annotations

from tolerant.kernels.compiled import compiled_no_refcount
from tolerant.polling.choice.risk import RiskRows, add_variance, counted_variance, unmark, variance_at
from tolerant.polling.choice.risk_calibration import FEW, learn_variance, may_grow, remember_error
from tolerant.polling.fidelity_window import doubt_between, first_tick
from tolerant.polling.model.chain import corrected_bias, forget, learn, state_of
from tolerant.polling.model.chain_execution import execute, restart
from tolerant.polling.model.correlations import Correlations, record_points
from tolerant.polling.model.predictors import judge_predictors, predicted_value
from tolerant.polling.poller_arrays import Chains, Floats, Record, Records, Settings, Window


@compiled_no_refcount
def apply_pull(  # noqa: PLR0913
    rows: RiskRows, items: Records, chains: Chains, window: Window, correlations: Correlations, settings: Settings,
    i: int, value: float, at: int, now: int, path: Floats,
) -> None:  # fmt: skip
    """Learn from a pull of item `i`: its value at tick `at`, known at tick `now`. One older than the last is dropped.

    path: with intermediate values, those of every tick since the last pull, `at` included; else empty.
    """
    item = items[i]
    last, ticks, change = item.last, at - item.last, value - item.value
    before = 0.0 if item.marked or last < 0 else counted_variance(items, i, now)
    item.failures, item.missing, item.blocked = 0, -settings.patience, 0
    if last < 0:
        _apply_first_pull(item, chains, i, value, at)
        ticks, last = 1, at - 1
    elif ticks <= 0:
        if ticks == 0:
            item.value = value
            item.marked = False
        return
    else:
        add_variance(rows, i, -before)
        missed = _missed(item, change, path, ticks, ticks)
        if window.apart.size > 0:
            _record_missed(window, item, i, change, path, at, now, settings.window)
        _learn_change(item, chains, i, change, ticks, at, path, settings)
        item.value, item.last = value, at
        if not settings.calibrated or may_grow(item, ticks, settings.cautious):
            item.cap = min(2 * item.cap, settings.max_interval)
        item.pulls += 1
        item.marked = False
        add_variance(rows, i, variance_at(items, i, now))
        restart(item, chains.spread, i)
        execute(item, chains.counts, chains.sums, chains.spread, i, now)
        if window.doubt.size > 0:
            doubt_between(window, item, i, missed, ticks, at, now, settings.window)
    if correlations.points.size > 0:
        record_points(correlations, i, value - change if last >= 0 and ticks > 1 else value, value, last, at)


@compiled_no_refcount
def _apply_first_pull(item: Record, chains: Chains, i: int, value: float, at: int) -> None:
    item.value, item.level, item.last = value, value, at
    item.cap, item.pulls, item.first = 1, 1, at
    item.marked = False
    restart(item, chains.spread, i)


@compiled_no_refcount
def _missed(item: Record, change: float, path: Floats, ticks: int, k: int) -> float:
    """Return how far the item's true value was from the one in use, k of the `ticks` ticks after its last pull."""
    true = path[k - 1] - item.value if path.size > 0 else change * k / ticks
    if item.predictor > 0:
        true -= predicted_value(item.value, item.level, item.rate, item.predictor, k) - item.value
    return true


@compiled_no_refcount
def _record_missed(
    window: Window, item: Record, i: int, change: float, path: Floats, at: int, now: int, size: int
) -> None:
    """Record what was missed since the item's last pull, before it learns from this one.

    The value of a late reply (now > at) was missed until `now`.
    """
    first, ticks = first_tick(now, size), at - item.last
    for t in range(max(item.last + 1, first), now):
        window.apart[i, t - first] = _missed(item, change, path, ticks, min(t - item.last, ticks))


@compiled_no_refcount
def _learn_change(
    item: Record, chains: Chains, i: int, change: float, ticks: int, at: int, path: Floats, settings: Settings
) -> None:
    """Update the chain, the correction, the variance and the predictors by the item's change."""
    if item.stepped != at:
        restart(item, chains.spread, i)
        execute(item, chains.counts, chains.sums, chains.spread, i, at)
    counts, sums = chains.counts[i], chains.sums[i]
    if settings.forgetting > 0.0:
        forget(counts, sums, (1.0 - settings.forgetting) ** ticks)
    steps = max(path.size, 1)  # with intermediate values, one transition per tick
    before = item.value
    for k in range(steps):
        rate = path[k] - before if path.size > 0 else change / ticks
        state = state_of(rate, item.spacing, sums.size // 2)
        learn(counts, sums, item.learned, state, 1 if path.size > 0 else ticks)
        item.learned = state
        before += rate
        if path.size > 0:
            before = path[k]
    item.bias = corrected_bias(item.bias, change, item.drift, ticks, settings.smoothing)
    share = max(0.02, 1.0 / item.pulls)
    error = change - (predicted_value(item.value, item.level, item.rate, item.predictor, ticks) - item.value)
    if settings.forecast:
        judge_predictors(item, chains.errors[i], item.value + change, ticks, share)
    if settings.calibrated:
        remember_error(item, chains, i, error, ticks)
        learn_variance(item, change, error, ticks)
        if settings.cautious:
            item.variance *= 1.0 + FEW / item.pulls
    elif not settings.forecast:
        item.variance += share * (min(change * change / ticks, 1e280) - item.variance)


@compiled_no_refcount
def expire_unanswered(rows: RiskRows, items: Records, tick: int) -> None:
    """Unmark the items that have not replied at this tick; after a while they count as unreachable."""
    for i in range(len(items)):
        if items[i].marked:
            items[i].missing += 1
            unmark(rows, items, i, tick)
