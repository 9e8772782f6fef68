"""The grants that a source has received: the newest of each item, and those that are not in force yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tolerant.streams import is_sum
from tolerant.transport.rows import Grant


class GrantTable:
    """The newest grant of every item of the stream, known here or not; the newest version counts."""

    def __init__(self) -> None:
        self.newest: dict[str, Grant] = {}
        self._pending: dict[int, Grant] = {}  # by handle: the newest, but its `since` has not come

    def add(self, grants: Iterable[Grant], handles: Mapping[str, int]) -> dict[int, Grant]:
        """Record grants in any order, repeated or not; return those of registered items that are not outdated."""
        fresh: dict[int, Grant] = {}
        for grant in grants:
            newest = self.newest.get(grant.item)
            if newest is not None and grant.version < newest.version:
                continue
            handle = handles.get(grant.item)
            if handle is None and is_sum(grant.item):
                continue  # another source's; their number is unlimited
            self.newest[grant.item] = grant
            if handle is not None:
                fresh[handle] = grant
        return fresh

    def split(self, grants: Mapping[int, Grant], at: int) -> dict[int, Grant]:
        """Return the grants that are in force at `at`; the others wait for their time."""
        self._pending.update({handle: grant for handle, grant in grants.items() if grant.since > at})
        return {handle: grant for handle, grant in grants.items() if grant.since <= at}

    def of_items(self, handles: Iterable[int], keys: Sequence[str]) -> dict[int, Grant]:
        """Return the newest grants of items that get their first value; `keys` names the handles."""
        grants = {handle: self.newest.get(keys[handle]) for handle in handles}
        return {handle: grant for handle, grant in grants.items() if grant is not None}

    def due(self, at: int) -> dict[int, Grant]:
        """Return the waiting grants whose time has come."""
        return {handle: grant for handle, grant in self._pending.items() if grant.since <= at}

    def settle(self, handles: Iterable[int]) -> None:
        """Drop the waiting grants of these items: they are in force, or their items are gone."""
        for handle in handles:
            self._pending.pop(handle, None)

    @property
    def waiting(self) -> list[int]:
        """The times from which waiting grants are in force."""
        return [grant.since for grant in self._pending.values()]
