"""The real engine, coordinator, source and shard with one mistake each: the fault simulator reports every one of them.

Every mutant replaces one attribute of a real class or module; its seeds are fixed and pass without it. The mistakes of
`broken_protocols`, `broken_leases` and `broken_sum_substitution` are of other ends and are not repeated here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from tolerant.edge.outbox import Outbox
from tolerant.edge.source_core import SourceCore
from tolerant.filters import beliefs
from tolerant.filters.answer_emitter import AnswerEmitter
from tolerant.filters.coordinator import Coordinator
from tolerant.filters.grant_log import GrantLog
from tolerant.filters.item_evidence import ItemEvidence
from tolerant.filters.item_membership import Membership
from tolerant.kinds.bounded import item_registry, shard
from tolerant.kinds.bounded.engine import Engine
from tolerant.kinds.bounded.item_lifecycle import ItemLifecycle
from tolerant.kinds.bounded.lost_rows import LostRows
from tolerant.kinds.bounded.shard import BoundedShard
from tolerant.kinds.bounded.source_liveness import SourceLiveness
from tolerant.pipeline import shard_host
from tolerant.pipeline.event_time import EventTime, EventTimeBuffer
from tolerant.pipeline.shard_host import LogInput, ShardHost
from tolerant.pipeline.sources import Sources
from tolerant.testing import Faults, simulate_faults
from tolerant.transport import MemoryLog


class Mutant(NamedTuple):
    """A mistake: what is replaced, and by what, given the original; seeds of which at least one shows it."""

    name: str
    owner: Any
    attribute: str
    replacement: Callable[[Any], Any]
    seeds: tuple[int, ...] = ()
    faults: Faults = Faults()


def nothing(original):
    return lambda *arguments, **options: None


def no_items(original):
    return lambda *arguments: np.zeros(0, np.int64)


def confirms_the_newest_version(original):
    def update_many(self, items, *arguments, grants, **options):
        return original(self, items, *arguments, grants=self.grant_log.newest(items), **options)

    return update_many


def applies_repeated_rows(original):
    def update_many(self, items, *arguments, sequences, **options):
        later = np.maximum(sequences, self.membership.sequences(items) + 1)
        return original(self, items, *arguments, sequences=later, **options)

    return update_many


def confirms_its_own_grants(original):
    def issue(self, which, *arguments):
        original(self, which, *arguments)
        for item, issued in zip(which.tolist(), self.newest(which).tolist(), strict=True):
            beliefs.confirm(self._membership.items, item, issued)

    return issue


def calls_no_row_late(original):
    return lambda self, rows: np.zeros(len(rows), np.bool_)


def remembers_no_departure(original):
    return lambda self, rows: rows


def loses_rows_that_wait(original):
    def load(self, state):
        original(self, state)
        self._waiting = []

    return load


def loses_rows_that_no_clock_passed(original):
    def load(self, state):
        original(self, state)
        self._arrived = {}

    return load


def proves_a_period_more(original):
    return lambda self, keys, through: original(self, keys, through + 1_000_000)


def ignores_fences(original):
    return lambda self, checkpoint, batch, entries, fence=None: original(self, checkpoint, batch, entries)


def no_tombstones(original):
    return lambda query, groups, at: original(query, [], at)


def trusts_items_from_before_a_restart(original):
    def mark_stale(self, items, stale, at, epoch=None):
        if epoch is None:
            original(self, items, stale, at)

    return mark_stale


def reuses_ids(original):
    def opened(self, name, *arguments):
        original(self, name, *arguments)
        self.query_ids[self.query_index[name]] = self.query_index[name]

    return opened


def labels_it_older(original):
    return lambda position, digest, state: original(max(position - 1, 0), digest, state)


def reads_past_the_end(original):
    return lambda self, start, end: original(self, start, end + 2)


def replays_with_another_width(original):
    """One width is off by one unit in the last place."""

    def apply_again(self, current, done):
        widths = current.core._engine._coordinator.membership.items.width
        known = np.flatnonzero(np.isfinite(widths) & (widths > 0))[:1]
        widths[known] = np.nextafter(widths[known], np.inf)
        return original(self, current, done)

    return apply_again


MUTANTS = [
    Mutant("confirms a width without its version", Coordinator, "update_many", confirms_the_newest_version, (0, 2)),
    Mutant("believes a tightening at once", GrantLog, "issue", confirms_its_own_grants, (0, 2)),
    Mutant("applies a late row as if it were in time", EventTimeBuffer, "is_late", calls_no_row_late, (5, 8)),
    Mutant("drops late rows", Engine, "apply_late", nothing, (2,)),
    Mutant("reuses the index of an item at once", item_registry, "_MEMORY", lambda original: 0, (6, 8)),
    Mutant("adds removed items again", ItemLifecycle, "without_removed", remembers_no_departure, (8,)),
    Mutant("snapshots no rows that wait", EventTimeBuffer, "load", loses_rows_that_wait, (0, 3)),
    Mutant("snapshots no rows of this tick", EventTimeBuffer, "load", loses_rows_that_no_clock_passed, (2, 9)),
    Mutant("ends no lease", Sources, "next_silence", nothing, (2,)),
    Mutant("does not wait for the latency", EventTime, "latency", lambda original: property(lambda self: 0), (1,)),
    Mutant("proves with a heartbeat what is to come", Outbox, "drain", proves_a_period_more, (17,)),
    Mutant("keeps its own epoch", ItemEvidence, "advance_epoch", nothing, (8,)),
    Mutant("applies a row twice", Coordinator, "update_many", applies_repeated_rows, (7,)),
    Mutant("keeps the widths of lost rows", LostRows, "mark_lost", nothing, (2, 23)),
    Mutant("does not send a grant again", GrantLog, "resend", nothing, (3,)),
    Mutant("publishes no answer at a period's end", AnswerEmitter, "refresh", nothing, (1,)),
    Mutant("revives no source", SourceLiveness, "revive", nothing, (12,)),
    Mutant("does not filter again after a shrink", SourceCore, "_reapply", nothing, (35,)),
    Mutant("writes no tombstones of answers", shard, "tombstones", no_tombstones, (1, 3)),
    Mutant("ignores a fence", MemoryLog, "append_once", ignores_fences, (1, 4), Faults(second_pipeline=0.2)),
    Mutant(
        "ignores the epoch of another pipeline",
        BoundedShard,
        "_on_foreign_epoch",
        nothing,
        (8,),
        Faults(second_pipeline=0.3, source_crash=0.0, late_grant=0.0, lost_grant=0.0),
    ),
    Mutant(
        "trusts items from before a restart of their source",
        ItemEvidence,
        "mark_stale",
        trusts_items_from_before_a_restart,
        (17,),
        Faults(source_crash=0.05, late_hello=0.9),
    ),
    Mutant(
        "reuses the id of a query at once",
        Membership,
        "_open",
        reuses_ids,
        (4,),
        Faults(statement=1.0, pipeline_stall=0.3),
    ),
    Mutant("saves a snapshot one entry too new", shard_host, "Snapshot", labels_it_older, (0,)),
    Mutant("reads a partition past its end", LogInput, "entries", reads_past_the_end, (0,)),
]


def violations(mutant: Mutant) -> int:
    return sum(len(simulate_faults(seed, faults=mutant.faults).violations) for seed in mutant.seeds)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_simulator_reports_a_mutant_and_nothing_without_it(monkeypatch, mutant):
    assert violations(mutant) == 0
    original = getattr(mutant.owner, mutant.attribute)
    monkeypatch.setattr(mutant.owner, mutant.attribute, mutant.replacement(original))
    assert violations(mutant) > 0


def test_a_width_off_by_one_unit_in_the_last_place_is_found_by_the_digest(monkeypatch):
    faults = Faults(lost_worker=0.5, lost_snapshot=0.5)
    assert simulate_faults(9, faults=faults).ok
    monkeypatch.setattr(ShardHost, "_apply_again", replays_with_another_width(ShardHost._apply_again))
    found = simulate_faults(9, faults=faults).violations
    assert any("has published something else up to position" in violation.text for violation in found)
