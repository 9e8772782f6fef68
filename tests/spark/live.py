"""A pipeline and its sources as real processes, started, killed and watched; and the audit of what they published."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path

from tolerant.client import Client
from tolerant.kernels.versions import epoch_of
from tolerant.queries import Answer
from tolerant.transport import open_log
from tolerant.transport.rows import unpack

HERE = Path(__file__).parent
STREAM = (
    "CREATE STREAM live (source STRING, item STRING, v DOUBLE) KEY (source, item)"
    " WITH (period = 2, lease = '5 s', latency = '2 s');"
)
PATIENCE = 120.0


class Live:
    """Everything in one folder: the log, checkpoints, journals, and what the processes printed."""

    def __init__(self, folder: Path, statements: str, stream: str = STREAM, patience: float = PATIENCE) -> None:
        self.folder, self.patience = folder, patience
        self.uri = f"sqlite:///{folder}/log.db"
        self.log = open_log(self.uri, create=True)
        self.file = folder / "app.sql"
        self.file.write_text(f"{stream}\n{statements}\n")
        self.sources: dict[str, subprocess.Popen[bytes]] = {}
        self.runs: list[subprocess.Popen[bytes]] = []

    def tolerant(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tolerant", *arguments, "--log", self.uri]
        return subprocess.run(command, capture_output=True, text=True, timeout=self.patience, check=False)

    def run(self, *options: str, checkpoint: str = "checkpoint") -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tolerant", "run", str(self.file), "--log", self.uri]
        command += ["--checkpoint", str(self.folder / checkpoint), *options]
        with open(self.folder / f"run-{len(self.runs)}.txt", "wb") as output:
            self.runs.append(subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True))
        return self.runs[-1]

    def start(self, name: str) -> None:
        seed = str(sum(name.encode()) + len(self.rows()))
        command = [sys.executable, str(HERE / "live_source.py"), self.uri, name, seed, str(self.folder / "journal.txt")]
        with open(self.folder / f"{name}.txt", "ab") as output:
            self.sources[name] = subprocess.Popen(command, stdout=output, stderr=output)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """SIGKILL, to the process and all it started."""
        group = process in self.runs
        (os.killpg if group else os.kill)(process.pid, signal.SIGKILL)
        process.wait(self.patience)

    def wait(self, condition: Callable[[], object], what: str) -> None:
        end = time.monotonic() + self.patience
        while not condition():
            if time.monotonic() > end:
                said = "".join(path.read_text()[-2000:] for path in sorted(self.folder.glob("run-*.txt")))
                raise TimeoutError(f"waited {self.patience} s for {what}; the runs said:\n{said}")
            time.sleep(0.2)

    def answers(self, query: str) -> list[Answer]:
        return Client(self.log).history(query)

    def settled_after(self, query: str, moment: int) -> bool:
        return any(answer.settled and answer.at > moment for answer in self.answers(query)[-50:])

    def wait_settled(self, query: str) -> None:
        now = time.time_ns() // 1000
        self.wait(lambda: self.settled_after(query, now), f"a settled answer of {query}")

    def rows(self) -> list[dict]:
        return [row for entry in self.log.read("updates.live") for row in unpack(entry.payload).to_pylist()]

    def close(self) -> None:
        for process in [*self.sources.values(), *self.runs]:
            if process.poll() is None:
                self.kill(process)
        self.log.close()


class Journal:
    """What was true when, by item; and when each source was dead."""

    def __init__(self, live: Live) -> None:
        self.values: dict[tuple[str, str], tuple[list[int], list[float]]] = {}
        for line in (live.folder / "journal.txt").read_text().splitlines():
            at, source, item, value = line.split()
            ats, values = self.values.setdefault((source, item), ([], []))
            ats.append(int(at))
            values.append(float(value))
        self.dead = deaths(live.rows())

    def truth(self, items: list[tuple[str, str]], at: int) -> list[float] | None:
        """The values of these items at a time; None if a source of theirs was dead, or not yet born."""
        found = []
        for source, item in items:
            ats, values = self.values.get((source, item), ([], []))
            index = bisect_right(ats, at) - 1
            if index < 0 or any(begin < at < end for begin, end in self.dead.get(source, [])):
                return None
            found.append(values[index])
        return found


def deaths(rows: list[dict]) -> dict[str, list[tuple[int, int]]]:
    """From the last `through` of each epoch of a source to the first row of its next."""
    last: dict[str, tuple[int, int]] = {}
    dead: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        if row["kind"] == "clock":
            continue
        source, epoch = row["source"], epoch_of(row["sequence"])
        before = last.get(source)
        if before is not None and epoch > before[0]:
            dead.setdefault(source, []).append((before[1], row["at"]))
        last[source] = (epoch, row["through"])
    for source, (_, through) in last.items():
        dead.setdefault(source, []).append((through, 2**62))
    return dead


def violations(
    live: Live, query: str, combine: Callable[[list[float]], float], within: Callable[[int], float]
) -> tuple:
    """(settled answers checked, those that were wrong) of a query over all items; `within` at the time of an answer."""
    journal = Journal(live)
    checked, wrong = 0, []
    for answer in live.answers(query):
        truth = journal.truth(sorted(journal.values), answer.at)
        if not answer.settled or truth is None or answer.low is None or answer.high is None:
            continue
        checked += 1
        exact, slack = combine(truth), 1e-9 * 1000
        if not (
            answer.low - slack <= exact <= answer.high + slack
            and answer.high - answer.low <= 2 * within(answer.at) + slack
        ):
            wrong.append((answer, exact))
    return checked, wrong
