"""What people are shown of a stream with a network: rates and items that are so, and names that can be read."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tolerant.cli import app
from tolerant.cli.unsettled import unsettled_reason
from tolerant.planning import Network
from tolerant.testing.networks import SimulatedNetwork
from tolerant.transport import SqliteLog

TOTAL = "CREATE QUERY nsum AS SELECT SUM(price) FROM prices WITHIN 4"
NETWORK = Network({"D1": {"a": 0.1, "b": 0.1, "c": 0.1}, "D2": {"d": 0.1, "e": 0.1}})


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The log of a network in which everything is well for a while, and then an aggregator dies for good."""
    simulation = SimulatedNetwork(2, NETWORK, faults=False, queries=[TOTAL])
    simulation.steps = dict.fromkeys(simulation.items, 0.5)
    simulation.run(12)
    folder: Path = tmp_path_factory.mktemp("network")
    uris = []
    for name in ("well", "dead"):
        log = SqliteLog(folder / f"{name}.db", create=True)
        log.append_packed([(entry.topic, entry.payload) for entry in simulation.log.read(simulation.log.topics())])
        uris.append(log.uri)
        log.close()
        simulation.kill("D2", 1_000.0)
        simulation.run(6)
    return " ".join(uris)


def call(*arguments: str) -> str:
    result = CliRunner(env={"COLUMNS": "160"}).invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_status_counts_what_aggregators_send_and_the_items_they_answer_for(played: str) -> None:
    uri = played.split()[0]
    found = json.loads(call("status", "--log", uri, "--json"))["prices"]
    assert found["messages"]["updates"] > 0
    assert found["updates_per_second"] > 0
    assert found["unfiltered_per_second"] == 50  # five items, ten ticks per second
    summary = found["shards"][0]
    assert {name: source["items"] for name, source in summary["sources"].items()} == {"D1": 3, "D2": 2}
    assert summary["items"] == 5
    assert "from 5 items" in call("status", "--log", uri)


def test_plan_names_a_query_that_cannot_be_answered_as_people_know_it(played: str, tmp_path: Path) -> None:
    shown = call("plan", "nsum", "--log", played.split()[1], "--picture", str(tmp_path / "plan.png"))
    assert "query 'nsum' cannot be answered" in " ".join(shown.split())
    assert "x00" not in shown
    assert "\x00" not in shown


def test_an_aggregator_that_has_died_is_the_reason(played: str) -> None:
    well, dead = map(SqliteLog, (uri.removeprefix("sqlite:///") for uri in played.split()))
    assert unsettled_reason(well, "nsum") == ""
    assert unsettled_reason(dead, "nsum").startswith("aggregator D2 not heard since ")
    well.close()
    dead.close()
