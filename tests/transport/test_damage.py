"""A damaged log never gives values that were not appended: each flipped bit is unseen, or told."""

import random
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tolerant.transport import Damaged, LogError, SqliteLog, files, rows, stored
from tolerant.transport.common import compacted_batch
from tolerant.transport.files import wal_of
from tolerant.transport.topics import EPOCHS, is_compacted
from tolerant.transport.wal import checksums

Values = dict[str, object]


def fill(path: Path) -> None:
    """A log with all that logs have: large and small entries, trimmed topics, keys that changed and were forgotten."""
    chance = random.Random(7)
    log = SqliteLog(path, now=lambda: 1_000, create=True)
    log.register("checkpoint", "s", ["updates.s"])
    for step in range(60):
        log.append("updates.s", pa.record_batch({"value": [chance.random() for _ in range(chance.choice([3, 900]))]}))
        log.append("queries", pa.record_batch({"text": [f"statement {step}"]})) if step % 9 == 0 else None
        answers = rows.pack(pa.record_batch({"value": [float(step)]}))
        log.append_once("checkpoint", step, [(f"answers.q{step % 12}", answers), ("dead_letters.s", answers)])
        grants = [(f"item-{chance.randrange(90)}", step, f"{chance.random()}".encode()) for _ in range(8)]
        log.append("grants.s", compacted_batch({row[0]: row for row in grants}.values()))
        log.next_epoch(f"source/s/{step % 25}", "owner")
    log.append("grants.s", compacted_batch([("item-3", 100, None)]))
    log.pass_position("checkpoint", 200)
    log.trim("updates.s", before=2_000, limit=10)
    log.trim("dead_letters.s", before=2_000, limit=5)
    log.close()


def values(path: Path) -> Values:
    """All that a log gives to those who read it."""
    log = SqliteLog(path)
    try:
        topics = log.topics()
        found: Values = {"end": log.end(), "topics": topics, "id": log.id}
        found["trimmed"] = log.trimmed(["updates.s", "dead_letters.s"])
        for topic in topics:
            entries = log.read(topic)
            found[topic] = entries
            middle = entries[len(entries) // 2].position
            found[f"{topic} from the middle"] = log.read(topic, middle, 5)
            if is_compacted(topic):
                keys = [key for e in entries for key in rows.unpack(e.payload).column("key").to_pylist()]
                found[f"{topic} by key"] = [log.latest(topic, key) for key in keys]
            else:
                found[f"{topic} furthest"] = log.advance([topic], middle, 7, 10_000)
        return found
    finally:
        log.close()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Values]:
    path = tmp_path_factory.mktemp("sound") / "log.db"
    fill(path)
    return path, values(path)


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def outcome(sound: tuple[Path, Values], folder: Path, bit: int) -> str:
    """What comes of one flipped bit in a copy of the log: "told", "unseen" or "wrong"."""
    path = folder / "log.db"
    for name in folder.iterdir():
        name.unlink()
    shutil.copy(sound[0], path)
    flip(path, bit)
    try:
        return "unseen" if values(path) == sound[1] else "wrong"
    except LogError:
        return "told"


