"""Holds what was answered against what was true, from the journals of the sensors and the rows of the log alone.

It shares no code with the pipeline. What is promised: a settled answer holds the truth at its `at` and at every moment
until the next answer, and is at most 2·within wide. The truth is of values in the order of their event times. Of a
process that was killed, sensors are what they were at the last `through` that the log accepted, until it is back; later
values never reached the log. An answer that stands more than a lease after that must not be settled. Left out are the
spans of rows that came into the log later than the latency after their time; which of those there may be is `undue`'s
business.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

SLACK = 1e-6
FIRST, SOON = 1_000_000, 5_000_000  # microseconds
EPOCH = 40  # bits of a sequence that count within one start of a source


class Broken(NamedTuple):
    """A promise that was not kept."""

    query: str
    at: int
    low: float
    high: float
    truth: float
    why: str


@dataclass
class Verdict:
    """What came of it."""

    checked: dict[str, int] = field(default_factory=dict)  # settled answers, by query
    moments: int = 0
    late: list[LateRow] = field(default_factory=list)  # one row of each append that came too late
    broken: list[Broken] = field(default_factory=list)


@dataclass(frozen=True)
class Life:
    """One start of a process: from its first row to the last `through` that the log accepted."""

    source: str
    epoch: int
    begin: int
    through: int


def lives(rows: list[dict]) -> list[Life]:
    """The starts of all processes, in order of their first rows."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for row in rows:
        if row["kind"] != "clock":
            start = row["source"], row["sequence"] >> EPOCH
            begin, through = found.get(start, (row["at"], row["through"]))
            found[start] = min(begin, row["at"]), max(through, row["through"])
    ordered = sorted(found.items(), key=lambda one: one[1])
    return [Life(source, epoch, *span) for (source, epoch), span in ordered]


class LateRow(NamedTuple):
    """A row that came too late: from when to when it was missing."""

    begin: int
    end: int
    source: str = ""
    epoch: int = 0


def late_rows(rows: list[dict], latency: int) -> list[LateRow]:
    """The rows that came too late, by the clock rows before them in the log."""
    watermark, found = 0, []
    for row in rows:
        if row["kind"] == "clock":
            watermark = max(watermark, row["at"] - latency if row["at"] > 0 else 0)
        elif row["at"] <= watermark:
            found.append(LateRow(row["at"], watermark, row["source"], row["sequence"] >> EPOCH))
    return found


def late_appends(late: list[LateRow]) -> list[LateRow]:
    """The first row of each append that came too late: all its rows did so together."""
    return list({(row.source, row.epoch, row.end): row for row in reversed(late)}.values())[::-1]


def undue(late: list[LateRow], spans: list[Life], disturbances: list[int]) -> list[LateRow]:
    """The late appends that nothing excuses. `disturbances`: when a process was killed or started.

    What a process sends of its first second is never late: whatever it still has to load or compile then, it does by
    itself. Of the other appends one may be late for each disturbance, soon after it: killing and starting processes
    takes the processors, and SQLite's lock, from those that live.
    """
    excuses, found = sorted(disturbances), []
    for row in late:
        is_first = any(
            (life.source, life.epoch) == (row.source, row.epoch) and row.begin < life.begin + FIRST for life in spans
        )
        excuse = next((at for at in excuses if 0 <= row.end - at <= SOON), None)
        if is_first or excuse is None:
            found.append(row)
        else:
            excuses.remove(excuse)
    return found


class Truth:
    """The values of all sensors at every moment at which one was set; NaN before a sensor's first."""

    def __init__(self, journals: dict[str, Path], spans: list[Life], sensors: int) -> None:
        sets: list[tuple[int, int, np.ndarray]] = []
        for source, path in journals.items():
            own = [life for life in spans if life.source == source]
            for line in path.read_text().splitlines(keepends=True):
                at, first, *values = line.split(" ")
                if line.endswith("\n") and self._counts(int(at), own):  # not one that a kill has cut
                    sets.append((int(at), int(first), np.array([float(value) for value in values])))
        sets.sort(key=lambda one: one[0])
        self.at = np.array([at for at, _, _ in sets])
        self.values = np.full((len(sets), sensors), np.nan)
        current = np.full(sensors, np.nan)
        for row, (_, begin, changed) in enumerate(sets):
            current[begin : begin + len(changed)] = changed
            self.values[row] = current

    @staticmethod
    def _counts(at: int, own: list[Life]) -> bool:
        """Whether a value was set while its process lived, as far as the log knows."""
        return any(life.begin <= at <= life.through for life in own)

    def during(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """The moments from `begin` to before `end` at which values changed, `begin` too, and all values at each."""
        first = max(int(np.searchsorted(self.at, begin, "right")) - 1, 0)
        last = int(np.searchsorted(self.at, end, "left"))
        moments = np.maximum(self.at[first:last], begin)
        # Sets of one moment are one transaction: the last one counts.
        keep = np.append(moments[1:] != moments[:-1], True) if len(moments) else np.zeros(0, bool)
        return moments[keep], self.values[first:last][keep]


AGGREGATES = {
    "count": lambda values: np.sum(~np.isnan(values), axis=1).astype(float),
    "sum": lambda values: np.nansum(values, axis=1),
    "avg": lambda values: np.nanmean(values, axis=1),
    "min": lambda values: np.nanmin(values, axis=1),
    "max": lambda values: np.nanmax(values, axis=1),
}


def check(
    answers: dict[str, list],
    within: dict[str, float],
    truth: Truth,
    spans: list[Life],
    late: list[LateRow],
    *,
    lease: int,
    end: int,
) -> Verdict:
    """Hold every settled answer, until the next one or `end`, against the truth; queries are named like aggregates."""
    verdict = Verdict(late=late_appends(late))
    for query, listed in answers.items():
        listed = sorted(listed, key=lambda answer: answer.at)
        ends = [answer.at for answer in listed[1:]] + [end]
        for answer, until in zip(listed, ends, strict=True):
            if answer.settled:
                verdict.checked[query] = verdict.checked.get(query, 0) + 1
                _check_one(query, answer, until, within[query], truth, spans, late, lease, verdict)
    return verdict


def _check_one(query, answer, until, within, truth, spans, late, lease, verdict) -> None:
    moments, values = truth.during(answer.at, until)
    if answer.value is None:
        if len(values) and not np.isnan(values).all():
            verdict.broken.append(Broken(query, answer.at, np.nan, np.nan, np.nan, "nothing, but there are sensors"))
        return
    low = answer.low if answer.low is not None else -np.inf
    high = answer.high if answer.high is not None else np.inf

    def broken(at: int, exact: float, why: str) -> None:
        verdict.broken.append(Broken(query, int(at), low, high, float(exact), why))

    if high - low > 2 * within + SLACK:
        broken(answer.at, np.nan, "too wide")
    for life in spans:
        later = [one.begin for one in spans if one.source == life.source and one.epoch > life.epoch]
        dead_until = min(later, default=until)
        silent = life.through + lease
        if query != "count" and max(answer.at, silent) + 1 < min(until, dead_until):
            broken(answer.at, np.nan, f"settled, but {life.source} is silent since {life.through}")
    if not len(moments) or np.isnan(values[0]).all():
        return
    exact = AGGREGATES[query](values)
    wrong = ~((low - SLACK <= exact) & (exact <= high + SLACK))
    verdict.moments += len(moments)
    for place in np.flatnonzero(wrong).tolist():
        if not any(row.begin <= moments[place] <= row.end for row in late):
            broken(moments[place], exact[place], "wrong")
