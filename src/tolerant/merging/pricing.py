"""The price of groups, for every procedure, size and frequency: c(M) of `docs/design/merging.md` §2.2, §2.3 and §2.10.

This is the general case, for arrays of groups; the compiled methods implement the common case (boxes, `area` or rows
counted, all due at every tick) themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from tolerant.kernels.array_types import Floats, Integers
from tolerant.merging.costs import Costs
from tolerant.merging.due_ticks import DueTicks, due_of
from tolerant.merging.pieces import cut, regions
from tolerant.merging.sizes import Size, SizeTable, measured, planar, table_of
from tolerant.merging.units import Units


@dataclass(frozen=True)
class GroupShape:
    """The quantities that determine the price of groups: `sizes` float[k] S(M), `channels` float[k] and `answers`
    float[k].
    """

    sizes: Floats
    channels: Floats
    answers: Floats


@dataclass(frozen=True)
class Pricing:
    """Prices any group of units: c(M), so that the cost of a plan is Σ c(M) − `constant`."""

    units: Units
    costs: Costs
    size: Size
    procedure: str = "box"
    due: DueTicks = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "due", due_of(self.units.periods))

    @property
    def table(self) -> SizeTable | None:
        """The size table for compiled methods; None where only this general case applies."""
        plain = self.procedure == "box" and self.costs.answer is None and self.due.always
        return table_of(self.size, self.units.boxes.shape[1] // 2) if plain else None

    @property
    def constant(self) -> float:
        """K_U·Σ size(q) per tick, which every plan subtracts (§2.2); 0 with `pieces`, where no row is unwanted."""
        if self.procedure == "pieces" or len(self.units) == 0:
            return 0.0
        own = measured(self.size, self.units.boxes)
        return float(self.costs.waste * (own * self.units.counts * self.due.shares()).sum())

    def of(self, groups: Sequence[Sequence[int] | Integers]) -> Floats:
        """Return c(M) per tick of each group of units, float[k]."""
        lengths = np.array([len(group) for group in groups], np.int64)
        members = np.concatenate([np.zeros(0, np.int64), *(np.asarray(group, np.int64) for group in groups)])
        return self.of_rows(np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]), members)

    def of_rows(self, starts: Integers, members: Integers) -> Floats:
        """Return `of` for groups as compressed rows: group k is members[starts[k] : starts[k + 1]]."""
        if self.due.always:
            return self._each(starts, members)
        prices = np.zeros(len(starts) - 1)
        for weight, due in zip(self.due.weights, self.due.members, strict=True):
            kept = due[members]
            until = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])[starts]
            some = np.flatnonzero(np.diff(until))
            if len(some):
                reduced = np.append(until[some], until[-1])
                prices[some] += weight * self._each(reduced, members[kept])
        return prices

    def _each(self, starts: Integers, members: Integers) -> Floats:
        shape = self.shape(starts, members)
        receivers = np.add.reduceat(self.units.counts[members], starts[:-1]) if len(members) else np.zeros(0)
        wasted = 0.0 if self.procedure == "pieces" else self.costs.waste * receivers
        return self.costs.channel * shape.channels + (self.costs.transfer + wasted) * shape.sizes + shape.answers

    def shape(self, starts: Integers, members: Integers) -> GroupShape:
        """Return sizes, channels and answering costs of groups that are all due; no group may be empty."""
        if self.procedure == "box":
            boxes = bounding(self.units.boxes, starts, members)
            return GroupShape(measured(self.size, boxes), np.ones(len(boxes)), self.answered(boxes))
        table = table_of(self.size, self.units.boxes.shape[1] // 2)
        if table is not None and self.costs.answer is None:
            sizes, pieces = regions(planar(self.units.boxes), starts, members, table)
            answers = np.zeros(len(sizes))
        else:
            sizes, pieces, answers = self._cut(starts, members)
        channels = pieces.astype(np.float64) if self.procedure == "pieces" else np.ones(len(sizes))
        return GroupShape(sizes, channels, answers)

    def _cut(self, starts: Integers, members: Integers) -> tuple[Floats, Integers, Floats]:
        """Size, number of pieces and answering cost of each group, for sizes that compiled code does not know."""
        parts = [cut(self.units.boxes[members[a:b]]).edges for a, b in pairwise(starts)]
        pieces = np.array([len(part) for part in parts], np.int64)
        if not parts:
            return np.zeros(0), pieces, np.zeros(0)
        edges = np.concatenate(parts)
        at = np.concatenate([np.zeros(1, np.int64), np.cumsum(pieces)[:-1]])
        sizes, answers = measured(self.size, edges), self.answered(edges)
        return np.add.reduceat(sizes, at), pieces, np.add.reduceat(answers, at)

    def answered(self, boxes: Floats) -> Floats:
        """Return the cost of answering each of these boxes, float[k]."""
        if self.costs.answer is None:
            return np.zeros(len(boxes))
        costs = np.asarray(self.costs.answer(boxes), np.float64)
        if costs.shape != (len(boxes),) or not (costs >= 0).all():
            raise ValueError(f"answer must give {len(boxes)} costs that are not negative, got {costs}")
        return costs


def bounding(boxes: Floats, starts: Integers, members: Integers) -> Floats:
    """Return the bounding box of each group, float[k, 2d]; no group may be empty."""
    half = boxes.shape[1] // 2
    if len(members) == 0:
        return np.zeros((0, 2 * half))
    chosen = boxes[members]
    lows = np.minimum.reduceat(chosen[:, :half], starts[:-1])
    highs = np.maximum.reduceat(chosen[:, half:], starts[:-1])
    return np.concatenate([lows, highs], axis=1)
