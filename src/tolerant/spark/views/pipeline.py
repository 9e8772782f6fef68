"""The pipeline of views: log → tables' changes → pushes when they are due → log, as a loop in the driver.

A round reads what has come, then does one thing, the most urgent: a view that somebody asked for or whose condition
became true, the earliest deadline first; a piece of a push; a piece of making a view. So whoever asks never waits for
more than one thing that nobody asked for, and that is cut to what the promises leave room for (`views.capacity`).

One transaction of the log has everything that a round did: what was said, the groups that were touched, the versions
absorbed, the scheduler, and the position in the log. After a crash the rows of the tables come from the newest snapshot
and the entries since; what had been pushed is absorbed, what had not is pending, and pushed when it is due.
"""

from __future__ import annotations

import json
import math
import os
import struct
import threading
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from tolerant.kernels.versions import version
from tolerant.spark.careful import Careful
from tolerant.spark.hosting import Output
from tolerant.spark.views.clock import Clock, SystemClock
from tolerant.spark.views.deltas import DeltaLog
from tolerant.spark.views.live import Due, LiveView, TooSlow, group_body, read_group
from tolerant.spark.views.maintained import Engine, Maintained, Pushed
from tolerant.spark.views.shard import Applied, Ordered, Request, ViewShard
from tolerant.spark.views.watch import after
from tolerant.sql import CreateQuery, CreateTable, Drop, encode
from tolerant.sql.homes import Views
from tolerant.sql.render import trigger_text
from tolerant.sql.statements import ViewSelect
from tolerant.sql.viewing import plan_of
from tolerant.streams import SECOND
from tolerant.transport import Fence, PipelineLog, changes
from tolerant.transport.deliveries import rows_topic
from tolerant.transport.log import QUERIES, START, Entry
from tolerant.transport.quarantine import bodies, marked
from tolerant.transport.records import read_json, records
from tolerant.transport.rows import REPLIES, STATEMENTS, compacted, pack
from tolerant.transport.views import (
    HEADER,
    NOTICE,
    PUSHES,
    changed_rows,
    group_text,
    joined,
    pushes_topic,
    read_view,
    requests_topic,
    view_topic,
)
from tolerant.views.capacity import Limits, Promise, limits, needed, urgency

COMMIT = "commit"
"""The key of `status.<home>` that has what the pipeline's checkpoint must know."""

PAUSE = 0.02
"""Seconds between two looks at the log."""

_ENTRIES = 2000
_QUIET = SECOND  # event time after which a position is recorded though there was nothing to say
_SNAPSHOT = 8 << 20  # bytes of entries after which the tables are written down, at least
_HEAD = struct.Struct("<q")


class ViewEngine(Engine, Protocol):
    """What a pipeline of views needs besides."""

    dialect: str

    def columns(self, sql: str, tables: Sequence[CreateTable]) -> list[str]:
        """The SQL types of what a select over tables, a `ViewPlan.sql`, gives.

        Raises:
            ValueError: one of them is a type that no table has, or the select cannot be run.
        """
        ...

    def rest(self) -> None:
        """Nobody waits: time for what would else disturb a push."""
        ...


@dataclass
class Making:
    """A view that is being made, piece by piece; `replies` wait for it, `later` what has come since its statement."""

    live: LiveView
    ordered: Ordered
    replies: list[dict[str, object]]
    later: list[Applied]
    seconds: float = 0.0
    pieces: Iterator[None] = field(default_factory=lambda: iter(()))
    computed: Pushed = field(default_factory=Pushed)


