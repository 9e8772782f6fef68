"""Levels: wider bounds for parts that are far from the minimum or maximum (`docs/design/planning.md` §2.8).

A part that is g below a maximum may rise by C + g before that matters. So the client gives it a *level* between its
value and the answer: the part then sends max(part, level) instead of its value, and is silent while it stays below.
What it sent is within C of max(part, level), from which the client knows what it needs: the part is at most C above
what it sent, and, where that is more than C above the level, at least C below it. When the answer falls to a level, the
client can no longer tell which of the two is larger: it withdraws the level, and the part sends its value. For a
minimum the same with signs reversed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

APART = 4.0
"""A part gets a level if it is so many times the tolerance away from the answer: setting and withdrawing a level are
four messages, and the level, which is half-way, must not be reached too soon.
"""

PUSHES = 4
"""A part that has sent less often than this since its level changed costs less than another change."""


@dataclass(frozen=True)
class ExtremeAnswer:
    """A minimum or maximum as far as its parts determine it: the truth is from low to high. blocking: the parts whose
    levels keep it from being known as precisely as was promised.
    """

    low: float
    value: float
    high: float
    blocking: tuple[int, ...]


def extreme_of(fn: str, within: float, values: Sequence[float], levels: Sequence[float | None]) -> ExtremeAnswer:
    """Combine parts that sent `values` under `levels` (None: none), each within `within`.

    >>> extreme_of("max", 1.0, [10.0, 6.0], [None, 6.0])
    ExtremeAnswer(low=9.0, value=10.0, high=11.0, blocking=())
    >>> extreme_of("max", 1.0, [5.0, 6.0], [None, 6.0])
    ExtremeAnswer(low=4.0, value=5.0, high=7.0, blocking=(1,))
    """
    sign = 1.0 if fn == "max" else -1.0
    tops = [sign * value for value in values]
    hidden = [level is not None and top - within <= sign * level for top, level in zip(tops, levels, strict=True)]
    seen = [top for top, clamped in zip(tops, hidden, strict=True) if not clamped]
    value = max(seen, default=max(tops))
    low = value - within if seen else -math.inf
    blocking = tuple(
        part
        for part, (top, clamped) in enumerate(zip(tops, hidden, strict=True))
        if clamped and (top > value or not seen)
    )
    high = max(tops) + within
    if sign > 0:
        return ExtremeAnswer(low, value, high, blocking)
    return ExtremeAnswer(-high, -value, -low, blocking)


def wanted_levels(
    fn: str, within: float, values: Sequence[float], levels: Sequence[float | None], pushes: Sequence[int]
) -> dict[int, float | None]:
    """Return the parts that should get a level, or another one, and which. pushes: how often each has sent since its
    level last changed.
    """
    answer = extreme_of(fn, within, values, levels).value
    return {
        part: (answer + value) / 2
        for part, (value, level, count) in enumerate(zip(values, levels, pushes, strict=True))
        if count >= PUSHES and value != level and abs(answer - value) > APART * within
    }


def clamped(fn: str, value: float, level: float | None) -> float:
    """Return what a part with this value sends under this level."""
    if level is None:
        return value
    return max(value, level) if fn == "max" else min(value, level)
