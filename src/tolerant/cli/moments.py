"""Times and ages as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

from tolerant.streams import SECOND

REPLAYED = 24 * 3600 * SECOND
"""An event time that is older than this is one of trace time: it has no age."""

AHEAD = 60 * SECOND
"""So is one that is further ahead than this."""


def moment(at: int | None) -> str:
    """An event time in UTC; a dash where there is none, or none that a calendar has.

    >>> moment(0), moment(None), moment(2**62)
    ('1970-01-01 00:00:00.000+00:00', '–', '–')
    """
    try:
        return "–" if at is None else datetime.fromtimestamp(at / SECOND, UTC).isoformat(" ", "milliseconds")
    except (ValueError, OverflowError, OSError):
        return "–"


def age(at: int | None, now: int) -> float | None:
    """Seconds from an event time to `now`, never negative; None for trace time, or where there is no time.

    >>> age(3 * SECOND, 5 * SECOND), age(7 * SECOND, 5 * SECOND), age(0, 2 * REPLAYED), age(2 * AHEAD, 0)
    (2.0, 0.0, None, None)
    """
    if at is None or not -AHEAD <= now - at <= REPLAYED:
        return None
    return max(0.0, (now - at) / SECOND)


def age_text(at: int | None, now: int) -> str:
    """An age in seconds, minutes or hours; a dash where there is none.

    >>> age_text(0, 1_500_000), age_text(0, 90 * SECOND), age_text(0, 7200 * SECOND), age_text(None, 0)
    ('1.5 s', '1.5 min', '2.0 h', '–')
    """
    seconds = age(at, now)
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
