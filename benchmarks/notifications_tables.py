"""Speed of range-min tables, against a scan of sorted arrays (`docs/design/notifications.md` §7).

The scan is what a user writes in NumPy: per update `flatnonzero` on both sides for the affected range, a running
minimum over the rows inside for the hull. It builds no messages; ours does.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from side_by_side import Figure, arguments, compare, report
from tolerant.notifications import RangeMin, RangeSubscriptions

SIDE = 10_000.0


class Scan:
    """Rows sorted by x, heights in an array."""

    def __init__(self, xs: np.ndarray, ys: np.ndarray) -> None:
        order = np.argsort(xs)
        self.xs, self.ys = xs[order], ys[order]
        self.place = np.empty(len(xs), np.int64)
        self.place[order] = np.arange(len(xs))

    def update(self, row: int, y: float) -> int:
        """How many messages the update of a row would take."""
        at = self.place[row]
        old, self.ys[at] = self.ys[at], y
        lowest = min(old, y)
        left, right = np.flatnonzero(self.ys[:at] <= lowest), np.flatnonzero(self.ys[at + 1 :] <= lowest)
        begin = left[-1] + 1 if len(left) else 0
        end = at + 1 + right[0] if len(right) else len(self.ys)
        if y <= old:
            return 1
        exposed = 1
        for side in (self.ys[begin:at][::-1], self.ys[at + 1 : end]):
            running = np.minimum.accumulate(np.append(y, side))
            exposed += int(np.count_nonzero(running[1:] < running[:-1]))
        return exposed


def workload(rows: int, updates: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Places, heights, rows that change, and their new heights (Table 5.1)."""
    rng = np.random.default_rng(seed)
    return rng.permutation(rows) * SIDE / rows, rng.uniform(0, SIDE, rows), rng.integers(0, rows, updates), rng.uniform(
        0, SIDE, updates
    )  # fmt: skip


def against_the_scan(rows: int, updates: int, scanned: int, bars: tuple[float, float] | None) -> list[Figure]:
    xs, ys, which, new = workload(rows, updates)
    table, scan = RangeMin.of(np.arange(rows), xs, ys), Scan(xs, ys)
    some = list(zip(which[:scanned].tolist(), xs[which[:scanned]].tolist(), new[:scanned].tolist(), strict=True))
    agree = RangeMin.of(np.arange(rows), xs, ys), Scan(xs, ys)
    assert all(len(agree[0].update(row, x, y)) == agree[1].update(row, y) for row, x, y in some)

    def one_by_one() -> None:
        for row, x, y in some:
            table.update(row, x, y)

    def scans() -> None:
        for row, _, y in some:
            scan.update(row, y)

    comparison = compare(
        f"{rows:,} rows",
        {"bulk": lambda: table.apply(which, xs[which], new), "one by one": one_by_one, "scan": scans},
        rounds=3,
    )
    best = {timing.name: timing.best for timing in comparison.timings}
    each = {"bulk": best["bulk"] / updates, "one by one": best["one by one"] / scanned, "scan": best["scan"] / scanned}
    print(f"  {rows:,} rows: " + ", ".join(f"{name} {1e6 * value:.2f} µs" for name, value in each.items()))
    ratios = {name: each["scan"] / each[name] for name in ("one by one", "bulk")}
    marks = dict(zip(ratios, bars or (None, None), strict=True))
    return [
        Figure(f"{name} over the scan, {rows:,} rows", ratio, "×", f"≥ {bar:g}" if bar else "", bar and ratio >= bar)
        for (name, ratio), bar in zip(ratios.items(), marks.values(), strict=True)
    ]


def growth(updates: int) -> Figure:
    """What ten times the rows cost an update."""
    tables = {}
    for rows in (10_000, 100_000):
        xs, ys, which, new = workload(rows, updates)
        tables[str(rows)] = RangeMin.of(np.arange(rows), xs, ys), which, xs[which], new
    comparison = compare(
        "10 times the rows", {name: lambda one=one: one[0].apply(*one[1:]) for name, one in tables.items()}, rounds=5
    )
    ratio = comparison.ratio("10000", "100000")
    return Figure("10,000 → 100,000 rows, time an update", ratio, "×", "≤ 2", ratio <= 2)


def loading(rows: int) -> list[Figure]:
    xs, ys, _, _ = workload(rows, 1)
    few = 3_000
    begun = RangeMin.of(np.arange(few, rows), xs[few:], ys[few:]).rows()

    def insert() -> None:
        for row, x, y in zip(range(few), xs[:few].tolist(), ys[:few].tolist(), strict=True):
            grown.insert(row, x, y)

    seconds = []
    for _ in range(4):
        grown = RangeMin.of(*begun)
        start = time.process_time()
        insert()
        seconds.append(time.process_time() - start)
    load = best_of(lambda: RangeMin.of(np.arange(rows), xs, ys)) / rows
    ratio = min(seconds) / few / load
    return [
        Figure(f"loading {rows:,} rows, a row", 1e6 * load, "µs", "≤ 1", load <= 1e-6),
        Figure("loading over insert(), a row", ratio, "×", "≥ 10", ratio >= 10),
    ]


