"""What a pull teaches: the chain, its correction, the variance, and what was missed meanwhile (§2.3, §2.4, §2.10)."""

from __future__ import annotations

from tolerant.kernels.compiled import borrowing
from tolerant.polling.arrays import Chains, Floats, Record, Records, Settings, Window
from tolerant.polling.calibration import FEW, learn_variance, may_grow, remember_error
from tolerant.polling.chain import corrected, forget, learn, state_of
from tolerant.polling.execution import execute, restart
from tolerant.polling.forecasts import foretold, judge_predictors
from tolerant.polling.risk import Rows, counted_spread, shift, spread_of, unmark
from tolerant.polling.together import Together, remember
from tolerant.polling.window import doubt_between, first_tick


@borrowing
def take(
    rows: Rows, items: Records, chains: Chains, window: Window, together: Together, settings: Settings,
    i: int, value: float, at: int, now: int, path: Floats,
) -> None:  # fmt: skip
    """Learn from a pull of item `i`: its value at tick `at`, known at tick `now`. An older one than held is dropped.

    path: with intermediate values, those of every tick since the last pull, `at` included; else empty.
    """
    item = items[i]
    last, ticks, change = item.last, at - item.last, value - item.value
    before = 0.0 if item.marked or last < 0 else counted_spread(items, i, now)
    item.failures, item.missing, item.blocked = 0, -settings.patience, 0
    if last < 0:
        _take_first(item, chains, i, value, at)
        ticks, last = 1, at - 1
    elif ticks <= 0:
        if ticks == 0:
            item.value = value
            item.marked = False
        return
    else:
        shift(rows, i, -before)
        missed = _missed(item, change, path, ticks, ticks)
        if window.apart.size > 0:
            _miss(window, item, i, change, path, at, now, settings.window)
        _learn_change(item, chains, i, change, ticks, at, path, settings)
        item.value, item.last = value, at
        if not settings.calibrated or may_grow(item, ticks, settings.cautious):
            item.cap = min(2 * item.cap, settings.max_interval)
        item.pulls += 1
        item.marked = False
        shift(rows, i, spread_of(items, i, now))
        restart(item, chains.spread, i)
        execute(item, chains.counts, chains.sums, chains.spread, i, now)
        if window.doubt.size > 0:
            doubt_between(window, item, i, missed, ticks, at, now, settings.window)
    if together.points.size > 0:
        remember(together, i, value - change if last >= 0 and ticks > 1 else value, value, last, at)


@borrowing
def _take_first(item: Record, chains: Chains, i: int, value: float, at: int) -> None:
    item.value, item.level, item.last = value, value, at
    item.cap, item.pulls, item.first = 1, 1, at
    item.marked = False
    restart(item, chains.spread, i)


@borrowing
def _missed(item: Record, change: float, path: Floats, ticks: int, k: int) -> float:
    """How far the item's true value was from the one in use, k of the `ticks` ticks after its last pull."""
    true = path[k - 1] - item.value if path.size > 0 else change * k / ticks
    if item.predictor > 0:
        true -= foretold(item.value, item.level, item.rate, item.predictor, k) - item.value
    return true


@borrowing
def _miss(window: Window, item: Record, i: int, change: float, path: Floats, at: int, now: int, size: int) -> None:
    """Write down what was missed since the item's last pull; before it learns from this one.

    An answer that comes late (now > at) was missed until `now`.
    """
    first, ticks = first_tick(now, size), at - item.last
    for t in range(max(item.last + 1, first), now):
        window.apart[i, t - first] = _missed(item, change, path, ticks, min(t - item.last, ticks))


@borrowing
def _learn_change(
    item: Record, chains: Chains, i: int, change: float, ticks: int, at: int, path: Floats, settings: Settings
) -> None:
    """Teach the chain, the correction, the variance and the predictors what the item did."""
    if item.stepped != at:
        restart(item, chains.spread, i)
        execute(item, chains.counts, chains.sums, chains.spread, i, at)
    counts, sums = chains.counts[i], chains.sums[i]
    if settings.forgetting > 0.0:
        forget(counts, sums, (1.0 - settings.forgetting) ** ticks)
    steps = max(path.size, 1)  # with intermediate values, one transition a tick
    before = item.value
    for k in range(steps):
        rate = path[k] - before if path.size > 0 else change / ticks
        state = state_of(rate, item.spacing, sums.size // 2)
        learn(counts, sums, item.learned, state, 1 if path.size > 0 else ticks)
        item.learned = state
        before += rate
        if path.size > 0:
            before = path[k]
    item.bias = corrected(item.bias, change, item.drift, ticks, settings.smoothing)
    share = max(0.02, 1.0 / item.pulls)
    error = change - (foretold(item.value, item.level, item.rate, item.predictor, ticks) - item.value)
    if settings.forecast:
        judge_predictors(item, chains.errors[i], item.value + change, ticks, share)
    if settings.calibrated:
        remember_error(item, chains, i, error, ticks)
        learn_variance(item, change, error, ticks)
        if settings.cautious:
            item.variance *= 1.0 + FEW / item.pulls
    elif not settings.forecast:
        item.variance += share * (min(change * change / ticks, 1e280) - item.variance)


@borrowing
def give_up(rows: Rows, items: Records, tick: int) -> None:
    """Take what was asked for at this tick and has not come as not asked for; after a while it counts as lost."""
    for i in range(len(items)):
        if items[i].marked:
            items[i].missing += 1
            unmark(rows, items, i, tick)
