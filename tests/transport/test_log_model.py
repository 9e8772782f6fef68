"""Both logs against the plainest model there is, under random operations."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tolerant.transport import Fence, Fenced, LogError, MemoryLog, PipelineLog, SqliteLog, rows
from tolerant.transport.common import compacted_batch

PLAIN = st.sampled_from(["updates.s", "answers.q", "queries"])
COMPACTED = st.sampled_from(["grants.s", "status.s"])
CHECKPOINTS = st.sampled_from(["c1", "c2"])
ROW = st.tuples(st.sampled_from("xyz"), st.integers(0, 5), st.one_of(st.none(), st.binary(max_size=2)))
APPEND = st.one_of(st.tuples(PLAIN, st.binary(max_size=4)), st.tuples(COMPACTED, st.lists(ROW, max_size=3).map(tuple)))


class Model:
    """A list of appends, a dict of newest rows, a dict of epochs: nothing clever."""

    def __init__(self) -> None:
        self.now = 0
        self.end = 0
        self.entries: list[tuple[int, int, str, bytes]] = []
        self.rows: dict[tuple[str, str], tuple[int, int, int, bytes | None]] = {}
        self.batches: dict[str, int] = {}
        self.readers: dict[str, int] = {}

    def append(self, topic: str, what: bytes | tuple) -> None:
        self.end += 1
        if isinstance(what, bytes):
            self.entries.append((self.end, self.now, topic, what))
            return
        for key, version, body in what:
            if version >= self.rows.get((topic, key), (-1,))[0]:
                self.rows[topic, key] = (version, self.end, self.now, body)

    def trim(self, topic: str, before: int, limit: int) -> int:
        passed = min(self.readers.values(), default=self.end) if topic == "updates.s" else self.end
        mine = [e for e in self.entries if e[2] == topic][:limit]
        gone = [] if topic == "queries" else mine
        for i, (position, at, *_) in enumerate(gone):
            if at >= before or position > passed:
                gone = gone[:i]
                break
        self.entries = [e for e in self.entries if e not in gone]
        return len(gone)


def payload(what: bytes | tuple) -> bytes:
    return what if isinstance(what, bytes) else rows.pack(compacted_batch(what))


class LogMachine(RuleBasedStateMachine):
    def make(self) -> PipelineLog:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.log = self.make()
        self.epochs = 0

    @rule(appends=st.lists(APPEND, max_size=4))
    def append_packed(self, appends: list) -> None:
        for topic, what in appends:
            self.model.append(topic, what)
        assert self.log.append_packed([(topic, payload(what)) for topic, what in appends]) == self.model.end

    @rule(checkpoint=CHECKPOINTS, batch=st.integers(0, 4), appends=st.lists(APPEND, max_size=2), old=st.booleans())
    def append_once(self, checkpoint: str, batch: int, appends: list, old: bool) -> None:
        epoch = self.epochs - 1 if old and self.epochs > 1 else self.epochs
        entries = [(topic, payload(what)) for topic, what in appends]
        if epoch < self.epochs:
            with pytest.raises(Fenced):
                self.log.append_once(checkpoint, batch, entries, Fence("pipeline/s", epoch))
            return
        fresh = batch > self.model.batches.get(checkpoint, -1)
        assert self.log.append_once(checkpoint, batch, entries, Fence("pipeline/s", epoch)) == fresh
        if fresh:
            self.model.batches[checkpoint] = batch
            for topic, what in appends:
                self.model.append(topic, what)

    @rule()
    def next_epoch(self) -> None:
        self.epochs += 1
        self.model.end += 1
        assert self.log.next_epoch("pipeline/s") == self.epochs

    @rule(step=st.integers(1, 3))
    def time_passes(self, step: int) -> None:
        self.model.now += step

    @rule(checkpoint=CHECKPOINTS)
    def register(self, checkpoint: str) -> None:
        self.log.register(checkpoint, "s", ["updates.s"])
        if checkpoint not in self.model.readers:
            self.model.readers[checkpoint] = 0
            self.model.end += 1

    @rule(checkpoint=CHECKPOINTS, position=st.integers(0, 20))
    def pass_position(self, checkpoint: str, position: int) -> None:
        self.log.pass_position(checkpoint, position)
        if position > self.model.readers.get(checkpoint, 1 << 40):
            self.model.readers[checkpoint] = position
            self.model.end += 1

    @rule(checkpoint=CHECKPOINTS)
    def forget(self, checkpoint: str) -> None:
        self.log.forget(checkpoint)
        if self.model.readers.pop(checkpoint, None) is not None:
            self.model.end += 1

    @rule(topic=PLAIN, age=st.integers(0, 4), limit=st.integers(1, 3))
    def trim(self, topic: str, age: int, limit: int) -> None:
        before = self.model.now - age
        assert self.log.trim(topic, before, limit) == self.model.trim(topic, before, limit)

    @rule(start=st.integers(0, 20), limit=st.one_of(st.none(), st.integers(0, 4)))
    def read(self, start: int, limit: int | None) -> None:
        expected = [(p, topic, what) for p, _, topic, what in self.model.entries if p > start][:limit]
        found = self.log.read({"updates.s", "answers.q", "queries"}, start, limit)
        assert [(e.position, e.topic, e.payload) for e in found] == expected

    @rule(start=st.integers(0, 20), entries=st.integers(1, 4), size=st.integers(0, 12))
    def advance(self, start: int, entries: int, size: int) -> None:
        following = [(p, len(what)) for p, _, topic, what in self.model.entries if p > start and topic == "updates.s"]
        fits = [
            p for i, (p, _) in enumerate(following[:entries]) if i == 0 or sum(n for _, n in following[: i + 1]) <= size
        ]
        if start > self.log.end():
            with pytest.raises(LogError, match="older copy"):
                self.log.advance(["updates.s"], start, entries, size)
            return
        assert self.log.advance(["updates.s"], start, entries, size) == max(fits, default=start)

    @rule(topic=COMPACTED, start=st.integers(0, 20))
    def read_compacted(self, topic: str, start: int) -> None:
        expected = sorted(
            (p, key, version, body)
            for (t, key), (version, p, _, body) in self.model.rows.items()
            if t == topic and p > start
        )
        found = [
            (e.position, *row.values())
            for e in self.log.read(topic, start)
            for row in rows.unpack(e.payload).to_pylist()
        ]
        assert found == expected

    @invariant()
    def ends_agree(self) -> None:
        assert self.log.end() == self.model.end

    def teardown(self) -> None:
        self.log.close()


class MemoryMachine(LogMachine):
    def make(self) -> PipelineLog:
        return MemoryLog(lambda: self.model.now)


class SqliteMachine(LogMachine):
    def make(self) -> PipelineLog:
        self.directory = tempfile.TemporaryDirectory()
        return SqliteLog(Path(self.directory.name) / "log.db", lambda: self.model.now, create=True)

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.log = SqliteLog(self.log.path, lambda: self.model.now)

    def teardown(self) -> None:
        super().teardown()
        self.directory.cleanup()


_LIMITS = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
TestMemoryLog = MemoryMachine.TestCase
TestMemoryLog.settings = settings(max_examples=100, stateful_step_count=30, **_LIMITS)
TestSqliteLog = SqliteMachine.TestCase
TestSqliteLog.settings = settings(max_examples=40, stateful_step_count=30, **_LIMITS)
