"""The pipeline of views: log → tables' changes → pushes when they are due → log, as a loop in the driver.

A round reads the new entries, then does the most urgent task: refresh a view that was requested or whose condition
became true, the earliest deadline first; push a piece of a queue; make a piece of a view. So a request waits for at
most one task that was not requested, and that is limited to the time that the promises allow (`views.capacity`).

A round writes one transaction to the log: its outputs, the groups it touched, the versions absorbed, the scheduler, and
the position in the log. After a crash the rows of the tables are restored from the newest snapshot and the entries
since; what had been pushed is absorbed, the rest is pending and is pushed when it is due. If a record of a view cannot
be read, the view is computed again from the tables; if the record of the pipeline's position cannot be read, all views
are, from an empty checkpoint.

A task that fails is the failure of its view: nothing of it is written, and the view is restored and tried once more, or
refused (`ViewAdmission.recover`). The pipeline fails only with what no view is to blame for.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tolerant.kernels.versions import version
from tolerant.pipeline.entry_by_entry import Careful
from tolerant.pipeline.hosting import Output
from tolerant.spark.views.admission import ViewAdmission, ViewEngine
from tolerant.spark.views.checkpoint import Checkpoint, read_checkpoint
from tolerant.spark.views.clock import Clock, SystemClock
from tolerant.spark.views.failures import PUSHING, TIMING
from tolerant.spark.views.live import Due, LiveView
from tolerant.spark.views.maintained import Pushed
from tolerant.spark.views.outputs import Served, ViewOutputs
from tolerant.spark.views.promise_keeping import PromiseKeeper
from tolerant.spark.views.shard import Request
from tolerant.spark.views.table_snapshot import TableSnapshot
from tolerant.spark.views.view_state import ViewState
from tolerant.sql.pipeline_inputs import Views
from tolerant.streams import SECOND
from tolerant.transport import Fence, PipelineLog
from tolerant.transport.log import START, Entry
from tolerant.transport.quarantine import bodies, marked
from tolerant.transport.records import skipping
from tolerant.transport.rows import compacted, pack
from tolerant.transport.topics import QUERIES, changes_topic, refreshes_topic
from tolerant.transport.views import NOTICE
from tolerant.views.capacity import Promise

COMMIT = "commit"
"""The key of `status.<home>` that has what the pipeline's checkpoint must know."""

PAUSE = 0.02
"""Seconds between two looks at the log."""

_ENTRIES = 2000
_QUIET = SECOND  # event time after which a position is recorded even without outputs
_SNAPSHOT = 8 << 20  # least bytes of entries between two snapshots of the tables


