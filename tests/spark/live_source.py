"""A source in a process of its own, for tests that kill it: random walks, and a journal of what was true when.

Run as: python live_source.py LOG NAME SEED JOURNAL. The journal has a line "at key value" for each value set.
"""

import sys
import time

import numpy as np

from tolerant.edge import Source

ITEMS = 6


def main(log: str, name: str, seed: str, journal: str) -> None:
    random = np.random.default_rng(int(seed))
    keys = [(name, f"k{n}") for n in range(ITEMS)]
    values = random.normal(100, 10, ITEMS)
    with Source("live", log=log, name=name) as source, open(journal, "a") as file:
        while True:
            values += random.normal(0, 1, ITEMS) * np.linspace(0.1, 2, ITEMS)
            at = source.set_many(keys, values)
            file.writelines(f"{at} {name} k{n} {value!r}\n" for n, value in enumerate(values.tolist()))
            file.flush()
            time.sleep(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
