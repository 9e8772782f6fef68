"""A process with some of the sensors, for a check that kills it: it sets values, and notes each before it is set.

Run as: python sensors.py LOG NAME FIRST LAST JOURNAL. The journal has a line "at first v v v …" for all sensors of the
process from FIRST on, `at` being the event time that they were set at.
"""

import sys
import time

import numpy as np

from tolerant.edge import Source

PAUSE = 0.1  # seconds between two readings


def reading(sensors: np.ndarray, now: float, random: np.random.Generator, walks: np.ndarray) -> np.ndarray:
    """Steep and gentle climbs, waves, walks, and sensors that jump or rest: what prediction likes and not."""
    walks += random.normal(0, 0.3, len(walks)) + np.where(random.random(len(walks)) < 0.002, 40.0, 0.0)
    kinds = [
        20.0 * np.abs((now / (10 + sensors % 17)) % 2 - 1),  # up and down
        (3.0 + sensors % 5) * np.sin(now / (3 + sensors % 11)),
        walks,
        np.floor(now / (5 + sensors % 13)) % 7,
        0.0 * sensors,
    ]
    return 100.0 + sensors % 10 + np.choose(sensors % len(kinds), kinds)


def main(log: str, name: str, first: str, last: str, journal: str) -> None:
    sensors = np.arange(int(first), int(last))
    random = np.random.default_rng(time.time_ns() % 2**32)
    walks = np.zeros(len(sensors))
    with Source("plant", log=log, name=name) as source, open(journal, "a") as file:

        def note(at: int, begin: int, values: list[float]) -> None:
            file.write(" ".join([str(at), str(begin), *map(repr, values)]) + "\n")
            file.flush()

        keys = [f"sensor-{number:03}" for number in sensors]
        for number, value in zip(sensors.tolist(), reading(sensors, time.time(), random, walks).tolist(), strict=True):
            note(source.set(f"sensor-{number:03}", value), number, [value])
        while True:
            values = reading(sensors, time.time(), random, walks)
            note(source.set_many(keys, values), int(first), values.tolist())
            time.sleep(PAUSE)


if __name__ == "__main__":
    main(*sys.argv[1:])
