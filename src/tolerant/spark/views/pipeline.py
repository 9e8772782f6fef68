"""The pipeline of views: log → tables' changes → pushes when they are due → log, as a loop in the driver.

A round reads the new entries, then does the most urgent task: refresh a view that was requested or whose condition
became true, the earliest deadline first; push a piece of a queue; make a piece of a view. So a request waits for at
most one task that was not requested, and that is limited to the time that the promises allow (`views.capacity`).

A round writes one transaction to the log: its outputs, the groups it touched, the versions absorbed, the scheduler, and
the position in the log. After a crash the rows of the tables are restored from the newest snapshot and the entries
since; what had been pushed is absorbed, the rest is pending and is pushed when it is due. If a record of a view cannot
be read, the view is computed again from the tables; if the record of the pipeline's position cannot be read, all views
are, from an empty checkpoint.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import struct
import threading
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from tolerant.kernels.versions import version
from tolerant.pipeline.entry_by_entry import Careful
from tolerant.pipeline.hosting import Output
from tolerant.spark.views.checkpoint import Checkpoint, check_rows, read_checkpoint, read_groups, read_published
from tolerant.spark.views.clock import Clock, SystemClock
from tolerant.spark.views.deltas import DeltaLog
from tolerant.spark.views.live import Due, LiveView, TooSlow, group_body
from tolerant.spark.views.maintained import Engine, Maintained, Pushed
from tolerant.spark.views.shard import Applied, Ordered, Request, ViewShard
from tolerant.spark.views.watch import after
from tolerant.sql import CreateQuery, CreateTable, Drop, encode
from tolerant.sql.pipeline_ids import Views
from tolerant.sql.render import trigger_text
from tolerant.sql.statements import ViewSelect
from tolerant.sql.view_select import plan_of
from tolerant.streams import SECOND
from tolerant.transport import Fence, PipelineLog
from tolerant.transport.log import START, Entry
from tolerant.transport.quarantine import bodies, marked
from tolerant.transport.records import records_of, skipping
from tolerant.transport.rows import REPLIES, STATEMENTS, compacted, pack
from tolerant.transport.topics import (
    QUERIES,
    REPLIES_TOPIC,
    answers_topic,
    changes_topic,
    current_topic,
    pushes_topic,
    refreshes_topic,
    rows_topic,
    status_topic,
)
from tolerant.transport.views import HEADER, NOTICE, PUSHES, changed_rows, group_text, joined
from tolerant.views.capacity import Promise, RefreshLimits, limits, needed, urgency
from tolerant.views.view_groups import Key

COMMIT = "commit"
"""The key of `status.<home>` that has what the pipeline's checkpoint must know."""

PAUSE = 0.02
"""Seconds between two looks at the log."""

_ENTRIES = 2000
_QUIET = SECOND  # event time after which a position is recorded even without outputs
_SNAPSHOT = 8 << 20  # least bytes of entries between two snapshots of the tables
_HEAD = struct.Struct("<q")


class ViewEngine(Engine, Protocol):
    """An engine with what a pipeline of views needs besides."""

    dialect: str

    def columns(self, sql: str, tables: Sequence[CreateTable]) -> list[str]:
        """Returns the SQL types of the columns of a select over tables (`ViewPlan.sql`).

        Raises:
            ValueError: one of them is a type that no table has, or the select cannot be run.
        """
        ...

    def rest(self) -> None:
        """Does, while no request waits, the housekeeping that would otherwise delay a push."""
        ...


@dataclass
class Making:
    """A view that is being made, piece by piece; `replies` wait for it, `later` has the changes since its statement."""

    live: LiveView
    ordered: Ordered
    replies: list[dict[str, object]]
    later: list[Applied]
    seconds: float = 0.0
    pieces: Iterator[None] = field(default_factory=lambda: iter(()))
    computed: Pushed = field(default_factory=Pushed)


