"""Simulates a join of two trends that move by 1 per tick: the general loop's results, several times as fast.

Each stream has one row per tick, so a row is a number: twice its tick, plus 1 if it is of r; of rows with equal scores
the least number is discarded first. Useful values lie between the value that the trend has just passed and the highest
one, so groups are stored in a ring by value; the worst of them is the lowest or the highest (§2.8). Rows that the trend
has passed are bits in the order in which they are discarded.

It applies when every row is within the noise of its model on the relevant side (then no passed value matches again),
and no row is farther ahead than the ring is long.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.compiled import compiled, inlined
from tolerant.retention.models import StreamModel, Trend
from tolerant.retention.ranking import Ranking
from tolerant.retention.scorer import OFFSETS
from tolerant.retention.tournament_trees import HIGHEST
from tolerant.retention.value_arrays import Floats, Integers, i64

Words = NDArray[np.uint64]

_WORD = 64
_LONGEST = 1 << 22
_SPARSE = 1 << 16
"""A ring longer than this must hold a row per 64 places: otherwise the scan from one row to the next is long."""
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


class TrendTrack(NamedTuple):
    """Scores of a stream's rows by their distance from the value that the partner's trend has passed,
    and their drop.
    """

    own: Integers  # rows of this stream, as the partner's trend rises
    other: Integers  # rows of the partner
    passed: Integers  # values below this are passed, by tick
    table: Floats
    drop: float


def track_of(ranking: Ranking, model: StreamModel, own: Integers, other: Integers, memory: int) -> TrendTrack | None:
    """Return the track of a stream whose partner is a trend of slope 1 or −1; None: use the general loop."""
    scorer = ranking.scorer
    if not isinstance(model, Trend) or scorer.kind != OFFSETS or ranking.orders[1] != HIGHEST or not len(own):
        return None
    sign, bound = int(scorer.whole[1]), int(scorer.whole[0])
    ticks = np.arange(len(own))
    passed = sign * model.centres(ticks + 1) - bound
    track = TrendTrack(sign * own, sign * other, passed, scorer.table, float(scorer.numbers[3]))
    met = (track.other[1:] >= passed[:-1]).all()
    far = max(int((track.own - passed).max()), int((track.other[1:] - passed[:-1]).max(initial=0)))
    near = far < min(_LONGEST, max(_SPARSE, 64 * memory))
    return track if met and near and (np.diff(passed) == 1).all() else None


def play_drifting(tracks: tuple[TrendTrack, TrendTrack], memory: int, warmup: int) -> Integers:
    """Return results that count, ticks of held rows of r, and of all."""
    ahead = max(int((track.own - track.passed).max()) for track in tracks)
    ahead = max(ahead, max(int((track.other[1:] - track.passed[:-1]).max(initial=0)) for track in tracks))
    ring = 1 << max(7, (ahead + 2).bit_length())
    return _play(tracks, memory, warmup, ring)


@inlined
def _lowest_bit(word: np.uint64) -> int:
    at = i64(0)
    for width in (32, 16, 8, 4, 2, 1):
        if word & (_ALL >> np.uint64(_WORD - width)) == 0:
            word >>= np.uint64(width)
            at += width
    return at


@inlined
def _highest_bit(word: np.uint64) -> int:
    at = i64(0)
    for width in (32, 16, 8, 4, 2, 1):
        if word >> np.uint64(width) != 0:
            word >>= np.uint64(width)
            at += width
    return at


@inlined
def _set(bits: Words, place: int) -> None:
    bits[place >> 6] |= np.uint64(1) << np.uint64(place & 63)


@inlined
def _clear(bits: Words, place: int) -> None:
    bits[place >> 6] &= ~(np.uint64(1) << np.uint64(place & 63))


@inlined
def _next_up(bits: Words, base: int, ring: int, value: int) -> int:
    """Return the least value ≥ `value` whose bit is set, which must exist. bits: from word `base` on, a ring."""
    place = value & (ring - 1)
    word = bits[base + (place >> 6)] & (_ALL << np.uint64(place & 63))
    step = value - (place & 63)
    while word == 0:
        step += _WORD
        word = bits[base + ((step & (ring - 1)) >> 6)]
    return step + _lowest_bit(word)


@inlined
def _next_down(bits: Words, base: int, ring: int, value: int) -> int:
    """Return the largest value ≤ `value` whose bit is set, which must exist."""
    place = value & (ring - 1)
    word = bits[base + (place >> 6)] & (_ALL >> np.uint64(63 - (place & 63)))
    step = value - (place & 63)
    while word == 0:
        step -= _WORD
        word = bits[base + ((step & (ring - 1)) >> 6)]
    return step + _highest_bit(word)


@inlined
def _score(track: TrendTrack, distance: int) -> float:
    beyond = distance - track.table.size + 1
    return track.table[distance] if beyond <= 0 else track.table[track.table.size - 1] - beyond * track.drop


@compiled
def _play(tracks: tuple[TrendTrack, TrendTrack], memory: int, warmup: int, ring: int) -> Integers:  # noqa: C901
    mask, words = ring - 1, ring >> 6
    n = tracks[0].own.size
    tail = np.full(2 * ring, -1, np.int32)  # the newest row of a group; its `following` is the oldest
    count = np.zeros(2 * ring, np.int32)
    following = np.empty(2 * n, np.int32)
    bits = np.zeros(2 * words, np.uint64)
    gone = np.zeros((2 * n >> 6) + 2, np.uint64)  # rows that the trend has passed
    first_gone, n_gone = i64(2 * n), i64(0)
    low, high = np.zeros(2, np.int64), np.zeros(2, np.int64)
    groups, rows = np.zeros(2, np.int64), np.zeros(2, np.int64)
    tally = np.zeros(3, np.int64)
    scores, ends = np.empty(2), np.empty(2, np.int64)
    for t in range(n):
        for k in range(2):
            track = tracks[k]
            base = k * ring
            passed = track.passed[t]
            if t > 0 and t >= warmup:
                tally[0] += count[base + (track.other[t] & mask)]
            # The trend advances by 1: the group that it passes now.
            if groups[k] and low[k] < passed:
                place = base + (low[k] & mask)
                row = i64(following[tail[place]])
                for _ in range(count[place]):
                    _set(gone, row)
                    first_gone = min(first_gone, row)
                    row = i64(following[row])
                n_gone += count[place]
                groups[k] -= 1
                tail[place] = -1
                count[place] = 0
                _clear(bits, k * _WORD * words + (low[k] & mask))
                if groups[k]:
                    low[k] = _next_up(bits, k * words, ring, low[k])
            row, value = 2 * t + 1 - k, track.own[t]
            rows[k] += 1
            if value < passed:
                _set(gone, row)
                first_gone = min(first_gone, row)
                n_gone += 1
                continue
            place = base + (value & mask)
            if count[place] == 0:
                _set(bits, k * _WORD * words + (value & mask))
                following[row] = row
                low[k] = min(low[k], value) if groups[k] else value
                high[k] = max(high[k], value) if groups[k] else value
                groups[k] += 1
            else:
                following[row] = following[tail[place]]
                following[tail[place]] = row
            tail[place] = row
            count[place] += 1
        while rows[0] + rows[1] > memory:
            if n_gone:
                word = first_gone >> 6
                while gone[word] == 0:
                    word += 1
                first_gone = word * _WORD + _lowest_bit(gone[word])
                _clear(gone, first_gone)
                n_gone -= 1
                rows[1 - (first_gone & 1)] -= 1
                continue
            for k in range(2):
                scores[k] = np.inf
                if groups[k]:
                    track = tracks[k]
                    ends[k], scores[k] = low[k], _score(track, low[k] - track.passed[t])
                    other = _score(track, high[k] - track.passed[t])
                    if other < scores[k]:
                        ends[k], scores[k] = high[k], other
                    elif other == scores[k]:
                        mine = following[tail[k * ring + (low[k] & mask)]]
                        if following[tail[k * ring + (high[k] & mask)]] < mine:
                            ends[k] = high[k]
            k = 0 if scores[0] < scores[1] else 1
            if scores[0] == scores[1]:
                one = following[tail[ends[0] & mask]]
                k = 0 if one < following[tail[ring + (ends[1] & mask)]] else 1
            place = k * ring + (ends[k] & mask)
            rows[k] -= 1
            count[place] -= 1
            if count[place]:
                following[tail[place]] = following[following[tail[place]]]
                continue
            tail[place] = -1
            groups[k] -= 1
            _clear(bits, k * _WORD * words + (ends[k] & mask))
            if groups[k]:
                if ends[k] == low[k]:
                    low[k] = _next_up(bits, k * words, ring, low[k])
                else:
                    high[k] = _next_down(bits, k * words, ring, high[k])
        if t >= warmup:
            tally[1] += rows[0]
            tally[2] += rows[0] + rows[1]
    return tally
