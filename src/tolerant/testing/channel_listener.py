"""What channels come to for each subscription, worked out the slow way: one row after the other, strictly by the
headers of the channel table.

It shares no code with the client but the reading of packed rows. Where the client looks at a subscription's parameters
alone, this takes a row for those only whom its channel's header names, and complains about a row that comes twice, or
under a version that was not told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tolerant.transport.log import Entry
from tolerant.transport.rows import unpack
from tolerant.transport.topics import TopicKind

Row = dict[str, Any]
Inside = Callable[[int, Row], bool]
"""Whether a row, column → value, lies in the range of a subscription: its extractor."""


@dataclass
class ChannelListenerFactory:
    """Entries of `channels.<query>` and `answers.<query>`, in log order.

    `told`: subscription → its rows as on the channel; `wasted`: rows that subscriptions received and did not ask for.
    """

    inside: Inside
    told: dict[int, list[Row]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    wasted: int = 0
    sent: int = 0
    version: int = 0
    members: dict[int, set[int]] = field(default_factory=dict)
    regions: dict[int, list[list[float]]] = field(default_factory=dict)
    _step: int = -1

    def read(self, entries: Iterable[Entry]) -> ChannelListenerFactory:
        """Reads entries and returns itself. Ignores rows that a pipeline with an empty checkpoint publishes again."""
        for entry in entries:
            rows = unpack(entry.payload).to_pylist()
            if TopicKind.CHANNELS.matches(entry.topic):
                self._table([row for row in rows if row["version"] > self.version])
            else:
                self._rows([row for row in rows if row["step"] > self._step])
        return self

    def _table(self, rows: list[Row]) -> None:
        for row in rows:
            members = self.members.setdefault(row["channel"], set())
            members |= {~row["channel"]} if row["channel"] < 0 else set()  # one's own needs no telling
            if not members >= set(row["left"]):
                self.faults.append(f"{row} is left by some who were not on it: {members}")
            members -= set(row["left"])
        for row in rows:
            self.members[row["channel"]] |= set(row["joined"])
            self.version = row["version"]
            if row["regions"] is not None:
                self.regions[row["channel"]] = row["regions"]
            if len(self.members[row["channel"]]) != row["members"]:
                self.faults.append(f"{row} has other members: {self.members[row['channel']]}")

    def _rows(self, rows: list[Row]) -> None:
        for row in rows:
            self._step = max(self._step, row["step"])
            self.sent += 1
            if row["version"] != self.version:
                self.faults.append(f"{row} is of another version than {self.version}")
            named = {~row["channel"]} if row["channel"] < 0 else self.members.get(row["channel"], set())
            if not named:
                self.faults.append(f"{row} is on a channel that nobody takes")
            for subscription in named:
                self._give(subscription, row)

    def _give(self, subscription: int, row: Row) -> None:
        values = {name.removeprefix("row."): value for name, value in row.items() if name.startswith("row.")}
        if not self.inside(subscription, values):
            self.wasted += 1
            return
        received = self.told.setdefault(subscription, [])
        if received and received[-1]["step"] >= row["step"]:
            self.faults.append(f"{subscription} is sent step {row['step']} after {received[-1]['step']}")
        received.append(row)
