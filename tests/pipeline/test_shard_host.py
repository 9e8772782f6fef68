"""The host of a shard: whatever happens to its memory and its snapshots, it publishes what it would have published."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from chain_core import Chain, expected
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.pipeline import shard_host
from tolerant.pipeline.entry_by_entry import Careful
from tolerant.pipeline.hosting import Hosted, Output
from tolerant.pipeline.shard_host import AppliedBatch, Diverged, LogInput, ShardHost, StateError
from tolerant.pipeline.snapshot_files import Snapshot, SnapshotFiles
from tolerant.testing.snapshots import MemorySnapshots
from tolerant.transport import Deleted, Entry, Fence, MemoryLog, rows
from tolerant.transport.batches import DoneBatch, done_entry
from tolerant.transport.quarantine import Quarantined, bodies, marked, record

TOPIC = "updates.s"


class Pipeline:
    """A shard on a log: batches are applied and written down; its worker can be lost at any moment."""

    def __init__(self, log: MemoryLog, factory: Callable[[int], Hosted] = Chain, snapshots=None) -> None:
        self.log, self.factory = log, factory
        self.snapshots = snapshots or MemorySnapshots()
        self.made: list[Hosted] = []
        self.position = self.batch = 0
        self.outputs: list[Output] = []
        self.lose_worker()

    def lose_worker(self) -> None:
        def make(shard: int) -> Hosted:
            self.made.append(self.factory(shard))
            return self.made[-1]

        self.source = LogInput(self.log, "s", "c", [TOPIC], 0)
        self.host = ShardHost(0, make, self.source, self.snapshots)

    def apply(self, end: int) -> AppliedBatch:
        return self.host.apply(self.position, end)

    def write(self, applied: AppliedBatch) -> None:
        done = done_entry("s", [DoneBatch("c", 0, applied.end, applied.one_by_one, applied.digest)])
        entries = [(output.topic, output.payload) for output in applied.outputs]
        assert self.log.append_once("c", self.batch, [*entries, done])
        self.outputs += applied.outputs
        self.position, self.batch = applied.end, self.batch + 1

    def step(self, count: int) -> None:
        """A batch of so many entries."""
        self.write(self.apply(self.log.read(TOPIC, self.position, count)[-1].position))

    def published(self) -> list[dict[str, int]]:
        return [rows.unpack(output.payload).to_pylist()[0] for output in self.outputs]


def log_of(count: int) -> MemoryLog:
    log = MemoryLog()
    for number in range(count):
        log.append(TOPIC, pa.record_batch({"value": [number]}))
    return log


def all_expected(pipeline: Pipeline) -> list[dict[str, int]]:
    return expected([entry for entry in pipeline.log.read(TOPIC) if entry.position <= pipeline.position])


def test_batches_come_out_as_if_they_were_one() -> None:
    pipeline = Pipeline(log_of(9))
    for _ in range(3):
        pipeline.step(3)
    assert pipeline.published() == all_expected(pipeline)
    assert len(pipeline.published()) == 9
    assert len(pipeline.made) == 1


@given(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["go on", "lose", "twice", "snapshot"])), max_size=12),
    st.booleans(),
)
@settings(deadline=None)
def test_restoring_and_going_on_is_going_on(cuts: list[tuple[int, str]], eager: bool) -> None:
    """However the entries are cut into batches, wherever the worker is lost or a batch is run twice."""
    pipeline = Pipeline(log_of(sum(count for count, _ in cuts)))
    with pytest.MonkeyPatch.context() as patch:
        if eager:
            patch.setattr(shard_host, "DUE", -1.0)
        for count, event in cuts:
            end = pipeline.log.read(TOPIC, pipeline.position, count)[-1].position
            if event == "lose":
                pipeline.lose_worker()
            elif event == "twice":  # applied, but the worker or the driver died before it was written
                pipeline.apply(end)
            elif event == "snapshot":
                patch.setattr(shard_host, "DUE", -1.0)
            pipeline.write(pipeline.apply(end))
    assert pipeline.published() == all_expected(pipeline)


def test_a_lost_memory_is_restored_by_the_batches_since_the_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = Pipeline(log_of(9))
    pipeline.step(2)
    with monkeypatch.context() as patch:
        patch.setattr(shard_host, "DUE", -1.0)
        pipeline.step(2)
    assert sorted(pipeline.snapshots.by_position) == [0, 2]
    pipeline.step(2)
    pipeline.lose_worker()
    pipeline.step(3)
    assert pipeline.published() == all_expected(pipeline)
    assert len(pipeline.made) == 2


def test_a_core_that_is_ahead_is_thrown_away() -> None:
    pipeline = Pipeline(log_of(6))
    pipeline.step(2)
    pipeline.apply(pipeline.log.read(TOPIC)[3].position)  # never written
    pipeline.step(2)
    pipeline.step(2)
    assert pipeline.published() == all_expected(pipeline)
    assert len(pipeline.made) == 2


def test_a_core_that_raises_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = Pipeline(log_of(4))
    pipeline.step(2)
    with monkeypatch.context() as patch:
        patch.setattr(Chain, "apply", lambda self, batch: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            pipeline.step(2)
    pipeline.step(2)
    assert pipeline.published() == all_expected(pipeline)
    assert len(pipeline.made) == 2


def test_snapshots_are_of_written_positions_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry of a batch that was never written may yet be put into quarantine."""
    monkeypatch.setattr(shard_host, "DUE", -1.0)
    pipeline = Pipeline(log_of(8))
    ends = {0}
    for _ in range(4):
        pipeline.apply(pipeline.log.read(TOPIC, pipeline.position, 2)[-1].position)
        assert set(pipeline.snapshots.by_position) <= ends
        pipeline.step(2)
        ends.add(pipeline.position)


