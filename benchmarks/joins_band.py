"""Band joins against NumPy, DuckDB, Polars and interval libraries: equal output, CPU time (specs §7, bars 2, 4).

A library that is not installed is left out with a message: `pip install --group bench`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module

import numpy as np

from joins_loads import BandLoad, _numpy_bands, at_least, at_most, band_joins, band_load
from side_by_side import Figure, arguments, report


def cpu(run: Callable[[], object], rounds: int = 3) -> float:
    """The least CPU time of some runs, seconds, all threads counted; the first one warms up.

    What is over quickly is run more often: on a machine with other users one run in ten is undisturbed.
    """
    run()
    times = [_once(run) for _ in range(rounds)]
    while sum(times) < 1.0 and len(times) < 20:
        times.append(_once(run))
    return min(times)


def _once(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def duckdb_pairs(load: BandLoad, events: np.ndarray) -> Callable[[], int]:
    import pandas as pd

    connection = import_module("duckdb").connect(config={"threads": 1})
    connection.register("queries", pd.DataFrame({"q": np.arange(len(load.low)), "low": load.low, "high": load.high}))
    connection.register("held", pd.DataFrame({"s": np.arange(len(load.b)), "b": load.b}))
    connection.register("given", pd.DataFrame({"e": np.arange(len(events)), "b": events}))
    for name in ("queries", "held", "given"):
        connection.execute(f"CREATE TABLE {name}_t AS SELECT * FROM {name}")
    statement = """SELECT x.e, q.q, x.s FROM (SELECT e, s, h.b - g.b AS d FROM given_t g, held_t h) x
                   JOIN queries_t q ON x.d BETWEEN q.low AND q.high"""
    return lambda: len(connection.execute(statement).fetchnumpy()["q"])


def polars_pairs(load: BandLoad, events: np.ndarray) -> Callable[[], int]:
    polars = import_module("polars")
    queries = polars.DataFrame({"q": np.arange(len(load.low)), "low": load.low, "high": load.high})
    held = polars.DataFrame({"s": np.arange(len(load.b)), "b": load.b})

    def run() -> int:
        total = 0
        for b in events:
            differences = held.select("s", (polars.col("b") - b).alias("d"))
            found = differences.join_where(
                queries, polars.col("d") >= polars.col("low"), polars.col("d") <= polars.col("high")
            )
            total += found.height
        return total

    return run


def ncls_pairs(load: BandLoad, events: np.ndarray) -> Callable[[], int]:
    # Its intervals are half open; a float's successor closes them.
    index = import_module("ncls").FNCLS(
        load.low, np.nextafter(load.high, np.inf), np.arange(len(load.low), dtype=np.int64)
    )
    ids = np.arange(len(load.b), dtype=np.int64)

    def run() -> int:
        total = 0
        for b in events:
            points = load.b - b
            total += len(index.all_overlaps_both(points, np.nextafter(points, np.inf), ids)[0])
        return total

    return run


def superintervals_pairs(load: BandLoad, events: np.ndarray) -> Callable[[], int]:
    # It takes integers of 32 bits only: differences are scaled and rounded, so its count is only near.
    scale = 2e5
    index = import_module("superintervals").IntervalMap()
    low, high = (load.low * scale).astype(np.int64), (load.high * scale).astype(np.int64)
    for k in range(len(low)):
        index.add(int(low[k]), int(high[k]), k)
    index.build()

    def run() -> int:
        total = 0
        for b in events:
            points = ((load.b - b) * scale).astype(np.int64)
            total += sum(index.count(int(x), int(x)) for x in points)
        return total

    return run


def intervaltree_pairs(load: BandLoad, events: np.ndarray) -> Callable[[], int]:
    # Half open as well; a whole event is beyond it, so `against_libraries` gives it a part of the rows.
    index = import_module("intervaltree").IntervalTree.from_tuples(
        zip(load.low.tolist(), np.nextafter(load.high, np.inf).tolist(), range(len(load.low)), strict=True)
    )
    return lambda: sum(len(index[x]) for b in events for x in (load.b - b).tolist())


OTHERS = {
    "duckdb": (duckdb_pairs, 3, 500.0),
    "polars": (polars_pairs, 3, 500.0),
    "ncls": (ncls_pairs, 10, None),
    "superintervals": (superintervals_pairs, 2, None),
    "intervaltree": (intervaltree_pairs, 1, None),
}
PART = {"intervaltree": 0.01}
"""The part of the rows that a library is given, which is all it can do; its time is taken times the others."""


def against_libraries(load: BandLoad, size: int) -> list[Figure]:
    joins, figures = band_joins(load), []
    ours = cpu(lambda: joins.probe_many(load.events[:50], "ssi")) / 50
    print(f"  ssi, batch of 50: {1e3 * ours:.4f} ms an event, {len(joins.probe_many(load.events[:50])[0]):,} pairs")
    for name, (make, events, bar) in OTHERS.items():
        try:
            import_module(name)
        except ImportError:
            print(f"  {name} is not installed: left out")
            continue
        chosen, part = load.events[:events], PART.get(name, 1.0)
        held = load if part == 1 else load._replace(b=load.b[: int(part * size)])
        run = make(held, chosen)
        pairs, wanted = run(), len((joins if held is load else band_joins(held)).probe_many(chosen)[0])
        equal = "equal output" if pairs == wanted else f"{pairs:,} of {wanted:,} pairs"
        equal += "" if part == 1 else f", {part:.0%} of the rows"
        ratio = cpu(run, 1) / part / events / ours
        judged = bar is not None and size == 100_000
        figures.append(at_least(f"ssi over {name} ({equal})", ratio, bar if judged else None))
    return figures


def growth(queries: int) -> list[Figure]:
    """Ten times the queries at equal output, ten times the groups, twice the output."""
    base = band_load(queries, queries, 200)
    more = band_load(10 * queries, queries, 200, half=0.0001)
    apart = band_load(queries, queries, 200, groups=600)
    wider = band_load(queries, queries, 200, half=0.002)
    times = []
    for load in (base, more, apart, wider):
        joins = band_joins(load)
        times.append(cpu(lambda load=load, joins=joins: joins.probe_many(load.events, "ssi")))
    bars = (("ten times the queries", 2.0), ("ten times the groups", 10.0), ("twice the output", 2.2))
    return [
        at_most(f"time for {name}", spent / times[0], bar) for (name, bar), spent in zip(bars, times[1:], strict=True)
    ]


def main() -> None:
    quick = arguments("Band joins against what a user would otherwise pick.").quick
    size = 20_000 if quick else 100_000
    load = band_load(size, size, 400)
    joins = band_joins(load)
    order = np.argsort(load.low)
    rows, low, high = np.sort(load.b), load.low[order], load.high[order]
    few = load.events[:5]
    assert _numpy_bands(rows, low, high, few) == len(joins.probe_many(few, "ssi")[0])
    ssi = cpu(lambda: joins.probe_many(load.events, "ssi")) / 400
    plain = cpu(lambda: _numpy_bands(rows, low, high, few)) / 5
    merge = cpu(lambda: joins.probe_many(load.events[:50], "merge")) / 50
    queries = cpu(lambda: joins.probe_many(load.events[:20], "queries")) / 20
    figures = [Figure("ssi, result arrays included", 1e6 * ssi, "µs an event")]
    for name, spent, bar in (("numpy searchsorted", plain, 80.0), ("merge", merge, 4.0), ("queries", queries, 8.0)):
        judged = not quick
        figures.append(at_least(f"ssi over {name}", spent / ssi, bar if judged else None))
    figures += against_libraries(load, size)
    figures += growth(10_000 if quick else 100_000)
    if not report("joins-band", {"queries": size, "rows": size, "groups": joins.groups}, figures):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
