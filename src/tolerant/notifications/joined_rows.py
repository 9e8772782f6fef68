"""Makes select-joins stateless: a changed row is sent joined, one message per partner (§2.9, [DISS] 5.4)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

Test = Callable[[Any], bool]


class Joined(NamedTuple):
    """A joined row that was added (`sign` = 1) or removed (−1)."""

    sign: int
    r: Any
    s: Any

    def affects(
        self, condition: Callable[[Any, Any], bool] | None = None, r: Test | None = None, s: Test | None = None
    ) -> bool:
        """Return whether σ_p(σ_r R ⋈ σ_s S) contains the row: all three conditions hold; None always holds."""
        return (
            (r is None or r(self.r)) and (s is None or s(self.s)) and (condition is None or condition(self.r, self.s))
        )


class JoinedRows:
    """Two tables with an equality key, R and S; a change of either yields the joined rows that it adds or removes.

    `tolerant.joins` finds which of many tests a joined row passes; this is only the reformulation.

    >>> both = JoinedRows()
    >>> both.insert("s", 7, "acme", {"price": 9})
    []
    >>> both.insert("r", 1, "acme", {"amount": 3})
    [Joined(sign=1, r={'amount': 3}, s={'price': 9})]
    >>> both.delete("s", 7)[0].affects(lambda r, s: r["amount"] * s["price"] > 20)
    True
    """

    def __init__(self) -> None:
        self._rows: dict[str, dict[Hashable, tuple[Hashable, Any]]] = {"r": {}, "s": {}}
        self._by_key: dict[str, dict[Hashable, dict[Hashable, Any]]] = {"r": {}, "s": {}}

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))

    def insert(self, side: str, id: Hashable, key: Hashable, row: Any) -> list[Joined]:
        """Add a row to R ("r") or S ("s")."""
        if id in self._side(side):
            raise ValueError(f"id must be new in {side!r}, got {id!r}, which is there; update it instead?")
        self._rows[side][id] = key, row
        self._by_key[side].setdefault(key, {})[id] = row
        return self._joined(1, side, key, row)

    def delete(self, side: str, id: Hashable) -> list[Joined]:
        """Remove a row."""
        if id not in self._side(side):
            raise ValueError(f"id must be that of a row of {side!r}, got {id!r}; insert it first?")
        key, row = self._rows[side].pop(id)
        group = self._by_key[side][key]
        del group[id]
        if not group:
            del self._by_key[side][key]
        return self._joined(-1, side, key, row)

    def update(self, side: str, id: Hashable, key: Hashable, row: Any) -> list[Joined]:
        """Replace a row; return removed rows, then added ones, none if the row is unchanged."""
        if self._side(side).get(id) == (key, row):
            return []
        return self.delete(side, id) + self.insert(side, id, key, row)

    def _side(self, side: str) -> dict[Hashable, tuple[Hashable, Any]]:
        if side not in self._rows:
            raise ValueError(f"side must be 'r' or 's', got {side!r}")
        return self._rows[side]

    def _joined(self, sign: int, side: str, key: Hashable, row: Any) -> list[Joined]:
        partners = self._by_key["s" if side == "r" else "r"].get(key, {}).values()
        return [Joined(sign, row, other) if side == "r" else Joined(sign, other, row) for other in partners]