def an_entry_goes_into_quarantine(monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """It was applied in a batch that was never written; the worker is lost, then and later."""
    monkeypatch.setattr(shard_host, "DUE", -1.0)
    pipeline = Pipeline(log_of(8))
    pipeline.step(2)
    poison = pipeline.log.read(TOPIC)[3]
    pipeline.apply(poison.position)
    fence = Fence("pipeline/s", pipeline.log.next_epoch("pipeline/s", "c"))
    record(pipeline.log, "s", Quarantined(TOPIC, poison.position, "a bug", 0, ()), fence)
    for _ in range(3):
        pipeline.lose_worker()
        pipeline.step(2)
    return pipeline


def expected_without(pipeline: Pipeline) -> list[dict[str, int]]:
    return expected(marked(pipeline.log.read(TOPIC), bodies(pipeline.log, "s")))


def test_an_entry_in_quarantine_is_in_no_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = an_entry_goes_into_quarantine(monkeypatch)
    assert pipeline.published() == expected_without(pipeline) != all_expected(pipeline)


def test_a_snapshot_of_an_unwritten_batch_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mistake that the test before is for."""
    apply = ShardHost.apply

    def keeps_unwritten(host: ShardHost, start: int, end: int) -> AppliedBatch:
        applied = apply(host, start, end)
        host._snapshots.save(Snapshot(end, applied.digest, host._current.core.snapshot()))
        return applied

    monkeypatch.setattr(ShardHost, "apply", keeps_unwritten)
    pipeline = an_entry_goes_into_quarantine(monkeypatch)
    assert pipeline.published() != expected_without(pipeline)


def test_a_state_that_cannot_be_read_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = Pipeline(log_of(4))
    pipeline.step(2)
    pipeline.lose_worker()
    monkeypatch.setattr(Chain, "restore", lambda self, snapshot: {}["no such array"])
    with pytest.raises(StateError, match=r"state of shard 0 .*KeyError.* run with an empty --checkpoint folder"):
        pipeline.step(2)


class Forgetful(Chain):
    """Restores another state than it had."""

    def restore(self, snapshot: bytes) -> None:
        super().restore(snapshot)
        self.count += 1


def test_a_restore_that_publishes_something_else_is_refused() -> None:
    pipeline = Pipeline(log_of(6), Forgetful)
    pipeline.step(2)
    pipeline.lose_worker()
    with pytest.raises(Diverged, match="shard 0 has published something else up to position 2 than the first time"):
        pipeline.step(2)


def test_a_snapshot_one_entry_too_new_is_found_out() -> None:
    pipeline = Pipeline(log_of(9))
    pipeline.step(3)
    pipeline.step(3)
    ahead = Chain(0)
    ahead.apply(pipeline.log.read(TOPIC)[:4])
    digest = pipeline.log.read("batches.s")[0]
    first = rows.unpack(digest.payload).to_pylist()[0]["digest"]
    pipeline.snapshots.save(Snapshot(3, first, ahead.snapshot()))
    pipeline.lose_worker()
    with pytest.raises(Diverged):
        pipeline.step(3)


def test_a_batch_that_was_written_is_applied_as_it_was(tmp_path: Path) -> None:
    """It was applied carefully, and the process died before Spark knew: the next one is not careful."""

    class Joining(Chain):
        """Publishes one output per batch."""

        def apply(self, batch: Sequence[Entry]) -> list[Output]:
            return [Output("answers.chain", b"".join(output.payload for output in super().apply(batch)))]

    pipeline = Pipeline(log_of(6), Joining)
    pipeline.step(2)
    careful = Careful(str(tmp_path / "applying"), pipeline.log.end())
    pipeline.host = ShardHost(0, Joining, pipeline.source, pipeline.snapshots, careful=careful)
    applied = pipeline.apply(pipeline.log.read(TOPIC)[3].position)
    assert applied.one_by_one
    assert len(applied.outputs) == 2
    pipeline.write(applied)
    pipeline.lose_worker()
    assert pipeline.host.apply(2, applied.end) == applied
    pipeline.step(2)
    pipeline.lose_worker()
    pipeline.host.core(pipeline.position)


def test_a_checkpoint_older_than_the_log_is_found_out() -> None:
    pipeline = Pipeline(log_of(6))
    pipeline.step(2)
    pipeline.step(2)
    pipeline.lose_worker()
    with pytest.raises(StateError, match="its files are older than the log"):
        pipeline.host.apply(2, pipeline.log.read(TOPIC)[4].position)


def test_no_snapshot_is_no_fresh_start() -> None:
    pipeline = Pipeline(log_of(4))
    pipeline.step(2)
    pipeline.snapshots.by_position.clear()
    pipeline.lose_worker()
    with pytest.raises(StateError, match="no snapshot at or before position 2"):
        pipeline.step(2)


def test_batches_that_are_missing_are_not_guessed() -> None:
    pipeline = Pipeline(log_of(4))
    pipeline.step(2)
    pipeline.lose_worker()
    with pytest.raises(StateError, match="does not say which batches led from position 2 to 3"):
        pipeline.host.apply(3, 4)


def test_what_retention_took_is_not_stepped_over(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = Pipeline(log_of(9))
    pipeline.step(2)
    monkeypatch.setattr(shard_host, "DUE", -1.0)
    pipeline.step(2)
    pipeline.step(2)
    assert sorted(pipeline.snapshots.by_position) == [0, 2, pipeline.log.read(TOPIC)[3].position]
    pipeline.snapshots.by_position.popitem()
    pipeline.log.trim(TOPIC, 1 << 60, 3)
    pipeline.lose_worker()
    with pytest.raises(Deleted, match="must be restored from position 2, and retention has deleted entries up to 3"):
        pipeline.step(2)


def test_a_later_run_goes_on_with_the_first_core() -> None:
    """Another run's new core is another: of a newer epoch, for one."""

    class Salted(Chain):
        def __init__(self, shard: int, salt: int) -> None:
            super().__init__(shard)
            self.checksum = salt

    pipeline = Pipeline(log_of(4), lambda shard: Salted(shard, 1))
    pipeline.step(2)
    pipeline.factory = lambda shard: Salted(shard, 2)
    pipeline.lose_worker()
    pipeline.step(2)
    whole = Pipeline(log_of(4), lambda shard: Salted(shard, 1))
    whole.step(4)
    assert [row["sum"] for row in pipeline.published()] == [row["sum"] for row in whole.published()]


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> SnapshotFiles:
    return SnapshotFiles(tmp_path / "snapshots")


def snapshot(position: int, state: bytes = b"state\nof a shard") -> Snapshot:
    return Snapshot(position, b"digest", state)


def test_files_give_back_what_was_saved(files: SnapshotFiles) -> None:
    assert files.newest(100) is None
    for position in (0, 7, 20):
        files.save(snapshot(position, bytes([position])))
    assert files.newest(19) == snapshot(7, b"\x07")
    assert files.newest(20) == snapshot(20, b"\x14")


def test_a_snapshot_is_never_overwritten(files: SnapshotFiles) -> None:
    files.save(snapshot(7))
    files.save(snapshot(7, b"another"))
    assert files.newest(7) == snapshot(7)


def test_two_snapshots_are_kept_of_those_that_a_restart_can_use(files: SnapshotFiles, tmp_path: Path) -> None:
    for position in (0, 5, 7, 9):
        files.save(snapshot(position))
    assert files.prune(8) == 5
    assert [int(file.stem) for file in sorted((tmp_path / "snapshots").iterdir())] == [5, 7, 9]


@pytest.mark.parametrize("where", [0, 25, 60, -1])
def test_a_damaged_file_is_passed_over(
    files: SnapshotFiles, tmp_path: Path, where: int, caplog: pytest.LogCaptureFixture
) -> None:
    files.save(snapshot(5))
    files.save(snapshot(7))
    file = sorted((tmp_path / "snapshots").iterdir())[-1]
    data = bytearray(file.read_bytes())
    data[where] ^= 1
    file.chmod(0o600)
    file.write_bytes(data)
    with caplog.at_level(logging.WARNING):
        assert files.newest(7) == snapshot(5)
    assert "was passed over" in caplog.text


def test_files_are_private(files: SnapshotFiles, tmp_path: Path) -> None:
    files.save(snapshot(5))
    folder = tmp_path / "snapshots"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [file.stat().st_mode & 0o777 for file in folder.iterdir()] == [0o600]
