"""Feeds `examples/traffic.sql` with packet rates that wander: most of them need not be sent.

Run the pipeline first (`tolerant run examples/traffic.sql`), then `python examples/feed.py [seconds]`, then
`tolerant watch inbound`.
"""

from __future__ import annotations

import random
import sys
import time

from tolerant.edge import Source


def main(seconds: float, log: str = "sqlite:///tolerant.db") -> None:
    rates = {(f"web-{n}", kind): 100.0 * n for n in range(1, 6) for kind in ("in", "out")}
    end = time.monotonic() + seconds
    with Source("traffic", log) as source:
        while time.monotonic() < end:
            for item in rates:
                rates[item] = max(0.0, rates[item] + random.gauss(0, 2))
                source.set(item, rates[item])
            time.sleep(1.0)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
