"""Measures the server's processor time per update: messages only (S-CN), and with their receivers (S-UN)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tolerant.experiments.harness.experiment import Row
from tolerant.experiments.workloads.changing_ranges import changing_rows, watched_ranges
from tolerant.experiments.workloads.delivery_rows import Parameters
from tolerant.notifications import RangeMin, RangeSubscriptions

_ROUNDS = 5


def server_times(parameters: Parameters) -> list[Row]:
    """Measure µs per update of S-CN and S-UN; ids are listed, not serialised. The best of five rounds."""
    table = changing_rows(int(parameters["rows"]), int(parameters["events"]))
    subscriptions = RangeSubscriptions()
    watched = watched_ranges(int(parameters["subscriptions"]))
    subscriptions.add_many(np.arange(len(watched[0])), *watched)
    content = _best(lambda: RangeMin.of(*table.rows), lambda rows: rows.apply(*table.changes))
    messages = RangeMin.of(*table.rows).apply(*table.changes)
    matching = _best(lambda: None, lambda _: subscriptions.matching_many(messages))
    events = len(table.changes[0])
    times = {"s-cn": content / events, "s-un": (content + matching) / events}
    return [{**parameters, "approach": name, "microseconds": 1e6 * value} for name, value in times.items()]


def _best(prepare: Callable[[], Any], run: Callable[[Any], object]) -> float:
    seconds = []
    for _ in range(_ROUNDS + 1):  # the first one compiles
        thing = prepare()
        start = time.process_time()
        run(thing)
        seconds.append(time.process_time() - start)
    return min(seconds[1:])
