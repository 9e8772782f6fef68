"""The pipeline of views: log → tables' changes → pushes when they are due → log, as a loop in the driver.

One transaction of the log has everything that a round did: what was said, the groups that were touched, the versions
absorbed, the scheduler, and the position in the log. After a crash the rows of the tables come from the newest snapshot
and the entries since; what had been pushed is absorbed, what had not is pending, and pushed when it is due.
"""

from __future__ import annotations

import json
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from tolerant.kernels.versions import version
from tolerant.spark.hosting import Output
from tolerant.spark.views.deltas import DeltaLog
from tolerant.spark.views.live import LiveView, TooSlow, group_body, read_group
from tolerant.spark.views.maintained import Engine, Maintained, Pushed
from tolerant.spark.views.shard import Applied, Ordered, Request, ViewShard
from tolerant.spark.views.watch import Fired, after
from tolerant.sql import CreateQuery, CreateTable, Drop, encode
from tolerant.sql.homes import Views
from tolerant.sql.render import trigger_text
from tolerant.sql.statements import ViewSelect
from tolerant.sql.viewing import plan_of
from tolerant.streams import SECOND
from tolerant.transport import Fence, PipelineLog, changes
from tolerant.transport.deliveries import rows_topic
from tolerant.transport.log import QUERIES, START, Entry
from tolerant.transport.rows import REPLIES, STATEMENTS, compacted, pack, unpack
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
        """The SQL types of what a select over tables gives.

        Raises:
            ValueError: one of them is a type that no table has, or the select cannot be run.
        """
        ...

    def rest(self) -> None:
        """Nobody waits: time for what would else disturb a push."""
        ...


