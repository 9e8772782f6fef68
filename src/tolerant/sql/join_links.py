"""Which inputs of a view's join equalities link, and which groups of inputs are left that only a product joins.

Spark finds the partners of a row by an equality; without one it looks at every pair of rows. So what a join costs at
least is the product of the sizes of the groups that are left, whatever other conditions it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp


@dataclass(frozen=True)
class JoinLinks:
    """Inputs by their places: pairs that an equality links, and the groups that these make, in order."""

    pairs: tuple[tuple[int, int], ...]
    groups: tuple[tuple[int, ...], ...]

    @property
    def joined(self) -> tuple[tuple[int, int], ...]:
        """The pairs, and for each group but the first one that joins it with the group before."""
        # The last input of each: a pair of earlier ones would have Spark make the product before the equalities.
        between = [(before[-1], after[-1]) for before, after in zip(self.groups, self.groups[1:], strict=False)]
        return (*self.pairs, *between)


def join_links(conditions: Iterable[exp.Expr], aliases: Sequence[str]) -> JoinLinks:
    """Return the links of the inputs with these aliases.

    An equality links an input to others if one of its sides is of that input alone, and the other side of others that
    are linked already.
    """
    places = {alias: place for place, alias in enumerate(aliases)}
    waiting = [sides for condition in conditions for sides in _equalities(condition, places)]
    group_of = {place: frozenset([place]) for place in range(len(aliases))}
    pairs: list[tuple[int, int]] = []
    changed = True
    while changed:
        changed = False
        for sides in list(waiting):
            for left, right in (sides, sides[::-1]):
                linked = group_of[next(iter(right))]
                if len(left) == 1 and right <= linked:
                    waiting.remove(sides)
                    first, second = sorted((max(right), *left))
                    pairs.append((first, second))
                    whole = linked | group_of[next(iter(left))]
                    group_of |= dict.fromkeys(whole, whole)
                    changed = True
                    break
    groups = sorted({tuple(sorted(group)) for group in group_of.values()})
    return JoinLinks(tuple(dict.fromkeys(pairs)), tuple(groups))


def _equalities(condition: exp.Expr, places: dict[str, int]) -> Iterator[tuple[frozenset[int], frozenset[int]]]:
    """The inputs on both sides of each equality that a condition demands, where they are not the same ones."""
    stack = [condition]
    while stack:
        node = stack.pop().unnest()
        if isinstance(node, exp.And):
            stack += [node.right, node.left]
        elif isinstance(node, exp.EQ | exp.NullSafeEQ):
            left, right = (
                frozenset(places[column.table] for column in side.find_all(exp.Column))
                for side in (node.left, node.right)
            )
            if left and right and not left & right:
                yield left, right