class ViewPipeline:
    """See the module. `step` does one round; `start` runs rounds in a thread until `stop`.

    `promises`: those of all views that share the engine, also in other pipelines. `tell` is called with a message for
    each view that has been timed or refused.
    """

    def __init__(  # noqa: PLR0913
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
        self._clock = clock or SystemClock()
        self._promises = PromiseKeeper({} if promises is None else promises, tell)
        self._make_engine, self._log, self._views, self._careful = engine, log, views, careful
        self._folder, self._checkpoint, self._fence = folder, checkpoint, fence
        self._topics = [QUERIES, refreshes_topic(views.name), *(changes_topic(table.name) for table in views.tables)]
        self._outputs = ViewOutputs(log, views)
        self._snapshot = TableSnapshot(folder / "tables.snapshot")
        self._batch = 0
        self._clear()
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
        self._state = ViewState(self._views, self._folder / "deltas")
        self._position = START
        self._recorded, self._stands = 0, START  # watermark and position of the last record
        self._read = 0  # bytes since the last snapshot
        self._records: dict[str, dict[str, Any]] = {}  # of each view the one that the log has
        self._refusals: list[Output] = []  # of views that could not be resumed, for the first round

    def _new_admission(self) -> ViewAdmission:
        return ViewAdmission(
            self._views,
            self._state,
            self._engine,
            self._outputs,
            self._promises,
            self._clock,
            number=self._version,
            report=self._report_created,
        )

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
        for name in self._state.live:
            self._promises.withdraw(name)

    @property
    def ended(self) -> bool:
        """Whether the thread has ended; without `stop` this means that it failed."""
        return self._thread is not None and not self._thread.is_alive()

    @property
    def position(self) -> int:
        """The log has been applied up to here, and the outputs are in it."""
        return self._stands

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
        self._admission = self._new_admission()
        batch = self._log.last_batch(self._checkpoint)
        if batch < 0:
            return
        self._batch, resumed = batch, False
        record = self._log.latest(self._outputs.status, COMMIT)
        with skipping(f"where the views {self._views.name} stand"):
            body = record.body if record else b"{}"
            self._resume(read_checkpoint(body, self._checkpoint, batch, self._log.end()))
            resumed = True
        if not resumed:
            shutil.rmtree(self._folder / "deltas", ignore_errors=True)
            self._snapshot.remove()
            self._clear()
            self._admission = self._new_admission()
        self._admission.share()

    def _resume(self, checkpoint: Checkpoint) -> None:
        """Restores the state of a checkpoint; a view whose own records cannot be read is made again."""
        state = self._state
        tables = self._snapshot.read()
        if tables is not None:
            self._position = tables[0]
            state.shard.restore(tables[1])
        for entries in self._entries(checkpoint.position):
            state.shard.apply(entries)
            state.file(self._clock.wall())
            self._admission.obey(set(checkpoint.making))
        state.shard.requests = []
        state.waiting = checkpoint.waiting
        state.making = {name: state.making[name] for name in checkpoint.making if name in state.making}
        self._position = self._stands = max(self._position, checkpoint.position)
        self._records = checkpoint.views
        self._refusals = self._admission.resume(checkpoint.views, checkpoint.making)

    def step(self) -> bool:
        """Reads new entries, does the most urgent task and commits the outputs; returns whether there was any work."""
        state, outputs = self._state, self._refusals
        busy, self._refusals = bool(outputs), []
        busy = self._take_in(outputs) or busy
        elapsed = self._clock.elapsed()
        for live in state.live.values():
            if not live.fired:  # else the view must first be pushed up to that moment
                live.pass_time(state.watermark, elapsed)
        busy = self._work(elapsed, outputs) or busy
        if busy:
            self._commit(outputs)
        if not state.making and not state.practising:
            self.ready.set()
        return busy

    # -- reading ---------------------------------------------------------------------------------------------------

    def _take_in(self, outputs: list[Output]) -> bool:
        """Reads new entries and requests; returns whether there were entries."""
        busy = False
        for entries in self._entries(None):
            if self._careful is not None and self._careful.covers(entries):
                outputs += self._careful.each(entries, lambda entry: self._take([entry]))
            else:
                outputs += self._take(entries)
            busy = True
        self._state.take_requests(self._clock.wall())
        return busy

    def _take(self, entries: list[Entry]) -> list[Output]:
        outputs = self._state.shard.apply(entries)
        self._state.file(self._clock.wall())
        return outputs + self._admission.obey()

    def _entries(self, until: int | None) -> Iterator[list[Entry]]:
        """Reads the entries after the position in batches, up to `until` or the end, and advances the position."""
        while True:
            entries = self._log.read(self._topics, self._position, _ENTRIES)
            if entries:
                entries = marked(entries, bodies(self._log, self._views.name))
            wanted = [entry for entry in entries if until is None or entry.position <= until]
            if not wanted:
                return
            self._position = wanted[-1].position
            self._read += sum(len(entry.payload) for entry in wanted)
            yield wanted
            if len(wanted) < _ENTRIES:
                return

    # -- priorities ------------------------------------------------------------------------------------------------

    def _work(self, elapsed: float, outputs: list[Output]) -> bool:
        """Does the most urgent task; returns whether there was one."""
        state, limits = self._state, self._promises.limits
        urgent = state.urgent(elapsed)
        overdue = [live for live in state.queued() if elapsed - live.queued_at >= live.within]
        room = min(state.slack(urgent, self._clock.wall()), limits.piece)
        if urgent and overdue and self._for(overdue[0], partial(self._push_piece, overdue[0], room), outputs):
            return True
        if urgent:
            self._for(urgent[0], partial(self._attend, urgent[0]), outputs)
        elif queued := state.queued():
            seconds = max(limits.piece, queued[0].costs.promise.floor)
            self._for(queued[0], partial(self._push_piece, queued[0], seconds), outputs)
        elif state.practising:
            name = next(iter(state.practising))
            self._time(state.live[name], partial(self._admission.practise_piece, name), outputs)
        elif state.making:
            outputs += self._admission.make_piece(next(iter(state.making.values())))
        elif (view := self._promises.to_renew(state.live, state.logs, elapsed)) is not None:
            self._time(state.live[view], partial(self._promises.renew_piece, view, state.live), outputs)
        else:
            return self._tidy()
        return True

    def _for(self, live: LiveView, work: Callable[[list[Output]], bool], outputs: list[Output]) -> bool:
        """Brings a view up to date, or a part of it; returns whether there was anything to do. A failure is the view's
        own, and leaves nothing but that.
        """
        own, waiting, fired = list[Output](), self._state.waiting, list(live.fired)
        try:
            busy = work(own)
        except Exception as error:
            self._state.waiting, live.fired = waiting, fired
            outputs += self._admission.recover(live, PUSHING, error, self._records.get(live.name))
            return True
        outputs += own
        self._admission.failures.absorbed(live.name, live.view.absorbed)
        return busy

    def _time(self, live: LiveView, work: Callable[[], bool], outputs: list[Output]) -> None:
        """Times a piece of a view; a failure is the view's own."""
        try:
            if work():
                self._admission.failures.succeeded(live.name, TIMING)
        except Exception as error:
            outputs += self._admission.recover(live, TIMING, error, self._records.get(live.name))

    def _attend(self, live: LiveView, outputs: list[Output]) -> bool:
        """Refreshes an urgent view: up to the first moment at which its condition became true, or up to the newest
        changes. Pushes only a piece if these are many, so that more urgent views can be served in between.
        """
        if live.fired:
            due = live.fired.pop(0)
            live.served = self._clock.elapsed()
            self._push(live, live.due_by(due.fired), [], outputs, due)
            return True
        if live.predicted > max(self._promises.limits.piece, live.costs.promise.floor) and len(self._state.live) > 1:
            live.enqueue_all(self._state.logs, self._clock.elapsed())
            if self._push_piece(live, self._promises.limits.piece, outputs):
                return True
        asked = self._state.requests_for(live.name)
        self._state.waiting = [request for request in self._state.waiting if request.view != live.name]
        live.served = self._clock.elapsed()
        self._push(live, live.all_due(self._state.logs), asked, outputs)
        return True

    def _push_piece(self, live: LiveView, seconds: float, outputs: list[Output]) -> bool:
        """Pushes as much of a view's queue as fits into `seconds`; returns whether any did."""
        piece = live.piece(self._state.logs, seconds)
        if piece:
            self._push(live, piece, [], outputs)
        return bool(piece)

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
        for table in versions:
            self._state.logs[table].flush()
        done = live.view.push(versions)
        predicted = sum(float(scheduler.costs[live.tables.index(table)](rows)) for table, rows in done.rows.items())
        live.dirty |= dict.fromkeys(done.touched)
        kind = NOTICE if due else "refresh" if asked else "push"
        at = due.fired.at if due else self._state.watermark
        since = [request.at for request in asked] or ([due.heard] if due else [])
        rows = [request.request for request in asked] or [""]
        worked = self._clock.elapsed() - begun + self._committing
        outputs += self._report(live, done, kind, at, rows, worked, predicted, since)
        ended = self._clock.elapsed()
        live.pushed(done, ended - begun + self._committing, ended)
        outputs += self._outputs.changes(live)
        self._pushed |= set(versions)
        self._admission.share()

    def _report_created(self, live: LiveView, done: Pushed, at: int, seconds: float) -> list[Output]:
        return self._report(live, done, "create", at, [""], seconds + self._committing, 0.0, [])

    def _report(
        self,
        live: LiveView,
        done: Pushed,
        kind: str,
        at: int,
        requests: list[str],
        worked: float,
        predicted: float,
        since: Sequence[int],
    ) -> list[Output]:
        """Packs what a push did: one row per request, with the time from `since` until it can be read."""
        number = self._version()
        outputs = self._outputs.content(live, done, kind, at, number)
        now = self._clock.wall()
        took = [max(worked, (now - moment) / SECOND + self._committing) for moment in since] or [worked]
        live.count(kind, took, at, predicted, sum(done.seconds.values()) + done.recomputing)
        outputs.append(self._outputs.push_rows(live, done, Served(kind, at, requests, took, worked, predicted)))
        outputs.append(self._outputs.view_status(live, self._promises.status(live.name), number))
        return outputs

    def _tidy(self) -> bool:
        """Does housekeeping while no request waits; returns whether there was any.

        Merges only files with changes that are absorbed according to the log: no view restarts before those.
        """
        if not self._pushed:
            return False
        absorbed = [live.view.absorbed for live in self._state.live.values()]
        absorbed += [dict.fromkeys(self._state.logs, making.ordered.step) for making in self._state.making.values()]
        for table in self._pushed:
            self._state.logs[table].compact(min((versions.get(table, 1 << 62) for versions in absorbed), default=0))
        self._pushed = set()
        self._engine.rest()
        return True

    # -- state -----------------------------------------------------------------------------------------------------

    def _version(self) -> int:
        return version(self._fence.epoch, self._batch + 1)

    def _commit(self, outputs: list[Output]) -> None:
        watermark = self._state.watermark
        if not outputs and watermark < self._recorded + _QUIET:
            return
        begun = self._clock.elapsed()
        self._record(outputs)
        self._committing = self._clock.elapsed() - begun
        # A view that is being made needs the changes since its statement, which must be read again after a crash.
        if not self._state.making and self._read > max(_SNAPSHOT, self._snapshot.size):
            self.save()

    def _record(self, outputs: list[Output]) -> None:
        """Writes one transaction: the outputs, the versions absorbed, and the position of the pipeline."""
        records = {name: live.record() for name, live in self._state.live.items()}
        body = {
            "checkpoint": self._checkpoint,
            "batch": self._batch + 1,
            "position": self._position,
            "views": records,
            "making": list(self._state.making),
            "waiting": [[request.view, request.request, request.at] for request in self._state.waiting],
        }
        self._records = records
        row = (COMMIT, self._version(), json.dumps(body).encode())
        entries = [(output.topic, output.payload) for output in outputs]
        entries.append((self._outputs.status, pack(compacted([row]))))
        self._log.append_once(self._checkpoint, self._batch + 1, entries, self._fence)
        self._batch += 1
        self._recorded, self._stands = self._state.watermark, self._position
        self._log.pass_position(self._checkpoint, self._position)

    def save(self) -> None:
        """Writes a snapshot of the tables, so that a restart need not read the log from its beginning."""
        if self._stands != self._position:  # a condition must not be older than its tables
            self._record([])
        for log in self._state.logs.values():
            log.flush()
        self._snapshot.write(self._position, self._state.shard.snapshot())
        self._read = 0
