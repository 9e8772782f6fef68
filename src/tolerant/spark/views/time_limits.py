"""How long one piece of a view's work may take before it is cancelled, whatever it has promised.

A join can take for ever, and while it runs the pipeline reads nothing: neither requests for other views nor the
statement that drops this one. A limit is far above what a promise leaves room for: what is late is late, and no more;
what reaches the limit does not work.
"""

from __future__ import annotations

MULTIPLE = 5
"""Times the promised seconds."""

LEAST = 60.0
"""Seconds for a push, at least: a machine that is far too busy takes 17 s for a few rows."""

FULL = 5
"""Times the limit of a push, for computing a view from all rows of its tables."""

MOST = 3600.0
"""Seconds, at most."""


class TookTooLong(Exception):
    """A piece of a view's work was cancelled at its time limit."""


def push_limit(within: float) -> float:
    """Return the seconds that a push into a view may take which promises a refresh `within` so many.

    >>> push_limit(5), push_limit(60), push_limit(86400)
    (60.0, 300.0, 3600.0)
    """
    return float(min(max(LEAST, MULTIPLE * within), MOST))


def full_limit(within: float) -> float:
    """Return the seconds that computing such a view from its tables may take.

    >>> full_limit(5), full_limit(86400)
    (300.0, 3600.0)
    """
    return min(FULL * push_limit(within), MOST)
