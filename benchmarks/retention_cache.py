"""Speed of `retention.cache` at any memory, and hits without a model against caches that others use
(`docs/design/retention.md` §5, §7).
"""

from __future__ import annotations

import sys
import time

from side_by_side import Figure, arguments, report
from tolerant.experiments.workloads.cache_baselines import arc_hits, s3_fifo_hits, shifting_zipf
from tolerant.retention import cache


def speed(references: int) -> list[Figure]:
    """Seconds for each rule, the worst over small, middling and huge memories."""
    values = shifting_zipf(0.8, references // 5, references, 0, seed=1)
    figures = []
    for policy in ("lru", "lfu", "optimal"):
        cache(values[:100], 10, policy)
        worst = 0.0
        for memory in (100, references // 100, references // 7):
            seconds = []
            for _ in range(3):
                start = time.perf_counter()
                cache(values, memory, policy)
                seconds.append(time.perf_counter() - start)
            worst = max(worst, min(seconds))
        limit = 2.0 * references / 1_000_000
        figures.append(Figure(f"{policy}, {references:,} references", worst, "s", f"< {limit:g}", worst < limit))
    return figures


def learning(references: int, values: int, memory: int) -> list[Figure]:
    """Hits of what is learned over those of the best of the others."""
    figures = []
    for skew in (0.7, 1.0):
        for every in (0, 100, 20):
            asked = shifting_zipf(skew, values, references, every, seed=2)
            others = {
                "LRU": cache(asked, memory, "lru").hits,
                "LFU": cache(asked, memory, "lfu").hits,
                "ARC": arc_hits(asked.tolist(), memory),
                "S3-FIFO": s3_fifo_hits(asked.tolist(), memory),
            }
            best = max(others, key=lambda name: others[name])
            ratio = cache(asked, memory).hits / others[best]
            case = f"Zipf {skew}, {f'moving every {every}' if every else 'still'}"
            figures.append(Figure(f"hits, {case}, over {best}", ratio, "×", "≥ 0.95", ratio >= 0.95))
    return figures


def main() -> None:
    quick = arguments(__doc__ or "").quick
    figures = speed(200_000 if quick else 1_000_000)
    figures += learning(10_000, 2000, 100) if quick else learning(30_000, 5000, 250)
    sys.exit(0 if report("retention-cache", {"quick": quick}, figures) else 1)


if __name__ == "__main__":
    main()
