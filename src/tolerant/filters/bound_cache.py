"""Bounds from values and widths that arrive late and out of order (`docs/design/filters.md` §2.7)."""

from __future__ import annotations

from bisect import insort


class BoundCache:
    """Buffers values and widths until `allowance` has passed since they were sent, then joins them in their order.

    A message that arrives within `allowance` of its `at` takes effect at its own time; a later one is counted in
    `late`, and applied at the next release unless a newer one is known. Sources and pipeline are assumed to have
    synchronised clocks. All times have the same unit, whichever it is.

    >>> cache = BoundCache(5)
    >>> cache.width("x", 4, at=0)
    >>> cache.value("x", 10, at=0)
    >>> cache.release(4), cache.release(5)
    ([], [(0, 'x', 8.0, 12.0)])
    """

    def __init__(self, allowance: float) -> None:
        if not allowance >= 0:
            raise ValueError(f"allowance must be a time, not negative, got {allowance}")
        self._allowance = allowance
        self._frontier = float("-inf")
        self._waiting: list[tuple[float, str, str, float]] = []
        self._newest: dict[tuple[str, str], tuple[float, float]] = {}
        self.late = 0

    def value(self, item: str, value: float, at: float) -> None:
        """Add a value that a source sent at `at`."""
        self._insert("value", item, value, at)

    def width(self, item: str, width: float, at: float) -> None:
        """Add the width of the item's filter from `at` on."""
        self._insert("width", item, width, at)

    def release(self, now: float) -> list[tuple[float, str, float, float]]:
        """Return (at, item, low, high) of every bound that messages sent up to now − allowance have changed.

        All messages of one `at` are one transaction, and give an item one bound. Ascending in at, then item.
        """
        self._frontier = max(self._frontier, now - self._allowance)
        due = [message for message in self._waiting if message[0] <= self._frontier]
        del self._waiting[: len(due)]
        changed: dict[tuple[float, str], tuple[float, float]] = {}
        for at, item, side, number in due:
            if (item, side) in self._newest and self._newest[item, side][0] > at:
                continue
            self._newest[item, side] = (at, number)
            if (item, "value") in self._newest and (item, "width") in self._newest:
                centre, width = self._newest[item, "value"][1], self._newest[item, "width"][1]
                changed[at, item] = (centre - width / 2, centre + width / 2)
        return [(at, item, low, high) for (at, item), (low, high) in sorted(changed.items())]

    def _insert(self, side: str, item: str, number: float, at: float) -> None:
        self.late += at <= self._frontier
        insort(self._waiting, (at, item, side, number), key=lambda message: message[0])
