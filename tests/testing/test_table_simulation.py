"""Histories of tables: nothing is lost or told twice, and mistakes would be found."""

import numpy as np
import pytest
import seed_budget

from tolerant.kinds.notices.listener import ExtremeAnswer, TotalAnswer
from tolerant.kinds.ranges.channel_table import ChannelTable
from tolerant.notifications import RangeMin, RangeSubscriptions
from tolerant.pipeline.event_time import EventTimeBuffer
from tolerant.relations import Relation
from tolerant.testing.tables import simulate_table
from tolerant.transport.feeds import Listener


def test_everybody_hears_what_they_must():
    played = seed_budget.play(simulate_table, 100, least=25)
    seed_budget.check(played)
    reports = list(played.values())
    assert sum(report.deliveries for report in reports) > 1000
    assert sum(report.restarts for report in reports) > 25
    assert sum(report.shared for report in reports) > 25


def test_a_seed_plays_the_same_again():
    assert simulate_table(3) == simulate_table(3)


def takes_everything_as_new(self, changes):
    return np.arange(len(changes))


def hears_everything(self, found):
    return True


def waits_for_nobody(self, until=None):
    due, self._waiting = self.waiting(), []
    return due


def hears_no_exposed_row(self, record, x1, x2):
    self._value = record["value"]


def takes_nothing_back(self, record, x1, x2):
    pass


def thinks_that_nobody_listens(self, messages):
    return np.arange(len(messages)) % 4 != 0


def says_the_net_of_a_batch(self, ids, xs, ys, net=False, apply=RangeMin.apply):
    return apply(self, ids[-1:], xs[-1:], ys[-1:])


def forgets_the_last_region(self, points, route=ChannelTable.route):
    rows, channels = route(self, points)
    return rows[channels != self.numbers.max(initial=-1)], channels[channels != self.numbers.max(initial=-1)]


def never_lets_go(self, channels):
    pass


@pytest.mark.parametrize(
    ("owner", "name", "mistake"),
    [
        (Relation, "unapplied", takes_everything_as_new),
        (Listener, "is_news", hears_everything),
        (EventTimeBuffer, "due", waits_for_nobody),
        (ExtremeAnswer, "apply", hears_no_exposed_row),
        (TotalAnswer, "revert", takes_nothing_back),
        (RangeSubscriptions, "any_many", thinks_that_nobody_listens),
        (RangeMin, "apply", says_the_net_of_a_batch),
        (ChannelTable, "route", forgets_the_last_region),
        (ChannelTable, "leave", never_lets_go),
    ],
)
def test_a_mistake_is_caught(monkeypatch, owner, name, mistake):
    monkeypatch.setattr(owner, name, mistake)
    first = {takes_everything_as_new: 7, never_lets_go: 50}.get(mistake, 0)  # others do not bring it to light
    assert any(not fails_or_is_ok(seed) for seed in [first, *range(60)])


def fails_or_is_ok(seed):
    try:
        return simulate_table(seed).ok
    except (KeyError, AssertionError):
        return False


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, 3_100, 100))
def test_everybody_hears_what_they_must_for_long(first):
    seed_budget.check({seed: simulate_table(seed) for seed in range(first, first + 100)})
