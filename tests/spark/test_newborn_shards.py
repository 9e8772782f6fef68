"""The first snapshot of a shard is of the newly born one: that of every kind must be one that can be taken back."""

from dataclasses import replace

import pytest

from tolerant.kinds import shard_factory
from tolerant.planning import Network, network_text
from tolerant.sql import CreateStream, CreateTable, parse
from tolerant.sql.pipeline_inputs import AppendOnlyJoinInput, JoinInput


def stream(text: str):
    created = parse(text)
    assert isinstance(created, CreateStream)
    return created.stream


def table(name: str) -> CreateTable:
    created = parse(f"CREATE TABLE {name} (id BIGINT, x DOUBLE) KEY (id)")
    assert isinstance(created, CreateTable)
    return created


def relations() -> dict[str, object]:
    fed = stream("CREATE STREAM s (item STRING, value DOUBLE) KEY (item)")
    polled = stream("CREATE STREAM s (item STRING, value DOUBLE) KEY (item) FROM 'http://host/{item}'")
    networked = stream("CREATE STREAM s (item STRING, value DOUBLE) KEY (item) FROM 'network.toml'")
    both = (table("r"), table("s"))
    return {
        "stream": fed,
        "polled stream": polled,
        "network": replace(networked, network=network_text(Network({"D": {"x": 0.5}}))),
        "table": both[0],
        "pair": JoinInput.of(*both),
        "growing pair": AppendOnlyJoinInput.of(*both),
    }


@pytest.mark.parametrize("kind", relations())
def test_a_newly_born_shard_can_be_restored(kind: str) -> None:
    relation = relations()[kind]
    born = shard_factory(relation, 1, "here")(0).snapshot()
    later = shard_factory(relation, 2, "here")(0)
    later.restore(born)
    assert later.snapshot() == born
