"""A coordinator for updates that take time to arrive (`docs/design/filters.md` §2.7, §5.4)."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tolerant.filters.coordinator import Coordinator
from tolerant.filters.status_view import narrowed
from tolerant.queries import Aggregate, Answer


class LatencyCoordinator:
    """A coordinator whose updates take up to `allowance`, in the unit of `at`, to arrive.

    Without `max_rates`, updates are applied in the order in which they were sent, once `allowance` has passed: answers
    are of that long ago. With `max_rates`, the most that each item changes per unit of time, updates are applied at
    once: answers are of now, and wider by what items may have changed meanwhile. `options`: those of `Coordinator`.
    """

    def __init__(
        self,
        queries: Iterable[Aggregate] = (),
        *,
        allowance: int,
        max_rates: Mapping[str, float] | None = None,
        **options: Any,
    ) -> None:
        if not allowance >= 0:
            raise ValueError(f"allowance must be a time, not negative, got {allowance}")
        margins = {item: _checked_rate(item, rate) * allowance for item, rate in (max_rates or {}).items()}
        self.coordinator = Coordinator(queries, margins=margins or None, **options)
        self.allowance = allowance
        self.late = 0
        """Number of updates that came after `allowance`; they are applied all the same."""
        self._delays = allowance > 0 and not max_rates
        self._waiting: list[tuple[int, str, float, int | None, float]] = []
        self._frontier = 0

    def update(self, item: str, value: float, at: int, grant: int | None = None, *, slope: float = 0.0) -> None:
        """Accept a value that a source sent at `at`: see `Coordinator.update`."""
        if not self._delays:
            self.coordinator.update(item, value, at, grant, slope=slope)
            return
        if item not in self.coordinator.membership.index:
            raise ValueError(f"item {item!r} is in no query")
        if not np.isfinite(value):
            raise ValueError(f"value of item {item!r} must be finite, got {value}")
        self.late += at <= self._frontier
        insort(self._waiting, (at, item, float(value), grant, slope), key=lambda row: row[0])

    def boundary(self, at: int) -> dict[str, float]:
        """End a period: see `Coordinator.boundary`."""
        self._release(at - self.allowance)
        return self.coordinator.boundary(at)

    def answers(self, now: int | None = None) -> list[Answer]:
        """The answers of all queries; omits queries with an item that has no value yet.

        Without maximal rates, they are of now − allowance; `now` is by default the time of the newest update. With
        maximal rates and `now`, an answer is as narrow as the rates and the time since the updates allow.
        """
        inner = self.coordinator
        if self._delays:
            newest = max([inner.emitter.at, *(row[0] for row in self._waiting)])
            self._release((newest if now is None else now) - self.allowance)
            return inner.answers(self._frontier)
        answers = inner.answers()
        if now is None or not self.allowance or inner.policy.name == "predictive":
            return answers
        queries, items = inner.membership.query, inner.membership.items
        return [narrowed(answer, queries(answer.query), items, now, self.allowance) for answer in answers]

    def _release(self, frontier: int) -> None:
        """Apply the updates sent up to `frontier`, in the order in which they were sent."""
        self._frontier = max(self._frontier, frontier)
        due = [row for row in self._waiting if row[0] <= self._frontier]
        del self._waiting[: len(due)]
        for at, item, value, grant, slope in due:
            self.coordinator.update(item, value, at, grant, slope=slope)


def _checked_rate(item: str, rate: float) -> float:
    if not (np.isfinite(rate) and rate >= 0):
        raise ValueError(f"max_rates of item {item!r} must be finite and not negative, got {rate}")
    return float(rate)