def bits(path: Path, seed: int) -> Iterator[int]:
    """Bits of the file: half of them anywhere, half at the heads of pages, where SQLite keeps their order."""
    chance, size = random.Random(seed), path.stat().st_size
    while True:
        yield chance.randrange(8 * size)
        yield 8 * 4096 * chance.randrange(size // 4096) + chance.randrange(8 * 120)


def check_flips(sound: tuple[Path, Values], folder: Path, seed: int, most: int, seconds: float) -> None:
    counts = {"told": 0, "unseen": 0}
    end = time.monotonic() + seconds
    for bit in bits(sound[0], seed):
        result = outcome(sound, folder, bit)
        assert result != "wrong", f"bit {bit} of {sound[0].stat().st_size * 8} gives other values, and no error"
        counts[result] += 1
        if sum(counts.values()) >= most or time.monotonic() > end:
            break
    assert counts["told"] > 0


def test_flipped_bits_never_give_other_values(sound: tuple[Path, Values], tmp_path: Path) -> None:
    check_flips(sound, tmp_path, seed=1, most=400, seconds=15.0)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_many_flipped_bits_never_give_other_values(sound: tuple[Path, Values], tmp_path: Path) -> None:
    check_flips(sound, tmp_path, seed=time.time_ns(), most=5_000, seconds=1500.0)


def test_records_that_an_index_lost_are_noticed(path: Path) -> None:
    """Search in a page goes astray where one of its cells is damaged: rows are passed over, and none is other."""
    connection = sqlite3.connect(path)
    (page,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'compacted_by_change'").fetchone()
    plan = connection.execute(f"EXPLAIN QUERY PLAN {stored._BY_KEY}", ("epochs",)).fetchall()
    connection.close()
    assert "PRIMARY KEY" in plan[0][3]
    content, expected = path.read_bytes(), values(path)
    found: list[str] = []
    for bit in range(8 * 4096 * (page - 1), 8 * 4096 * page, 211):
        path.write_bytes(content)
        flip(path, bit)
        try:
            assert values(path) == expected, f"bit {bit} gives other values, and no error"
        except LogError as error:
            found.append(str(error))
    assert any("are missing" in message for message in found)


def test_a_flipped_bit_in_the_write_ahead_log_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite itself would drop all that stands behind it, accepted as it was."""
    monkeypatch.setattr(files, "_PAUSE", 0.0)
    log = SqliteLog(tmp_path / "log.db", create=True)
    wal, chance = wal_of(log.path), random.Random(5)
    for step in range(20):
        accepted = wal.stat().st_size
        log.append("updates.s", pa.record_batch({"value": [float(step)] * chance.choice([3, 900])}))
    copies = tmp_path / "copies"
    copies.mkdir()
    anywhere, header = [chance.randrange(8 * accepted) for _ in range(60)], range(0, 8 * 32, 5)
    for number, bit in enumerate((None, *anywhere, *header)):
        copy = copies / f"{number}.db"
        shutil.copy(log.path, copy)
        shutil.copy(wal, wal_of(copy))
        if bit is None:
            assert SqliteLog(copy).read("updates.s") == log.read("updates.s")
            continue
        flip(wal_of(copy), bit)
        for _ in range(2):  # nothing is dropped by looking at it
            with pytest.raises(Damaged, match="rows that were accepted"):
                SqliteLog(copy)
    log.close()


def test_a_transaction_that_was_cut_off_is_not_damage(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db", create=True)
    for step in range(5):
        whole = wal_of(log.path).stat().st_size
        log.append("updates.s", pa.record_batch({"value": [float(step)] * 2_000}))
    data, expected = wal_of(log.path).read_bytes(), log.read("updates.s")[:-1]
    for number, size in enumerate(range(whole, len(data), 3_000)):
        copy = tmp_path / f"{number}.db"
        shutil.copy(log.path, copy)
        wal_of(copy).write_bytes(data[:size] + bytes(len(data) - size) * (number % 2))
        assert SqliteLog(copy).read("updates.s") == expected
    log.close()


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_checksums_of_the_write_ahead_log_are_sqlites(seed: int, pairs: int) -> None:
    chance = np.random.default_rng(seed)
    before, words = (chance.integers(0, 2**32, (3, count), np.uint32) for count in (2, 2 * pairs))
    for row, (s, t) in enumerate(checksums(before, words).tolist()):
        first, second = before[row].tolist()
        for x, y in words[row].reshape(-1, 2).tolist():
            first = (first + second + x) % 2**32
            second = (second + first + y) % 2**32
        assert (s, t) == (first, second)


# -- what is said ----------------------------------------------------------------------------------------------------


def damage(path: Path, statement: str) -> None:
    other = sqlite3.connect(path)
    assert other.execute(statement).rowcount == 1
    other.commit()
    other.close()


@pytest.fixture
def path(sound: tuple[Path, Values], tmp_path: Path) -> Path:
    shutil.copy(sound[0], tmp_path / "log.db")
    return tmp_path / "log.db"


def test_a_changed_entry_is_named_and_can_be_stepped_over(path: Path, sound: tuple[Path, Values]) -> None:
    whole = sound[1]["updates.s"]
    at = whole[5].position
    damage(path, f"UPDATE entries SET payload = x'00' WHERE position = {at}")
    log = SqliteLog(path)
    with pytest.raises(Damaged, match=rf"entry of topic 'updates.s' at position {at} is damaged.*log verify") as raised:
        log.read("updates.s")
    assert (raised.value.topic, raised.value.position) == ("updates.s", at)
    assert log.read("updates.s", limit=5) == whole[:5]
    assert log.read("updates.s", at) == whole[6:]
    log.close()


@pytest.mark.parametrize("which", [0, 5, -1])
def test_a_missing_entry_is_noticed(path: Path, sound: tuple[Path, Values], which: int) -> None:
    at = sound[1]["updates.s"][which].position
    damage(path, f"DELETE FROM entries WHERE position = {at}")
    log = SqliteLog(path)
    with pytest.raises(Damaged, match=r"entries of topic 'updates.s' after position \d+, up to \d+, are missing"):
        log.read("updates.s")
    with pytest.raises(Damaged):
        log.advance(["updates.s"], 0, 1000, 1 << 30)
    log.close()


def test_a_changed_record_is_named(path: Path) -> None:
    damage(path, "UPDATE compacted SET version = version + 1 WHERE topic = 'epochs' AND key = 'source/s/3'")
    log = SqliteLog(path)
    uses = (lambda: log.latest(EPOCHS, "source/s/3"), lambda: log.read(EPOCHS), lambda: log.next_epoch("source/s/3"))
    for use in uses:
        with pytest.raises(Damaged, match=r"record of 'source/s/3' in the compacted topic 'epochs'") as raised:
            use()
        assert (raised.value.topic, raised.value.key) == (EPOCHS, "source/s/3")
    assert log.next_epoch("source/s/4") == 4  # of others nothing is wrong
    log.close()


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        ("UPDATE entries SET payload = x'00' WHERE position = 203", "at position 203: the checksum is another"),
        ("DELETE FROM entries WHERE position = 203", "are missing"),
        ("UPDATE compacted SET body = x'00' WHERE key = 'source/s/3'", "'source/s/3' in topic 'epochs'"),
        ("UPDATE batches SET batch = batch + 1", "batches of checkpoint checkpoint"),
        ("UPDATE topics SET last = last + 1 WHERE topic = 'queries'", "topic 'queries'"),
    ],
)
def test_verify_finds_it_and_a_backup_is_refused(path: Path, statement: str, finding: str) -> None:
    log = SqliteLog(path)
    before = log.verify()
    assert before.findings == ()
    assert before.topics == len(log.topics())
    assert before.entries == sum(len(log.read(topic)) for topic in log.topics() if not is_compacted(topic))
    damage(path, statement)
    found = log.verify().findings
    assert any(finding in line for line in found), found
    with pytest.raises(Damaged, match="was not backed up, it is damaged"):
        log.backup(path.with_name("backup.db"))
    assert not path.with_name("backup.db").exists()
    log.close()
