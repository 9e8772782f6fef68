"""Speed of the index of subscriptions, against NumPy masks over all of them (`docs/design/notifications.md` §7).

Table 5.1's workload: a message is a rectangle, and the question who lies in it.
"""

from __future__ import annotations

import time

import numpy as np

from side_by_side import Figure, arguments, compare, report
from tolerant.notifications import Messages, RangeMin, RangeSubscriptions

SIDE = 10_000.0


def ranges(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    middle, length = rng.normal(5000, 1500, count), np.abs(rng.normal(1000, 1000, count))
    return middle - length / 2, middle + length / 2


def updates(rows: int, count: int, spikes: float) -> Messages:
    """The messages of redrawn heights, some of which drop below all others and come back."""
    rng = np.random.default_rng(2)
    xs = rng.permutation(rows) * SIDE / rows
    table = RangeMin.of(np.arange(rows), xs, rng.uniform(0, SIDE, rows))
    which, new = rng.integers(0, rows, count), rng.uniform(0, SIDE, count)
    for spike in np.flatnonzero(rng.random(count - 1) < spikes).tolist():
        which[spike + 1] = which[spike]
        new[spike] = 1e-3 * rng.random()
    return table.apply(which, xs[which], new)


def masks(x1s: np.ndarray, x2s: np.ndarray, line: np.ndarray) -> np.ndarray:
    _, inner_low, inner_high, outer_low, outer_high = line
    return np.flatnonzero((x1s > outer_low) & (x1s <= inner_low) & (x2s >= inner_high) & (x2s < outer_high))


def main() -> None:
    quick = arguments("Speed of the index of subscriptions.").quick
    count, events, compared = (100_000, 2_000, 50) if quick else (500_000, 20_000, 300)
    x1s, x2s = ranges(count)
    seconds = []
    for _ in range(3):  # seconds of the processor: the target is absolute, and others may be at work
        held = RangeSubscriptions()
        start = time.process_time()
        held.add_many(np.arange(count), x1s, x2s)
        seconds.append(time.process_time() - start)
    building = min(seconds) / count

    said = updates(20_000, events, spikes=0.005)
    rng = np.random.default_rng(3)
    some = said.take(np.sort(rng.choice(len(said), compared, replace=False)))
    listed, lines = list(some), some.lines
    for message, line in zip(listed[:20], lines, strict=False):
        assert sorted(held.matching(message).tolist()) == masks(x1s, x2s, line).tolist()
    comparison = compare(
        f"{count:,} subscriptions",
        {
            "bulk": lambda: held.matching_many(said),
            "single": lambda: [held.matching(message) for message in listed],
            "masks": lambda: [masks(x1s, x2s, line) for line in lines],
            "any": lambda: held.any_many(said),
            "count": lambda: held.count_many(said),
        },
    )
    best = {timing.name: timing.best for timing in comparison.timings}
    each = {name: best[name] / (compared if name in ("single", "masks") else len(said)) for name in best}
    print("  " + ", ".join(f"{name} {1e6 * value:.2f} µs" for name, value in each.items()))
    bulk, single = each["masks"] / each["bulk"], each["masks"] / each["single"]
    full = not quick  # with fewer subscriptions masks have less to do
    churn = one_by_one(held)
    figures = [
        Figure("affected an update", float(held.count_many(said).sum()) / events, ""),
        Figure("in bulk over masks", bulk, "×", "≥ 100", bulk >= 100 if full else None),
        Figure("single calls over masks", single, "×", "≥ 15", single >= 15 if full else None),
        Figure("any, in bulk", 1e6 * each["any"], "µs", "≤ 2", each["any"] <= 2e-6),
        Figure("building, a subscription", 1e6 * building, "µs", "≤ 1", building <= 1e-6),
        Figure("adding and removing one", 1e6 * churn, "µs"),
    ]
    if not report("notifications-subscriptions", {"subscriptions": count, "updates": events}, figures):
        raise SystemExit(1)


def one_by_one(held: RangeSubscriptions) -> float:
    """Seconds that a subscription takes that comes and goes."""
    held.add(-9999, 0.0, 1.0)
    held.remove(-9999)  # compiled now
    start = time.perf_counter()
    for n in range(500):
        held.add(-1 - n, 4000.0 + n, 5000.0 + n)
    for n in range(500):
        held.remove(-1 - n)
    return (time.perf_counter() - start) / 500


if __name__ == "__main__":
    main()
