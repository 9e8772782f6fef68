"""Topic names are made and recognised in one module, whatever kind they are of."""

import inspect
import re
from pathlib import Path

import pytest

import tolerant
from tolerant.streams import Column, Stream
from tolerant.transport import topics
from tolerant.transport.topics import TopicKind

MAKERS = {
    name: make
    for name, make in inspect.getmembers(topics, inspect.isfunction)
    if name.endswith("_topic") and name != "source_topic"
}
EXPECTED = {  # is_compacted, is_kept
    "epochs": (True, False),
    "positions": (True, False),
    "heartbeats": (True, False),
    "queries": (False, True),
    "replies": (False, False),
    "grants.rates": (True, False),
    "sums.rates": (True, False),
    "conflicts.rates": (True, False),
    "models.rates": (True, False),
    "status.rates": (True, False),
    "current.load": (True, False),
    "rows.orders": (True, False),
    "rows.orders@ad21": (True, False),
    "quarantine.rates": (True, False),
    "changes.orders": (False, True),
    "subscriptions.orders": (False, True),
    "updates.rates": (False, False),
    "answers.load": (False, False),
    "grants": (False, False),
    "stranger.rates": (False, False),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_name_that_is_made_is_recognised(name):
    make = MAKERS[name]
    owners = ["rates", "lines+orders@4.bands"][: 2 if len(inspect.signature(make).parameters) == 1 else 1]
    for owner in owners:
        topic = make(owner, *["other"] * (len(inspect.signature(make).parameters) - 1))
        kind = TopicKind.of(topic)
        assert kind is not None
        assert topic.startswith(f"{kind}.{owner}")
        assert [other for other in TopicKind if other.matches(topic)] == [kind]
        if name != "lookup_topic":
            assert kind.owners(["queries", topic]) == [owner]


def test_every_kind_has_a_function_that_makes_its_names():
    made = {TopicKind.of(make(*["x"] * len(inspect.signature(make).parameters))) for make in MAKERS.values()}
    assert made == set(TopicKind)


@pytest.mark.parametrize(("topic", "expected"), EXPECTED.items())
def test_what_the_log_keeps_of_a_topic(topic, expected):
    assert (topics.is_compacted(topic), topics.is_kept(topic)) == expected


@pytest.mark.parametrize("topic", ["queries", "replies", "updates", "stranger.rates", "*", ""])
def test_a_plain_or_foreign_name_has_no_kind(topic):
    assert TopicKind.of(topic) is None


def test_the_sources_of_a_networked_stream_write_to_what_aggregators_read():
    columns = (Column("item", "STRING"), Column("value", "DOUBLE"))
    plain = Stream("rates", columns, ("item",))
    assert topics.source_topic(plain) == "updates.rates"
    assert topics.source_topic(Stream("rates", columns, ("item",), uri="network.toml")) == "feeds.rates"


def test_no_other_module_puts_a_name_together():
    kinds = "|".join(kind for kind in TopicKind if kind != "rows")  # f"rows.{k}" also names arrays of a state
    pattern = re.compile(rf"""f["']({kinds})\.\{{|(startswith|removeprefix)\(["'(]+({kinds})\.""")
    source = Path(tolerant.__file__).parent
    shell = ("cli", "client", "demo", "edge", "spark", "sql", "testing", "transport")
    files = [file for package in shell for file in (source / package).rglob("*.py") if file.name != "topics.py"]
    assert len(files) > 100
    assert [f"{file}: {line}" for file in files for line in file.read_text().splitlines() if pattern.search(line)] == []
