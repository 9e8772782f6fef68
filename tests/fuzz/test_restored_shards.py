"""Every kind of shard is the same after a restore: what it publishes from then on, and its next snapshot.

No field of a snapshot can be left out, and none that the shard does not know can be added. Nor can the fields of a
kind change without a new number of its schema.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest
import snapshot_fields
from stages import STAGES

from tolerant.kernels.snapshots import Schema, State
from tolerant.pipeline.hosting import Hosted, Output
from tolerant.transport.log import Entry

BEFORE, AFTER = 8, 6  # steps of the true sources

KINDS: dict[str, Callable[[Any], tuple[Hosted, Hosted]]] = {
    "bounded": lambda stage: (
        stage.pipeline.shard,
        type(stage.pipeline.shard)(stage.pipeline.stream, 0, 1, "checkpoint"),
    ),
    "adaptive": lambda stage: (
        stage.pipeline.shard,
        type(stage.pipeline.shard)(stage.pipeline.stream, 0, 1, "checkpoint"),
    ),
    "summed": lambda stage: (
        stage.pipeline.shard,
        type(stage.pipeline.shard)(stage.pipeline.stream, 0, 1, "checkpoint"),
    ),
    "tables": lambda stage: (stage.pipeline.shard, stage.pipeline.new_shard()),
    "joined": lambda stage: (stage.pipeline.shard, stage.pipeline.new_shard()),
    "kept": lambda stage: (stage.pipeline.shard, stage.pipeline.new_shard()),
    "looked_up": lambda stage: (stage.pipeline.shard, stage.pipeline.new_shard()),
    "polled": lambda stage: (stage.pipeline.shard, type(stage.pipeline.shard)(stage.pipeline.shard._stream)),
    "networked": lambda stage: (stage.simulation.shard, stage.simulation._born()),
    "views": lambda stage: (stage.pipeline.shard, stage.pipeline.new_shard()),
}
"""Stage → the shard that it plays, and a new one of its kind."""


class History(NamedTuple):
    """A snapshot of a shard, what it read after that, what it published then, and its snapshot in the end."""

    schema: Schema
    snapshot: bytes
    batches: list[list[Entry]]
    outputs: list[Output]
    end: bytes
    new_shard: Callable[[], Hosted]


@cache
def history(name: str) -> History:
    stage = STAGES[name](3)
    for _ in range(BEFORE):
        stage.step()
    shard, new = KINDS[name](stage)
    snapshot, batches, outputs = shard.snapshot(), [], []
    apply = shard.apply

    def recorded(batch):
        batches.append(list(batch))
        applied = apply(batch)
        outputs.extend(applied)
        return applied

    shard.apply = recorded
    for _ in range(AFTER):
        stage.step()
    del shard.apply
    return History(shard.SCHEMA, snapshot, batches, outputs, shard.snapshot(), lambda: copy.deepcopy(new))


def snapshots() -> list[tuple[Schema, bytes]]:
    """A snapshot of every kind of shard, with its schema."""
    return [(played.schema, played.end) for played in map(history, KINDS)]


def paths(state: State, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all fields, of parts and of what is in them."""
    for name, value in state.items():
        yield (*before, name)
        if isinstance(value, State):
            yield from paths(value, (*before, name))


@pytest.mark.parametrize("name", KINDS)
def test_a_restored_shard_goes_on_as_the_one_before(name):
    played = history(name)
    assert played.outputs
    shard = played.new_shard()
    shard.restore(played.snapshot)
    assert shard.snapshot() == played.snapshot
    assert [output for batch in played.batches for output in shard.apply(batch)] == played.outputs
    assert shard.snapshot() == played.end


@pytest.mark.parametrize("name", KINDS)
def test_no_field_of_a_snapshot_can_be_left_out(name):
    played = history(name)
    keyed_by_name = {
        "tables",
        "queries",
        "clocks",
        "arrived",
        "groups",
        "dynamics",
    }  # parts with a name of their own; any number of them
    tried = 0
    for path in paths(played.schema.unpack(played.snapshot)):
        if len(path) > 1 and path[-2] in keyed_by_name:
            continue
        state = played.schema.unpack(played.snapshot)
        part = state
        for step in path[:-1]:
            part = part[step]
        del part[path[-1]]
        with pytest.raises(ValueError, match=f"lacks '{path[-1]}'"):
            played.new_shard().restore(played.schema.pack(state))
        tried += 1
    assert tried > 5


def test_fields_change_only_with_the_number_of_their_schema():
    now, before = snapshot_fields.layouts(snapshots()), snapshot_fields.recorded()
    assert snapshot_fields.without_a_new_number(before, now) == []
    assert now == before, "record the new layouts: see tests/fuzz/snapshot_fields.py"


def test_a_field_without_a_new_number_is_noticed():
    before = snapshot_fields.recorded()
    layout = before["bounded"]
    assert "kind.engine.shard.coordinator.membership.query_indices.ids" in layout.fields
    fields = sorted([*layout.fields, "kind.more"])
    changed = {"bounded": layout._replace(fields=fields)}
    assert snapshot_fields.without_a_new_number(before, changed) == [
        f"bounded: ['kind.more'] in schema {layout.number}, as before"
    ]
    renumbered = layout._replace(number=layout.number + 1, fields=fields)
    assert snapshot_fields.without_a_new_number(before, {"bounded": renumbered}) == []
