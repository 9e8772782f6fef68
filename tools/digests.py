"""Digests of what the system does, to prove that a change of its inside changed nothing outside.

    .venv/bin/python tools/digests.py --write     record the digests in tools/digests.json
    .venv/bin/python tools/digests.py             compare with them; exit 1 and name every run that differs
    .venv/bin/python tools/digests.py --show "faults: streams" 3    what one of them is of, to be compared with diff

One digest per seed of every fault simulator, per `simulate` run of every core and per history of every kind of shard.
A digest covers values, times and the order of rows in each topic to the bit. The order across topics is left out, and
so is how rows are cut into entries: nobody may rely on them. So are the records of batches, which say how the log was
cut, and hash all topics in one order. Random ids count by their first appearance. Names go through
`tools/renamed.json` (old name → new name), so that the code before and after a renaming gives the same digests.
`docs/testing.md` says what has changed on purpose.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RECORDED = HERE / "digests.json"
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RANDOM_ID = re.compile(r"\b[0-9a-f]{32}\b")
_MARKED = re.compile(r"\0([0-9a-f]{32})\0")
_LEFT_OUT = "batches."


class Digest:
    """The canonical form of values, and its hash."""

    def __init__(self, renamed: Mapping[str, str]) -> None:
        self._renamed = renamed
        self._topics: dict[tuple[int, str], list[str]] = {}  # number of a log and topic → its rows
        self._results: list[str] = []

    def add(self, value: Any) -> None:
        """Add a result: numbers to the bit, text with its names replaced, containers in their order."""
        self._results.append(self._canonical(value))

    def add_row(self, log: int, topic: str, row: Any) -> None:
        """Add a row, or an entry that is none, of a log's topic; its place among other topics' does not count."""
        self._topics.setdefault((log, topic), []).append(self._canonical(row))

    def text(self) -> str:
        """The canonical form of everything that was added: topic by topic, then the results."""
        ids: dict[str, str] = {}  # random id → its number, by first appearance
        order = sorted(self._topics, key=lambda key: (key[0], _RANDOM_ID.sub("id", key[1])))
        lines = [f"{self._canonical(topic)} {line}\n" for log, topic in order for line in self._topics[log, topic]]
        return _MARKED.sub(lambda match: ids.setdefault(match[1], f"id-{len(ids)}"), "".join(lines + self._results))

    def hex(self) -> str:
        """The hash of it."""
        return hashlib.sha256(self.text().encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def _canonical(self, value: Any) -> str:
        if value is None or isinstance(value, bool | int):
            return repr(value)
        if isinstance(value, float):
            return value.hex()
        if isinstance(value, str):
            return self._names(value)
        if isinstance(value, bytes):
            return self._of_bytes(value)
        if isinstance(value, Mapping):
            return "{" + ",".join(f"{self._canonical(k)}:{self._canonical(v)}" for k, v in value.items()) + "}"
        if isinstance(value, set | frozenset):
            return "{" + ",".join(sorted(map(self._canonical, value))) + "}"
        if isinstance(value, Sequence | Iterator):
            return "[" + ",".join(map(self._canonical, value)) + "]"
        if is_dataclass(value):
            return self._canonical([getattr(value, field.name) for field in fields(value)])
        if hasattr(value, "tolist"):  # an array or a number of NumPy's
            return self._canonical(value.tolist())
        raise TypeError(f"no canonical form of {type(value)}")

    def _names(self, text: str) -> str:
        text = json.dumps(_WORD.sub(lambda match: self._renamed.get(match[0], match[0]), text))
        return _RANDOM_ID.sub(r"\0\g<0>\0", text)

    def _of_bytes(self, value: bytes) -> str:
        try:
            return self._names(value.decode())
        except UnicodeDecodeError:
            return value.hex()


def renamed() -> dict[str, str]:
    """Old name → new name, of everything that is written into the log."""
    file = HERE / "renamed.json"
    return json.loads(file.read_text()) if file.exists() else {}


@contextmanager
def entries_into(digest: Digest) -> Iterator[None]:
    """Add every entry that is appended to any log in memory to the digest."""
    from tolerant.transport import MemoryLog
    from tolerant.transport.rows import unpack
    from tolerant.transport.topics import SEVERAL

    append = MemoryLog.append_packed
    logs: list[MemoryLog] = []

    def recorded(log: MemoryLog, entries: Sequence[tuple[str, bytes]]) -> int:
        number = next((number for number, known in enumerate(logs) if known is log), len(logs))
        if number == len(logs):
            logs.append(log)
        for topic, payload in entries:
            if topic.startswith(_LEFT_OUT):
                continue
            try:
                batch = unpack(payload)
            except ValueError:
                digest.add_row(number, topic, payload)
            else:
                for row in batch.to_pylist():
                    digest.add_row(number, row["topic"] if topic == SEVERAL else topic, row)
        return append(log, entries)

    setattr(MemoryLog, "append_packed", recorded)  # noqa: B010 - a method, replaced for a while
    try:
        yield
    finally:
        MemoryLog.append_packed = append


def played(name: str, seed: int) -> Digest:
    """One run, played."""
    from digested_runs import RUNS

    digest = Digest(renamed())
    with entries_into(digest):
        digest.add(RUNS[name][1](seed))
    return digest


def digest_of(name: str, seed: int) -> tuple[str, int, str]:
    """The digest of one run."""
    return name, seed, played(name, seed).hex()


def _pair(job: tuple[str, int]) -> tuple[str, int, str]:
    return digest_of(*job)


def all_digests(only: Callable[[str], bool], most: int, processes: int) -> dict[str, list[str]]:
    """The digests of every run, by name and seed; of at most so many seeds."""
    from digested_runs import RUNS

    numbers = {name: min(seeds, most) for name, (seeds, _) in RUNS.items() if only(name)}
    jobs = [(name, seed) for name, number in numbers.items() for seed in range(number)]
    digests: dict[str, dict[int, str]] = {}
    began = time.monotonic()
    with get_context("spawn").Pool(processes) as pool:
        for name, seed, text in pool.imap(_pair, jobs, chunksize=5):
            digests.setdefault(name, {})[seed] = text
            if seed == numbers[name] - 1:
                print(f"{time.monotonic() - began:6.0f} s  {name}", flush=True)
    return {name: [texts[seed] for seed in sorted(texts)] for name, texts in digests.items()}


def main() -> None:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="record the digests instead of comparing with them")
    parser.add_argument("--only", nargs="+", default=[""], help="runs whose names contain one of these texts")
    parser.add_argument("--seeds", type=int, default=200, help="compare only so many seeds of each")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--show", nargs=2, metavar=("RUN", "SEED"), help="print what one digest is of")
    arguments = parser.parse_args()
    if arguments.show:
        print(played(arguments.show[0], int(arguments.show[1])).text())
        return
    os.environ["PYTHONHASHSEED"] = "0"
    digests = all_digests(
        lambda name: any(text in name for text in arguments.only), arguments.seeds, arguments.processes
    )
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    if arguments.write:
        lines = (f"{json.dumps(name)}: {json.dumps(texts)}" for name, texts in sorted((recorded | digests).items()))
        RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        return
    different = {
        name: [seed for seed, text in enumerate(texts) if [text] != recorded.get(name, [])[seed : seed + 1]]
        for name, texts in digests.items()
        if texts != recorded.get(name, [])[: len(texts)]
    }
    for name, seeds in different.items():
        print(f"{name}: {len(seeds)} of {len(digests[name])} differ, seeds {seeds[:10]}")
    print(f"{sum(map(len, digests.values()))} digests, {sum(map(len, different.values()))} differ")
    sys.exit(bool(different))


if __name__ == "__main__":
    sys.path[:0] = [str(HERE), str(HERE.parent / "tests" / "fuzz"), str(HERE.parent / "tests" / "spark")]
    main()
