"""A query over a network while it runs: the plan that answers, the one to come, and what the aggregators said."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tolerant.kernels.snapshots import State
from tolerant.pipeline.answers import PublishedAnswer
from tolerant.planning import AnnouncedPlan, Network, Plan, PlanClient
from tolerant.queries import Aggregate
from tolerant.sql.membership import shown_name
from tolerant.transport.plans import Wanted

_SLACK = 1 + 1e-9


class Place(NamedTuple):
    """A part of a plan: the plan's version, the number of the part in it, and whose it is."""

    version: int
    part: int
    aggregator: str


@dataclass
class NetworkQuery:
    """One group of a query. Every part has a slot, which no other part that is still wanted has."""

    query: Aggregate
    client: PlanClient | None = None
    refused: str = ""
    """Why there is no plan."""
    slots: dict[int, list[int]] = field(default_factory=dict)
    """By version, the slots of the plan's parts."""
    sequences: dict[int, int] = field(default_factory=dict)
    """By slot, the newest row that was applied."""
    editions: dict[int, list[tuple[int, float | None]]] = field(default_factory=dict)
    """By slot, (version, level) that its rows may be said under: the one in force, then the one that is asked for; of a
    slot without, the plan's version and no level.
    """

    # -- plans -----------------------------------------------------------------------------------------------------

    def take(self, announced: AnnouncedPlan, version: int, silent: Iterable[str]) -> bool:
        """A new plan, or that there is none; whether anything else is wanted of aggregators now."""
        if announced.plan is None:
            name = self.query.name
            self.refused = str(announced.refused).replace(repr(name), repr(shown_name(name)))
            return False
        self.refused = ""
        taken = {slot for number, slots in self.slots.items() if number == self._version for slot in slots}
        free = (slot for slot in range(len(taken) + len(announced.plan.parts)) if slot not in taken)
        if self.client is None:
            self.client = PlanClient(announced.plan, version)
        else:
            self.client.adopt(announced.plan, version)
        for aggregator in silent:
            self.client.mark_silent(aggregator)
        self.slots[version] = [next(free) for _ in announced.plan.parts]
        for slot in self.slots[version]:
            self.sequences.pop(slot, None)
            self.editions.pop(slot, None)
        self.retire()
        return True

    @property
    def _version(self) -> int:
        return self.client.version if self.client is not None else 0

    def retire(self) -> bool:
        """Forget plans that neither answer nor are to come; whether there were any."""
        current = {version for version, _ in self.plans()}
        gone = [version for version in self.slots if version not in current]
        for version in gone:
            del self.slots[version]
        kept = {slot for slots in self.slots.values() for slot in slots}
        self.sequences = {slot: number for slot, number in self.sequences.items() if slot in kept}
        self.editions = {slot: listed for slot, listed in self.editions.items() if slot in kept}
        return bool(gone)

    def plans(self) -> list[tuple[int, Plan]]:
        """(version, plan) of the plan that answers, and of the one to come."""
        if self.client is None:
            return []
        found = [(self.client.version, self.client.plan)]
        if self.client.coming is not None:
            plan, version = self.client.coming
            found.append((version, plan))
        return found

    def renumber(self, version: int) -> None:
        """Another pipeline has spoken meanwhile: ask for everything again, under a new version."""
        if self.client is not None:
            plan = self.plans()[-1][1]
            self.client = PlanClient(plan, version)
            self.slots, self.sequences, self.editions = {version: list(range(len(plan.parts)))}, {}, {}

    def wanted(self) -> Iterator[Wanted]:
        """All parts that aggregators are to say."""
        for version, plan in self.plans():
            for slot, part in zip(self.slots[version], plan.parts, strict=True):
                edition, level = self.editions.get(slot, [(version, None)])[-1]
                yield Wanted(part.aggregator, slot, edition, plan.query.fn, dict(part.weights), part.push, level)

    # -- what is heard ---------------------------------------------------------------------------------------------

    def find(self, slot: int) -> Place | None:
        """The part that has a slot."""
        for version, plan in self.plans():
            if slot in self.slots[version]:
                part = self.slots[version].index(slot)
                return Place(version, part, plan.parts[part].aggregator)
        return None

    def newest(self, slot: int, place: Place) -> int:
        """The version that rows of a slot should be said under."""
        return self.editions.get(slot, [(place.version, None)])[-1][0]

    def knows(self, slot: int, place: Place, version: int) -> bool:
        """Whether rows of a slot may be said under this version."""
        return any(version == known for known, _ in self.editions.get(slot, [(place.version, None)]))

    def refresh(self, slot: int, place: Place, value: float, sequence: int, version: int) -> None:
        """A part's new value, said under this version, one that the slot `knows`."""
        assert self.client is not None
        self.sequences[slot] = sequence
        listed = self.editions.get(slot, [(place.version, None)])
        while listed[0][0] != version:
            listed.pop(0)
        self.client.refresh(place.part, value, place.version, listed[0][1])

    def doubt(self, place: Place) -> None:
        """A part may be anything."""
        assert self.client is not None
        self.client.invalidate(place.part, place.version)

    def restarted(self, aggregator: str) -> bool:
        """The aggregator's parts may be anything until it says them again; whether it has any."""
        places = [
            Place(version, number, aggregator)
            for version, plan in self.plans()
            for number, part in enumerate(plan.parts)
            if part.aggregator == aggregator
        ]
        for place in places:
            self.doubt(place)
        return bool(places)

    # -- levels ----------------------------------------------------------------------------------------------------

    def take_back(self, version: int) -> bool:
        """Take the levels back that hide the answer, under this version; whether there are any to be told."""
        hidden = () if self.client is None or self.client.coming is not None else self.client.hidden()
        return self._ask(dict.fromkeys(hidden), version)

    def give(self, version: int) -> bool:
        """Give parts the levels that save messages, under this version; whether there are any to be told."""
        return self._ask({} if self.client is None else self.client.wanted_levels(), version)

    def _ask(self, levels: Mapping[int, float | None], version: int) -> bool:
        """Ask for levels, but of no part that has not yet confirmed the one before."""
        asked = False
        for part, level in levels.items():
            slot = self.slots[self._version][part]
            listed = self.editions.setdefault(slot, [(self._version, None)])
            if len(listed) == 1:
                listed.append((version, level))
                asked = True
        return asked

    # -- answers ---------------------------------------------------------------------------------------------------

    def answer(self) -> PublishedAnswer:
        """The answer now."""
        if self.client is None:
            return PublishedAnswer(None, None, None, False, True)
        low, value, high = self.client.answer()
        loose = self.client.plan.within > self.query.within * _SLACK
        return PublishedAnswer(
            low if math.isfinite(low) else None,
            value if math.isfinite(value) else None,
            high if math.isfinite(high) else None,
            self.client.stale,
            self.client.settling or loose,
        )

    # -- state -----------------------------------------------------------------------------------------------------

    def state(self, network: Network) -> State:
        """The plans and what was said, for a snapshot; the query is kept elsewhere."""
        gone = [[name for name in network.aggregators if name not in plan.network.bounds] for _, plan in self.plans()]
        return State(
            client=None if self.client is None else self.client.state(),
            gone=gone,
            refused=self.refused,
            slots=list(self.slots.items()),
            sequences=list(self.sequences.items()),
            editions=list(self.editions.items()),
        )

    @classmethod
    def from_state(cls, state: State, query: Aggregate, network: Network) -> NetworkQuery:
        """What `state` described."""
        client, gone, refused, slots, sequences, editions = state.exactly(
            "client", "gone", "refused", "slots", "sequences", "editions"
        )
        made = cls(query, refused=refused, slots=dict(slots), sequences=dict(sequences))
        made.editions = {slot: [(version, level) for version, level in listed] for slot, listed in editions}
        if client is not None:
            networks = [network.without(*names) if names else network for names in gone]
            made.client = PlanClient.from_state(client, query, networks[0], networks[-1])
        return made
