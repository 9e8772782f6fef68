"""Histories of pairs of tables: no result row is lost or told twice, and mistakes would be found."""

import numpy as np
import pytest
import seed_budget

from tolerant.kinds.joins import joins
from tolerant.kinds.joins.listener import ResultListener
from tolerant.pipeline.event_time import EventTimeBuffer
from tolerant.relations import Relation
from tolerant.testing.pairs import simulate_pair


def test_everybody_is_told_what_they_must():
    played = seed_budget.play(simulate_pair, 100, least=15)
    seed_budget.check(played)
    reports = list(played.values())
    assert sum(report.results for report in reports) > 500
    assert sum(report.restarts for report in reports) > 15


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, 2_100, 100))
def test_very_many_histories(first):
    seed_budget.check({seed: simulate_pair(seed) for seed in range(first, first + 100)})


def test_a_seed_plays_the_same_again():
    assert simulate_pair(3) == simulate_pair(3)


def takes_everything_as_new(self, changes):
    return np.arange(len(changes))


def hears_everything(self, entry, found):
    self.waiting.append((found.content, self.position))
    return True


def waits_for_nobody(self, until=None):
    due, self._waiting = self.waiting(), []
    return due


def takes_each_step_for_a_transaction(whole, size):
    for side in (0, 1):
        for index in range(len(whole[side])):
            part = [one.take(np.zeros(len(one), bool)) for one in whole]
            part[side] = whole[side].take(np.array([index]))
            yield tuple(part)


@pytest.mark.parametrize(
    ("owner", "name", "mistake"),
    [
        (Relation, "unapplied", takes_everything_as_new),
        (ResultListener, "offer", hears_everything),
        (EventTimeBuffer, "due", waits_for_nobody),
        (joins, "in_parts", takes_each_step_for_a_transaction),
    ],
)
def test_a_mistake_is_caught(monkeypatch, owner, name, mistake):
    monkeypatch.setattr(owner, name, mistake)
    assert any(not fails_or_is_ok(seed) for seed in range(60))


def fails_or_is_ok(seed):
    try:
        return simulate_pair(seed).ok
    except (ValueError, KeyError, AssertionError):
        return False
