"""The held rows of a store, which can be taken out and housed anew: under other models, with more room."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.retention.arrays import Floats, Integers, i64
from tolerant.retention.engine import NO_WINDOW, insert, move_on
from tolerant.retention.groups import (
    FRESH,
    GROUPS,
    HEADER,
    IDS,
    LIVE,
    ROOM,
    SLOTS,
    SPAN,
    STREAM,
    Held,
)
from tolerant.retention.scorer import Scorer
from tolerant.retention.sides import Ranking, new_held
from tolerant.retention.trees import rebuild

_LARGE = 4096

Keys = Callable[[int, Integers], Floats]
"""Scores of values as rows of stream k, where rows come with theirs."""


class Listed(NamedTuple):
    """Rows by arrival; those of one tick, stream and value as they came."""

    stream: Integers
    value: Integers
    arrival: Integers
    id: Integers


class Shelf:
    """Held rows and how they are ranked."""

    def __init__(
        self, rankings: tuple[Ranking, Ranking], slots: int, rows: int, window: int | None, ids: bool = False
    ) -> None:
        self.rankings = rankings
        self.window = window
        self.ids = ids
        self.held = new_held(rankings, slots, rows, window, ids)

    @property
    def scorers(self) -> tuple[Scorer, Scorer]:
        """Of rows of r, of rows of s."""
        return self.rankings[0].scorer, self.rankings[1].scorer

    @property
    def limit(self) -> int:
        """The window as compiled code takes it."""
        return NO_WINDOW if self.window is None else self.window

    def __len__(self) -> int:
        return int(self.held.wide[LIVE])

    @property
    def nbytes(self) -> int:
        """What the arrays take."""
        return sum(array.nbytes for array in self.held)

    def listed(self) -> Listed:
        """All rows, by arrival."""
        columns = np.zeros((4, len(self)), np.int64)
        _list(self.held, columns)
        stream, value, arrival, identity = columns[:, np.argsort(columns[2], kind="stable")]
        return Listed(stream, value, arrival, identity)

    def house(self, rankings: tuple[Ranking, Ranking], keys: Keys, tick: int, slots: int, rows: int) -> None:
        """Rank anew, with room for `slots` groups of each stream and `rows` rows."""
        listed = self.listed()
        self.rankings = rankings
        self.held = new_held(rankings, slots, rows, self.window, self.ids)
        self.put(listed, keys, tick)

    def put(self, listed: Listed, keys: Keys, tick: int) -> None:
        """Take listed rows in."""
        scores = np.zeros(len(listed.value))
        for k in (0, 1):
            if self.rankings[k].keyed:
                scores[listed.stream == k] = keys(k, listed.value[listed.stream == k])
        _put(self.held, self.scorers, *listed, scores, tick, self.limit)

    def make_room(self, stream: int, more: int, keys: Keys, tick: int) -> None:
        """See to it that `more` rows of a stream fit."""
        wide = self.held.wide
        slots = int(wide[STREAM * stream + GROUPS]) + more
        rows = len(self) + more
        if slots > wide[SLOTS] or rows > wide[ROOM]:
            # Small stores grow in leaps; of a large one not much may lie idle.
            slots = slots + slots // (4 if slots < _LARGE else 64) if slots > wide[SLOTS] else int(wide[SLOTS])
            self.house(self.rankings, keys, tick, slots, max(rows, int(wide[ROOM])))


@compiled
def _list(held: Held, columns: Integers) -> None:
    small, wide, _ = held
    following, arrivals = 2 * wide[SPAN], HEADER + 2 * wide[SLOTS]
    at = 0
    for k in range(2):
        for slot in range(wide[STREAM * k + FRESH]):
            tail = i64(small[k * wide[SPAN] + slot])
            if tail < 0:
                continue
            row = tail
            while True:
                row = i64(small[following + row])
                columns[0, at], columns[1, at] = k, wide[HEADER + k * wide[SLOTS] + slot]
                columns[2, at] = wide[arrivals + row]
                if wide[IDS]:
                    columns[3, at] = wide[arrivals + wide[ROOM] + row]
                at += 1
                if row == tail:
                    break


@compiled
def _put(
    held: Held, scorers: tuple[Scorer, Scorer], stream: Integers, value: Integers, arrival: Integers, ids: Integers,
    keys: Floats, tick: int, window: int,
) -> None:  # fmt: skip
    small, wide, real = held
    for i in range(value.size):
        insert(small, wide, real, stream[i], value[i], keys[i], arrival[i], ids[i], window)
    for k in range(2):
        stream_k = i64(k)
        move_on(small, wide, real, stream_k, scorers[k], tick, window)
        rebuild(small, wide, real, stream_k, tick, window)
