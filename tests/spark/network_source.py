"""A source of items of a network, as a process of its own: `python network_source.py URI STREAM JOURNAL ITEM=STEP …`.

Every value is in the journal, with its event time, before it is offered again.
"""

import random
import sys
import time

from tolerant.edge import Source


def main() -> None:
    uri, stream, journal, *steps = sys.argv[1:]
    moves = {item: float(step) for item, step in (one.split("=") for one in steps)}
    rng = random.Random(1)
    values = dict.fromkeys(moves, 100.0)
    with Source(stream, uri, "source") as source, open(journal, "a") as file:
        while True:
            for item, step in moves.items():
                values[item] += rng.gauss(0, step)
            at = source.set_many(list(values), list(values.values()))
            for item, value in values.items():
                file.write(f"{at} {item} {value!r}\n")
            file.flush()
            time.sleep(0.1)


if __name__ == "__main__":
    main()
