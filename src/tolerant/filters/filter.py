"""The filter that runs at a source (`docs/design/filters.md` §2.1)."""

import math


class Filter:
    """Stays silent while the value is within width/2 of the value sent last.

    width: full width of the interval, ≥ 0; 0 sends every change, inf sends nothing.
    value: the value at the start; it counts as already sent.
    shrink: the fraction of the width that `shrink()` removes, in [0, 1).

    >>> door = Filter(4, 10)
    >>> [door.offer(value) for value in (11, 12, 12.1)]
    [False, False, True]
    """

    __slots__ = ("_last", "_shrink", "centre", "width")

    def __init__(self, width: float, value: float, shrink: float = 0.05) -> None:
        if not 0 <= shrink < 1:
            raise ValueError(f"shrink must be in [0, 1), got {shrink}")
        self.width = _checked_width(width)
        self.centre = self._last = _checked_value(value)
        self._shrink = float(shrink)

    def __repr__(self) -> str:
        return f"Filter(width={self.width}, centre={self.centre})"

    def offer(self, value: float) -> bool:
        """Set the item's present value; True if it must be sent. NaN or infinity: `ValueError`, and nothing changes."""
        self._last = _checked_value(value)
        return self._apply()

    def shrink(self) -> bool:
        """Shrink the filter at the end of a period; True if the last value is now outside and must be sent."""
        self.width *= 1.0 - self._shrink
        return self._apply()

    def grant(self, width: float) -> bool:
        """Set the absolute width, so that a repeated grant has no effect; True if a value must be sent.

        A wider or equal grant sends nothing; a narrower one always does: the update is its confirmation.
        """
        narrower = _checked_width(width) < self.width
        self.width = float(width)
        if narrower:
            self.centre = self._last
        return narrower

    def _apply(self) -> bool:
        passes = abs(self._last - self.centre) > self.width / 2
        if passes:
            self.centre = self._last
        return passes


def _checked_width(width: float) -> float:
    if not width >= 0:
        raise ValueError(f"width must be a number ≥ 0 (inf: send nothing), got {width}")
    return float(width)


def _checked_value(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"value must be finite, got {value}")
    return float(value)
