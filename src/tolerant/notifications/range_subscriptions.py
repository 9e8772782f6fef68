"""Indexes subscriptions, where they must be known: for unicast, the active check and answers on the server."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.snapshots import State
from tolerant.notifications.identifiers import Identifiers, id_array, listed
from tolerant.notifications.message import Message, Messages, finite_ends
from tolerant.notifications.notice import Notice
from tolerant.notifications.range_arguments import Floats, Integers, interval, intervals
from tolerant.notifications.slabs import built, collect, insert, match, remove, split

_SMALLEST = 16
_FEW = 256
_NONE: Integers = np.zeros(0, np.int64)


class RangeSubscriptions:
    """Ranges by id, and which of them a message affects: O(√n + matches) for n of them.

    Adding and removing takes O(√n) too. An infinite end counts as the largest number.

    >>> subscriptions = RangeSubscriptions()
    >>> subscriptions.add("s3", 25, 60)
    >>> subscriptions.add("s4", 35, float("inf"))
    >>> subscriptions.matching(Message(4.0, 40.0, 40.0, 20.0, 100.0)).tolist()
    ['s3']
    """

    def __init__(self) -> None:
        self._known = Identifiers()
        self._x1 = np.zeros(_SMALLEST)
        self._x2 = np.zeros(_SMALLEST)
        # The index stores ids while all ids are integers: matches need no lookup.
        # With other ids it stores slots, and `_ids` has the ids by slot.
        self._numbers = True
        self._ids: NDArray[Any] | None = None
        self._slabs = built(np.zeros(0), np.zeros(0), _NONE)
        self._built_for = _FEW

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, id: Hashable) -> bool:
        return self._known.slot(id) is not None

    def add(self, id: Hashable, x1: float, x2: float) -> None:
        """Add a subscription.

        Raises:
            ValueError: the id exists already, x1 > x2, or one of them is NaN.
        """
        low, high = interval("x1", x1, "x2", x2)
        self.add_many([id], [low], [high])

    def add_many(self, ids: Any, x1s: Any, x2s: Any) -> None:
        """Add subscriptions; none of them if one is refused, as by `add`."""
        names = listed(ids)
        low, high = intervals(x1s, x2s)
        if len(names) != len(low):
            raise ValueError(f"ids must be as many as x1s, {len(low)}, got {len(names)}")
        self._refuse_known(names)
        slots = self._known.add_many(names)
        self._make_room()
        self._x1[slots], self._x2[slots] = finite_ends(low, high)
        self._ids = None
        keys = id_array(names)
        others_come = self._numbers and keys.dtype == object
        self._numbers = self._numbers and not others_come
        if others_come or len(self) > 4 * self._built_for or len(names) > len(self) // 8:
            self._rebuild()
        else:
            self._insert(slots, keys if self._numbers else slots)

    def remove(self, id: Hashable) -> None:
        """Remove a subscription.

        Raises:
            ValueError: there is no such subscription.
        """
        self.remove_many([id])

    def remove_many(self, ids: Any) -> None:
        """Remove subscriptions; none of them if one is unknown."""
        names = listed(ids)
        slots = self._known.slots(names)
        if (slots < 0).any() or len(set(names)) < len(names):
            missing = next((id for id, slot in zip(names, slots.tolist(), strict=True) if slot < 0), "one twice")
            raise ValueError(f"id must be that of a subscription, got {missing!r}; add it first?")
        remove(self._slabs, self._x1[slots], self._x2[slots], np.array(names, np.int64) if self._numbers else slots)
        for id in names:
            self._known.remove(id)
        self._ids = None
        if len(self) < self._built_for // 8:
            self._rebuild()

    def all(self) -> tuple[NDArray[Any], Floats, Floats]:
        """Return all subscriptions: ids, x1s, x2s; an infinite end is the largest float."""
        ids, slots = self._known.all()
        return id_array(ids), self._x1[slots], self._x2[slots]

    def matching(self, message: Message | Notice) -> NDArray[Any]:
        """Return the ids of the subscriptions that a message affects, in no particular order."""
        return self._matching(_line(message))[1]

    def any(self, message: Message | Notice) -> bool:
        """Return whether a message affects any subscription: the active check."""
        return bool(match(self._slabs, _line(message), True)[0])

    def count(self, message: Message | Notice) -> int:
        """Return how many subscriptions a message affects."""
        return int(match(self._slabs, _line(message), False)[0])

    def matching_many(self, messages: Messages) -> tuple[Integers, NDArray[Any]]:
        """Return the subscriptions that each message affects: indices of messages and ids, one entry per pair."""
        counts, ids = self._matching(messages.lines)
        return np.repeat(np.arange(len(counts)), counts), ids

    def any_many(self, messages: Messages) -> NDArray[np.bool_]:
        """Return for each message whether it affects any subscription."""
        return match(self._slabs, messages.lines, True) > 0

    def count_many(self, messages: Messages) -> Integers:
        """Return for each message how many subscriptions it affects."""
        return match(self._slabs, messages.lines, False)

    def active(self, messages: Messages) -> Messages:
        """Return the messages that affect any subscription; the others need not be sent (§2.8)."""
        return messages.take(self.any_many(messages))

    def state(self) -> State:
        """Return all subscriptions, for a snapshot. Ids must be integers."""
        ids, x1s, x2s = self.all()
        if ids.dtype == object:
            raise ValueError("ids must all be 64-bit integers for a snapshot; use all() otherwise")
        return State(ids=ids, x1s=x1s, x2s=x2s)

    @classmethod
    def load(cls, state: State) -> Self:
        """Return the subscriptions whose `state` was taken."""
        subscriptions = cls()
        subscriptions.add_many(*state.exactly("ids", "x1s", "x2s"))
        return subscriptions

    def _matching(self, lines: Floats) -> tuple[Integers, NDArray[Any]]:
        """Return how many subscriptions each message affects, and their ids."""
        counts = match(self._slabs, lines, False)
        who = collect(self._slabs, lines, int(counts.sum()))
        if self._numbers:
            return counts, who
        if self._ids is None:
            ids, slots = self._known.all()
            self._ids = np.empty(self._known.room(), object)
            self._ids[slots] = ids
        return counts, self._ids[who]

    def _refuse_known(self, names: list[Hashable]) -> None:
        there = self._known.slots(names) >= 0 if len(self) else np.zeros(1, np.bool_)
        if there.any():
            raise ValueError(f"id must be new, got {names[int(np.argmax(there))]!r}, which is there; remove it first?")
        if len(set(names)) < len(names):
            Identifiers().load(names)  # raises for the id that occurs twice

    def _insert(self, slots: Integers, who: Integers) -> None:
        x1, x2, done = self._x1[slots], self._x2[slots], 0
        while done < len(slots):
            done, full = insert(self._slabs, x1, x2, who, done)
            if full >= 0:
                self._slabs = split(self._slabs, full)

    def _rebuild(self) -> None:
        ids, slots = self._known.all()
        who = np.array(ids, np.int64) if self._numbers else slots
        self._slabs = built(self._x1[slots], self._x2[slots], who)
        self._built_for = max(len(slots), _FEW)

    def _make_room(self) -> None:
        needed, there = self._known.room(), len(self._x1)
        if needed > there:
            more = np.zeros(max(needed - there, there // 2))
            self._x1, self._x2 = np.append(self._x1, more), np.append(self._x2, more)


def _line(message: Message | Notice) -> Floats:
    if isinstance(message, Notice):
        return np.array([[message.value, message.x, message.x, message.outer_low, message.outer_high]])
    return np.array([[0.0, *message[1:5]]])
