"""Speed of `retention.join` against rescoring every held row with NumPy, its growth with the memory, and bytes per
row (`docs/design/retention.md` §7).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from side_by_side import Figure, arguments, compare, report
from tolerant.retention import Exponential, NormalNoise, Stationary, Store, Trend, Walk, join
from tolerant.retention.scorer import ENDLESS, score
from tolerant.retention.scorer_tables import scorer_of

SURVIVAL = Exponential(50.0)


def trends(memory: int, ticks: int) -> tuple[np.ndarray, np.ndarray, tuple[Trend, Trend]]:
    """Two rising streams whose noise is as wide as the memory: most held rows are of use."""
    rng = np.random.default_rng(memory)
    noises = NormalNoise(0.33 * memory, memory), NormalNoise(0.5 * memory, int(1.5 * memory))
    drawn = [rng.choice(np.arange(-n.bound, n.bound + 1), ticks, p=n.weights()) for n in noises]
    line = np.arange(ticks)
    return line - 1 + drawn[0], line + drawn[1], (Trend(1, -1, noises[0]), Trend(1, 0, noises[1]))


def tables(models: tuple[Trend, Trend]) -> list[tuple[np.ndarray, int, float]]:
    """H by offset, for rows of r and of s: table, its first offset, and the trend's offset."""
    made = []
    for model in (models[1], models[0]):
        low, high = -model.noise.bound - 2, 6 * model.noise.bound
        scorer = scorer_of(Trend(1, 0, model.noise), [SURVIVAL])
        logs = [score(scorer, np.int64(0), np.int64(v), ENDLESS, np.int64(0), np.int64(0))[0] for v in range(low, high)]
        made.append((np.exp(logs), low, model.offset))
    return made


def rescored(r: np.ndarray, s: np.ndarray, memory: int, looked_up: list[tuple[np.ndarray, int, float]]) -> int:
    """What one would write: every held row's score from a table at each tick, then `argpartition`."""
    streams, values = np.empty(memory + 2, np.int64), np.empty(memory + 2, np.int64)
    (table_r, low_r, offset_r), (table_s, low_s, offset_s) = looked_up
    table = np.concatenate([table_r, table_s])
    shift = np.array([-low_r, len(table_r) - low_s])
    held = results = 0
    for t in range(len(r)):
        now = np.array([s[t], r[t]])
        results += int(np.count_nonzero(values[:held] == now[streams[:held]]))
        streams[held : held + 2] = (0, 1)
        values[held : held + 2] = (r[t], s[t])
        held += 2
        if held > memory:
            bases = shift - np.array([t + int(offset_r), t + int(offset_s)])
            scores = table[np.maximum(values[:held] + bases[streams[:held]], bases[streams[:held]] * 0)]
            kept = np.argpartition(scores, held - memory - 1)[held - memory :]
            streams[:memory], values[:memory] = streams[kept], values[kept]
            held = memory
    return int(results)


def against_numpy(memory: int, ticks: int, bar: float | None) -> Figure:
    r, s, models = trends(memory, ticks)
    looked_up = tables(models)
    few = max(ticks // 20, 3 * memory)

    def plain() -> None:
        rescored(r[:few], s[:few], memory, looked_up)

    comparison = compare(
        f"heeb on trends, memory {memory}, {ticks:,} ticks (NumPy: {few:,} of them)",
        {"ours": lambda: join(r, s, memory, models=models, survival=SURVIVAL), "numpy": plain},
    )
    seconds = {timing.name: timing.best for timing in comparison.timings}
    ours, theirs = seconds["ours"] / ticks, seconds["numpy"] / few
    print(f"{comparison.title}: {1e6 * ours:.2f} µs a tick, NumPy {1e6 * theirs:.1f} µs")
    ratio = theirs / ours
    holds = None if bar is None else ratio >= bar
    return Figure(f"heeb on trends over NumPy, memory {memory}", ratio, "×", f"≥ {bar}" if bar else "", holds)


def best(run: Callable[[], object], rounds: int) -> float:
    run()
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def growth(ticks: int, rounds: int) -> list[Figure]:
    """The time of a tick at memory 100,000 over that at 1,000."""
    times: dict[str, dict[int, float]] = {}
    for memory in (1000, 100_000):
        n = ticks + 2 * memory
        rng = np.random.default_rng(0)
        weights = 1.0 / np.arange(1, 4 * memory + 1) ** 0.5
        weights /= weights.sum()
        a, b = rng.choice(4 * memory, (2, n), p=weights)
        often = Stationary(weights)
        walks = np.cumsum(np.rint(rng.normal(0, 1, (2, n))).astype(np.int64), axis=1)
        r, s, models = trends(10_000, n)  # the same noise: only the memory grows
        still, wander = (often, often), (Walk(0, 1), Walk(0, 1))
        runs: dict[str, Callable[[], object]] = {
            "prob, stationary": lambda a=a, b=b, m=memory, o=still: join(a, b, m, "prob", models=o),
            "heeb, stationary": lambda a=a, b=b, m=memory, o=still: join(a, b, m, models=o),
            "heeb, trends": lambda r=r, s=s, m=memory, o=models: join(r, s, m, models=o),
            "heeb, walks": lambda w=walks, m=memory, o=wander: join(w[0], w[1], m, models=o),
            "heeb, stationary, window": lambda a=a, b=b, m=memory, o=still: join(a, b, m, models=o, window=m),
            "prob, window": lambda a=a, b=b, m=memory: join(a, b, m, "prob", window=m),
        }
        for name, run in runs.items():
            times.setdefault(name, {})[memory] = best(run, rounds) / n
    figures = []
    for name, found in times.items():
        ratio = found[100_000] / found[1000]
        print(f"{name}: {1e6 * found[1000]:.2f} µs a tick at memory 1,000, {1e6 * found[100_000]:.2f} µs at 100,000")
        bar = None if "window" in name else 3.0
        holds = None if bar is None else ratio <= bar
        figures.append(Figure(f"growth to 100 times the memory: {name}", ratio, "×", "≤ 3" if bar else "", holds))
    return figures


def bytes_a_row(memory: int) -> list[Figure]:
    """All values different, which takes most."""
    rng = np.random.default_rng(0)
    often = Stationary({0: 0.5})
    kinds = {"stationary": (often, often), "walks": (Walk(0, 1), Walk(0, 1))}
    figures = []
    for name, models in kinds.items():
        store = Store(memory, models=models)
        for start in range(0, 3 * memory // 2, 500):
            for stream in "rs":
                store.offer(stream, np.arange(start, start + 500), rng.integers(0, 2**60, 500))
            store.tick()
        size = store.nbytes / len(store)
        figures.append(Figure(f"bytes a held row, {name}", size, "bytes", "≤ 64", size <= 64))
    return figures


def main() -> None:
    quick = arguments(__doc__ or "").quick
    ticks = 20_000 if quick else 200_000
    figures = [against_numpy(10, ticks, None), against_numpy(100, ticks, None), against_numpy(1000, ticks, 50)]
    figures += growth(ticks, 1 if quick else 3)
    figures += bytes_a_row(20_000 if quick else 100_000)
    sys.exit(0 if report("retention-join", {"ticks": ticks}, figures) else 1)


if __name__ == "__main__":
    main()
