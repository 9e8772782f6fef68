"""Keeps the held rows of a store, which can be ranked again: under other models, with more room."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.retention.held_rows import (
    FRESH,
    GROUPS,
    HEADER,
    IDS,
    LIVE,
    ROOM,
    SLOTS,
    SPAN,
    STREAM,
    HeldRows,
)
from tolerant.retention.ranking import Ranking, new_held
from tolerant.retention.scorer import Scorer
from tolerant.retention.store_tick import NO_WINDOW, advance, insert
from tolerant.retention.tournament_trees import rebuild
from tolerant.retention.value_arrays import Floats, Integers, i64

_LARGE = 4096

Keys = Callable[[int, Integers], Floats]
"""Maps (stream k, values) to the scores of rows that carry scores."""


class RowList(NamedTuple):
    """Rows by arrival; those of one tick, stream and value in their order."""

    stream: Integers
    value: Integers
    arrival: Integers
    id: Integers


class RankedRows:
    """Held rows and their ranking."""

    def __init__(
        self, rankings: tuple[Ranking, Ranking], slots: int, rows: int, window: int | None, ids: bool = False
    ) -> None:
        self.rankings = rankings
        self.window = window
        self.ids = ids
        self.held = new_held(rankings, slots, rows, window, ids)

    @property
    def scorers(self) -> tuple[Scorer, Scorer]:
        """Return of rows of r, of rows of s."""
        return self.rankings[0].scorer, self.rankings[1].scorer

    @property
    def limit(self) -> int:
        """Return the window as compiled code expects it."""
        return NO_WINDOW if self.window is None else self.window

    def __len__(self) -> int:
        return int(self.held.wide[LIVE])

    @property
    def nbytes(self) -> int:
        """Return the size of the arrays, in bytes."""
        return sum(array.nbytes for array in self.held)

    def listed(self) -> RowList:
        """Return all rows, by arrival."""
        columns = np.zeros((4, len(self)), np.int64)
        _list(self.held, columns)
        stream, value, arrival, identity = columns[:, np.argsort(columns[2], kind="stable")]
        return RowList(stream, value, arrival, identity)

    def rank(self, rankings: tuple[Ranking, Ranking], keys: Keys, tick: int, slots: int, rows: int) -> None:
        """Rank all rows again, with room for `slots` groups of each stream and `rows` rows."""
        listed = self.listed()
        self.rankings = rankings
        self.held = new_held(rankings, slots, rows, self.window, self.ids)
        self.put(listed, keys, tick)

    def put(self, listed: RowList, keys: Keys, tick: int) -> None:
        """Insert listed rows."""
        scores = np.zeros(len(listed.value))
        for k in (0, 1):
            if self.rankings[k].keyed:
                scores[listed.stream == k] = keys(k, listed.value[listed.stream == k])
        _put(self.held, self.scorers, *listed, scores, tick, self.limit)

    def make_room(self, stream: int, more: int, keys: Keys, tick: int) -> None:
        """Make room for `more` rows of a stream."""
        wide = self.held.wide
        slots = int(wide[STREAM * stream + GROUPS]) + more
        rows = len(self) + more
        if slots > wide[SLOTS] or rows > wide[ROOM]:
            # Small stores grow in large steps; a large one must not waste much memory.
            slots = slots + slots // (4 if slots < _LARGE else 64) if slots > wide[SLOTS] else int(wide[SLOTS])
            self.rank(self.rankings, keys, tick, slots, max(rows, int(wide[ROOM])))


@compiled
def _list(held: HeldRows, columns: Integers) -> None:
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
def _put(  # noqa: PLR0913
    held: HeldRows, scorers: tuple[Scorer, Scorer], stream: Integers, value: Integers, arrival: Integers, ids: Integers,
    keys: Floats, tick: int, window: int,
) -> None:  # fmt: skip
    small, wide, real = held
    for i in range(value.size):
        insert(small, wide, real, stream[i], value[i], keys[i], arrival[i], ids[i], window)
    for k in range(2):
        stream_k = i64(k)
        advance(small, wide, real, stream_k, scorers[k], tick, window)
        rebuild(small, wide, real, stream_k, tick, window)
