"""Every view that is accepted is run: whatever becomes of it, the pipeline and the other views go on."""

import random
import sys
import time
from pathlib import Path

import pytest
from random_views import RandomViews

sys.path.append(str(Path(__file__).parents[1] / "spark"))

from simulated import TimedEngine
from test_view_pipeline import TABLES, LocalViews, create

from tolerant.client import Client, StatementClient, load_catalogue
from tolerant.spark.views import maintained
from tolerant.sql import Catalogue, Drop, StatementError, parse
from tolerant.transport.views import read_view

BUDGET = 15.0
"""Seconds in an ordinary run."""

VIEWS = 5
"""At a time, besides the one that must always be right."""


class PlainEngine(TimedEngine):
    """DuckDB without any help: groups have the keys that their SQL gives them, and no type is refused."""

    def is_wide(self, field):
        return super().is_wide(field) and field.type.scale == 0 and not field.name.startswith("k")


def known():
    catalogue = Catalogue()
    for table in TABLES:
        catalogue.record(table)
    return catalogue


def accepted(views, catalogue, count):
    """So many random views that a catalogue accepts, by name."""
    found = {}
    while len(found) < count:
        name = f"random{len(found)}"
        try:
            statement = parse(f"CREATE QUERY {name} AS {views.select()} REFRESH WITHIN '1 min'", catalogue)
        except StatementError:
            continue
        if catalogue.copy().apply(statement).accepted:
            found[name] = statement
    return found


def change(pipeline, chance):
    for _ in range(chance.choice([1, 3, 8])):
        table, key = chance.choice(["supply", "demand"]), chance.randrange(8)
        if key in pipeline.current[table] and chance.random() < 0.3:
            pipeline.drop(table, key)
        else:
            pipeline.put(table, key, chance.choice("pq"), chance.randrange(4))


def episode(folder, seed):
    """Create views, half of them over rows that are there; change, refresh, restart, drop. Return (run, refused)."""
    chance, catalogue = random.Random(seed), known()
    created = accepted(RandomViews(seed), catalogue, VIEWS)
    pipeline = LocalViews(folder, create("grouped", "1 min"), engine=PlainEngine)
    for statement in created.values():
        if chance.random() < 0.5:
            change(pipeline, chance)
            pipeline.tick()
        StatementClient(pipeline.log).send(statement)
    for _ in range(3):
        change(pipeline, chance)
        pipeline.tick()
        for name in created:
            pipeline.ask(name, name)
        pipeline.read()
        pipeline.refresh("grouped")
        pipeline.check_view("grouped")
        if chance.random() < 0.3:
            pipeline.restart()
    run = created.keys() & load_catalogue(pipeline.log).queries.keys()
    for name in created:
        header, rows = read_view(pipeline.log, name)
        assert bool(header) == (name in run), created[name]
        assert header or not rows
        if name in run:
            assert any(push["request"] == name for push in pipeline.pushes(name)), created[name]
            StatementClient(pipeline.log).send(Drop("query", name))
    pipeline.refresh("grouped")
    pipeline.check_view("grouped")
    assert len(pipeline.replies()) >= len(run)
    assert Client(pipeline.log).view("grouped").at
    return len(run), len(created) - len(run)


def play(folder, monkeypatch, seeds, end=None):
    monkeypatch.setattr(maintained, "push_limit", lambda within: 5.0)
    monkeypatch.setattr(maintained, "full_limit", lambda within: 5.0)
    run = refused = 0
    for seed in seeds:
        try:
            more = episode(folder / str(seed), seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
        run, refused = run + more[0], refused + more[1]
        if end is not None and time.monotonic() > end:
            break
    return run, refused


def test_accepted_views_do_not_stop_a_pipeline(tmp_path, monkeypatch):
    run, refused = play(tmp_path, monkeypatch, range(10_000), time.monotonic() + BUDGET)
    assert run > 5
    assert refused > 2


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_ten_thousand_accepted_views_do_not_stop_a_pipeline(tmp_path, monkeypatch):
    run, refused = play(tmp_path, monkeypatch, range(2000))
    assert run > refused > 100
