"""What a pipeline could know from the log: its watermark at each position, what was late for it, what was asked when.

All of it follows from the log and the id of the pipeline's checkpoint alone, by the rules of
`docs/design/pipeline.md` §3.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from tolerant.kernels.versions import epoch_of
from tolerant.sql import AggregateSelect, Catalogue, Statement
from tolerant.streams import is_sum
from tolerant.testing.simulated_cluster import SimulatedCluster
from tolerant.testing.truth import FOREVER, Span
from tolerant.transport.quarantine import bodies
from tolerant.transport.rows import NO_TIME

_USABLE = ("update", "hello", "ack", "gone", "heartbeat", "form_request")


class Reading:
    """The log as the pipeline with this checkpoint reads it."""

    def __init__(self, cluster: SimulatedCluster, checkpoint: str) -> None:
        self._latency = cluster.stream.options.latency
        self._owners, self._sums = cluster.owners, cluster.sums
        self._positions: list[int] = []
        self._watermarks: list[int] = []
        self.late: dict[str, list[Span]] = {}
        self._defined: dict[str, list[tuple[int, AggregateSelect | None]]] = {}
        self._newest: dict[tuple[str, str], int] = {}
        self._heard: dict[str, int] = {}
        self._hearings: list[dict[str, int]] = []
        restarts = _Restarts(self._owners)
        self._unconfirmed: list[frozenset[str]] = []
        known: dict[str, int] = {}
        self._late_rows = 0
        self._late_counts: list[int] = []
        watermark, self.catalogue = -FOREVER, Catalogue()
        early: list[Statement] = []  # those that stand before time begins take effect when it does
        skipped = bodies(cluster.log, cluster.stream.name)
        for position, appended, statement in cluster.appended:
            if statement is not None:
                early.append(statement)
            rows = [] if position in skipped else appended
            if position in skipped:
                self._note_skipped(appended, watermark)
            for row in rows:
                if row["kind"] == "clock":
                    if row["source"] in ("", checkpoint) and row["at"] != NO_TIME:
                        watermark = max(watermark, row["at"] - self._latency)
                        known = dict(self._heard)
                        restarts.advance(watermark)
                elif self._is_news(row):
                    restarts.add(row)
                    if row["at"] <= watermark:
                        self._note_late(row, watermark)
                        restarts.advance(watermark)
            if watermark > -FOREVER:
                self._define(early, watermark)
                early = []
            self._positions.append(position)
            self._watermarks.append(watermark)
            self._hearings.append({source: self._heard[source] for source in known})
            self._late_counts.append(self._late_rows)
            self._unconfirmed.append(restarts.unconfirmed())

    def watermark(self, position: int) -> int:
        """The watermark after everything up to a position has been read."""
        index = bisect_right(self._positions, position) - 1
        return self._watermarks[index] if index >= 0 else -FOREVER

    def late_rows(self, position: int) -> int:
        """How many rows up to a position were late, repeated ones not counted."""
        return self._late_counts[bisect_right(self._positions, position) - 1]

    def heard(self, position: int) -> dict[str, int]:
        """Source → the greatest time of its rows up to a position, of those known before the last clock row."""
        return self._hearings[bisect_right(self._positions, position) - 1]

    def unconfirmed(self, position: int) -> frozenset[str]:
        """The items of which no row has been applied since their source restarted."""
        return self._unconfirmed[bisect_right(self._positions, position) - 1]

    def was_late(self, key: str, moment: int) -> bool:
        """Whether a late row of the item was missing at a moment."""
        return any(span.has(moment) for span in self.late.get(key, ()))

    def definitions(self, query: str, moment: int) -> Iterator[AggregateSelect | None]:
        """What a query may have asked for at a moment: several, where it was changed just after."""
        defined = self._defined.get(query, [])
        yield next((select for since, select in reversed(defined) if since <= moment), None)
        yield from (select for since, select in defined if since == moment + 1)

    def dropped(self) -> list[str]:
        """The queries that were created, and do not exist at the end."""
        return [query for query in self._defined if query not in self.catalogue.queries]

    def _define(self, statements: list[Statement], watermark: int) -> None:
        """Statements take effect just after the watermark."""
        for statement in statements:
            self.catalogue.apply(statement)
            query = self.catalogue.queries.get(statement.about)
            select = None if query is None else AggregateSelect.of(query)
            history = self._defined.setdefault(statement.about, [])
            if (history[-1][1] if history else None) != select:
                history.append((watermark + 1, select))

    def _is_news(self, row: dict[str, Any]) -> bool:
        """Whether a row is about an item or its source, and none that came before."""
        kind, key, source = row["kind"], row["key"], row["source"]
        if kind not in _USABLE or (kind != "heartbeat" and self._owners.get(key) != source):
            return False
        self._heard[source] = max(self._heard.get(source, -FOREVER), row["at"])
        newest = self._newest.get((source, key), 0)
        self._newest[source, key] = max(newest, row["sequence"])
        return bool(row["sequence"] > newest)

    def _note_skipped(self, rows: list[dict[str, Any]], watermark: int) -> None:
        """Rows in quarantine: those whose time had passed were missed until then, as late ones are."""
        before = self._late_rows
        for row in rows:
            if row["kind"] in _USABLE and row["at"] <= watermark:
                self._note_late(row, watermark)
        self._late_rows = before

    def _note_late(self, row: dict[str, Any], watermark: int) -> None:
        self._late_rows += math.isfinite(row["value"])  # else it is a dead letter
        whole = row["kind"] in ("heartbeat", "hello")
        keys = [key for key, owner in self._owners.items() if owner == row["source"]] if whole else [row["key"]]
        for key in [*keys, *self._sums.get(row["key"], ())]:  # without its sum, nothing is known of an item
            self.late.setdefault(key, []).append(Span(row["at"] - 1, watermark + 1))


class _Restarts:
    """Which items have sent nothing since their source restarted, by the rows that are applied."""

    def __init__(self, owners: dict[str, str]) -> None:
        self._owners = owners
        self._waiting: list[dict[str, Any]] = []
        self._sources: dict[str, int] = {}  # the newest epoch of each
        self._items: dict[str, int] = {}  # the epoch of the newest row of each
        # The sequence of the row that removed each: a clock that was ahead brings older rows after it.
        self._departures: dict[str, int] = {}

    def add(self, row: dict[str, Any]) -> None:
        """Adds a row, to be applied when the watermark reaches it."""
        if math.isfinite(row["value"]):
            self._waiting.append(row)

    def advance(self, watermark: int) -> None:
        """Applies the rows up to the watermark."""
        for row in self._waiting:
            if row["at"] <= watermark:
                self._apply(row["kind"], row["source"], row["key"], row["sequence"])
        self._waiting = [row for row in self._waiting if row["at"] > watermark]

    def _apply(self, kind: str, source: str, key: str, sequence: int) -> None:
        epoch = epoch_of(sequence)
        self._sources[source] = max(self._sources.get(source, 0), epoch)
        if kind == "gone":
            self._items.pop(key, None)
            self._departures[key] = sequence
        elif kind != "heartbeat" and not is_sum(key) and sequence > self._departures.get(key, 0):
            self._items[key] = max(self._items.get(key, 0), epoch)

    def unconfirmed(self) -> frozenset[str]:
        """The items whose newest row is of an older epoch than their source."""
        return frozenset(key for key, epoch in self._items.items() if epoch < self._sources[self._owners[key]])
