"""What a pipeline could know from the log: its watermark at each position, what was late for it, what was asked when.

All of it follows from the log and the id of the pipeline's checkpoint alone, by the rules of
`docs/design/pipeline.md` §3.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from tolerant.sql import AggregateSelect, Catalogue, Statement
from tolerant.testing.simulated_cluster import SimulatedCluster
from tolerant.testing.truth import FOREVER, Span
from tolerant.transport.quarantine import bodies
from tolerant.transport.rows import NO_TIME

_USABLE = ("update", "hello", "ack", "gone", "heartbeat", "form_request")


class Reading:
    """The log as the pipeline with this checkpoint reads it."""

    def __init__(self, world: SimulatedCluster, checkpoint: str) -> None:
        self._latency = world.stream.options.latency
        self._owners, self._sums = world.owners, world.sums
        self._positions: list[int] = []
        self._watermarks: list[int] = []
        self.late: dict[str, list[Span]] = {}
        self._defined: dict[str, list[tuple[int, AggregateSelect | None]]] = {}
        self._newest: dict[tuple[str, str], int] = {}
        self._heard: dict[str, int] = {}
        self._hearings: list[dict[str, int]] = []
        known: dict[str, int] = {}
        self._late_rows = 0
        self._late_counts: list[int] = []
        watermark, self.catalogue = -FOREVER, Catalogue()
        early: list[Statement] = []  # those that stand before time begins take effect when it does
        skipped = bodies(world.log, world.stream.name)
        for position, appended, statement in world.appended:
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
                elif self._is_news(row) and row["at"] <= watermark:
                    self._note_late(row, watermark)
            if watermark > -FOREVER:
                self._define(early, watermark)
                early = []
            self._positions.append(position)
            self._watermarks.append(watermark)
            self._hearings.append({source: self._heard[source] for source in known})
            self._late_counts.append(self._late_rows)

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

    def was_late(self, key: str, moment: int) -> bool:
        """Whether a late row of the item was missing at a moment."""
        return any(span.has(moment) for span in self.late.get(key, ()))

    def definitions(self, query: str, moment: int) -> Iterator[AggregateSelect | None]:
        """What a query may have asked for at a moment: several, where it was changed just after."""
        defined = self._defined.get(query, [])
        yield next((select for since, select in reversed(defined) if since <= moment), None)
        yield from (select for since, select in defined if since == moment + 1)

    def _define(self, statements: list[Statement], watermark: int) -> None:
        """Statements take effect just after the watermark."""
        for statement in statements:
            self.catalogue.apply(statement)
            query = self.catalogue.queries.get(statement.about)
            select = query.select if query is not None else None
            history = self._defined.setdefault(statement.about, [])
            if (history[-1][1] if history else None) != select:
                assert select is None or isinstance(select, AggregateSelect)
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