def roof(rows: int) -> Figure:
    """Deleting the lowest row under a roof exposes all the others: per message it may cost no more than an easy one."""
    half = rows // 2
    xs = np.arange(-half, half + 1, dtype=float)
    ys = 2.0 * rows - 2 * np.abs(xs) - (xs > 0)
    ys[half] = -1.0
    xs2, ys2, which, _ = workload(rows, 2_000)

    def under() -> float:
        table = RangeMin.of(np.arange(len(xs)), xs, ys)
        start = time.perf_counter()
        said = table.delete(half)
        assert len(said) == len(xs)
        return (time.perf_counter() - start) / len(said)

    def easy() -> float:
        table = RangeMin.of(np.arange(rows), xs2, ys2)
        falling = [(row, xs2[row], ys2[row] * 0.9) for row in dict.fromkeys(which.tolist())]
        start = time.perf_counter()
        for update in falling:
            table.update(*update)
        return (time.perf_counter() - start) / len(falling)

    costs = min(under() for _ in range(5)), min(easy() for _ in range(5))
    print(f"  under a roof {1e6 * costs[0]:.2f} µs a message, an easy update {1e6 * costs[1]:.2f} µs")
    return Figure("a message under a roof over an easy update", costs[0] / costs[1], "×", "≤ 1", costs[0] <= costs[1])


def one_place(rows: int, other: int) -> list[Figure]:
    """Inserting and deleting many rows at one x, and as many apart, in a table with others."""
    xs, ys, _, _ = workload(other, 1)
    rng = np.random.default_rng(4)
    new = rng.uniform(0, SIDE, rows)
    ids = np.arange(other, other + rows)
    nothing = np.full(rows, np.nan)

    def churn(places: np.ndarray) -> Callable[[], object]:
        table = RangeMin.of(np.arange(other), xs, ys)
        return lambda: (table.apply(ids, places, new), table.apply(ids, places, nothing))

    apart = rng.uniform(0, SIDE, rows)
    comparison = compare(
        f"{rows:,} rows at one x", {"apart": churn(apart), "at one x": churn(np.full(rows, 5_000.1))}, rounds=5
    )
    ratio = comparison.ratio("apart", "at one x")
    table = RangeMin()
    table.apply(np.arange(other), np.sort(xs), ys)
    size = sum(part.nbytes for part in table._index.blocks) / other
    return [
        Figure(f"{rows:,} rows at one x over as many apart", ratio, "×", "≤ 1.5", ratio <= 1.5),
        Figure("index, bytes per row, inserted in order", size, "", "≤ 48", size <= 48),
    ]


def independence(rows: int, updates: int) -> Figure:
    """The server of S-CN knows no subscriptions; with 200,000 or a million of them beside it its time is the same."""
    rng = np.random.default_rng(5)
    xs, ys, which, new = workload(rows, updates)
    tables = {}
    for watched in (200_000, 1_000_000):
        held = RangeSubscriptions()
        low = rng.normal(5000, 1500, watched)
        held.add_many(np.arange(watched), low, low + 1000)
        tables[f"{watched:,}"] = RangeMin.of(np.arange(rows), xs, ys), held
    comparison = compare(
        "subscriptions beside the table",
        {name: lambda pair=pair: pair[0].apply(which, xs[which], new) for name, pair in tables.items()},
        rounds=5,
    )
    ratio = comparison.ratio("200,000", "1,000,000")
    return Figure("S-CN, 200,000 → 1,000,000 subscriptions, time", ratio, "×", "≤ 1.3", ratio <= 1.3)


def net(rows: int) -> list[Figure]:
    """The net of a batch against one by one."""
    figures = []
    xs, ys, which, new = workload(rows, 40_000)
    RangeMin.of([1], [1], [1]).apply([1], [1], [2], net=True)  # compiled now
    for batch in (100, 1_000, 10_000):
        each, whole = (RangeMin.of(np.arange(rows), xs, ys) for _ in range(2))
        said = {"one by one": 0, "net": 0}
        spent = {"one by one": 0.0, "net": 0.0}
        for begin in range(0, 4 * batch, batch):
            part = slice(begin, begin + batch)
            for name, table in (("one by one", each), ("net", whole)):
                start = time.perf_counter()
                said[name] += len(table.apply(which[part], xs[which[part]], new[part], net=name == "net"))
                spent[name] += time.perf_counter() - start
        figures.append(Figure(f"net of {batch:,} changes of {rows:,}, messages", said["net"] / said["one by one"], "×"))
        figures.append(Figure(f"net of {batch:,} changes of {rows:,}, time", spent["net"] / spent["one by one"], "×"))
    return figures


def best_of(run: Callable[[], object], rounds: int = 4) -> float:
    """Seconds of the processor: what an absolute bar is about, whoever else is at work."""
    seconds = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return min(seconds)


def main() -> None:
    quick = arguments("Speed of range-min tables.").quick
    updates, scanned = (20_000, 500) if quick else (100_000, 2_000)
    figures = [
        *against_the_scan(20_000, updates, scanned, None),
        *against_the_scan(100_000, updates, scanned, (5.0, 25.0)),
        *([] if quick else against_the_scan(1_000_000, updates, 200, None)),
        growth(updates),
        *loading(100_000),
        independence(10_000, updates),
        roof(3_000),
        *one_place(3_000, 100_000),
        *net(10_000),
    ]
    if not report("notifications-tables", {"updates": updates}, figures):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
