"""Select joins against NumPy, DuckDB, Polars and interval libraries, and "auto" on a mixed load: CPU time (specs §7,
bars 3, 4, 7).

A library that is not installed is left out with a message: `pip install --group bench`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import numpy as np

from joins_band import cpu
from joins_loads import SelectLoad, at_least, at_most, numpy_selections, select_joins, select_load
from side_by_side import Figure, arguments, report
from tolerant.joins import SelectJoins


def duckdb_pairs(load: SelectLoad, events: int) -> Callable[[], int]:
    import pandas as pd

    connection = import_module("duckdb").connect(config={"threads": 1})
    names = ("a_low", "a_high", "c_low", "c_high")
    ranges = dict(zip(names, load.ranges, strict=True))
    connection.register("queries", pd.DataFrame({"q": np.arange(len(load.ranges[0])), **ranges}))
    connection.register("held", pd.DataFrame({"s": np.arange(len(load.b)), "b": load.b, "c": load.c}))
    given = {"e": np.arange(events), "a": load.a_events[:events], "b": load.b_events[:events]}
    connection.register("given", pd.DataFrame(given))
    for name in ("queries", "held", "given"):
        connection.execute(f"CREATE TABLE {name}_t AS SELECT * FROM {name}")
    statement = """SELECT g.e, q.q, h.s FROM given_t g JOIN held_t h USING (b)
                   JOIN queries_t q ON g.a BETWEEN q.a_low AND q.a_high AND h.c BETWEEN q.c_low AND q.c_high"""
    return lambda: len(connection.execute(statement).fetchnumpy()["q"])


def polars_pairs(load: SelectLoad, events: int) -> Callable[[], int]:
    polars = import_module("polars")
    col, names = polars.col, ("a_low", "a_high", "c_low", "c_high")
    queries = polars.DataFrame({"q": np.arange(len(load.ranges[0])), **dict(zip(names, load.ranges, strict=True))})
    held = polars.DataFrame({"s": np.arange(len(load.b)), "b": load.b, "c": load.c})

    def run() -> int:
        total = 0
        for a, b in zip(load.a_events[:events], load.b_events[:events], strict=True):
            chosen = queries.filter((col("a_low") <= a) & (col("a_high") >= a))
            found = held.filter(col("b") == b).join_where(chosen, col("c") >= col("c_low"), col("c") <= col("c_high"))
            total += found.height
        return total

    return run


def indexed_pairs(load: SelectLoad, events: int, holding: Callable[[float], np.ndarray]) -> Callable[[], int]:
    """An index of the a ranges, `holding` the ids of those that hold a value, and NumPy for the rest."""
    order = np.lexsort((load.c, load.b))
    b, c = load.b[order], load.c[order]

    def run() -> int:
        total = 0
        for a, value in zip(load.a_events[:events].tolist(), load.b_events[:events].tolist(), strict=True):
            partners = c[np.searchsorted(b, value) : np.searchsorted(b, value, side="right")]
            ids = holding(a)
            begins = np.searchsorted(partners, load.ranges[2][ids])
            sizes = np.searchsorted(partners, load.ranges[3][ids], side="right") - begins
            total += len(np.repeat(ids, sizes))
        return total

    return run


def ncls_pairs(load: SelectLoad, events: int) -> Callable[[], int]:
    ids = np.arange(len(load.ranges[0]), dtype=np.int64)
    index = import_module("ncls").FNCLS(load.ranges[0], np.nextafter(load.ranges[1], np.inf), ids)
    one = np.zeros(1, np.int64)

    def holding(a: float) -> np.ndarray:
        return index.all_overlaps_both(np.array([a]), np.array([np.nextafter(a, np.inf)]), one)[1].astype(np.int64)

    return indexed_pairs(load, events, holding)


def superintervals_pairs(load: SelectLoad, events: int) -> Callable[[], int]:
    # Integers of 32 bits: ranges are taken a little wider, and looked at again.
    scale = 1e5
    low, high = load.ranges[:2]
    index = import_module("superintervals").IntervalMap()
    for k in range(len(low)):
        index.add(int(low[k] * scale) - 1, int(high[k] * scale) + 1, k)
    index.build()

    def holding(a: float) -> np.ndarray:
        ids = np.array(index.search_values(int(a * scale), int(a * scale)), np.int64)
        return ids[(low[ids] <= a) & (high[ids] >= a)]

    return indexed_pairs(load, events, holding)


def intervaltree_pairs(load: SelectLoad, events: int) -> Callable[[], int]:
    low, high = load.ranges[:2]
    index = import_module("intervaltree").IntervalTree.from_tuples(
        zip(low.tolist(), np.nextafter(high, np.inf).tolist(), range(len(low)), strict=True)
    )
    return indexed_pairs(load, events, lambda a: np.array([one.data for one in index[a]], np.int64))


OTHERS = {
    "duckdb": (duckdb_pairs, 5, 150.0),
    "polars": (polars_pairs, 20, 8.0),
    "ncls": (ncls_pairs, 20, None),
    "superintervals": (superintervals_pairs, 20, None),
    "intervaltree": (intervaltree_pairs, 3, None),
}


def against_libraries(joins: SelectJoins, load: SelectLoad, ours: float, judged: bool) -> list[Figure]:
    figures = []
    for name, (make, events, bar) in OTHERS.items():
        try:
            import_module(name)
        except ImportError:
            print(f"  {name} is not installed: left out")
            continue
        run = make(load, events)
        pairs, wanted = run(), len(joins.probe_many(load.a_events[:events], load.b_events[:events])[0])
        equal = "equal output" if pairs == wanted else f"{pairs:,} of {wanted:,} pairs"
        ratio = cpu(run, 1) / events / ours
        figures.append(at_least(f"ssi over {name} ({equal})", ratio, bar if judged and bar is not None else None))
    return figures


def mixed(groups: int, queries: int = 40_000, rows: int = 30_000, events: int = 400) -> SelectLoad:
    """Queries crowded on a tenth of a, rows crowded on ten values of b; events in and out of both crowds."""
    rng = np.random.default_rng(0)
    crowded = rng.random(queries) < 0.97
    middle = np.where(crowded, rng.uniform(0, 1000, queries), rng.uniform(1000, 10_000, queries))
    centre = rng.uniform(0, 10_000, groups)[rng.integers(0, groups, queries)]
    reach = rng.exponential(0.5, (2, queries))
    b = np.where(rng.random(rows) < 0.6, rng.integers(0, 10, rows), rng.integers(10, 30_010, rows)).astype(float)
    a_events = np.where(rng.random(events) < 0.5, rng.uniform(0, 1000, events), rng.uniform(1000, 10_000, events))
    b_events = np.where(rng.random(events) < 0.5, rng.integers(0, 10, events), rng.integers(10, 30_010, events))
    ranges = (middle - 60, middle + 60, centre - reach[0], centre + reach[1])
    return SelectLoad(ranges, b, rng.uniform(0, 10_000, rows), a_events, b_events.astype(float))


def routing(groups: int, bar: float) -> Figure:
    """What "auto" takes, as a share of the best single method."""
    load = mixed(groups)
    joins = select_joins(load)
    times = {
        method: cpu(lambda method=method: joins.probe_many(load.a_events, load.b_events, method), 5)
        for method in ("auto", "ssi", "select-first", "join-first")
    }
    share = times["auto"] / min(spent for method, spent in times.items() if method != "auto")
    return at_most(f"auto over the best method, {joins.groups:,} groups", share, bar, "")


def deciding(queries: int) -> Figure:
    """What "auto" takes longer than the one method that it chooses, for rows with few results."""
    load = select_load(queries, queries, 4000, half=0.01)
    joins = select_joins(load)
    probes = load.a_events, load.b_events
    (method,) = {joins.choose(float(a), float(b)) for a, b in zip(*probes, strict=True)}
    auto, fixed = (cpu(lambda method=method: joins.probe_many(*probes, method), 10) for method in ("auto", method))
    return at_most(f"deciding, where {method} is taken", 1e6 * (auto - fixed) / len(probes[0]), 1.0, "µs a row")


def growth(queries: int) -> list[Figure]:
    """Ten times the queries at equal output, ten times the groups, twice the output."""
    loads = (
        select_load(queries, queries, 200),
        select_load(10 * queries, queries, 200, half=0.05),
        select_load(queries, queries, 200, groups=300),
        select_load(queries, queries, 200, half=1.0),
    )
    times = []
    for load in loads:
        joins = select_joins(load)
        times.append(cpu(lambda load=load, joins=joins: joins.probe_many(load.a_events, load.b_events, "ssi")))
    bars = (("ten times the queries", 2.0), ("ten times the groups", 10.0), ("twice the output", 2.2))
    return [
        at_most(f"time for {name}", spent / times[0], bar) for (name, bar), spent in zip(bars, times[1:], strict=True)
    ]


def main() -> None:
    quick = arguments("Select joins against what a user would otherwise pick.").quick
    size = 20_000 if quick else 100_000
    load = select_load(size, size, 200)
    joins = select_joins(load)
    order = np.lexsort((load.c, load.b))
    b, c = load.b[order], load.c[order]
    few = load.a_events[:20], load.b_events[:20]
    assert numpy_selections(load.ranges, b, c, *few) == len(joins.probe_many(*few)[0])
    ours = cpu(lambda: joins.probe_many(load.a_events, load.b_events, "ssi"), 5) / 200
    plain = cpu(lambda: numpy_selections(load.ranges, b, c, *few)) / 20
    figures = [Figure("ssi, result arrays included", 1e6 * ours, "µs an event")]
    for name, spent, bar in [
        ("numpy mask and searchsorted", plain, 12.0),
        *(
            (method, cpu(lambda method=method: joins.probe_many(*few, method)) / 20, None)
            for method in ("select-first", "join-first", "scan")
        ),
    ]:
        judged = bar is not None and not quick
        figures.append(at_least(f"ssi over {name}", spent / ours, bar if judged else None))
    figures += against_libraries(joins, load, ours, not quick)
    figures += [routing(3_700, 0.9), routing(255, 1.1), deciding(size), *growth(10_000 if quick else 100_000)]
    if not report("joins-select", {"queries": size, "rows": size, "groups": joins.groups}, figures):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
