"""Publishes the plans of a network's queries for the aggregators, and notes which of them the status must show."""

from __future__ import annotations

from collections.abc import Sequence

from tolerant.kernels.snapshots import SORTED_SET, Fields, Restorable
from tolerant.pipeline.hosting import Output
from tolerant.sql.membership import query_and_group
from tolerant.transport.plans import Wanted, plan_body, plan_key
from tolerant.transport.rows import compacted, pack
from tolerant.transport.topics import grants_topic


class PlanPublisher(Restorable):
    """Collects plans by group until `drain`; of several plans of a group the last is published."""

    FIELDS = Fields("_learned", _changed=SORTED_SET)

    def __init__(self, stream: str) -> None:
        self._topic = grants_topic(stream)
        self._plans: dict[str, tuple[int, bytes | None]] = {}
        self._changed: set[str] = set()
        self._learned = False

    def announce(self, name: str, version: int, wanted: Sequence[Wanted]) -> None:
        """Publish what is wanted for a group, from this version on."""
        self._plans[plan_key(*query_and_group(name))] = (version, plan_body(wanted))

    def drop(self, name: str, version: int) -> None:
        """Publish a tombstone of a group's plan."""
        self._plans[plan_key(*query_and_group(name))] = (version, None)
        self._changed.add(name)

    def note_change(self, name: str) -> None:
        """Note for the status that the plan of a group has changed."""
        self._changed.add(name)

    def note_learned(self) -> None:
        """Note for the status that the dynamics of the items have changed."""
        self._learned = True

    def drain(self) -> list[Output]:
        """Return the outputs since the last call."""
        rows = [(key, version, body) for key, (version, body) in self._plans.items()]
        self._plans = {}
        return [Output(self._topic, pack(compacted(rows)))] if rows else []

    def drain_changes(self) -> tuple[list[str], bool]:
        """Return the groups whose plans changed since the last call, and whether the dynamics did."""
        changed, self._changed = sorted(self._changed), set()
        learned, self._learned = self._learned, False
        return changed, learned
