"""Keeps a plan while subscriptions are added and removed (`docs/design/merging.md` §2.10, §5.4)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from tolerant.kernels.array_types import Floats
from tolerant.kernels.snapshots import State
from tolerant.merging.channel_changes import Box, ChannelChanges, Journal, RepairSearch
from tolerant.merging.compiled_plan import CompiledPlan
from tolerant.merging.costs import Costs
from tolerant.merging.general_plan import GeneralPlan
from tolerant.merging.sizes import Size, area, table_of
from tolerant.merging.units import collapsed
from tolerant.merging.validation import as_rectangles


class Merger:
    """Groups subscriptions into channels incrementally: `add`, `remove` and `improve` return the channels and
    subscribers changed.

    A new subscription joins the channel where it is cheapest, or gets its own; then the channels around it are solved
    again, and the solution is adopted if it saves more than `hysteresis` per subscriber that has to switch. `tries`:
    random starts of such a repair. The same sequence of calls gives the same groups.

    Ids are any hashable; for `state` they must be integers or texts.

    >>> merger = Merger(Costs(channel=10, transfer=2, waste=0.5))
    >>> merger.add("ann", [0, 0, 4, 4]).opened
    (0,)
    >>> merger.add("bob", [2, 0, 6, 4])
    ChannelChanges(opened=(), closed=(), resized=(0,), moves=(('bob', None, 0),))
    >>> merger.groups(), merger.cost
    ([['ann', 'bob']], 66.0)
    """

    def __init__(
        self, costs: Costs, *, size: Size = area, seed: int = 0, hysteresis: float = 0.0, tries: int = 3
    ) -> None:
        if not (np.isfinite(hysteresis) and hysteresis >= 0):
            raise ValueError(f"hysteresis must be finite and not negative, got {hysteresis}")
        if tries < 0:
            raise ValueError(f"tries must not be negative, got {tries}")
        self._costs, self._size, self._seed = costs, size, seed
        self._hysteresis, self._tries = float(hysteresis), tries
        self._turn = 0
        self._dimensions = 0  # until the first rectangle
        self._plan: CompiledPlan | GeneralPlan | None = None
        self._unit_of: dict[Hashable, int] = {}
        self._ids: dict[int, dict[Hashable, None]] = {}  # of each unit
        self._units: dict[Box, int] = {}  # by rectangle
        self._rectangles: dict[int, Box] = {}

    def __len__(self) -> int:
        return len(self._unit_of)

    def __contains__(self, id: Hashable) -> bool:
        return id in self._unit_of

    @property
    def cost(self) -> float:
        """The `total_cost` of the current groups, computed from them each time."""
        return 0.0 if self._plan is None else self._plan.cost()

    def groups(self) -> list[list[Hashable]]:
        """Return the ids that share a channel, in the order of their addition; groups are ordered by their first id."""
        return list(self.channels().values())

    def channels(self) -> dict[int, list[Hashable]]:
        """Return the ids on each channel, by its number."""
        members: dict[int, list[Hashable]] = {}
        for id, unit in self._unit_of.items():
            assert self._plan is not None
            members.setdefault(self._plan.channel_of(unit), []).append(id)
        return members

    def boxes(self) -> dict[int, Box]:
        """Return the box of each channel, lows before highs, by its number."""
        return {} if self._plan is None else self._plan.channels()

    def channel_of(self, id: Hashable) -> int:
        """Return the channel of a subscription."""
        if id not in self._unit_of or self._plan is None:
            raise ValueError(f"id {id!r} is not there")
        return self._plan.channel_of(self._unit_of[id])

    def rectangle_of(self, id: Hashable) -> Box:
        """Return the rectangle of a subscription."""
        if id not in self._unit_of:
            raise ValueError(f"id {id!r} is not there")
        return self._rectangles[self._unit_of[id]]

    def add(self, id: Hashable, rectangle: ArrayLike) -> ChannelChanges:
        """Add a subscription."""
        return self.add_many([id], np.asarray(rectangle, np.float64)[None], fresh=False)

    def add_many(self, ids: Sequence[Hashable], rectangles: ArrayLike, *, fresh: bool = True) -> ChannelChanges:
        """Add subscriptions; the first ones, if many at once and `fresh`, are merged by `pairs`."""
        boxes = self._checked(ids, rectangles)
        if len(boxes) == 0:
            return ChannelChanges()
        plan, journal = self._planned(boxes), Journal()
        if fresh and not self._unit_of and len(boxes) > 1:
            self._fill(plan, ids, boxes)
            channels = tuple(sorted(plan.channels()))
            return ChannelChanges(opened=channels, moves=tuple((id, None, self.channel_of(id)) for id in ids))
        for id, box in zip(ids, boxes, strict=True):
            self._add_one(plan, id, box, journal)
        self._repair(plan, journal)
        return self._changes(plan, journal, dict.fromkeys(ids))

    def remove(self, id: Hashable) -> ChannelChanges:
        """Remove a subscription."""
        return self.remove_many([id])

    def remove_many(self, ids: Sequence[Hashable]) -> ChannelChanges:
        """Remove subscriptions."""
        if len(set(ids)) < len(ids):
            raise ValueError("ids must differ")
        for id in ids:
            if id not in self._unit_of:
                raise ValueError(f"id {id!r} is not there")
        if not ids or self._plan is None:
            return ChannelChanges()
        journal, removed = Journal(), {}
        for id in ids:
            unit = self._unit_of.pop(id)
            removed[id] = self._plan.channel_of(unit)
            self._plan.count(unit, -1, journal)
            del self._ids[unit][id]
            if not self._ids[unit]:
                del self._ids[unit], self._units[self._rectangles.pop(unit)]
                journal.units.pop(unit, None)
        self._repair(self._plan, journal)
        return self._changes(self._plan, journal, removed)

    def improve(self, rounds: int = 1, *, tries: int = 10) -> ChannelChanges:
        """Solve the neighbourhood of every channel again, `rounds` times, with more random starts than for a change."""
        if rounds < 0:
            raise ValueError(f"rounds must not be negative, got {rounds}")
        if self._plan is None:
            return ChannelChanges()
        journal = Journal()
        self._plan.improve(rounds, self._next_search(tries), journal)
        return self._changes(self._plan, journal, {})

    def reprice(self, costs: Costs | None = None, size: Size | None = None) -> None:
        """Continue with other prices or another size of the same kind, for instance with newly counted rows.

        Groups stay as they are until they are changed, or `improve` is called.
        """
        self._costs = self._costs if costs is None else costs
        self._size = self._size if size is None else size
        if self._plan is None:
            return
        table = table_of(self._size, self._dimensions) if self._costs.answer is None else None
        if isinstance(self._plan, GeneralPlan):
            self._plan.reprice(self._costs, self._size)
        elif table is not None:
            self._plan.reprice(self._costs, table)
        else:
            raise ValueError("size must be of the kind that it was: area, or rows counted")

    def state(self) -> State:
        """Return everything, for a snapshot; a merger loaded from it continues as this one.

        Raises:
            ValueError: ids are neither integers nor texts.
        """
        ids = list(self._unit_of)
        if not all(isinstance(id, int | str) for id in ids):
            raise ValueError("ids must be integers or texts to be written down")
        return State(
            ids=np.array(ids, np.int64) if all(type(id) is int for id in ids) else ids,
            id_units=np.array(list(self._unit_of.values()), np.int64),
            rectangle_units=np.array(list(self._rectangles), np.int64),
            rectangles=np.array(list(self._rectangles.values()), np.float64),
            turn=self._turn,
            dimensions=self._dimensions,
            plan=None if self._plan is None else self._plan.state(),
        )

    @classmethod
    def load(
        cls,
        costs: Costs,
        state: State,
        *,
        size: Size = area,
        seed: int = 0,
        hysteresis: float = 0.0,
        tries: int = 3,
    ) -> Merger:
        """Restore the merger from what `state` returned, with the arguments of the original."""
        merger = cls(costs, size=size, seed=seed, hysteresis=hysteresis, tries=tries)
        ids, id_units, rectangle_units, rectangles, merger._turn, merger._dimensions, plan = state.exactly(
            "ids", "id_units", "rectangle_units", "rectangles", "turn", "dimensions", "plan"
        )
        named = ids.tolist() if isinstance(ids, np.ndarray) else ids
        merger._unit_of = dict(zip(named, id_units.tolist(), strict=True))
        merger._rectangles = dict(zip(rectangle_units.tolist(), map(tuple, rectangles.tolist()), strict=True))
        merger._units = {box: unit for unit, box in merger._rectangles.items()}
        for id, unit in merger._unit_of.items():
            merger._ids.setdefault(unit, {})[id] = None
        if plan is not None:
            merger._plan = merger._made()
            merger._plan.load(plan)
        return merger

    def _checked(self, ids: Sequence[Hashable], rectangles: ArrayLike) -> Floats:
        boxes = as_rectangles(rectangles)
        if len(ids) != len(boxes):
            raise ValueError(f"ids must be one for each of the {len(boxes)} rectangles, got {len(ids)}")
        if len(set(ids)) < len(ids):
            raise ValueError("ids must differ")
        for id in ids:
            if id in self._unit_of:
                raise ValueError(f"id {id!r} is there already")
        if self._dimensions and len(boxes) and boxes.shape[1] != 2 * self._dimensions:
            raise ValueError(f"rectangles must have {2 * self._dimensions} ends, as the others, got {boxes.shape[1]}")
        return boxes

    def _planned(self, boxes: Floats) -> CompiledPlan | GeneralPlan:
        if self._plan is None:
            self._dimensions = boxes.shape[1] // 2
            self._plan = self._made()
        return self._plan

    def _made(self) -> CompiledPlan | GeneralPlan:
        table = table_of(self._size, self._dimensions) if self._costs.answer is None else None
        if table is None:
            return GeneralPlan(self._costs, self._size, self._dimensions)
        return CompiledPlan(self._costs, table, self._dimensions)

    def _fill(self, plan: CompiledPlan | GeneralPlan, ids: Sequence[Hashable], boxes: Floats) -> None:
        units = collapsed(boxes)
        plan.fill(units.boxes, units.counts)
        self._rectangles = {unit: tuple(box) for unit, box in enumerate(units.boxes.tolist())}
        self._units = {box: unit for unit, box in self._rectangles.items()}
        for id, unit in zip(ids, units.of.tolist(), strict=True):
            self._unit_of[id] = unit
            self._ids.setdefault(unit, {})[id] = None

    def _add_one(self, plan: CompiledPlan | GeneralPlan, id: Hashable, box: Floats, journal: Journal) -> None:
        rectangle = tuple(box.tolist())
        unit = self._units.get(rectangle)
        if unit is None:
            unit = plan.add(box, journal)
            self._units[rectangle], self._rectangles[unit] = unit, rectangle
        else:
            plan.count(unit, 1, journal)
        self._unit_of[id] = unit
        self._ids.setdefault(unit, {})[id] = None

    def _repair(self, plan: CompiledPlan | GeneralPlan, journal: Journal) -> None:
        for channel in list(journal.boxes):
            plan.repair(channel, self._next_search(self._tries), journal)

    def _next_search(self, tries: int) -> RepairSearch:
        self._turn += 1
        return RepairSearch(self._seed, self._turn, tries, self._hysteresis)

    def _changes(
        self, plan: CompiledPlan | GeneralPlan, journal: Journal, named: Mapping[Hashable, int | None]
    ) -> ChannelChanges:
        """The changes; `named`: the ids that were added (from None) or removed (from their channel)."""
        moves: list[tuple[Hashable, int | None, int | None]] = []
        for id, before in named.items():
            moves.append((id, before, self.channel_of(id) if id in self._unit_of else None))
        for unit, before in journal.units.items():
            if before is None or unit not in self._ids:
                continue
            after = plan.channel_of(unit)
            if after != before:
                moves += [(id, before, after) for id in self._ids[unit] if id not in named]
        changes = journal.changes(plan.boxes_of(journal), tuple(moves))
        plan.forget()
        return changes
