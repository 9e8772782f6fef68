"""200 sensors in three processes, killed and started again, and so is the pipeline: no settled answer of any aggregate
is ever wrong, from the first second on, and no source is late by its own doing. In `make test` for half a minute with
a pipeline of one process; in `make soak` for as long as TOLERANT_TRUTH_SECONDS says (default: 20 minutes) with
`tolerant run`.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from truth_checker import LateRow, Truth, Verdict, check, late_rows, lives, undue

from tolerant.client import Client, StatementClient
from tolerant.streams import SECOND, StreamOptions
from tolerant.transport import open_log
from tolerant.transport.common import wall_clock
from tolerant.transport.rows import unpack

HERE = Path(__file__).parent
SENSORS, PROCESSES = 200, 3
LEASE, LATENCY = 6 * SECOND, StreamOptions.latency
PATIENCE = 300.0
"""Seconds that anything may take: processes start slowly on a machine that is busy with others."""
WITHIN = {"count": 0.0, "sum": 200.0, "avg": 1.5, "min": 2.0, "max": 2.0}
STATEMENTS = "CREATE STREAM plant (sensor STRING, v DOUBLE) KEY (sensor) WITH (period = 5, lease = '6 s');"
STATEMENTS += "".join(
    f"\nCREATE QUERY {fn} AS SELECT {fn.upper()}(v) FROM plant WITHIN {within};" for fn, within in WITHIN.items()
)


class Plant:
    """The log, the sensors' processes and a pipeline, in one folder."""

    def __init__(self, folder: Path, pipeline: Callable[[str, Path], list[str]]) -> None:
        self.folder, self.uri = folder, f"sqlite:///{folder}/log.db"
        self.log, self._pipeline = open_log(self.uri, create=True), pipeline
        (folder / "app.sql").write_text(STATEMENTS)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.kills = 0
        self.disturbances: list[int] = []
        """When a process was killed or started."""

    def start(self, name: str) -> None:
        self.disturbances.append(wall_clock())
        if name == "pipeline":
            command = self._pipeline(self.uri, self.folder)
        else:
            number = int(name[-1])
            first, last = number * SENSORS // PROCESSES, (number + 1) * SENSORS // PROCESSES
            command = [str(HERE / "sensors.py"), self.uri, name, str(first), str(last), str(self.journal(name))]
        with open(self.folder / f"{name}.txt", "ab") as output:
            self.processes[name] = subprocess.Popen(
                [sys.executable, *command], stdout=output, stderr=output, start_new_session=True
            )

    def kill(self, name: str) -> None:
        self.disturbances.append(wall_clock())
        process = self.processes.pop(name)
        assert process.poll() is None, (self.folder / f"{name}.txt").read_text()[-3000:]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self.kills += 1

    def journal(self, name: str) -> Path:
        return self.folder / f"{name}.journal"

    @property
    def names(self) -> list[str]:
        return [f"sensors-{number}" for number in range(PROCESSES)]

    def watermark(self) -> int:
        return max((answer.at for query in WITHIN for answer in Client(self.log).current(query)), default=0)

    def wait(self, condition: Callable[[], object], what: str, patience: float) -> None:
        end = time.monotonic() + patience
        while not condition():
            assert time.monotonic() < end, f"waited {patience} s for {what}"
            for name, process in self.processes.items():
                assert process.poll() is None, (self.folder / f"{name}.txt").read_text()[-3000:]
            time.sleep(0.1)

    def settled(self, query: str) -> bool:
        return any(answer.settled for answer in Client(self.log).current(query))

    def verdict(self) -> tuple[Verdict, list[LateRow]]:
        """What came of it, and the late appends that nothing excuses. After the end: answers that come while the rows
        are read would be held against a log that has not got theirs.
        """
        assert not self.processes
        rows = [row for entry in self.log.read("updates.plant") for row in unpack(entry.payload).to_pylist()]
        spans = lives(rows)
        truth = Truth({name: self.journal(name) for name in self.names}, spans, SENSORS)
        answers = {query: Client(self.log).history(query) for query in WITHIN}
        end = max(answer.at for listed in answers.values() for answer in listed)
        late = late_rows(rows, LATENCY)
        verdict = check(answers, WITHIN, truth, spans, late, lease=LEASE, end=end)
        return verdict, undue(verdict.late, spans, self.disturbances)

    def stop(self) -> None:
        """Kill everything, the pipeline first."""
        for name in sorted(self.processes):
            self.kill(name)

    def close(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.log.close()


def plain(uri: str, folder: Path) -> list[str]:
    return [str(HERE / "plain_pipeline.py"), uri, "plant", str(folder)]


def on_spark(uri: str, folder: Path) -> list[str]:
    return ["-m", "tolerant", "run", str(folder / "app.sql"), "--log", uri, "--checkpoint", str(folder / "checkpoint")]


def report(plant: Plant, seconds: float) -> Verdict:
    plant.stop()
    verdict, late = plant.verdict()
    print(
        f"\n{SENSORS} sensors in {PROCESSES} processes, {seconds:.0f} s, {plant.kills} kills: settled answers checked "
        f"{verdict.checked}, at {verdict.moments} moments; {len(verdict.late)} late appends; "
        f"{len(verdict.broken)} broken promises"
    )
    assert not verdict.broken, verdict.broken[:5]
    assert not late, late[:5]
    return verdict


@pytest.mark.timeout(1000)
def test_no_settled_answer_is_wrong_through_kills(tmp_path: Path) -> None:
    plant = Plant(tmp_path, plain)
    try:
        for statement in StatementClient(plant.log).parse(STATEMENTS):
            StatementClient(plant.log).send(statement)
        began = time.monotonic()
        for name in ("pipeline", *plant.names):
            plant.start(name)
        plant.wait(lambda: all(map(plant.settled, WITHIN)), "settled answers", PATIENCE)
        plant.kill("sensors-1")
        time.sleep(2)
        plant.kill("pipeline")
        plant.start("pipeline")
        plant.wait(lambda: not plant.settled("sum"), "an answer that is not settled", PATIENCE)
        plant.start("sensors-1")
        plant.wait(lambda: all(map(plant.settled, WITHIN)), "settled answers again", PATIENCE)
        plant.kill("pipeline")
        plant.kill("sensors-2")
        plant.start("pipeline")
        time.sleep(3)
        verdict = report(plant, time.monotonic() - began)
        assert set(verdict.checked) == set(WITHIN)
        assert verdict.moments > 50
    finally:
        plant.close()


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(14400)
def test_no_settled_answer_is_wrong_in_the_long_run(tmp_path: Path) -> None:
    seconds, chance = float(os.environ.get("TOLERANT_TRUTH_SECONDS", "1200")), random.Random(20)
    plant = Plant(tmp_path, on_spark)
    try:
        began = time.monotonic()
        plant.start("pipeline")
        plant.wait(lambda: plant.log.read("updates.plant"), "the pipeline", PATIENCE)
        for name in plant.names:
            plant.start(name)
        plant.wait(lambda: all(map(plant.settled, WITHIN)), "settled answers", PATIENCE)
        while time.monotonic() - began < seconds:
            time.sleep(chance.uniform(3, 25))
            victim = chance.choice(["pipeline", *plant.names, *plant.names])
            plant.kill(victim)
            time.sleep(chance.choice([0.0, 1.0, 4.0, 12.0]) if victim != "pipeline" else 0.0)
            plant.start(victim)
            plant.wait(lambda: all(map(plant.settled, WITHIN)), f"settled answers after a kill of {victim}", PATIENCE)
        verdict = report(plant, time.monotonic() - began)
        assert set(verdict.checked) == set(WITHIN)
    finally:
        plant.close()
