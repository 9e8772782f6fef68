"""Hosts aggregates over a polled stream: reads pulls and statements from the log, writes answers, replies and status.

The poller at the edge decides which items to pull; this shard runs the same core over the pulls that the poller logged,
and so has the same state: values, and how far to trust them. Answers are value ∓ within, marked with the fidelity that
they claim and the one delivered so far.

Everything is a function of the log (`docs/design/pipeline.md` §3): pulls wait for the watermark and apply in the order
of their `at`, a late one at once; statements take effect before time advances. A clock row counts whoever wrote it, as
for tables. Answers are published as of the ends of ticks and of the watermark, not for every single pull.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from tolerant.kernels.snapshots import Schema, State
from tolerant.kinds.polled.outputs import PolledAnswers, polled_status
from tolerant.pipeline.event_time import EventTimeBuffer
from tolerant.pipeline.hosting import Output
from tolerant.pipeline.intake import KINDS, DeadRow, capped, readable_row
from tolerant.pipeline.late_sources import LateSources
from tolerant.pipeline.listed_rows import Row
from tolerant.pipeline.migrations import with_late_sources
from tolerant.pipeline.quarantined_rows import query_row, skipped_rows, why
from tolerant.pipeline.row_batches import ListBatches
from tolerant.pipeline.stream_shard import ListedRowsShard
from tolerant.polling import Poller
from tolerant.polling.pull_replay import advance_to, replay_pull
from tolerant.sql import Drop
from tolerant.sql.membership import query_and_group
from tolerant.sql.polled_queries import PolledQueries, poller_options, remark
from tolerant.sql.statements import AggregateSelect, CreateQuery, Statement
from tolerant.streams import EARLIEST, Limits, Stream
from tolerant.transport.log import Entry
from tolerant.transport.pulls import Pull, read_pulls
from tolerant.transport.quarantine import Quarantined, WaitingRow
from tolerant.transport.topics import pulls_topic

_COUNTERS = (*KINDS[:-1], "grants", "values", "unchanged", "failed", "late", "dead", "duplicates", "bytes")

PULLS: ListBatches[Pull] = ListBatches(lambda pull: (pull.at, pull.item, pull.tick), asdict, lambda row: Pull(**row))
"""Pulls, in the order (at, item, tick) in which they apply."""


class PolledShard(ListedRowsShard):
    """`Hosted` by Spark; see the module. A polled stream has one shard."""

    SCHEMA = Schema("polled", 2, {1: with_late_sources})

    def __init__(self, stream: Stream, shard: int = 0) -> None:
        super().__init__(stream, shard, _COUNTERS)
        self._readers[pulls_topic(stream.name)] = self._read_pulls
        self._tick = stream.options.tick
        self._poller = Poller(**poller_options(stream))
        self._queries = PolledQueries(stream)
        self._answers = PolledAnswers()
        self._pulls = EventTimeBuffer(PULLS, self._event_time, stream.options.lease)
        self._altered = False  # whether the catalogue's queries are not the poller's
        self._disturbed: frozenset[str] = frozenset()  # queries with an item that cannot be pulled
        self._first: dict[str, int] = {}  # the tick of each item's first pull
        self._reasons: dict[str, str] = {}  # why the last pull of an item failed
        self._heard: dict[str, int] = {}  # the time of each poller's last row
        self._late_sources = LateSources()

    @property
    def poller(self) -> Poller:
        """The core, as of the watermark."""
        return self._poller

    # -- rows ------------------------------------------------------------------------------------------------------

    def _read_pulls(self, entry: Entry) -> None:
        self._count("bytes", len(entry.payload))
        decoded = self._decoded(entry.payload, lambda payload: read_pulls(payload, self._limits))
        if decoded is None:
            return
        good, bad = decoded
        good, strange = self._within_limits(good)
        self._add_dead_pulls([*bad, *strange])
        for pull in self._pulls.add(good):
            self._count("late")
            self._late_sources.count(pull.source, self._now + self._event_time.latency - pull.at)
            self._arrange()
            self._replay_pull(pull)
        self._publish()

    def _take_clock(self, row: Row) -> None:
        self._take_clock_row(row.at, is_named=bool(row.source))

    def _take_row(self, row: Row) -> None:
        """Takes a sign of life of a poller; ignores the values of updates, as pulls have them."""
        self._count(row.kind)
        self._note_heard(row.source, row.at)

    def _note_heard(self, source: str, at: int) -> None:
        self._heard[source] = max(self._heard.get(source, at), at)

    def _unfit(self, row: Row) -> str:
        return "" if row.kind == "clock" else self._beyond(row.source)  # a clock row names its pipeline

    def _beyond(self, source: str) -> str:
        """Why a poller exceeds the limit of sources; empty if it does not."""
        most = self._limits.sources
        full = source not in self._heard and len(self._heard) >= most
        return f"the stream has {most:,} sources, the most it may have" if full else ""

    def _within_limits(self, pulls: list[Pull]) -> tuple[list[Pull], list[tuple[Pull, str]]]:
        """Splits pulls into those of pollers within the limit and the others with the reason."""
        fit, unfit = [], []
        for pull in pulls:
            reason = self._beyond(pull.source)
            if reason:
                unfit.append((pull, reason))
            else:
                fit.append(pull)
                self._heard.setdefault(pull.source, EARLIEST)  # it takes its place before the pull applies
        return fit, unfit

    def _add_dead_pulls(self, pulls: Sequence[tuple[Pull, str]]) -> None:
        self._dead += capped([_dead(pull, reason) for pull, reason in pulls], self._limits.dead_letters)

    def _skip_rows(self, skipped: Quarantined) -> None:
        """Skips an entry: the items of its pulls are unknown until their next pull."""
        for name in [name for name in self._new_queries() if skipped.drops(query_row(name))]:
            self._take_statement("", Drop("query", name))
        gone = self._pulls.drop(
            lambda pulls: np.fromiter((skipped.drops(_waiting_row(pull)) for pull in pulls), np.bool_, len(pulls))
        )
        self._dead += [_dead(pull, why(skipped)) for pull in gone]
        named = {row.key for row in skipped_rows(skipped)} | {pull.item for pull in gone}
        for item in self._poller.items:
            if skipped.rows is None or item in named:
                self._poller.invalidate(item)
                self._answers.touch((item,))
        self._publish()

    def _pending_rows(self) -> list[WaitingRow]:
        return [*map(_waiting_row, self._pulls.all_waiting()), *map(query_row, self._new_queries())]

    def _new_queries(self) -> list[str]:
        """The queries that the poller does not have yet."""
        arranged = {query_and_group(query.name)[0] for query in self._poller.queries}
        over = (query.name for query in self._catalogue.queries_over(self._stream.name))
        return [name for name in over if self._altered and name not in arranged]

    # -- time ------------------------------------------------------------------------------------------------------

    def _advance_clock(self, at: int, number: int) -> None:
        future, before = self._pulls.too_far_ahead(at), self.watermark
        self._add_dead_pulls(
            [(p, f"at is {p.at - at} µs ahead of the pipeline's clock, more than a lease") for p in future]
        )
        self._event_time.tick(at)
        if self.watermark == before:
            return
        self._arrange()
        for pull in self._pulls.due():
            self._reach(pull.at // self._tick)
            self._replay_pull(pull)
        self._reach(self._now // self._tick)
        self._publish()

    def _reach(self, tick: int) -> None:
        """Advances the core to a tick; publishes changes as of the ends of the ticks that it passes."""
        self._answers.end_tick(self._poller, tick, self._tick)
        size = self._poller.options.window
        for before, now in advance_to(self._poller, tick):
            if before is not None and -(-before // size) * size < now:  # a window has ended: fidelity was recomputed
                self._answers.touch_all()
            disturbed = self._poller.disturbed()
            self._answers.touch_queries(disturbed | self._disturbed)
            self._disturbed = disturbed
            self._answers.publish(self._poller, now * self._tick)

    def _replay_pull(self, pull: Pull) -> None:
        self._note_heard(pull.source, pull.at)
        self._count("values" if pull.kind == "value" else pull.kind)
        if not replay_pull(self._poller, pull):
            return
        if pull.kind == "failed":
            self._reasons[pull.item] = pull.reason
        else:
            self._reasons.pop(pull.item, None)
            self._first.setdefault(pull.item, pull.tick)
        self._answers.touch((pull.item,))

    # -- statements ------------------------------------------------------------------------------------------------

    def _carry_out(self, statement: Statement) -> str:
        self._altered = True
        if isinstance(statement, CreateQuery):
            return remark(AggregateSelect.of(statement), self._stream)
        return ""

    def _arrange(self) -> None:
        """Sets the poller's queries to those of the catalogue."""
        if not self._altered:
            return
        self._altered = False
        queries = self._queries.of(self._catalogue)
        self._poller.set_queries(queries)
        items = self._poller.items
        self._first = {item: self._first[item] for item in items if item in self._first}
        self._reasons = {item: self._reasons[item] for item in items if item in self._reasons}
        self._answers.arrange(queries, self._catalogue.withholding(self._stream.name), self._now)

    # -- outputs ---------------------------------------------------------------------------------------------------

    def _publish(self) -> None:
        if self.watermark is not None:
            self._answers.publish(self._poller, self.watermark)

    def _drain_outputs(self) -> list[Output]:
        return self._answers.drain()

    def _status(self) -> Output:
        summary: dict[str, Any] = {"shard": self._shard, "watermark": self.watermark, **self._counters}
        summary |= {"sources": self._sources(), "late_sources": self._late_sources.record()}
        return polled_status(
            self._stream, self._catalogue, self._poller, self._answers, summary, self._first, self._reasons
        )

    def _sources(self) -> dict[str, dict[str, object]]:
        late = self._now - self._stream.options.lease
        return {
            name: {"heard": last_heard, "epoch": 0, "items": 0, "stale": last_heard < late, "skew": 0}
            for name, last_heard in self._heard.items()
            if last_heard > EARLIEST
        }

    # -- state -----------------------------------------------------------------------------------------------------

    def _kind_state(self) -> State:
        return State(
            poller=self._poller.state(),
            answers=self._answers.state(),
            pulls=self._pulls.state(),
            altered=self._altered,
            disturbed=sorted(self._disturbed),
            first=self._first,
            reasons=self._reasons,
            heard=self._heard,
            late_sources=self._late_sources.state(),
        )

    def _load_kind(self, state: State) -> None:
        poller, answers, pulls, self._altered, disturbed, self._first, self._reasons, self._heard, late = state.exactly(
            "poller", "answers", "pulls", "altered", "disturbed", "first", "reasons", "heard", "late_sources"
        )
        self._late_sources.load(late)
        self._poller.load(poller)
        self._answers.load(answers, self._poller.queries)
        self._pulls.load(pulls)
        self._disturbed = frozenset(disturbed)


def _dead(pull: Pull, reason: str) -> DeadRow:
    value = pull.value if isinstance(pull.value, float) else 0.0
    return readable_row({**vars(pull), "key": pull.item, "value": value}, reason, Limits.key_length)


def _waiting_row(pull: Pull) -> WaitingRow:
    return WaitingRow(pull.item, pull.source, pull.tick)
