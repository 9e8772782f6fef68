"""Queries and rows that come and go: after any history the joins agree with the twin, in every method."""

import pickle

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from joins_twin import band_pairs, pairs, select_pairs

import tolerant.joins.continuous_joins as continuous_joins
from tolerant.joins import BandJoins, SelectJoins
from tolerant.kernels.snapshots import pack, unpack

ids = st.one_of(st.integers(0, 12), st.sampled_from([-(2**63), 2**63 - 1]))
values = st.integers(-4, 4).map(lambda value: value / 2)
lows = st.one_of(values, st.just(-np.inf))
highs = st.one_of(values, st.just(np.inf))
ranges = st.tuples(lows, highs).map(lambda ends: ends if ends[0] <= ends[1] else (ends[1], ends[0]))


class Changing(RuleBasedStateMachine):
    """Both kinds of join beside dictionaries; small limits make indexes merge often."""

    def __init__(self):
        super().__init__()
        self.band, self.select = BandJoins(0.3), SelectJoins(0.3)
        self.bands, self.selects, self.rows = {}, {}, {}

    @rule(id=ids, band=ranges, a=ranges, c=ranges)
    def add(self, id, band, a, c):
        if id in self.bands:
            with pytest.raises(ValueError, match="query must be new"):
                self.band.add(id, *band)
            return
        self.band.add(id, *band)
        self.select.add(id, *a, *c)
        self.bands[id], self.selects[id] = band, (*a, *c)

    @rule(many=st.dictionaries(ids, st.tuples(ranges, ranges, ranges), min_size=1, max_size=6))
    def add_many(self, many):
        new = {id: ends for id, ends in many.items() if id not in self.bands}
        if not new:
            return
        keys = np.array(list(new), np.int64)
        self.band.add_many(keys, *np.array([ends[0] for ends in new.values()]).T)
        self.select.add_many(keys, *np.array([(*ends[1], *ends[2]) for ends in new.values()]).T)
        for id, (band, a, c) in new.items():
            self.bands[id], self.selects[id] = band, (*a, *c)

    @rule(chosen=st.lists(st.integers(0, 1000), min_size=1, max_size=4), many=st.booleans())
    def remove(self, chosen, many):
        gone = sorted({sorted(self.bands)[k % len(self.bands)] for k in chosen}) if self.bands else []
        for joins in (self.band, self.select):
            if many:
                joins.remove_many(np.array(gone, np.int64))
            else:
                for id in gone:
                    joins.remove(id)
        for id in gone:
            del self.bands[id], self.selects[id]

    @rule(many=st.dictionaries(ids, st.tuples(values, values), min_size=1, max_size=6), single=st.booleans())
    def insert(self, many, single):
        new = {id: row for id, row in many.items() if id not in self.rows}
        if single:
            for id, (b, c) in new.items():
                self.band.insert(id, b)
                self.select.insert(id, b, c)
        elif new:
            b, c = np.array(list(new.values())).T
            self.band.insert_many(np.array(list(new), np.int64), b)
            self.select.insert_many(np.array(list(new), np.int64), b, c)
        self.rows.update(new)

    @rule(chosen=st.lists(st.integers(0, 1000), min_size=1, max_size=4), many=st.booleans())
    def delete(self, chosen, many):
        gone = sorted({sorted(self.rows)[k % len(self.rows)] for k in chosen}) if self.rows else []
        for joins in (self.band, self.select):
            if many:
                joins.delete_many(np.array(gone, np.int64))
            else:
                for id in gone:
                    joins.delete(id)
        for id in gone:
            del self.rows[id]

    @rule()
    def restart(self):
        self.band = BandJoins.from_arrays(unpack(pack(self.band.to_arrays()))[0])
        self.select = pickle.loads(pickle.dumps(self.select))

    @rule(a=values, b=values, method=st.integers(0, 5))
    def probe(self, a, b, method):
        found = self.band.probe(b, BandJoins.METHODS[method])
        assert pairs(found) == band_pairs(self.bands, {id: row[0] for id, row in self.rows.items()}, b)
        found = self.select.probe(a, b, SelectJoins.METHODS[method])
        assert pairs(found) == select_pairs(self.selects, self.rows, a, b)

    @invariant()
    def sizes_agree(self):
        assert len(self.band) == len(self.select) == len(self.bands)
        assert self.band.stored == self.select.stored == len(self.rows)


@pytest.fixture(autouse=True)
def small_indexes(monkeypatch):
    monkeypatch.setattr(continuous_joins, "SIDE", 3)


TestChanging = Changing.TestCase
TestChanging.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@pytest.mark.soak
class TestChangingLong(Changing.TestCase):  # type: ignore[valid-type]
    settings = settings(max_examples=3000, stateful_step_count=60, deadline=None)


def test_equal_objects_have_equal_arrays_however_they_came_about():
    one, other = BandJoins(), BandJoins()
    one.add_many([3, 1, 2], [0, 1, 2], [1, 2, 3])
    one.insert_many([5, 4], [1, 1])
    for id in (2, 9, 1, 3):
        other.add(id, *{3: (0, 1), 1: (1, 2), 2: (2, 3), 9: (0, 0)}[id])
    other.probe(0.0)
    other.remove(9)
    other.insert(4, 1.0)
    other.insert(5, 1.0)
    assert one == other
    assert one != BandJoins()
    assert one != SelectJoins()


def test_memory_a_query_and_a_row():
    rng = np.random.default_rng(0)
    n = 20_000
    lows = rng.uniform(0, 1000, (4, n))
    band, select = BandJoins(0.001), SelectJoins(0.001)
    band.add_many(np.arange(n), lows[0], lows[0] + 1)
    select.add_many(np.arange(n), lows[0], lows[0] + 10, lows[1], lows[1] + 1)
    band.insert_many(np.arange(n), lows[2])
    select.insert_many(np.arange(n), lows[2], lows[3])
    assert band.bytes()["queries"] / n <= 120
    assert select.bytes()["queries"] / n <= 200
    band.insert_many([n], [0.0])
    select.insert_many([n], [0.0], [0.0])
    for joins in (band, select):
        assert joins.bytes()["rows"] / n <= 40
