"""Checks every answer against the truth, tick by tick: the trace is known, so the promise can be checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tolerant.queries import Aggregate, Answer
from tolerant.traces import Trace

Series = tuple[str, str]
"""A query's name and a group: what has a truth of its own."""


@dataclass(frozen=True)
class Audit:
    """What the check found.

    `checks`: ticks × answers that stood then and were settled. `violations`: those that did not hold the truth, or
    were wider than promised. `unsettled`: ticks × answers that promised nothing. `answers`: published in all.
    """

    answers: int
    checks: int
    violations: int
    unsettled: int

    def __add__(self, other: Audit) -> Audit:
        return Audit(
            self.answers + other.answers,
            self.checks + other.checks,
            self.violations + other.violations,
            self.unsettled + other.unsettled,
        )


@dataclass(frozen=True)
class Held:
    """The answer that stands at each tick: low, value, high (NaN: none or not known), and whether it is settled."""

    low: NDArray[np.float64]
    value: NDArray[np.float64]
    high: NDArray[np.float64]
    standing: NDArray[np.bool_]
    settled: NDArray[np.bool_]


def truth(query: Aggregate, trace: Trace) -> NDArray[np.float64]:
    """The query's exact value at every tick, float64[ticks]."""
    columns = {item: number for number, item in enumerate(trace.items)}
    values = trace.values[:, [columns[item] for item in query.weights]]
    if query.fn == "count":
        return np.full(len(values), float(values.shape[1]))
    exact: NDArray[np.float64]
    if query.fn in ("min", "max"):
        exact = values.min(axis=1) if query.fn == "min" else values.max(axis=1)
    else:
        exact = values @ np.array(list(query.weights.values())) / (values.shape[1] if query.fn == "avg" else 1)
    return exact


def held(answers: Sequence[Answer], times: NDArray[np.int64]) -> Held:
    """Which answer of one series, given in the order of `at`, stands at each of `times`: the newest not after it."""
    at = np.array([answer.at for answer in answers], np.int64)
    newest = np.searchsorted(at, times, side="right") - 1
    standing = newest >= 0
    chosen = np.where(standing, newest, 0)

    def column(name: str) -> NDArray[np.float64]:
        values = np.array([np.nan if (v := getattr(a, name)) is None else v for a in answers], np.float64)
        return np.where(standing, values[chosen], np.nan) if len(values) else np.full(len(times), np.nan)

    settled = np.array([answer.settled for answer in answers], bool)
    return Held(
        column("low"),
        column("value"),
        column("high"),
        standing,
        standing & settled[chosen] if len(settled) else standing,
    )


def audit(
    queries: Mapping[Series, Aggregate], answers: Iterable[Answer], trace: Trace, times: NDArray[np.int64]
) -> Audit:
    """Check every series at every tick; `times[t]` is the event time of the trace's tick t, microseconds.

    Give only ticks that the pipeline's watermark has passed: before that an answer may still be on its way.
    """
    by_series: dict[Series, list[Answer]] = {series: [] for series in queries}
    for answer in answers:
        by_series[answer.query, answer.group].append(answer)
    results = [
        _audit_one(query, by_series[series], truth(query, trace)[: len(times)], times)
        for series, query in queries.items()
    ]
    return sum(results, Audit(0, 0, 0, 0))


def _audit_one(
    query: Aggregate, answers: Sequence[Answer], exact: NDArray[np.float64], times: NDArray[np.int64]
) -> Audit:
    stands = held(answers, times)
    low, high = stands.low[stands.settled], stands.high[stands.settled]
    exact = exact[stands.settled]
    # The tolerance of docs/design/filters.md §2.5: rounding, nothing else.
    slack = 1e-9 * query.within + 1e-11 * np.maximum(np.abs(exact), np.maximum(np.abs(low), np.abs(high)))
    kept = (low - slack <= exact) & (exact <= high + slack) & (high - low <= 2 * query.within + slack)
    return Audit(
        answers=len(answers),
        checks=len(kept),
        violations=int((~kept).sum()),
        unsettled=int((stands.standing & ~stands.settled).sum()),
    )
