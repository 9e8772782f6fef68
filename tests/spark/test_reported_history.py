"""The ways that items have told, moved in event time, against looking each moment up."""

import random

import numpy as np
import pytest

from tolerant.kinds.bounded import reported_history
from tolerant.kinds.bounded.reported_history import ReportedHistory
from tolerant.transport.rows import TimedRange

LATENCY = 800


def random_way(chance: random.Random, watermark: int) -> tuple[list[TimedRange], int]:
    since = watermark + chance.randint(-1500, 300)
    pieces = []
    for _ in range(chance.randint(1, 6)):
        value = chance.gauss(0, 10)
        pieces.append(TimedRange(since, value, value + chance.random()))
        since += chance.randint(1, 400)
    return pieces, pieces[-1].since + chance.randint(0, 300)


def true_at(way: list[TimedRange], until: int, moment: int) -> TimedRange | None:
    there = [piece for piece in way if piece.since <= moment]
    return there[-1] if there and moment < until else None


@pytest.mark.parametrize("moments", [0, 10, 10**6])
def test_what_is_known_is_what_was_told(moments, monkeypatch) -> None:
    """`moments`: how many there may be before the grid decides; with any number nothing wrong is known."""
    monkeypatch.setattr(reported_history, "_MOST_SPLITS", moments)
    known_in_all = 0
    for seed in range(60):
        chance, ways = random.Random(seed), ReportedHistory(LATENCY)
        told: dict[int, tuple[list[TimedRange], int]] = {}
        now: dict[int, tuple[float, float]] = {}
        watermark = 10_000
        for _ in range(60):
            item, (way, until) = chance.randrange(5), random_way(chance, watermark)
            for one, (_, end) in told.items():
                if end <= watermark:  # its row has been applied
                    now.pop(one, None)
            if item not in told or told[item][1] <= watermark:
                before = ways.state()
                ways.add(item, way, until, watermark)
                told[item] = (way if ways.state() != before else []), until
            watermark += chance.randint(0, 120)
            while (moment := ways.next(watermark)) is not None:
                found = ways.advance_to(moment)
                now |= {int(i): (low, high) for i, low, high in zip(*found, strict=True)}
            for one, (pieces, end) in told.items():
                low, high = now.get(one, (-np.inf, np.inf))
                piece = true_at(pieces, end, watermark)
                if watermark < end:
                    known_in_all += low > -np.inf
                    if low > -np.inf:
                        assert piece is not None
                        assert low <= piece.least <= piece.most <= high
                    if moments == 10**6:
                        assert (piece is None) == (low == -np.inf)
                        assert piece is None or piece[1:] == (low, high)
    assert known_in_all > 500


def test_however_many_items_tell_their_ways_time_is_stopped_seldom() -> None:
    chance, ways, stops = random.Random(1), ReportedHistory(LATENCY), 0
    for item in range(2_000):
        ways.add(item, *random_way(chance, 10_000), 10_000)
    watermark = 10_000 + 5 * LATENCY
    while (moment := ways.next(watermark)) is not None:
        ways.advance_to(moment)
        stops += 1
    assert stops < 150


def test_a_way_that_goes_on_after_its_row_is_none() -> None:
    ways = ReportedHistory(LATENCY)
    ways.add(1, [TimedRange(0, 1.0, 2.0), TimedRange(500, 5.0, 6.0)], 400, 100)
    assert ways.next(10_000) is None


def test_restored_it_is_the_same() -> None:
    chance, ways, again = random.Random(2), ReportedHistory(LATENCY), ReportedHistory(LATENCY)
    for item in range(100):
        ways.add(item, *random_way(chance, 10_000), 10_000)
    ways.advance_to(10_050)
    again.load(ways.state())
    assert again.state() == ways.state()
    for moment in range(10_060, 12_000, 60):
        one, other = ways.advance_to(moment), again.advance_to(moment)
        assert sorted(zip(*map(list, one), strict=True)) == sorted(zip(*map(list, other), strict=True))
