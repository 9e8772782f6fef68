"""Joins two streams with room for ten rows: `python retained_join.py`."""

from __future__ import annotations

import numpy as np

from tolerant.retention import join


def main(ticks: int = 1_000, room: int = 10) -> dict[str, int]:
    """Print and return how many results each policy finds."""
    rng, line = np.random.default_rng(7), np.arange(ticks)
    ordered = line - 1 + np.rint(rng.normal(0, 2, ticks)).astype(int)  # order numbers rise, with some noise
    delivered = line + np.rint(rng.normal(0, 3, ticks)).astype(int)
    found = {policy: join(ordered, delivered, room, policy).results for policy in ("rand", "prob")}
    found["learned"] = join(ordered, delivered, room).results
    for policy, results in found.items():
        print(f"{policy:<8}{results:>6,} results")
    return found


if __name__ == "__main__":
    main()
