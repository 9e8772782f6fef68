"""The client's side of a plan: the answer from the parts' last values (`docs/design/planning.md` §2.10)."""

from __future__ import annotations

import math

from tolerant.kernels.snapshots import State
from tolerant.planning.aggregator_network import Network
from tolerant.planning.levels import extreme_of, wanted_levels
from tolerant.planning.query_plan import Plan
from tolerant.queries import Aggregate


class PlanClient:
    """Combines the refreshes of a plan's parts, and switches to a new plan when all its parts have sent a value.

    Silence means "unchanged" only while the aggregators are alive: `mark_silent` makes the answer's ends infinite until
    a plan without the silent one is complete, or `mark_alive` is called.

    >>> from tolerant.planning import Network, Part
    >>> query = Aggregate.over("total", "sum", ["p"], within=2.0)
    >>> client = PlanClient(Plan(query, Network({"A": {"p": 0.5}}), (Part("A", {"p": 1.0}, 2.0, 0.5),), cost=0.0))
    >>> client.refresh(0, 7.0, version=0)
    >>> client.answer()
    (5.0, 7.0, 9.0)
    """

    def __init__(self, plan: Plan, version: int = 0) -> None:
        self.plan, self.version = plan, version
        self._values: list[float | None] = [None] * len(plan.parts)
        self._levels: list[float | None] = [None] * len(plan.parts)
        self._pushes = [0] * len(plan.parts)
        self._next: tuple[Plan, int, list[float | None]] | None = None
        self._silent: set[str] = set()
        self._doubted: set[int] = set()

    @property
    def coming(self) -> tuple[Plan, int] | None:
        """The next plan, of which some part has not sent a value yet, and its version."""
        return None if self._next is None else self._next[:2]

    @property
    def stale(self) -> bool:
        """Whether a value cannot be trusted any more, or may be out of date."""
        return bool(self._doubted or self._silent & self.plan.relies_on())

    @property
    def settling(self) -> bool:
        """Whether a new plan is incomplete, the first one is, or a level hides the answer."""
        return self._next is not None or None in self._values or bool(self.hidden())

    def adopt(self, plan: Plan, version: int) -> None:
        """Switch to this plan once each of its parts has sent a value; until then the old one answers."""
        newest = self.version if self._next is None else self._next[1]
        if version <= newest:
            raise ValueError(f"version must be above {newest}, got {version}")
        self._next = (plan, version, [None] * len(plan.parts))
        self._switch()

    def refresh(self, part: int, value: float, version: int, level: float | None = None) -> None:
        """Apply a refresh: part number `part` of plan `version` is `value` now, sent under `level`
        (`tolerant.planning.levels`). A refresh of neither plan is ignored.
        """
        if not math.isfinite(value):
            raise ValueError(f"value must be finite, got {value}")
        values = self._values_of(version)
        if values is None:
            return
        if not 0 <= part < len(values):
            raise ValueError(f"part must be from 0 to {len(values) - 1} in plan {version}, got {part}")
        values[part] = float(value)
        if version == self.version:
            self._doubted.discard(part)
            self._pushes[part] = self._pushes[part] + 1 if level == self._levels[part] else 0
            self._levels[part] = level
        self._switch()

    def hidden(self) -> tuple[int, ...]:
        """Return the parts whose levels the answer has reached: these must be withdrawn."""
        known = self._known()
        if known is None or not any(level is not None for level in self._levels):
            return ()
        return extreme_of(self.plan.query.fn, self.plan.within, known, self._levels).blocking

    def wanted_levels(self) -> dict[int, float | None]:
        """Return levels that parts of a minimum or maximum should get, where they save messages; {part: level}."""
        known = self._known()
        if known is None or self.plan.query.fn not in ("min", "max") or self.settling or self.stale:
            return {}
        return dict(wanted_levels(self.plan.query.fn, self.plan.within, known, self._levels, self._pushes))

    def invalidate(self, part: int, version: int) -> None:
        """Distrust the value of part number `part` of plan `version` until it is refreshed."""
        values = self._values_of(version)
        if values is None or values[part] is None:
            return
        if version == self.version:
            self._doubted.add(part)
        else:
            values[part] = None

    def mark_silent(self, aggregator: str) -> None:
        """Note that a heartbeat of this aggregator is missing."""
        self._silent.add(aggregator)

    def mark_alive(self, aggregator: str) -> None:
        """Note that the aggregator is alive, and that every value it owed has been applied."""
        self._silent.discard(aggregator)

    def answer(self) -> tuple[float, float, float]:
        """Return (low, value, high): the truth is between; infinite ends where a part is unknown or not trusted."""
        known, within = self._known(), self.plan.within
        if known is None:
            return -math.inf, math.nan, math.inf
        if self.plan.query.fn in ("min", "max"):
            extreme = extreme_of(self.plan.query.fn, within, known, self._levels)
            low, value, high = extreme.low, extreme.value, extreme.high
        else:
            value = sum(known)
            low, high = value - within, value + within
        return (-math.inf, value, math.inf) if self.stale else (low, value, high)

    def state(self) -> State:
        """Return plain values, for a snapshot; the query and the network are kept elsewhere."""
        coming = None
        if self._next is not None:
            coming = [self._next[0].record(), self._next[1], self._next[2]]
        return State(
            plan=self.plan.record(),
            version=self.version,
            values=list(self._values),
            levels=list(self._levels),
            pushes=list(self._pushes),
            next=coming,
            silent=sorted(self._silent),
            doubted=sorted(self._doubted),
        )

    @classmethod
    def from_state(cls, state: State, query: Aggregate, network: Network, coming: Network | None = None) -> PlanClient:
        """Return the client whose `state` this is; coming: the network of the next plan, where it is another."""
        plan, version, values, levels, pushes, following, silent, doubted = state.exactly(
            "plan", "version", "values", "levels", "pushes", "next", "silent", "doubted"
        )
        client = cls(Plan.of_record(plan, query, network), version)
        client._values, client._levels, client._pushes = values, levels, pushes
        if following is not None:
            record, version, values = following
            client._next = (Plan.of_record(record, query, coming or network), version, list(values))
        client._silent, client._doubted = set(silent), set(doubted)
        return client

    def _known(self) -> list[float] | None:
        """Return the parts' values, if all of them are known."""
        known = [value for value in self._values if value is not None]
        return known if len(known) == len(self._values) else None

    def _values_of(self, version: int) -> list[float | None] | None:
        if version == self.version:
            return self._values
        if self._next is not None and version == self._next[1]:
            return self._next[2]
        return None

    def _switch(self) -> None:
        if self._next is not None and None not in self._next[2]:
            self.plan, self.version, self._values = self._next
            self._next, self._doubted = None, set()
            self._levels, self._pushes = [None] * len(self._values), [0] * len(self._values)
