from datetime import date, timedelta
from typing import NamedTuple

import pytest
from seed_budget import SECONDS, check, play

DAY = date(2026, 1, 1)


class Played(NamedTuple):
    seed: int
    ok: bool = True


@pytest.mark.parametrize(("seconds", "played"), [(0, 10), (25, 34), (10_000, 100)])
def test_a_run_plays_the_least_and_what_the_budget_allows(monkeypatch, seconds, played):
    monkeypatch.setenv(SECONDS, str(seconds))
    ticks = iter(range(1_000))
    reports = play(Played, 100, 10, day=DAY, clock=lambda: next(ticks) * 1.0)
    # The clock is read at the beginning, and then before each seed beyond the least.
    assert len(reports) == played
    assert [report.seed for report in reports.values()] == list(reports)


def test_in_time_every_seed_has_its_turn(monkeypatch):
    monkeypatch.setenv(SECONDS, "0")
    days = [play(Played, 100, 7, day=DAY + timedelta(number)) for number in range(15)]
    assert {seed for reports in days for seed in reports} == set(range(100))
    assert all(len(reports) == 7 for reports in days)


def test_the_runs_of_a_day_begin_alike(monkeypatch):
    monkeypatch.setenv(SECONDS, "0")
    assert play(Played, 50, 5, day=DAY) == play(Played, 50, 5, day=DAY)


def test_a_failure_names_its_seed():
    with pytest.raises(AssertionError, match=r"seeds \[4\] of the 2 from 3 on"):
        check({3: Played(3), 4: Played(4, ok=False)})
