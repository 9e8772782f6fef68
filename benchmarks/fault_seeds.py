"""Seconds that a simulated history takes, and what it tests."""

from __future__ import annotations

import sys
import time

from side_by_side import Figure, arguments, report
from tolerant.testing import simulate_faults


def main() -> None:
    seeds = 20 if arguments(__doc__ or "").quick else 200
    simulate_faults(seeds)  # loads compiled code
    start = time.perf_counter()
    reports = [simulate_faults(seed) for seed in range(seeds)]
    seconds = (time.perf_counter() - start) / seeds
    violations = sum(len(one.violations) for one in reports)
    figures = [
        Figure("a seed", seconds, "s"),
        Figure("1,000 seeds on two cores", 500 * seconds, "s", "≤ 240", 500 * seconds <= 240),
        Figure("violations", violations, "", "0", violations == 0),
        Figure("rows per seed", sum(one.rows for one in reports) / seeds, ""),
        Figure("late rows per seed", sum(one.late for one in reports) / seeds, ""),
        Figure("settled answers a seed", sum(one.settled_answers for one in reports) / seeds, ""),
        Figure(
            "settled answers",
            100 * sum(o.settled_answers for o in reports) / sum(o.answers for o in reports),
            "% of all",
        ),
    ]
    sys.exit(not report("fault-seeds", {"seeds": seeds}, figures))


if __name__ == "__main__":
    main()
