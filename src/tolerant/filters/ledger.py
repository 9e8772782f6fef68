"""Grants as they are issued: numbered, held in the items' slots until confirmed, and kept until somebody sends them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tolerant.filters import beliefs
from tolerant.filters.book import Book
from tolerant.filters.state import Codes, Decided, Flags, Floats, Integers
from tolerant.kernels.decay import boundaries_passed, powers
from tolerant.kernels.versions import version

_LONGEST = 5.0
"""Boundaries: a grant is not taken to be under way for longer."""
_FORGETTING = 0.9
"""At a boundary, what is kept of the time that grants were seen to take."""
_MARGIN = 1.5
"""Times that time: a grant not confirmed by then is taken to be lost."""

_NO_DECISIONS = (np.int64, np.float64, np.bool_, np.int64, np.int64, np.bool_, np.float64, np.int8, np.float64)


class Ledger:
    """Issues grants for the items of a book. `passed` is the number of boundaries so far, `issued` that of grants.

    A version below `floor` confirms nothing: another pipeline may have granted since.
    `interval`: microseconds between boundaries, where times are event times; None: a boundary is one more `passed`.
    """

    def __init__(self, book: Book, shrink: float, epoch: int, interval: int | None) -> None:
        self._book = book
        self.powers = powers(shrink)
        self.epoch, self.interval = epoch, interval
        self.passed = 0
        self.issued = 0
        self.floor = 0
        self.under_way = 0.0
        """Boundaries that grants have lately passed on their way, at most."""
        self._decided: list[Decided] = []

    def state(self) -> list[Any]:
        """Its numbers, for `load`."""
        return [self.passed, self.issued, self.epoch, self.floor, self.under_way]

    def load(self, numbers: list[Any]) -> None:
        """Become what `state` said."""
        self.passed, self.issued, self.epoch, self.floor, self.under_way = numbers

    def granted(self) -> Floats:
        """The width that the newest grant gives now, of every item index; infinite where there is none."""
        return beliefs.granted_many(self._book.items, self._book.size, self.passed, self.powers)

    def shrinking(self) -> Flags:
        """Whether the newest grant shrinks at boundaries, of every item index."""
        state, n = self._book.items, self._book.size
        held = state.held[:n].astype(np.int64)
        return state.slot_shrinks[np.arange(n), np.maximum(held - 1, 0)] & (held > 0)

    def newest(self, items: Integers) -> Integers:
        """The version of the newest grant of each item, 0 where there is none."""
        state = self._book.items
        held = state.held[items].astype(np.int64)
        return np.where(held > 0, state.slot_high[items, np.maximum(held - 1, 0)], 0)

    def refresh(self) -> None:
        """Bring the believed widths up to date."""
        beliefs.refresh_widths(self._book.items, self._book.size, self.passed, self.powers)

    def pass_boundary(self, at: int) -> None:
        """A boundary is behind us."""
        self.under_way *= _FORGETTING
        self.passed = boundaries_passed(at + 1, self.interval) if self.interval else self.passed + 1

    def leap(self, at: int) -> int:
        """All boundaries up to the one at `at` are behind us, in event time; how many they were."""
        assert self.interval is not None
        before, self.passed = self.passed, boundaries_passed(at + 1, self.interval)
        self.under_way *= _FORGETTING ** (self.passed - before)
        return self.passed - before

    def issue(self, which: Integers, widths: Floats, shrinks: Flags, at: int) -> None:
        """Grant widths to items, from just after `at` on."""
        since = at + 1 if self.interval else at
        begun = boundaries_passed(since, self.interval) if self.interval else self.passed
        # One counter for all items: an item that comes back after it was forgotten must not see a version again.
        first = version(self.epoch, self.issued + 1)
        self.issued += len(which)
        versions, narrower = beliefs.issue_many(
            which, widths, shrinks, first, since, begun, self.passed, self.powers, self._book.items
        )
        self._decide(which, widths, shrinks, np.full(len(which), since), versions, narrower)

    def leave(self, which: Integers, far: Codes, floors: Floats, at: int) -> None:
        """Let items be anything on the far side of their floors, unheard, until their next row."""
        state = self._book.items
        state.far[which], state.leave[which], state.asked[which] = far, floors, False
        self.issue(which, self.granted()[which], self.shrinking()[which], at)
        self._decided[-1] = self._decided[-1]._replace(far=far, leave=floors)
        state.leave_version[which] = self._decided[-1].version

    def ask(self, which: Integers, at: int) -> None:
        """Ask items for a row, which ends their leave; they keep their widths."""
        self._book.items.asked[which] = True
        self.issue(which, self.granted()[which], self.shrinking()[which], at)
        self._decided[-1].confirm[:] = True

    def repeat(self, which: Integers, at: int) -> None:
        """Grant items the width that they have, under a new version."""
        self.issue(which, self.granted()[which], self.shrinking()[which], at)

    def answer_strangers(
        self, items: Integers, ats: Integers, grants: Integers, known: Flags, strange: Integers
    ) -> None:
        """Grant again where a row carried a version that is not held: once when that is news, boundaries do the rest.

        Arrays are over rows; `known` says whose width was known before them, `strange` which rows it is about.
        """
        news = known[strange] | (grants[strange] >= self.newest(items[strange]))
        rows = strange[news & (self._book.items.held[items[strange]] > 0)]
        which, first = np.unique(items[rows], return_index=True)
        for at in np.unique(ats[rows[first]]):
            self.repeat(which[ats[rows[first]] == at], int(at))

    def time_grants(self, items: Integers, versions: Integers) -> None:
        """Learn how long grants take from rows, about to be applied, that carry these versions."""
        state = self._book.items
        newest = state.held[items].astype(np.int64) - 1
        news = np.flatnonzero((newest > 0) & (versions == state.slot_high[items, newest]))
        if len(news):
            passed = self.passed - state.slot_since[items[news], newest[news]]
            self.under_way = min(max(self.under_way, float(passed.max())), _LONGEST)

    def resend(self, unheard: Integers | None = None) -> None:
        """Send grants again that have not been confirmed, unless they may be under way; those of items that nobody
        hears wait.
        """
        state = self._book.items
        which = beliefs.unconfirmed(state, self._book.size, self.passed, self.powers)
        age = self.passed - state.slot_since[which, state.held[which] - 1]
        which = which[age > _MARGIN * self.under_way]
        if unheard is not None:
            which = np.setdiff1d(which, unheard)
        newest = state.held[which] - 1
        widths, shrinks = state.slot_width[which, newest], state.slot_shrinks[which, newest]
        versions, confirm = state.slot_high[which, newest], np.ones(len(which), np.bool_)
        self._decide(which, widths, shrinks, state.granted_at[which], versions, confirm)

    def _decide(
        self, which: Integers, widths: Floats, shrinks: Flags, since: Integers, versions: Integers, confirm: Flags
    ) -> None:
        far, leave = np.zeros(len(which), np.int8), np.zeros(len(which))
        self._decided.append(Decided(which, widths, shrinks, since, versions, confirm, self._units(which), far, leave))

    def _units(self, which: Integers) -> Floats:
        """What the items' ladders are relative to: their uniform widths, 0 for an item that no query needs."""
        uniform = self._book.rows().uniform[which]
        return np.where(np.isinf(uniform), 0.0, uniform)

    def take(self) -> Decided:
        """The grants decided since this was last asked, the newest of each item; to be confirmed if it ever was."""
        if not self._decided:
            return Decided._make(np.zeros(0, kind) for kind in _NO_DECISIONS)
        all_of = Decided._make(np.concatenate(parts) for parts in zip(*self._decided, strict=True))
        self._decided = []
        order = np.lexsort((all_of.confirm, all_of.version, all_of.item))
        last = order[np.append(np.diff(all_of.item[order]) != 0, True)] if len(order) else order
        return Decided._make(column[last] for column in all_of)
