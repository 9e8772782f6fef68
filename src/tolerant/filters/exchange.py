"""A sum in place of the items that it is of, and back (`specs/1-filters.md` §2.8).

A source may filter y = Σ K·V of its items of a query instead of each V. In the query, y then stands with weight 1 and
the items with weight 0: they count in an average and put no row on themselves. Whether the exchange may be made is a
matter of believed widths alone, so it is as safe as any reallocation: made when the row still fits afterwards, it
unsettles nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.filters.book import Book
from tolerant.filters.state import Floats, Integers

_SPARE = 0.9
"""Of the room there is: what is asked for, as others may grow before it is confirmed."""


class Part(NamedTuple):
    """Items of a query, by index, with their weights there; and the index of their sum, −1 while it has none."""

    query: str
    items: Integers
    weights: Floats
    sum: int = -1


class Room(NamedTuple):
    """Of a query's row: what is left beside a part (its own width not counted), what the part's items hold, and its
    sum; infinite: not known. `fraction`: the part's share of the row by weight.
    """

    left: float
    items: float
    sum: float
    fraction: float

    def target(self, held: float) -> float:
        """How wide the other form of the part should be made, where the present one holds `held`: a little less than
        there is for it, and of what nobody holds no more than its fraction.
        """
        spare = max(self.left - held, 0.0) * self.fraction
        return max(_SPARE * min(self.left, held + spare), 0.0)


def fold(book: Book, part: Part) -> None:
    """Let the sum stand for the items."""
    weights = book.member(part.query).weights
    weights.update(dict.fromkeys(part.items.tolist(), 0.0))
    weights[part.sum] = 1.0
    book.changed()


def unfold(book: Book, part: Part) -> None:
    """Let the items stand for themselves again."""
    weights = book.member(part.query).weights
    weights.update(zip(part.items.tolist(), part.weights.tolist(), strict=True))
    weights.pop(part.sum, None)
    book.changed()


def stands(book: Book, part: Part) -> bool:
    """Whether the query has the items with these weights."""
    query = book.query_index.get(part.query)
    member = None if query is None else book.members[query]
    if member is None:
        return False
    pairs = zip(part.items.tolist(), part.weights.tolist(), strict=True)
    return all(member.weights.get(item) == weight for item, weight in pairs)


def room(book: Book, part: Part) -> Room:
    """How much of its query's row a part can have, by believed widths."""
    member, width = book.member(part.query), book.items.width
    size = len(member.weights)
    index = np.fromiter(member.weights.keys(), np.int64, size)
    a = np.abs(np.fromiter(member.weights.values(), np.float64, size))
    beta = 2.0 * member.within * (book.counted(member) if member.fn == "avg" else 1)
    own = np.isin(index, part.items) | (index == part.sum)
    others = ~own & (a > 0.0)
    far = book.items.far[index[others]] != 0
    used = np.inf if far.any() else float(a[others] @ width[index[others]])
    own_a = np.abs(part.weights)
    held = np.inf if (book.items.far[part.items] != 0).any() else float(own_a @ width[part.items])
    alone = float(width[part.sum]) if part.sum >= 0 else np.inf
    total = float(own_a.sum() + a[others].sum())
    return Room(beta - used, held, alone, float(own_a.sum()) / total if total else 1.0)
