"""Outcomes of a request.

FetchedValues   the items' values
Unchanged       no value has changed (304)
Failed          no usable response: a timeout, an error, garbage
Suspended       the server asks for a pause (429 or 503 with Retry-After)
Dropped         the request was not made: the server went down while it waited for its turn
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class FetchedValues:
    """The values by item; `missing` says why other items of the request have none. fresh: seconds."""

    values: Mapping[str, float]
    missing: Mapping[str, str] = field(default_factory=dict)
    fresh: float = 0.0


@dataclass(frozen=True)
class Unchanged:
    """All requested values are unchanged; fresh: seconds for which they will be."""

    fresh: float = 0.0


@dataclass(frozen=True)
class Failed:
    """No usable response."""

    reason: str


@dataclass(frozen=True)
class Suspended:
    """The server wants no request for `seconds`."""

    seconds: float
    reason: str


@dataclass(frozen=True)
class Dropped:
    """The request was not made."""


Outcome = FetchedValues | Unchanged | Failed | Suspended | Dropped
