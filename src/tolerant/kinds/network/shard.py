"""Hosts aggregates over a network of aggregators: reads rows of parts, reports and statements from the log, writes
plans, answers, replies and status (`docs/design/planning.md` §6).

The pipeline is the client of the plans. It never sees items: aggregators send the parts that the plan in
`grants.<stream>` assigns to them, and an answer is their sum, each within its share of the tolerance. The pipeline
plans from the aggregators' reports; plans are functions of the log like everything else (`docs/design/pipeline.md` §3):
rows wait for the watermark, which is one latency allowance per hop behind the clock, and apply in the order of `at`.

A value of an aggregator is valid while the aggregator is known to be alive: up to its newest `through`. After that its
items may have changed, so an answer that needs it is stale until its next row; heartbeats are frequent enough that this
happens only to aggregators that have crashed. One that is silent for a lease is planned around at once. After a restart
a part of an aggregator is trusted only when it has been sent again. While a new plan takes effect, answers come from
the old plan and are settling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tolerant.kernels.snapshots import Schema, State
from tolerant.kernels.versions import epoch_of
from tolerant.kinds.bounded.engine import LEAP
from tolerant.kinds.network.liveness import Aggregators
from tolerant.kinds.network.outputs import network_status
from tolerant.kinds.network.planned_queries import PlannedQueries
from tolerant.kinds.network.rows import Reported, read_reports, unfit
from tolerant.pipeline.event_time import EventTimeBuffer
from tolerant.pipeline.hosting import Output
from tolerant.pipeline.intake import KINDS, DeadRow
from tolerant.pipeline.late_sources import LateSources
from tolerant.pipeline.listed_rows import Row
from tolerant.pipeline.migrations import with_late_sources
from tolerant.pipeline.quarantined_rows import foreign_epoch, skipped_rows, why
from tolerant.pipeline.row_batches import ListBatches
from tolerant.pipeline.stream_shard import ListedRowsShard
from tolerant.planning import Planner, depth
from tolerant.sql.membership import query_and_group
from tolerant.sql.networks import network_of
from tolerant.sql.statements import AggregateSelect, AlterQuery, CreateQuery, Drop, Statement
from tolerant.streams import SECOND, Stream
from tolerant.transport.log import Entry
from tolerant.transport.plans import PRESENCE
from tolerant.transport.quarantine import Quarantined, WaitingRow
from tolerant.transport.topics import reports_topic

PERIOD = 1000
"""Ticks between two revisions of the plans once the dynamics are learned; at first revisions are more frequent."""

_COUNTERS = (
    *KINDS[:-1], "grants", "reports", "late", "dead", "duplicates", "strays", "bytes", "boundaries", "plans", "levels",
)  # fmt: skip
_SMOOTHING = 0.1
"""Weight of the newest period in the displayed rate of rows from aggregators."""

ROWS: ListBatches[Row] = ListBatches(lambda row: row[:5], list, lambda row: Row(*row))
"""Rows of aggregators, in the order in which they apply."""
REPORTS: ListBatches[Reported] = ListBatches(lambda report: report[:2], list, lambda report: Reported(*report))
"""Reports, in the order in which they are learned from."""


@dataclass
class Progress:
    """How far the shard is: plain values."""

    passed: int = 0
    """Adjustment periods that have ended."""
    revision: int = 0
    """The number of the period after which plans are revised next."""
    gap: int = 1
    """How many periods later they are revised after that."""
    rows_per_period: float = 0.0
    """Rows of parts, smoothed."""
    counted: int = 0
    """Rows of parts up to the end of the last period."""
    lost: dict[str, int] = field(default_factory=dict)
    """By query, for how long it was computed without rows that came late, microseconds."""


class NetworkShard(ListedRowsShard):
    """`Hosted` by Spark; see the module. A stream with a network has one shard.

    Clock rows that name this checkpoint carry the pipeline's epoch, the first of them before anything is planned: a
    shard that is restored by replaying all its entries gives its plans the same numbers.
    """

    SCHEMA = Schema("network", 2, {1: with_late_sources})
    DEFERS_STATEMENTS = True

    def __init__(self, stream: Stream, shard: int, checkpoint: str) -> None:
        network, options = network_of(stream), stream.options
        hops = 1 + max(depth(network, name) for name in network.aggregators)
        super().__init__(stream, shard, _COUNTERS, checkpoint=checkpoint, hops=hops)
        self._readers[reports_topic(stream.name)] = self._read_reports
        self._interval, self._widest_gap = options.boundary, max(1, PERIOD // options.period)
        self._aggregators = Aggregators(network.aggregators, options.lease)
        self._plans = PlannedQueries(stream, self._aggregators, self._count)
        self._rows = EventTimeBuffer(ROWS, self._event_time, options.lease)
        self._reports = EventTimeBuffer(REPORTS, self._event_time, options.lease)
        self._progress = Progress()
        self._late_sources = LateSources()

    @property
    def planner(self) -> Planner:
        """The plans, as of the watermark."""
        return self._plans.planner

    # -- rows ------------------------------------------------------------------------------------------------------

    def _unfit(self, row: Row) -> str:
        return unfit(row, self._aggregators, self._stream.uri)

    def _take_row(self, row: Row) -> None:
        self._aggregators[row.source].read(epoch_of(row.sequence), row.through)
        for late in self._rows.add([row]):
            self._apply_late(late)

    def _on_refused(self, row: Row) -> None:
        self._lose(row)

    def _lose(self, row: Row | DeadRow) -> None:
        """Marks the part of a lost row as unknown."""
        if row.source in self._aggregators and self.watermark is not None and self._plans.lose(row):
            self._settle(self.watermark)

    def _read_reports(self, entry: Entry) -> None:
        self._count("bytes", len(entry.payload))
        decoded = self._decoded(entry.payload, lambda payload: read_reports(payload, self._limits))
        if decoded is not None:
            good, bad = decoded
            self._reports.keep(good)
            self._refuse(bad)
            self._cap_refused()

    def _skip_rows(self, skipped: Quarantined) -> None:
        """Skips an entry: the parts of its rows, and of the waiting rows it drops, become unknown."""
        rows = self._rows.drop(
            lambda rows: np.fromiter((skipped.drops(_waiting_row(row)) for row in rows), np.bool_, len(rows))
        )
        reports = self._reports.drop(
            lambda some: np.fromiter((skipped.drops(_waiting_report(report)) for report in some), np.bool_, len(some))
        )
        self._drop_early_statements(skipped)
        for row in rows:
            self._refuse_row(row, why(skipped))
        self._dead += [DeadRow(why(skipped), kind="report", source=report.aggregator or "") for report in reports]
        for lost in skipped_rows(skipped):
            self._lose(lost)
        self._note_foreign_epoch(foreign_epoch(skipped, self._checkpoint))
        if skipped.rows is None:
            self._plans.lose_all()
            self._settle(self._now)
        self._cap_refused()

    def _skip_statements(self, skipped: Quarantined) -> None:
        self._settle(self._now)

    def _pending_rows(self) -> list[WaitingRow]:
        return [*map(_waiting_row, self._rows.all_waiting()), *map(_waiting_report, self._reports.all_waiting())]

    def _apply(self, row: Row) -> None:
        alive, epoch = self._aggregators[row.source], epoch_of(row.sequence)
        if epoch < alive.epoch:
            self._count("duplicates")
            return
        self._count(row.kind)
        if epoch > alive.epoch:
            alive.restart(epoch, row.through)
            self._plans.on_restart(row.source)
        alive.heard = max(alive.heard, row.heard)
        if self._aggregators.returns(row.source, row.at):
            self._plans.on_return(row.source)
            self._progress.revision, self._progress.gap = self._progress.passed + 1, 1
        if row.kind != "heartbeat" and row.key != PRESENCE:
            self._plans.apply(row)

    def _apply_late(self, row: Row) -> None:
        """Applies a late row at once and counts for how long its query was computed without it."""
        self._count("late")
        self._late_sources.count(row.source, self._now + self._event_time.latency - row.at)
        placed = self._plans.placed(row)
        if placed is not None:
            query, _ = query_and_group(placed[0].query.name)
            self._progress.lost[query] = self._progress.lost.get(query, 0) + self._now - row.at
        self._apply(row._replace(at=self._now))
        self._silences(self._now)
        self._settle(self._now)

    # -- time ------------------------------------------------------------------------------------------------------

    @property
    def _ended_periods(self) -> int:
        return self._progress.passed

    def _on_epoch(self, epoch: int) -> None:
        if epoch > self._plans.epoch:
            is_replaced = self._foreign_epoch >= self._plans.epoch
            self._plans.begin_epoch(epoch)
            if is_replaced and self.watermark is not None:
                self._plans.ask_anew()
                self._settle(self.watermark)

    def _advance_clock(self, at: int, number: int) -> None:
        """Advances to a clock row: all rows up to one latency allowance per hop before it have arrived."""
        before = self.watermark
        future, premature = self._rows.too_far_ahead(at), self._reports.too_far_ahead(at)
        self._event_time.tick(at)
        if before is None:
            self._begin(self._now)
        self._apply_due(self._now if before is None else before)
        for row in future:
            self._refuse_row(row, f"at is {row.at - at} µs ahead of the pipeline's clock, more than a lease")
        for report in premature:
            reason = f"report: at is {report.at - at} µs ahead of the pipeline's clock, more than a lease"
            self._refuse([DeadRow(reason, kind="report", at=report.at, source=report.aggregator)])
        if before is None:
            self._take_early_statements()

    def _begin(self, watermark: int) -> None:
        """Starts event time at the first watermark."""
        progress = self._progress
        progress.passed = max((watermark - 1) // self._interval, 0)
        progress.revision = progress.passed + 1
        self._aggregators.begin(watermark)

    def _apply_due(self, reached: int) -> None:
        """Applies rows, ends of adjustment periods and silences after `reached` up to the watermark, in the order of
        their times.
        """
        due, begin, watermark = self._rows.due(), 0, self._now
        for name in self._aggregators.regaining_proof(reached):
            self._plans.on_trust(name)
        while True:
            boundary = (self._progress.passed + 1) * self._interval + 1
            change = self._aggregators.next_change(reached, boundary)
            moment = min(boundary, change, due[begin].at if begin < len(due) else boundary)
            if moment > watermark:
                break
            if boundary == moment:
                self._end_period(boundary)
                self._leap(due[begin].at if begin < len(due) else watermark)
            while begin < len(due) and due[begin].at <= moment:
                self._apply(due[begin])
                begin += 1
            self._silences(moment)
            for name in self._aggregators.losing_proof(moment):
                self._plans.on_trust(name)
            self._settle(moment)
        self._settle(watermark)

    def _silences(self, at: int) -> None:
        for name in self._aggregators.falling_silent(at):
            self._plans.on_silence(name)

    def _leap(self, until: int) -> None:
        """Skips all periods that end before `until` except the last, if they are many and all aggregators are silent:
        there is nothing to plan with, and no answer is settled.
        """
        progress = self._progress
        last = (min([until, *(report.at for report in self._reports.all_waiting())]) - 2) // self._interval
        if self._aggregators.are_silent() and last - progress.passed > LEAP:
            self._count("boundaries", last - 1 - progress.passed)
            progress.passed = last - 1

    def _end_period(self, at: int) -> None:
        progress = self._progress
        rows = sum(self._counters[kind] for kind in ("update", "hello", "ack"))
        progress.rows_per_period += _SMOOTHING * (rows - progress.counted - progress.rows_per_period)
        progress.counted = rows
        progress.passed += 1
        self._count("boundaries")
        for report in self._reports.due(at):
            self._learn(report)
        if progress.passed >= progress.revision:
            self._plans.revise()
            progress.revision = progress.passed + progress.gap
            progress.gap = min(2 * progress.gap, self._widest_gap)
        self._plans.give_levels()

    def _learn(self, row: Reported) -> None:
        try:
            self._plans.learn(row.aggregator, row.report())
            self._aggregators[row.aggregator].late = row.late
            self._count("reports")
        except (ValueError, TypeError) as error:
            self._dead.append(DeadRow(f"report: {error}", kind="report", at=row.at, source=row.aggregator or ""))

    # -- statements ------------------------------------------------------------------------------------------------

    def _take_statements(self, rows: Sequence[tuple[str, str]]) -> None:
        super()._take_statements(rows)
        self._settle(self._now)

    def _carry_out(self, statement: Statement) -> str:
        match statement:
            case CreateQuery(name=name):
                return self._plans.add(name, AggregateSelect.of(statement))
            case AlterQuery(name=name, within=within):
                return self._plans.alter(name, within)
            case Drop(what="query", name=name):
                self._settle(self._now)
                self._plans.drop(name, self._now)
                self._progress.lost.pop(name, None)
        return ""

    # -- outputs ---------------------------------------------------------------------------------------------------

    def _settle(self, at: int) -> None:
        """Publishes the answers that changed as of `at`."""
        self._plans.settle(at, lambda: self._catalogue.withholding(self._stream.name))

    def _drain_outputs(self) -> list[Output]:
        return self._plans.drain()

    def _status(self) -> Output:
        parts = self._plans.wanted()
        sources = {
            name: {
                "heard": alive.heard,
                "epoch": alive.epoch,
                "items": len({item for part in parts if part.aggregator == name for item in part.weights}),
                "stale": alive.silent,
                "skew": 0,
                "late": alive.late,
            }
            for name, alive in self._aggregators.items()
        }
        rate = self._progress.rows_per_period * SECOND / self._interval
        summary: dict[str, Any] = {"shard": self._shard, "watermark": self.watermark, "epoch": self._plans.epoch}
        summary |= {**self._counters, "updates_per_second": rate}
        summary["late_sources"] = self._late_sources.record()
        return network_status(
            self._stream,
            summary | {"sources": sources},
            self._catalogue.queries_over(self._stream.name),
            self._plans.groups,
            self.planner,
            self._plans.drain_changes(),
            self._progress.lost,
        )

    # -- state -----------------------------------------------------------------------------------------------------

    def _kind_state(self) -> State:
        return State(
            plans=self._plans.state(),
            aggregators=self._aggregators.state(),
            progress=vars(self._progress),
            rows=self._rows.state(),
            reports=self._reports.state(),
            foreign_epoch=self._foreign_epoch,
            late_sources=self._late_sources.state(),
        )

    def _load_kind(self, state: State) -> None:
        plans, aggregators, progress, rows, reports, self._foreign_epoch, late = state.exactly(
            "plans", "aggregators", "progress", "rows", "reports", "foreign_epoch", "late_sources"
        )
        self._late_sources.load(late)
        self._plans.load(plans)
        self._aggregators.load(aggregators)
        self._progress = Progress(**progress)
        self._rows.load(rows)
        self._reports.load(reports)


def _waiting_row(row: Row) -> WaitingRow:
    return WaitingRow(row.key, row.source, row.sequence)


def _waiting_report(report: Reported) -> WaitingRow:
    return WaitingRow("", report.aggregator or "", -report.at)
