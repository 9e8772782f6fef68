"""The phases of a group of sums, and the events that lead from one to another.

    offered ─sent→ forming ─confirmed→ formed ─unwanted→ parting ─confirmed→ ended

Forming: the source sends the sums, and a hidden query limits each to the width of its items. Once that is confirmed, so
that every row of the query still fits, the sums replace their items in one transaction. Parting is the reverse: a
hidden query limits the items of each sum to its width. What the coordinator computes with follows from the phase alone:
hidden queries exist while forming and parting, and sums replace their items while formed and parting.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Phase(Enum):
    """A phase of a group of sums; the values are those of snapshots."""

    OFFERED = 0
    FORMING = 1
    FORMED = 2
    PARTING = 3
    ENDED = 4

    @property
    def has_hidden_queries(self) -> bool:
        """Whether a hidden query limits the form that is to replace the other."""
        return self in (Phase.FORMING, Phase.PARTING)

    @property
    def replaces_items(self) -> bool:
        """Whether the sums are in the queries in place of their items."""
        return self in (Phase.FORMED, Phase.PARTING)


class Event(Enum):
    """Something that ends a phase."""

    SENT = "the source sends the sums as they were offered"
    CONFIRMED = "the confirmed widths leave room for the other form"
    WANTED = "the source and the pipeline want the sums again"
    UNWANTED = "the source or the pipeline wants the items"
    INTERRUPTED = "an item, a sum or all queries have ended or changed"
    SUPERSEDED = "other sums are offered"


TRANSITIONS: Mapping[tuple[Phase, Event], Phase] = {
    (Phase.OFFERED, Event.SENT): Phase.FORMING,
    (Phase.OFFERED, Event.UNWANTED): Phase.ENDED,
    (Phase.OFFERED, Event.SUPERSEDED): Phase.ENDED,
    (Phase.FORMING, Event.CONFIRMED): Phase.FORMED,
    (Phase.FORMING, Event.UNWANTED): Phase.ENDED,
    (Phase.FORMING, Event.INTERRUPTED): Phase.ENDED,
    (Phase.FORMED, Event.UNWANTED): Phase.PARTING,
    (Phase.FORMED, Event.INTERRUPTED): Phase.ENDED,
    (Phase.PARTING, Event.CONFIRMED): Phase.ENDED,
    (Phase.PARTING, Event.WANTED): Phase.FORMED,
    (Phase.PARTING, Event.INTERRUPTED): Phase.ENDED,
}
"""The phase that follows; any other event does not occur in a phase."""


def next_phase(phase: Phase, event: Event) -> Phase:
    """Returns the phase that follows.

    Raises:
        ValueError: the event does not occur in this phase.

    >>> next_phase(Phase.OFFERED, Event.SENT)
    <Phase.FORMING: 1>
    """
    if (phase, event) not in TRANSITIONS:
        raise ValueError(f"sums that are {phase.name.lower()} have no transition when {event.value}")
    return TRANSITIONS[phase, event]