class ViewPipeline:
    """See the module. `step` does one round; `start` runs rounds in a thread until `stop`.

    `promises`: those of all views that share the engine, also in other pipelines. `tell` is called with a message for
    each view that has been timed or refused.
    """

    def __init__(
        self,
        engine: Callable[[], ViewEngine],
        log: PipelineLog,
        views: Views,
        folder: Path,
        checkpoint: str,
        fence: Fence,
        careful: Careful | None = None,
        *,
        promises: MutableMapping[str, Promise] | None = None,
        clock: Clock | None = None,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._promises = {} if promises is None else promises
        self._clock, self._tell = clock or SystemClock(), tell
        self._make_engine, self._log, self._views, self._careful = engine, log, views, careful
        self._folder, self._checkpoint, self._fence = folder, checkpoint, fence
        self._tables = {table.name: table for table in views.tables}
        self._topics = [QUERIES, refreshes_topic(views.name), *map(changes_topic, self._tables)]
        self._status = status_topic(views.name)
        self._groups = rows_topic(views.name)
        self._batch = 0
        self._clear()
        self._limits = RefreshLimits({}, math.inf)
        self._committing = 0.0  # seconds that the last commit took
        self._pushed: set[str] = set()  # tables that were pushed into some view in this round
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self.ready = threading.Event()
        """Whether all views that the log knew at the start have been made, and practised."""
        self.failure: Exception | None = None
        self.done = 0
        """How many rounds of work this run has done."""
        log.register(checkpoint, views.name, self._topics)

    def _clear(self) -> None:
        """Resets to the beginning of the log, with the tables' changes that the checkpoint folder has."""
        folder = self._folder / "deltas"
        self._shard = ViewShard(self._views)
        self._logs = {name: DeltaLog(folder / name, table.columns) for name, table in self._tables.items()}
        self._live: dict[str, LiveView] = {}
        self._making: dict[str, Making] = {}
        self._practising: dict[str, Iterator[None]] = {}
        self._overcommitted: frozenset[str] = frozenset()  # views whose promise cannot be kept as things are
        self._waiting: list[Request] = []  # requests without an answer
        self._filed: list[Applied] = []  # what the tables applied of the entries last read
        self._position = START
        self._recorded, self._stands = 0, START  # watermark and position of the last record
        self._read = 0  # bytes since the last snapshot

    # -- life cycle ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Runs rounds in a thread until `stop`."""
        self._thread = threading.Thread(target=self._run, name=self._views.name, daemon=True)
        self._thread.start()

    def stop(self, wait: float = 30.0) -> None:
        """Stops after the current round; waits for it at most `wait` seconds."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(wait)
        for name in self._live:
            self._promises.pop(name, None)

    @property
    def ended(self) -> bool:
        """Whether the thread has ended; without `stop` this means that it failed."""
        return self._thread is not None and not self._thread.is_alive()

    @property
    def is_ready(self) -> bool:
        """Whether the first round is done and views can be refreshed in the time that they promise."""
        return self.done > 0 and self.ready.is_set()

    @property
    def is_written(self) -> bool:
        """Whether the round that failed has been written; it never is, as a round ends with its one transaction."""
        return False

    def _run(self) -> None:
        try:
            self.begin()
            while not self._stopping.is_set():
                if self.step():
                    self.done += 1
                else:
                    self._stopping.wait(PAUSE)
        except Exception as error:
            self.failure = error

    def begin(self) -> None:
        """Continues from the checkpoint, or starts from the beginning of the log."""
        self._engine = self._make_engine()
        batch = self._log.last_batch(self._checkpoint)
        if batch < 0:
            return
        self._batch, resumed = batch, False
        record = self._log.latest(self._status, COMMIT)
        with skipping(f"where the views {self._views.name} stand"):
            body = record.body if record else b"{}"
            self._resume(read_checkpoint(body, self._checkpoint, batch, self._log.end()))
            resumed = True
        if not resumed:
            shutil.rmtree(self._folder / "deltas", ignore_errors=True)
            self._snapshot_file.unlink(missing_ok=True)
            self._clear()
        self._share()

    def _resume(self, held: Checkpoint) -> None:
        """Restores the state of a checkpoint; a view whose own records cannot be read is made again."""
        self._load_snapshot()
        for entries in self._entries(held.position):
            self._shard.take(entries)
            self._file()
            self._obey([], set(held.making))
        self._shard.requests = []
        self._waiting = held.waiting
        self._making = {name: self._making[name] for name in held.making if name in self._making}
        self._position = self._stands = max(self._position, held.position)
        queries = self._shard.queries
        for name, kept in held.views.items():
            query = queries[name]
            with skipping("what is known of the view", name):
                live = self._live[name] = self._resumed(query, kept)
                self._practising[name] = live.time_again(self._logs)
        for name in (*held.views, *held.making):
            if name in queries and name not in self._live and name not in self._making:
                query = queries[name]
                self._begin_making(query, Ordered(query, self._shard.steps, self._shard.watermark or 0))

    def step(self) -> bool:
        """Reads new entries, does the most urgent task and commits the outputs; returns whether there was any work."""
        outputs: list[Output] = []
        busy = self._take_in(outputs)
        elapsed = self._clock.elapsed()
        for live in self._live.values():
            if not live.fired:  # else the view must first be pushed up to that moment
                live.pass_time(self._shard.watermark or 0, elapsed)
        busy = self._work(elapsed, outputs) or busy
        if busy:
            self._commit(outputs)
        if not self._making and not self._practising:
            self.ready.set()
        return busy

    def _take_in(self, outputs: list[Output]) -> bool:
        """Reads new entries and requests; returns whether there were entries."""
        busy = False
        for entries in self._entries(None):
            if self._careful is not None and self._careful.covers(entries):
                outputs += self._careful.each(entries, lambda entry: self._take([entry]))
            else:
                outputs += self._take(entries)
            busy = True
        now = self._clock.wall()
        requests, self._shard.requests = self._shard.requests, []
        # A request is never in the future, whatever the clock of its sender.
        self._waiting += [replace(request, at=min(request.at, now)) for request in requests]
        self._waiting = [one for one in self._waiting if one.view in self._live or one.view in self._making]
        return busy

    # -- priorities ------------------------------------------------------------------------------------------------

    def _work(self, elapsed: float, outputs: list[Output]) -> bool:
        """Does the most urgent task; returns whether there was one."""
        urgent = self._urgent(elapsed)
        overdue = [live for live in self._queued() if elapsed - live.queued_at >= live.within]
        room = min(self._slack(urgent), self._limits.piece)
        if urgent and overdue and self._push_piece(overdue[0], room, outputs):
            return True
        if urgent:
            self._attend(urgent[0], outputs)
        elif queued := self._queued():
            self._push_piece(queued[0], max(self._limits.piece, queued[0].promise.floor), outputs)
        elif self._practising:
            self._practise_piece(next(iter(self._practising)))
        elif self._making:
            self._make_piece(next(iter(self._making.values())), outputs)
        else:
            return self._tidy()
        return True

    def _take(self, entries: list[Entry]) -> list[Output]:
        outputs = self._shard.take(entries)
        self._file()
        self._obey(outputs)
        return outputs

    def _urgent(self, elapsed: float) -> list[LiveView]:
        """The views with a waiting request or a true condition, the most urgent first."""
        waited_for = {request.view for request in self._waiting}
        views = [live for live in self._live.values() if live.fired or live.name in waited_for]
        return sorted(views, key=lambda live: urgency(self._deadline(live), live.within, live.served, elapsed))

    def _deadline(self, live: LiveView) -> float:
        """When an urgent view must be up to date, seconds since 1970."""
        asked = [one.at for one in self._waiting if one.view == live.name] + [due.heard for due in live.fired]
        return min(asked) / SECOND + live.within

    def _slack(self, urgent: Sequence[LiveView]) -> float:
        """The seconds for which these views, served one after the other, can wait and still meet their deadlines."""
        end = self._clock.wall() / SECOND
        slack = math.inf
        for live in urgent:
            end += live.predicted
            slack = min(slack, self._deadline(live) - end)
        return slack

    def _queued(self) -> list[LiveView]:
        """The views that have tables to push, the longest waiting first."""
        queued = [live for live in self._live.values() if live.queue and not live.fired]
        return sorted(queued, key=lambda live: live.queued_at)

    def _attend(self, live: LiveView, outputs: list[Output]) -> None:
        """Refreshes an urgent view: up to the first moment at which its condition became true, or up to the newest
        changes. Pushes only a piece if these are many, so that more urgent views can be served in between.
        """
        if live.fired:
            due = live.fired.pop(0)
            live.served = self._clock.elapsed()
            self._push(live, live.due_by(due.fired), [], outputs, due)
            return
        if live.predicted > max(self._limits.piece, live.promise.floor) and len(self._live) > 1:
            live.enqueue_all(self._logs, self._clock.elapsed())
            if self._push_piece(live, self._limits.piece, outputs):
                return
        asked = [request for request in self._waiting if request.view == live.name]
        self._waiting = [request for request in self._waiting if request.view != live.name]
        live.served = self._clock.elapsed()
        self._push(live, live.all_due(self._logs), asked, outputs)

    def _push_piece(self, live: LiveView, seconds: float, outputs: list[Output]) -> bool:
        """Pushes as much of a view's queue as fits into `seconds`; returns whether any did."""
        piece = live.piece(self._logs, seconds)
        if piece:
            self._push(live, piece, [], outputs)
        return bool(piece)

    # -- reading ---------------------------------------------------------------------------------------------------

    def _entries(self, until: int | None) -> Iterator[list[Entry]]:
        """Reads the entries after the position in batches, up to `until` or the end, and advances the position."""
        while True:
            found = self._log.read(self._topics, self._position, _ENTRIES)
            if found:
                found = marked(found, bodies(self._log, self._views.name))
            wanted = [entry for entry in found if until is None or entry.position <= until]
            if not wanted:
                return
            self._position = wanted[-1].position
            self._read += sum(len(entry.payload) for entry in wanted)
            yield wanted
            if len(wanted) < _ENTRIES:
                return

    def _file(self) -> None:
        """Appends the changes that the tables applied to the delta logs, and counts them for the views."""
        for applied in self._shard.applied:
            self._logs[applied.table].take(applied.changes, applied.steps)
            for live in self._live.values():
                live.note(applied)
        for live in self._live.values():
            live.look(self._shard.applied, self._shard.watermark or 0, self._clock.wall())
        for making in self._making.values():
            making.later += self._shard.applied
        self._filed, self._shard.applied = self._shard.applied, []

    # -- statements ------------------------------------------------------------------------------------------------

    def _obey(self, outputs: list[Output], only: set[str] | None = None) -> None:
        """Begins to make views and drops views as the statements require; replies for a new view when it is made.

        `only`: after a restart statements are read again; the views that were still being made.
        """
        statements, self._shard.statements = self._shard.statements, []
        replies, self._shard.replies = self._shard.replies, []
        standing = self._shard.queries
        for ordered in statements:
            statement = ordered.statement
            if isinstance(statement, Drop):
                replies += self._drop(statement.name, outputs)
            elif isinstance(statement, CreateQuery) and statement.name in standing:
                if only is not None and statement.name not in only:
                    continue
                try:
                    self._begin_making(statement, ordered)
                except ValueError as error:
                    self._refuse(statement, str(error), replies, outputs)
        for making in self._making.values():
            making.replies += [reply for reply in replies if reply["key"] == making.live.name]
        self._reply([reply for reply in replies if reply["key"] not in self._making], outputs)

    def _reply(self, replies: list[dict[str, object]], outputs: list[Output]) -> None:
        if replies:
            outputs.append(Output(REPLIES_TOPIC, pack(pa.RecordBatch.from_pylist(replies, REPLIES))))

    def _begin_making(self, query: CreateQuery, ordered: Ordered) -> None:
        making = Making(self._made(query), ordered, [], [after(applied, ordered.step) for applied in self._filed])
        making.pieces = self._pieces(making)
        self._making[query.name] = making

    def _pieces(self, making: Making) -> Iterator[None]:
        """Computes a view and times its pushes piece by piece, so that requests can be served in between."""
        live, ordered = making.live, making.ordered
        for log in self._logs.values():
            log.flush()
        making.computed = live.view.compute(dict.fromkeys(self._logs, ordered.step))
        yield
        yield from live.measure(self._logs)

    def _make_piece(self, making: Making, outputs: list[Output]) -> None:
        """Makes the next piece of a view; after the last piece the view is live, or refused."""
        begun = self._clock.elapsed()
        name, query = making.live.name, self._shard.queries[making.live.name]
        try:
            ended = next(making.pieces, self) is self
            if ended:
                making.live.check({**self._promises, name: making.live.promise})
        except (TooSlow, ValueError) as error:
            self._making.pop(name)
            self._refuse(query, str(error), making.replies, outputs)
            self._reply(making.replies, outputs)
            return
        making.seconds += self._clock.elapsed() - begun
        if ended:
            self._making.pop(name)
            self._finish(making, outputs)
            self._tell_timed(making.live)

    def _finish(self, making: Making, outputs: list[Output]) -> None:
        """Publishes a view that has been made, and maintains it from now on."""
        live, done, ordered, now = making.live, making.computed, making.ordered, self._clock.wall()
        live.ticked = ordered.at // live.tick
        self._live[live.name] = live
        self._share()
        # Removes groups that are not this view's: of another checkpoint, of an earlier view of this name, or forged.
        own, number = {group_text(key) for key in live.view.groups.by_key}, self._version()
        gone = [(f"{live.name}/{text}", number, None) for text in self._stored_groups(live.name) if text not in own]
        outputs.append(Output(self._groups, pack(compacted(gone))))
        live.said, unreadable = self._published(live)
        strays = [(text, number, None) for text in unreadable if text not in own]
        outputs.append(Output(current_topic(live.name), pack(compacted(strays))))
        live.dirty = dict.fromkeys([*done.touched, *live.said])
        self._say(live, done, [""], "create", ordered.at, making.seconds, 0.0, outputs)
        live.watch_from(self._logs, ordered.at, ordered.step, now)
        for applied in making.later:
            live.note(applied)
        live.look(making.later, self._shard.watermark or 0, now)
        self._publish_news(live, outputs)
        self._reply(making.replies, outputs)

    def _practise_piece(self, name: str) -> None:
        """Continues to practise with a view that existed before this process."""
        if next(self._practising[name], self) is self:
            self._practising.pop(name)
            self._tell_timed(self._live[name])
            self._share()

    def _tell_timed(self, live: LiveView) -> None:
        left = len(self._making) + len(self._practising)
        rest = f"; {left} more to time" if left else ""
        self._tell(f"View {live.name}: a refresh takes {live.promise.floor:.2f} of {live.within:g} s{rest}")

    def _share(self) -> None:
        """Publishes the promises made here, and allots to every view the time that the others do not need."""
        self._promises.update({name: live.promise for name, live in self._live.items()})
        self._limits = limits(dict(self._promises))
        for name, live in self._live.items():
            live.allow(self._limits.refresh[name])
        self._warn()

    def _warn(self) -> None:
        """Reports the accepted views whose promise can no longer be kept, and those whose promise can be again.

        A view is timed when it is made and at every start, and every push is learned from: the machine, the tables or
        the load may have changed since it was accepted. It is not dropped for that: its answers are right, and
        `status` counts those that come late.
        """
        if self._practising:  # some of the costs are still those of another run
            return
        broken = {}
        for name, live in self._live.items():
            try:
                live.check(self._promises)
            except TooSlow as error:
                broken[name] = str(error)
        for name, reason in broken.items():
            if name not in self._overcommitted:
                self._tell(f"View {name} will be LATE at times: {reason}")
        for name in sorted(self._overcommitted & self._live.keys() - broken.keys()):
            self._tell(f"View {name} can keep REFRESH WITHIN {self._live[name].within:g} s again")
        self._overcommitted = frozenset(broken)

    def _made(self, query: CreateQuery) -> LiveView:
        assert isinstance(query.select, ViewSelect)
        tables = [self._tables[name] for name in query.select.tables]
        plan = plan_of(query.select.sql, tables, self._engine.dialect)
        types = self._engine.columns(plan.sql, tables)
        view = Maintained(plan, self._logs, self._engine, self._clock)
        columns = [(part.name, type_) for part, type_ in zip(plan.outputs, types, strict=True)]
        return LiveView(query.name, view, columns, query.select.refresh, query.select.when)

    def _refuse(self, query: CreateQuery, reason: str, replies: list[dict[str, object]], outputs: list[Output]) -> None:
        """Refuses a view that cannot be maintained: writes a statement to the log that drops it."""
        for reply in replies:
            if reply["key"] == query.name and reply["accepted"]:
                reply |= {"accepted": False, "message": reason}
        self._tell(f"View {query.name} is REFUSED: {reason}")
        drop = Drop("query", query.name)
        row = {"kind": drop.kind, "key": drop.name, "request": "", "text": f"-- {reason}", "body": encode(drop)}
        outputs.append(Output(QUERIES, pack(pa.RecordBatch.from_pylist([row], STATEMENTS))))
        said = json.dumps({"view": query.name, "refused": reason}).encode()
        outputs.append(Output(self._status, pack(compacted([(f"view/{query.name}", self._version(), said)]))))

    def _drop(self, name: str, outputs: list[Output]) -> list[dict[str, object]]:
        """Drops a view; returns the replies that waited for it to be made."""
        making = self._making.pop(name, None)
        self._practising.pop(name, None)
        live = self._live.pop(name, None)
        if live is None:
            return making.replies if making else []
        self._promises.pop(name, None)
        self._share()
        number = self._version()
        gone = [(f"{name}/{text}", number, None) for text in self._stored_groups(name)]
        said = [(group_text(key), number, None) for key in live.said]
        outputs.append(Output(self._groups, pack(compacted(gone))))
        outputs.append(Output(current_topic(name), pack(compacted([*said, (HEADER, number, None)]))))
        outputs.append(Output(self._status, pack(compacted([(f"view/{name}", number, None)]))))
        return []

    # -- pushing ---------------------------------------------------------------------------------------------------

    def _push(
        self,
        live: LiveView,
        versions: dict[str, int],
        asked: list[Request],
        outputs: list[Output],
        due: Due | None = None,
    ) -> None:
        """Pushes these tables up to these versions, for requests or because the condition became true (`due`)."""
        begun = self._clock.elapsed()
        scheduler = live.scheduler
        assert scheduler is not None
        for table in versions:
            self._logs[table].flush()
        done = live.view.push(versions)
        predicted = sum(float(scheduler.costs[live.tables.index(table)](rows)) for table, rows in done.rows.items())
        live.dirty |= dict.fromkeys(done.touched)
        kind = NOTICE if due else "refresh" if asked else "push"
        at = due.fired.at if due else self._shard.watermark or 0
        since = [request.at for request in asked] or ([due.heard] if due else [])
        rows = [request.request for request in asked] or [""]
        self._say(live, done, rows, kind, at, self._clock.elapsed() - begun, predicted, outputs, since)
        live.pushed(done, self._clock.elapsed() - begun + self._committing)
        self._publish_news(live, outputs)
        self._pushed |= set(versions)
        self._share()

    def _publish_news(self, live: LiveView, outputs: list[Output]) -> None:
        """Publishes one entry per round: listeners recognise new rows by the number of the round."""
        if live.news_said:
            outputs.append(Output(answers_topic(live.name), pack(joined(live.news_said))))
            live.news_said = []

    def _say(
        self,
        live: LiveView,
        done: Pushed,
        requests: list[str],
        kind: str,
        at: int,
        worked: float,
        predicted: float,
        outputs: list[Output],
        since: Sequence[int] = (),
    ) -> None:
        """Publishes what a push did: one row per request, with the time from `since` until it can be read."""
        number = self._version()
        held = live.view.groups.by_key
        bodies = [json.dumps(group_body(held[key])).encode() if key in held else None for key in done.touched]
        names = [f"{live.name}/{group_text(key)}" for key in done.touched]
        groups = [(name, number, body) for name, body in zip(names, bodies, strict=True)]
        if groups:
            outputs.append(Output(self._groups, pack(compacted(groups))))
        if kind != "push":
            self._publish(live, number, at, kind == NOTICE, outputs)
        now, worked = self._clock.wall(), worked + self._committing
        took = [max(worked, (now - moment) / SECOND + self._committing) for moment in since] or [worked]
        live.count(kind, took, at, predicted, sum(done.seconds.values()) + done.recomputing)
        row = {
            "kind": kind, "at": at, "tables": list(done.rows), "rows": list(done.rows.values()),
            "seconds": [done.seconds[table] for table in done.rows], "predicted": predicted,
            "within": live.within, "recomputed": done.recomputed,
        }  # fmt: skip
        rows = [
            {**row, "request": request, "took": seconds, "waited": seconds - worked}
            for request, seconds in zip(requests, took, strict=True)
        ]
        outputs.append(Output(pushes_topic(live.name), pack(pa.RecordBatch.from_pylist(rows, PUSHES))))
        outputs.append(self._view_status(live, number))

    def _publish(self, live: LiveView, number: int, at: int, notice: bool, outputs: list[Output]) -> None:
        gone, come, groups = live.news()
        if gone or come or notice:
            live.news_said.append(changed_rows(live.columns, gone, come, at, number, notice))
        header = {"columns": live.columns, "at": at, "step": number}
        rows = [(group_text(key), number, json.dumps(new).encode() if new else None) for key, new in groups.items()]
        rows.append((HEADER, number, json.dumps(header).encode()))
        outputs.append(Output(current_topic(live.name), pack(compacted(rows))))

    def _view_status(self, live: LiveView, number: int) -> Output:
        """Packs the status of a view for `tolerant status` and `tolerant explain`."""
        scheduler = live.scheduler
        assert scheduler is not None
        least = needed(live.name, dict(self._promises))
        body = {
            "view": live.name,
            "within": live.within,
            "limit": self._limits.refresh[live.name],
            "working_limit": scheduler.working_limit,
            "work": live.predicted,
            "floor": live.promise.floor,
            "needs": least if math.isfinite(least) else None,
            "shared_by": len(self._promises),
            "piece": self._limits.piece,
            "groups": len(live.view.groups.by_key),
            "tables": live.costs(),
            "when": trigger_text(live.when) if live.when else None,
            "holds": live.watch.holds if live.watch else None,
            **live.figures,
        }
        return Output(self._status, pack(compacted([(f"view/{live.name}", number, json.dumps(body).encode())])))

    def _tidy(self) -> bool:
        """Does housekeeping while no request waits; returns whether there was any.

        Merges only files with changes that are absorbed according to the log: no view restarts before those.
        """
        if not self._pushed:
            return False
        absorbed = [live.view.absorbed for live in self._live.values()]
        absorbed += [dict.fromkeys(self._logs, making.ordered.step) for making in self._making.values()]
        for table in self._pushed:
            self._logs[table].compact(min((versions.get(table, 1 << 62) for versions in absorbed), default=0))
        self._pushed = set()
        self._engine.rest()
        return True

    # -- state -----------------------------------------------------------------------------------------------------

    def _version(self) -> int:
        return version(self._fence.epoch, self._batch + 1)

    def _commit(self, outputs: list[Output]) -> None:
        watermark = self._shard.watermark or 0
        if not outputs and watermark < self._recorded + _QUIET:
            return
        begun = self._clock.elapsed()
        self._record(outputs)
        self._committing = self._clock.elapsed() - begun
        # A view that is being made needs the changes since its statement, which must be read again after a crash.
        written = self._snapshot_file.stat().st_size if self._snapshot_file.exists() else 0
        if not self._making and self._read > max(_SNAPSHOT, written):
            self.save()

    def _record(self, outputs: list[Output]) -> None:
        """Writes one transaction: the outputs, the versions absorbed, and the position of the pipeline."""
        body = {
            "checkpoint": self._checkpoint,
            "batch": self._batch + 1,
            "position": self._position,
            "views": {name: live.record() for name, live in self._live.items()},
            "making": list(self._making),
            "waiting": [[request.view, request.request, request.at] for request in self._waiting],
        }
        row = (COMMIT, self._version(), json.dumps(body).encode())
        entries = [(output.topic, output.payload) for output in outputs]
        entries.append((self._status, pack(compacted([row]))))
        self._log.append_once(self._checkpoint, self._batch + 1, entries, self._fence)
        self._batch += 1
        self._recorded, self._stands = self._shard.watermark or 0, self._position
        self._log.pass_position(self._checkpoint, self._position)

    @property
    def _snapshot_file(self) -> Path:
        return self._folder / "tables.snapshot"

    def save(self) -> None:
        """Writes a snapshot of the tables, so that a restart need not read the log from its beginning."""
        if self._stands != self._position:  # a condition must not be older than its tables
            self._record([])
        for log in self._logs.values():
            log.flush()
        scratch = self._snapshot_file.with_suffix(".writing")
        with open(scratch, "wb") as file:
            file.write(_HEAD.pack(self._position) + self._shard.snapshot())
            file.flush()
            os.fsync(file.fileno())
        scratch.rename(self._snapshot_file)
        self._read = 0

    def _load_snapshot(self) -> None:
        if self._snapshot_file.exists():
            data = self._snapshot_file.read_bytes()
            if len(data) < _HEAD.size:
                raise ValueError("the snapshot of the tables is cut short")
            (self._position,) = _HEAD.unpack_from(data)
            self._shard.restore(data[_HEAD.size :], [])

    def _resumed(self, query: CreateQuery, kept: dict[str, Any]) -> LiveView:
        """Restores a view from its records; raises one of the errors of `skipping` if one of them cannot be read."""
        live = self._made(query)
        plan = live.view.plan
        stored = self._stored_groups(query.name)
        live.view.groups.by_key = read_groups(stored, len(plan.keys), len(plan.arguments), len(plan.extremes))
        if live.view.plan.everything and not live.view.groups.by_key:
            live.view.groups.clear()
        check_rows(live.columns, live.view.rows())
        live.resume(kept, self._logs)
        live.ticked = (self._shard.watermark or 0) // live.tick
        live.said, unreadable = self._published(live)
        if unreadable:
            raise ValueError(f"its published group {unreadable[0]:.80} is none of its own")
        live.dirty = dict.fromkeys([*live.view.groups.by_key, *live.said])
        return live

    def _stored_groups(self, view: str) -> dict[str, bytes]:
        """The groups of a view in the log, by the text of their keys."""
        prefix = f"{view}/"
        found = records_of(self._log, self._groups)
        return {key.removeprefix(prefix): body for key, _, body in found if key.startswith(prefix) and body is not None}

    def _published(self, live: LiveView) -> tuple[dict[Key, list[list[Any]]], list[str]]:
        """The published rows of a view, by group, and the keys of groups that cannot be read."""
        found = records_of(self._log, current_topic(live.name))
        stored = {key: body for key, _, body in found if key != HEADER and body is not None}
        return read_published(stored, live.columns, len(live.view.plan.keys))
