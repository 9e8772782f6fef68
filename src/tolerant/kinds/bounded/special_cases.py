"""Transactions that are more than values of known items from live sources, and how each is handled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tolerant.filters.state import Flags, Integers
from tolerant.kinds.bounded.shard_state import Rows

_NONE = np.zeros(0, np.int64)


@dataclass
class Transaction:
    """Rows with the same `at`. A special case handles some of them and takes them out."""

    at: int
    rows: Rows
    later: Rows
    """The rows after them in the same run."""
    removals: Rows = field(init=False)
    """Rows that remove items, which happens after the other rows have been applied."""
    bounded: Integers = field(default_factory=lambda: _NONE)
    """Items whose bounds change at `at` by their reported histories."""

    def __post_init__(self) -> None:
        self.removals = self.rows[:0]


@dataclass(frozen=True)
class SpecialCase:
    """Ends a run of plain rows: at the first row that `mask` marks, or at the time that `due` returns.

    `handle` is called for every special transaction that has a marked row, or for every one if there is no mask.
    """

    reason: str
    handle: Callable[[Transaction], None]
    mask: Callable[[Rows], Flags] | None = None
    due: Callable[[Rows, int], int | None] | None = None


class SpecialCases:
    """Special cases in the order in which they are handled: each sees what those before it have left and changed."""

    def __init__(self, cases: Sequence[SpecialCase]) -> None:
        self._cases = tuple(cases)

    def next(self, rows: Rows, until: int) -> int | None:
        """Returns the time of the first special transaction up to `until`, or None; `rows`: the rows until then."""
        special = np.zeros(len(rows), np.bool_)
        for case in self._cases:
            if case.mask is not None:
                special |= case.mask(rows)
        times = [case.due(rows, until) for case in self._cases if case.due is not None]
        if special.any():
            times.append(int(rows["at"][np.argmax(special)]))
        return min((at for at in times if at is not None), default=None)

    def handle(self, transaction: Transaction) -> None:
        """Handles the special cases of a transaction; leaves its plain rows, its removals and its bounded items."""
        for case in self._cases:
            if case.mask is None or case.mask(transaction.rows).any():
                case.handle(transaction)