class ViewPipeline:
    """See the module. `step` does one round; `start` lets a thread do them until `stop`.

    `promises`: those of all views that share the engine, also in other pipelines.
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
    ) -> None:
        self._promises = {} if promises is None else promises
        self._clock = clock or SystemClock()
        self._make_engine, self._log, self._views, self._careful = engine, log, views, careful
        self._folder, self._checkpoint, self._fence = folder, checkpoint, fence
        self._tables = {table.name: table for table in views.tables}
        self._topics = [QUERIES, requests_topic(views.name), *map(changes.topic_of, self._tables)]
        self._status = f"status.{views.name}"
        self._groups = rows_topic(views.name)
        self._shard = ViewShard(views)
        self._logs = {name: DeltaLog(folder / "deltas" / name, t.columns) for name, t in self._tables.items()}
        self._live: dict[str, LiveView] = {}
        self._making: dict[str, Making] = {}
        self._practising: dict[str, Iterator[None]] = {}
        self._waiting: list[Request] = []  # whoever has asked and has no answer yet
        self._limits = Limits({}, math.inf)
        self._committing = 0.0  # seconds that the last commit took
        self._pushed: set[str] = set()  # tables that were pushed into some view in this round
        self._filed: list[Applied] = []  # what the tables took of the entries last read
        self._position, self._batch = START, 0
        self._recorded, self._stands = 0, START  # horizon and position of the last record
        self._read = 0  # bytes since the last snapshot
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self.ready = threading.Event()
        """Whether all views that the log knew at the start have been made, and practised."""
        self.failure: Exception | None = None
        self.done = 0
        """How many rounds of work this run has done."""
        log.register(checkpoint, views.name, self._topics)

    # -- a life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Work in a thread until `stop`."""
        self._thread = threading.Thread(target=self._run, name=self._views.name, daemon=True)
        self._thread.start()

    def stop(self, wait: float = 30.0) -> None:
        """Finish the round under way, if that takes no longer than `wait` seconds, and end."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(wait)
        for name in self._live:
            self._promises.pop(name, None)

    @property
    def ended(self) -> bool:
        """Whether it has come to an end by itself, that is, failed."""
        return self._thread is not None and not self._thread.is_alive()

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
        """Go on where the checkpoint stands, or from the beginning of the log."""
        self._engine = self._make_engine()
        record = self._log.latest(self._status, COMMIT)
        held = read_json(record.body, "where the views stand") if record else None
        if not isinstance(held, dict) or held.get("checkpoint") != self._checkpoint:
            return
        self._batch = held["batch"]
        self._load_snapshot()
        for entries in self._entries(held["position"]):
            self._shard.take(entries)
            self._file()
            self._obey([], set(held["making"]))
        self._shard.requests = []
        self._waiting = [Request(*request) for request in held["waiting"]]
        self._making = {name: self._making[name] for name in held["making"] if name in self._making}
        self._position = self._stands = max(self._position, held["position"])
        queries = self._shard.queries
        for name, kept in held["views"].items():
            live = self._live[name] = self._resumed(queries[name], kept)
            self._practising[name] = live.practise(self._logs)
        self._share()

    def step(self) -> bool:
        """Read what there is, do what is most urgent, say what comes of it; whether there was anything."""
        outputs: list[Output] = []
        busy = self._take_in(outputs)
        elapsed = self._clock.elapsed()
        for live in self._live.values():
            if not live.fired:  # else the view must first be what it was at that moment
                live.pass_time(self._shard.horizon or 0, elapsed)
        busy = self._work(elapsed, outputs) or busy
        if busy:
            self._commit(outputs)
        if not self._making and not self._practising:
            self.ready.set()
        return busy

    def _take_in(self, outputs: list[Output]) -> bool:
        """Read what there is; whether there was anything."""
        busy = False
        for entries in self._entries(None):
            if self._careful is not None and self._careful.covers(entries):
                outputs += self._careful.each(entries, lambda entry: self._take([entry]))
            else:
                outputs += self._take(entries)
            busy = True
        now = self._clock.wall()
        requests, self._shard.requests = self._shard.requests, []
        # No request is of the future, whatever its sender's clock says.
        self._waiting += [replace(request, at=min(request.at, now)) for request in requests]
        self._waiting = [one for one in self._waiting if one.view in self._live or one.view in self._making]
        return busy

    # -- what comes first ------------------------------------------------------------------------------------------

    def _work(self, elapsed: float, outputs: list[Output]) -> bool:
        """Do the most urgent thing; whether there was anything to do."""
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
        """The views that somebody waits for, the most urgent first."""
        waited_for = {request.view for request in self._waiting}
        views = [live for live in self._live.values() if live.fired or live.name in waited_for]
        return sorted(views, key=lambda live: urgency(self._deadline(live), live.within, live.served, elapsed))

    def _deadline(self, live: LiveView) -> float:
        """When a view that somebody waits for must be up to date: seconds since 1970."""
        asked = [one.at for one in self._waiting if one.view == live.name] + [due.heard for due in live.fired]
        return min(asked) / SECOND + live.within

    def _slack(self, urgent: Sequence[LiveView]) -> float:
        """The seconds for which all of these can wait, one being served after the other."""
        end = self._clock.wall() / SECOND
        slack = math.inf
        for live in urgent:
            end += live.predicted
            slack = min(slack, self._deadline(live) - end)
        return slack

    def _queued(self) -> list[LiveView]:
        """The views that have tables to push, who waits longest first."""
        queued = [live for live in self._live.values() if live.queue and not live.fired]
        return sorted(queued, key=lambda live: live.queued_at)

    def _attend(self, live: LiveView, outputs: list[Output]) -> None:
        """Bring a view up to date for whoever waits: with the first moment at which its condition became true, or with
        all that there is; of very much, a piece first, so that more urgent ones can come between.
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
        """Push so much of a view's queue as takes no longer than this; whether there was such a piece."""
        piece = live.piece(self._logs, seconds)
        if piece:
            self._push(live, piece, [], outputs)
        return bool(piece)

    # -- reading ---------------------------------------------------------------------------------------------------

    def _entries(self, until: int | None) -> Iterator[list[Entry]]:
        """The entries after the position, some at a time, up to `until` or the end; the position moves with them."""
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
        """Put what the tables took into the delta logs, and let the views count it."""
        for applied in self._shard.applied:
            self._logs[applied.table].take(applied.changes, applied.steps)
            for live in self._live.values():
                live.note(applied)
        for live in self._live.values():
            live.look(self._shard.applied, self._shard.horizon or 0, self._clock.wall())
        for making in self._making.values():
            making.later += self._shard.applied
        self._filed, self._shard.applied = self._shard.applied, []

    # -- statements ------------------------------------------------------------------------------------------------

    def _obey(self, outputs: list[Output], only: set[str] | None = None) -> None:
        """Begin to make views, and drop them, as the statements say; reply, of a view when it has been made.

        `only`: statements are read again after a restart, and just these were still being made.
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
            outputs.append(Output("replies", pack(pa.RecordBatch.from_pylist(replies, REPLIES))))

    def _begin_making(self, query: CreateQuery, ordered: Ordered) -> None:
        making = Making(self._made(query), ordered, [], [after(applied, ordered.step) for applied in self._filed])
        making.pieces = self._pieces(making)
        self._making[query.name] = making

    def _pieces(self, making: Making) -> Iterator[None]:
        """Work a view out and time its pushes, piece by piece: others may be asked for in between."""
        live, ordered = making.live, making.ordered
        for log in self._logs.values():
            log.flush()
        making.computed = live.view.compute(dict.fromkeys(self._logs, ordered.step))
        yield
        yield from live.measure(self._logs)

    def _make_piece(self, making: Making, outputs: list[Output]) -> None:
        """Go on with making a view; with the last piece it is there, or refused."""
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

    def _finish(self, making: Making, outputs: list[Output]) -> None:
        """A view has been made: say what it is, and keep it from here on."""
        live, done, ordered, now = making.live, making.computed, making.ordered, self._clock.wall()
        live.ticked = ordered.at // live.tick
        self._live[live.name] = live
        self._share()
        # What another checkpoint, or another view of this name, has left is not this view's.
        done.touched += [key for key in self._held_groups(live.name) if key not in live.view.groups.held]
        live.said = {tuple(json.loads(key)): rows for key, rows in read_view(self._log, live.name)[1].items()}
        live.dirty = dict.fromkeys([*done.touched, *live.said])
        self._say(live, done, [""], "create", ordered.at, making.seconds, 0.0, outputs)
        live.watch_from(self._logs, ordered.at, ordered.step, now)
        for applied in making.later:
            live.note(applied)
        live.look(making.later, self._shard.horizon or 0, now)
        self._publish_news(live, outputs)
        self._reply(making.replies, outputs)

    def _practise_piece(self, name: str) -> None:
        """Go on practising with a view that was there before this process."""
        if next(self._practising[name], self) is self:
            self._practising.pop(name)
            self._share()

    def _share(self) -> None:
        """Say what is promised here, and let every view take of the time what the others leave it."""
        self._promises.update({name: live.promise for name, live in self._live.items()})
        self._limits = limits(dict(self._promises))
        for name, live in self._live.items():
            live.allow(self._limits.refresh[name])

    def _made(self, query: CreateQuery) -> LiveView:
        assert isinstance(query.select, ViewSelect)
        tables = [self._tables[name] for name in query.select.tables]
        plan = plan_of(query.select.sql, tables, self._engine.dialect)
        types = self._engine.columns(plan.sql, tables)
        view = Maintained(plan, self._logs, self._engine, self._clock)
        columns = [(part.name, type_) for part, type_ in zip(plan.outputs, types, strict=True)]
        return LiveView(query.name, view, columns, query.select.refresh, query.select.when)

    def _refuse(self, query: CreateQuery, reason: str, replies: list[dict[str, object]], outputs: list[Output]) -> None:
        """Take a view back that cannot be kept: for all who read the log it is dropped."""
        for reply in replies:
            if reply["key"] == query.name and reply["accepted"]:
                reply |= {"accepted": False, "message": reason}
        drop = Drop("query", query.name)
        row = {"kind": drop.kind, "key": drop.name, "request": "", "text": f"-- {reason}", "body": encode(drop)}
        outputs.append(Output(QUERIES, pack(pa.RecordBatch.from_pylist([row], STATEMENTS))))
        said = json.dumps({"view": query.name, "refused": reason}).encode()
        outputs.append(Output(self._status, pack(compacted([(f"view/{query.name}", self._version(), said)]))))

    def _drop(self, name: str, outputs: list[Output]) -> list[dict[str, object]]:
        """Let go of a view; the replies that waited for it to be made."""
        making = self._making.pop(name, None)
        self._practising.pop(name, None)
        live = self._live.pop(name, None)
        if live is None:
            return making.replies if making else []
        self._promises.pop(name, None)
        self._share()
        number = self._version()
        gone = [(f"{name}/{group_text(key)}", number, None) for key in self._held_groups(name)]
        said = [(group_text(key), number, None) for key in live.said]
        outputs.append(Output(self._groups, pack(compacted(gone))))
        outputs.append(Output(view_topic(name), pack(compacted([*said, (HEADER, number, None)]))))
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
        """Push these tables up to these versions, for whoever asked, or because the condition became true (`due`)."""
        begun = self._clock.elapsed()
        scheduler = live.scheduler
        assert scheduler is not None
        for table in versions:
            self._logs[table].flush()
        done = live.view.push(versions)
        predicted = sum(float(scheduler.costs[live.tables.index(table)](rows)) for table, rows in done.rows.items())
        live.dirty |= dict.fromkeys(done.touched)
        kind = NOTICE if due else "refresh" if asked else "push"
        at = due.fired.at if due else self._shard.horizon or 0
        since = [request.at for request in asked] or ([due.heard] if due else [])
        rows = [request.request for request in asked] or [""]
        self._say(live, done, rows, kind, at, self._clock.elapsed() - begun, predicted, outputs, since)
        live.pushed(done, self._clock.elapsed() - begun + self._committing)
        self._publish_news(live, outputs)
        self._pushed |= set(versions)
        self._share()

    def _publish_news(self, live: LiveView, outputs: list[Output]) -> None:
        """One entry per round: who listens knows what is new by the round's number."""
        if live.news_said:
            outputs.append(Output(f"answers.{live.name}", pack(joined(live.news_said))))
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
        """Say what a push did: a row per request, each with the time from then (`since`) until it can be read."""
        number = self._version()
        held = live.view.groups.held
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
        outputs.append(Output(view_topic(live.name), pack(compacted(rows))))

    def _view_status(self, live: LiveView, number: int) -> Output:
        """How a view is, for `tolerant status` and `tolerant explain`."""
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
            "groups": len(live.view.groups.held),
            "tables": live.costs(),
            "when": trigger_text(live.when) if live.when else None,
            "holds": live.watch.holds if live.watch else None,
            **live.figures,
        }
        return Output(self._status, pack(compacted([(f"view/{live.name}", number, json.dumps(body).encode())])))

    def _tidy(self) -> bool:
        """Nobody waits: time for what nobody should have to wait for; whether there was anything.

        Files are made one only behind what the log knows to be absorbed: after a crash no view goes back before that.
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
        horizon = self._shard.horizon or 0
        if not outputs and horizon < self._recorded + _QUIET:
            return
        begun = self._clock.elapsed()
        self._record(outputs)
        self._committing = self._clock.elapsed() - begun
        # A view that is being made needs what has come since its statement, which must be read again after a crash.
        written = self._snapshot_file.stat().st_size if self._snapshot_file.exists() else 0
        if not self._making and self._read > max(_SNAPSHOT, written):
            self.save()

    def _record(self, outputs: list[Output]) -> None:
        """One transaction: what is said, what has been absorbed, and where the pipeline stands."""
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
        self._recorded, self._stands = self._shard.horizon or 0, self._position
        self._log.pass_position(self._checkpoint, self._position)

    @property
    def _snapshot_file(self) -> Path:
        return self._folder / "tables.snapshot"

    def save(self) -> None:
        """Write the tables down, so that a restart need not read the log from its beginning."""
        if self._stands != self._position:  # a condition must not be behind the tables that it is about
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
            (self._position,) = _HEAD.unpack_from(data)
            self._shard.restore(data[_HEAD.size :], [])

    def _resumed(self, query: CreateQuery, kept: dict[str, Any]) -> LiveView:
        live = self._made(query)
        live.view.groups.held = {
            key: read_group(json.loads(body)) for key, body in self._held_groups(query.name).items()
        }
        if live.view.plan.everything and not live.view.groups.held:
            live.view.groups.clear()
        live.resume(kept, self._logs)
        live.ticked = (self._shard.horizon or 0) // live.tick
        live.said = {tuple(json.loads(key)): rows for key, rows in read_view(self._log, query.name)[1].items()}
        live.dirty = dict.fromkeys([*live.view.groups.held, *live.said])
        return live

    def _held_groups(self, view: str) -> dict[tuple[Any, ...], bytes]:
        """The groups of a view as the log has them."""
        found: dict[tuple[Any, ...], bytes] = {}
        prefix = f"{view}/"
        for entry in self._log.read(self._groups):
            for key, _, body in records(entry.payload):
                if key.startswith(prefix) and body is not None:
                    found[tuple(json.loads(key.removeprefix(prefix)))] = body
        return found
