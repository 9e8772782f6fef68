"""Implements range-min over two range attributes: notices list the rows that block a change (§2.9, [DISS] 5.4).

A rectangle is affected iff it holds the changed row's place and none of the rows that are as low; of those only the
contour counts, the ones whose box with the place holds no other. Each change costs one pass over all rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple, Self

import numpy as np

from tolerant.notifications.identifiers import Identifiers, id_array, listed
from tolerant.notifications.range_arguments import Floats, finite, floats, interval, refuse

Place = tuple[float, float]
_SMALLEST = 16


class Notice2D(NamedTuple):
    """The new answer of every rectangle that holds `at` and no blocker: the best of `value` and the hull rows inside.

    `blockers`: places (u, v); `hull`: rows (u, v, y); both sorted.
    """

    value: float
    at: Place
    blockers: tuple[Place, ...]
    hull: tuple[tuple[float, float, float], ...]

    def affects(self, u1: float, u2: float, v1: float, v2: float) -> bool:
        """Return whether the answer of the rectangle [u1, u2] × [v1, v2] changes; ends may be infinite."""
        holds = u1 <= self.at[0] <= u2 and v1 <= self.at[1] <= v2
        return holds and not any(u1 <= u <= u2 and v1 <= v <= v2 for u, v in self.blockers)

    def answer(self, u1: float, u2: float, v1: float, v2: float) -> float:
        """Return the new answer of an affected rectangle."""
        inside = (y for u, v, y in self.hull if u1 <= u <= u2 and v1 <= v <= v2)
        return min((self.value, *inside))


class RangeMin2D:
    """The smallest y among the rows with (u, v) in a rectangle.

    >>> table = RangeMin2D.of([1, 2], us=[4, 6], vs=[4, 6], ys=[4, 7])
    >>> table.update(1, 4, 4, 9)
    [Notice2D(value=9.0, at=(4.0, 4.0), blockers=(), hull=((6.0, 6.0, 7.0),))]
    >>> table.minimum(0, 9, 0, 9), table.minimum(0, 5, 0, 5)
    (7.0, 9.0)
    """

    def __init__(self) -> None:
        self._known = Identifiers()
        self._uv = np.zeros((2, _SMALLEST))
        self._y = np.full(_SMALLEST, np.inf)

    @classmethod
    def of(cls, ids: Any, us: Any, vs: Any, ys: Any) -> Self:
        """Return a table with these rows; no messages are made."""
        table, names = cls(), listed(ids)
        parts = {"us": us, "vs": vs, "ys": ys}
        checked = {name: floats(name, part, len(names)) for name, part in parts.items()}
        for name, part in checked.items():
            refuse(name, part, ~np.isfinite(part), "finite")
        table._known.load(names)
        table._uv, table._y = np.stack([checked["us"], checked["vs"]]), checked["ys"]
        return table

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, id: Hashable) -> bool:
        return self._known.slot(id) is not None

    def rows(self) -> tuple[Any, Floats, Floats, Floats]:
        """Return all rows: ids, us, vs, ys."""
        ids, slots = self._known.all()
        return id_array(ids), self._uv[0, slots], self._uv[1, slots], self._y[slots]

    def insert(self, id: Hashable, u: float, v: float, y: float) -> list[Notice2D]:
        """Add a row; return at most one notice."""
        row = finite("u", u), finite("v", v), finite("y", y)
        if self._known.slot(id) is not None:
            raise ValueError(f"id must be new, got {id!r}, which is there; update it instead?")
        slot = self._known.add(id)
        self._make_room()
        self._y[slot] = np.inf
        return self._change(slot, row[:2], row[2])

    def update(self, id: Hashable, u: float, v: float, y: float) -> list[Notice2D]:
        """Set a row's place, height, or both; return at most two notices, at most one per rectangle."""
        row = finite("u", u), finite("v", v), finite("y", y)
        return self._change(self._slot(id), row[:2], row[2])

    def delete(self, id: Hashable) -> list[Notice2D]:
        """Remove a row; return at most one notice."""
        slot = self._slot(id)
        notices = self._change(slot, self._place(slot), np.inf)
        self._known.remove(id)
        return notices

    def minimum(self, u1: float, u2: float, v1: float, v2: float) -> float:
        """Return the answer of the rectangle [u1, u2] × [v1, v2]: +∞ where there is no row."""
        u1, u2 = interval("u1", u1, "u2", u2)
        v1, v2 = interval("v1", v1, "v2", v2)
        u, v = self._uv
        return float(self._y[(u1 <= u) & (u <= u2) & (v1 <= v) & (v <= v2)].min(initial=np.inf))

    def _change(self, slot: int, new: Place, y_n: float) -> list[Notice2D]:
        """Apply a change like `row_changes.change` in one dimension (§2.5), with blockers for walls."""
        old, y_o = self._place(slot), float(self._y[slot])
        had, has = y_o < np.inf, y_n < np.inf
        moves, rises = had and has and old != new, y_n > y_o
        if had and has and not moves and y_o == y_n:
            return []
        self._y[slot] = np.inf
        notices = []
        arriving = has and (moves or not rises) and self._lowest_at(new) > y_n
        if arriving:
            wall = [old] if moves and y_n >= y_o else []
            notices = [Notice2D(y_n, new, self._contour(new, y_n, wall), ())]
        self._uv[:, slot], self._y[slot] = new, y_n
        if had and (moves or rises) and (peak := self._lowest_at(old)) > y_o:
            notices.insert(0, Notice2D(peak, old, self._contour(old, y_o, []), self._hull(old, y_o, peak)))
        return notices

    def _contour(self, at: Place, y: float, walls: list[Place]) -> tuple[Place, ...]:
        """Return the places of the rows of height ≤ y, and the walls, whose box with `at` holds no other one."""
        low = self._y <= y
        us, vs = (np.append(self._uv[i, low], [wall[i] for wall in walls]) for i in (0, 1))
        contour: set[Place] = set()
        for side in _quadrants(us, vs, at):
            contour.update(zip(us[side].tolist(), vs[side].tolist(), strict=True))
        return tuple(sorted(contour))

    def _hull(self, at: Place, floor: float, peak: float) -> tuple[tuple[float, float, float], ...]:
        """Return the rows with floor < y < peak whose box with `at` holds no other row as low as they."""
        low = self._y < peak
        (us, vs), ys = self._uv[:, low], self._y[low]
        exposed: set[tuple[float, float, float]] = set()
        for which in _corners(us, vs, at):
            a, b, y = np.abs(us[which] - at[0]), np.abs(vs[which] - at[1]), ys[which]
            order = np.lexsort((y, b, a))
            behind = _behind(a[order], b[order], y[order] <= floor)
            order = order[~behind & (y[order] > floor)]
            seen: list[tuple[float, float]] = []  # b and y of the rows so far that no other one dominates
            for n in order.tolist():
                if not any(other_b <= b[n] and other_y <= y[n] for other_b, other_y in seen):
                    seen = [other for other in seen if not (b[n] <= other[0] and y[n] <= other[1])]
                    seen.append((float(b[n]), float(y[n])))
                    row = which[n]
                    exposed.add((float(us[row]), float(vs[row]), float(ys[row])))
        return tuple(sorted(exposed))

    def _lowest_at(self, at: Place) -> float:
        return float(self._y[(self._uv[0] == at[0]) & (self._uv[1] == at[1])].min(initial=np.inf))

    def _place(self, slot: int) -> Place:
        return float(self._uv[0, slot]), float(self._uv[1, slot])

    def _slot(self, id: Hashable) -> int:
        slot = self._known.slot(id)
        if slot is None:
            raise ValueError(f"id must be that of a row, got {id!r}; insert it first?")
        return slot

    def _make_room(self) -> None:
        if self._known.room() > len(self._y):
            more = len(self._y)
            self._uv = np.concatenate([self._uv, np.zeros((2, more))], axis=1)
            self._y = np.append(self._y, np.full(more, np.inf))


def _corners(us: Floats, vs: Floats, at: Place) -> Iterator[Any]:
    """Return the rows in each of the four closed quadrants around a place, by index."""
    for across in (us <= at[0], us >= at[0]):
        for along in (vs <= at[1], vs >= at[1]):
            yield np.flatnonzero(across & along)


def _quadrants(us: Floats, vs: Floats, at: Place) -> Iterator[Any]:
    """Yield for each quadrant the rows whose box with `at` holds no other one: nearer along v than all that are nearer
    along u.
    """
    for which in _corners(us, vs, at):
        a, b = np.abs(us[which] - at[0]), np.abs(vs[which] - at[1])
        order = np.lexsort((b, a))
        nearest = np.minimum.accumulate(np.append(np.inf, b[order]))[:-1]
        yield which[order[b[order] < nearest]]


def _behind(a: Floats, b: Floats, blocks: Any) -> Any:
    """Return which rows, sorted by (a, b), have a blocking row in their box: one before them whose b is no larger."""
    nearest = np.minimum.accumulate(np.append(np.inf, np.where(blocks, b, np.inf)))
    # A later row of the same place blocks too, but its height shows that.
    return nearest[:-1] <= b