class ViewPipeline:
    """See the module. `step` does one round; `start` lets a thread do them until `stop`."""

    def __init__(
        self,
        engine: Callable[[], ViewEngine],
        log: PipelineLog,
        views: Views,
        folder: Path,
        checkpoint: str,
        fence: Fence,
    ) -> None:
        self._make_engine, self._log, self._views = engine, log, views
        self._folder, self._checkpoint, self._fence = folder, checkpoint, fence
        self._tables = {table.name: table for table in views.tables}
        self._topics = [QUERIES, requests_topic(views.name), *map(changes.topic_of, self._tables)]
        self._status = f"status.{views.name}"
        self._groups = rows_topic(views.name)
        self._shard = ViewShard(views)
        self._logs = {name: DeltaLog(folder / "deltas" / name, t.columns) for name, t in self._tables.items()}
        self._live: dict[str, LiveView] = {}
        self._pushed: set[str] = set()  # tables that were pushed into some view in this round
        self._filed: list[Applied] = []  # what the tables took of the entries last read
        self._position, self._batch = START, 0
        self._recorded, self._stands = 0, START  # horizon and position of the last record
        self._read = 0  # bytes since the last snapshot
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self.failure: Exception | None = None
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

    @property
    def ended(self) -> bool:
        """Whether it has come to an end by itself, that is, failed."""
        return self._thread is not None and not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self.begin()
            while not self._stopping.is_set():
                if not self.step():
                    self._stopping.wait(PAUSE)
        except Exception as error:
            self.failure = error

    def begin(self) -> None:
        """Go on where the checkpoint stands, or from the beginning of the log."""
        self._engine = self._make_engine()
        record = self._log.latest(self._status, COMMIT)
        held = json.loads(record.body) if record else {}
        if held.get("checkpoint") != self._checkpoint:
            return
        self._batch = held["batch"]
        self._load_snapshot()
        for entries in self._entries(held["position"]):
            self._shard.take(entries)
            self._file()
        self._shard.statements, self._shard.replies, self._shard.requests = [], [], []
        self._position = self._stands = max(self._position, held["position"])
        queries = self._shard.queries
        for name, kept in held["views"].items():
            self._live[name] = self._resumed(queries[name], kept)

    def step(self) -> bool:
        """Read what there is, push what is due, say what comes of it; whether there was anything."""
        outputs: list[Output] = []
        busy = False
        for entries in self._entries(None):
            outputs += self._shard.take(entries)
            self._file()
            self._obey(outputs)
            busy = True
        if not busy:
            return False
        requests = self._requests()
        for live in self._live.values():
            self._tell(live, outputs)
            asked = requests.get(live.name, [])
            due = live.due(self._shard.horizon or 0)
            if asked:
                due = live.all_due(self._logs)
            if due or asked:
                self._push(live, due, asked, outputs)
            if live.news_said:
                # One entry a round: who listens knows what is new by the round's number.
                outputs.append(Output(f"answers.{live.name}", pack(joined(live.news_said))))
                live.news_said = []
        self._commit(outputs)
        self._tidy()
        return True

    # -- reading ---------------------------------------------------------------------------------------------------

    def _entries(self, until: int | None) -> Iterator[list[Entry]]:
        """The entries after the position, some at a time, up to `until` or the end; the position moves with them."""
        while True:
            found = self._log.read(self._topics, self._position, _ENTRIES)
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
            live.look(self._shard.applied, self._shard.horizon or 0)
        self._filed, self._shard.applied = self._shard.applied, []

    def _requests(self) -> dict[str, list[Request]]:
        found: dict[str, list[Request]] = {}
        for request in self._shard.requests:
            found.setdefault(request.view, []).append(request)
        self._shard.requests = []
        return found

    # -- statements ------------------------------------------------------------------------------------------------

    def _obey(self, outputs: list[Output]) -> None:
        """Make and drop views as the statements say, and reply."""
        statements, self._shard.statements = self._shard.statements, []
        replies, self._shard.replies = self._shard.replies, []
        standing = self._shard.queries
        for ordered in statements:
            statement = ordered.statement
            if isinstance(statement, Drop):
                self._drop(statement.name, outputs)
            elif isinstance(statement, CreateQuery) and statement.name in standing:
                try:
                    self._create(statement, ordered, outputs)
                except (TooSlow, ValueError) as error:
                    self._refuse(statement, str(error), replies, outputs)
        if replies:
            outputs.append(Output("replies", pack(pa.RecordBatch.from_pylist(replies, REPLIES))))

    def _create(self, query: CreateQuery, ordered: Ordered, outputs: list[Output]) -> None:
        live = self._made(query)
        for log in self._logs.values():
            log.flush()
        begun = time.perf_counter()
        done = live.view.compute(dict.fromkeys(self._logs, ordered.step))
        live.ticked = ordered.at // live.tick
        live.start(live.measure(self._logs))
        self._live[query.name] = live
        # What another checkpoint, or another view of this name, has left is not this view's.
        done.touched += [key for key in self._held_groups(query.name) if key not in live.view.groups.held]
        live.said = {tuple(json.loads(key)): rows for key, rows in read_view(self._log, query.name)[1].items()}
        live.dirty = dict.fromkeys([*done.touched, *live.said])
        self._say(live, done, [], "create", ordered.at, time.perf_counter() - begun, 0.0, outputs)
        live.watch_from(self._logs, ordered.at, ordered.step)
        later = [after(applied, ordered.step) for applied in self._filed]
        for applied in later:
            live.note(applied)
        live.look(later, self._shard.horizon or 0)

    def _made(self, query: CreateQuery) -> LiveView:
        assert isinstance(query.select, ViewSelect)
        tables = [self._tables[name] for name in query.select.tables]
        types = self._engine.columns(query.select.sql, tables)
        plan = plan_of(query.select.sql, tables, self._engine.dialect)
        view = Maintained(plan, self._logs, self._engine)
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

    def _drop(self, name: str, outputs: list[Output]) -> None:
        live = self._live.pop(name, None)
        if live is None:
            return
        number = self._version()
        gone = [(f"{name}/{group_text(key)}", number, None) for key in self._held_groups(name)]
        said = [(group_text(key), number, None) for key in live.said]
        outputs.append(Output(self._groups, pack(compacted(gone))))
        outputs.append(Output(view_topic(name), pack(compacted([*said, (HEADER, number, None)]))))
        outputs.append(Output(self._status, pack(compacted([(f"view/{name}", number, None)]))))

    # -- pushing ---------------------------------------------------------------------------------------------------

    def _tell(self, live: LiveView, outputs: list[Output]) -> None:
        """Bring a view up to date with each moment at which its condition became true, and say so."""
        fired, live.fired = live.fired, []
        for one in fired:
            self._push(live, live.due_by(one), [], outputs, one)

    def _push(
        self,
        live: LiveView,
        due: dict[str, int],
        asked: list[Request],
        outputs: list[Output],
        fired: Fired | None = None,
    ) -> None:
        begun = time.perf_counter()
        scheduler = live.scheduler
        assert scheduler is not None
        for table in due:
            self._logs[table].flush()
        done = live.view.push(due)
        predicted = 0.0
        for table, rows in done.rows.items():
            predicted += float(scheduler.costs[live.tables.index(table)](rows))
        live.learn(done)
        live.dirty |= dict.fromkeys(done.touched)
        kind = NOTICE if fired else "refresh" if asked else "push"
        at = fired.at if fired else self._shard.horizon or 0
        self._say(live, done, asked, kind, at, time.perf_counter() - begun, predicted, outputs)
        self._pushed |= set(due)

    def _say(
        self,
        live: LiveView,
        done: Pushed,
        asked: list[Request],
        kind: str,
        at: int,
        took: float,
        predicted: float,
        outputs: list[Output],
    ) -> None:
        number = self._version()
        held = live.view.groups.held
        bodies = [json.dumps(group_body(held[key])).encode() if key in held else None for key in done.touched]
        names = [f"{live.name}/{group_text(key)}" for key in done.touched]
        groups = [(name, number, body) for name, body in zip(names, bodies, strict=True)]
        if groups:
            outputs.append(Output(self._groups, pack(compacted(groups))))
        if kind != "push":
            self._publish(live, number, at, kind == NOTICE, outputs)
        figures = live.figures
        figures["seconds"] += sum(done.seconds.values())
        counted = {"push": "pushes", "refresh": "refreshes", NOTICE: "notices"}.get(kind)
        if counted:
            figures[counted] += 1
            figures["misses"] += kind != "push" and took > live.within
        figures["last"] = {"kind": kind, "at": at, "took": took, "predicted": predicted}
        row = {
            "kind": kind, "at": at, "tables": list(done.rows), "rows": list(done.rows.values()),
            "seconds": [done.seconds[table] for table in done.rows], "took": took, "predicted": predicted,
            "within": live.within, "recomputed": done.recomputed,
        }  # fmt: skip
        rows = [{**row, "request": request.request} for request in asked] or [{**row, "request": ""}]
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
        body = {
            "view": live.name,
            "within": live.within,
            "limit": scheduler.margin * scheduler.limit,
            "working_limit": scheduler.working_limit,
            "work": scheduler.work,
            "lead": live.lead,
            "groups": len(live.view.groups.held),
            "tables": live.costs(),
            "when": trigger_text(live.when) if live.when else None,
            "holds": live.watch.holds if live.watch else None,
            **live.figures,
        }
        return Output(self._status, pack(compacted([(f"view/{live.name}", number, json.dumps(body).encode())])))

    def _tidy(self) -> None:
        """What has been pushed is said: time for what nobody should have to wait for.

        Files are made one only behind what the log knows to be absorbed: after a crash no view goes back before that.
        """
        if not self._pushed:
            return
        for table in self._pushed:
            self._logs[table].compact(min(view.view.absorbed.get(table, 1 << 62) for view in self._live.values()))
        self._pushed = set()
        self._engine.rest()

    # -- state -----------------------------------------------------------------------------------------------------

    def _version(self) -> int:
        return version(self._fence.epoch, self._batch + 1)

    def _commit(self, outputs: list[Output]) -> None:
        horizon = self._shard.horizon or 0
        if not outputs and horizon < self._recorded + _QUIET:
            return
        self._record(outputs)
        if self._read > max(_SNAPSHOT, self._snapshot_file.stat().st_size if self._snapshot_file.exists() else 0):
            self.save()

    def _record(self, outputs: list[Output]) -> None:
        """One transaction: what is said, what has been absorbed, and where the pipeline stands."""
        body = {
            "checkpoint": self._checkpoint,
            "batch": self._batch + 1,
            "position": self._position,
            "views": {name: live.record() for name, live in self._live.items()},
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
        live.practise(self._logs)
        live.ticked = (self._shard.horizon or 0) // live.tick
        live.said = {tuple(json.loads(key)): rows for key, rows in read_view(self._log, query.name)[1].items()}
        live.dirty = dict.fromkeys([*live.view.groups.held, *live.said])
        return live

    def _held_groups(self, view: str) -> dict[tuple[Any, ...], bytes]:
        """The groups of a view as the log has them."""
        found: dict[tuple[Any, ...], bytes] = {}
        prefix = f"{view}/"
        for entry in self._log.read(self._groups):
            batch = unpack(entry.payload)
            for key, body in zip(batch.column("key").to_pylist(), batch.column("body").to_pylist(), strict=True):
                if key.startswith(prefix) and body is not None:
                    found[tuple(json.loads(key.removeprefix(prefix)))] = body
        return found
