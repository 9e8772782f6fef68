"""A source that sends sums in place of items, on a real log, as `explain` and `status` show it."""

import json

import pytest
from typer.testing import CliRunner

from tolerant.cli import app
from tolerant.edge import Source
from tolerant.filters.form_costs import QUERIES

HOSTS = [(f"web-{number}", "in") for number in range(5)]


@pytest.fixture
def summed(pipeline):
    """A source of five hosts, four of which it sends as one value; the fifth came later."""
    pipeline.send("CREATE QUERY inbound AS SELECT AVG(rate) FROM traffic WHERE kind = 'in' WITHIN 5;")
    with Source("traffic", pipeline.log, name="rack", clock=lambda: pipeline.now) as source:
        sums = source._core._sum_filter.sums
        sums.every, sums.better = 1, lambda group: QUERIES
        for turn in range(70):
            hosts = HOSTS[: 4 if turn < 60 else 5]
            source.set_many(hosts, [turn / 50 + number for number in range(len(hosts))])
            source.advance()
            pipeline.tick()
        yield source


def call(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_sum_is_one_line_and_what_is_in_none_has_its_own(summed, pipeline):
    found = json.loads(call("explain", "inbound", "--log", pipeline.log.uri, "--json"))
    assert sorted(item["item"] for item in found["items"]) == ['["web-4","in"]', "sum of 4 items at rack"]
    assert sum(item["width"] for item in found["items"]) <= 50 * (1 + 1e-9)
    assert "sum of 4 items at rack" in call("explain", "inbound", "--log", pipeline.log.uri)


def test_status_counts_items_and_not_sums_and_all_messages(summed, pipeline):
    found = json.loads(call("status", "--log", pipeline.log.uri, "--json"))["traffic"]
    assert found["messages"]["hellos"] == 6
    assert found["messages"]["sum_offers"] >= 1
    assert "5 items" in " ".join(call("status", "--log", pipeline.log.uri).split())


def test_the_current_answer_divides_by_the_items(summed, pipeline):
    answer = json.loads(call("watch", "inbound", "--log", pipeline.log.uri, "--json", "--for", 0))
    truth = 69 / 50 + 2
    assert answer["low"] <= truth <= answer["high"]
    assert not answer["settling"]


def test_a_source_that_starts_again_goes_on_with_the_sum(summed, pipeline):
    summed.close()
    with Source("traffic", pipeline.log, name="rack", clock=lambda: pipeline.now) as again:
        again.set_many(HOSTS, [5.0] * 5)
        assert len(again._core.sums()) == 1
        assert len(again.items()) == 5
