"""What can come of a request.

Values      the items' values
Unchanged   none has changed (304)
Failed      nothing can be said: a timeout, an error, nonsense
Suspended   the server wants to be left alone for a while (429 or 503 with Retry-After)
Dropped     it was not made: the server stopped answering while it waited for its turn
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Values:
    """The values that came, by item; `missing` says why others of the same request did not. fresh: seconds."""

    values: Mapping[str, float]
    missing: Mapping[str, str] = field(default_factory=dict)
    fresh: float = 0.0


@dataclass(frozen=True)
class Unchanged:
    """Everything asked for is as it was; fresh: seconds for which it will be."""

    fresh: float = 0.0


@dataclass(frozen=True)
class Failed:
    """Nothing came that can be used."""

    reason: str


@dataclass(frozen=True)
class Suspended:
    """The server wants no request for so many seconds."""

    seconds: float
    reason: str


@dataclass(frozen=True)
class Dropped:
    """The request was not made."""


Outcome = Values | Unchanged | Failed | Suspended | Dropped
