"""From the start of `tolerant run` to its first answer, phase by phase, with and without what makes starts quick.

The log holds a stream's statements and rows, so the first batch answers. The runs are interleaved: on a busy machine
the seconds say little, the processor seconds and their ratios more. The machine's file cache is warm.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from side_by_side import Figure, arguments, report
from tolerant.client.answer_listener import current_answers
from tolerant.demo.prepare import ready_log, record_classes
from tolerant.spark.phases import processor_seconds

WITHOUT = {
    "as it is": "",
    "no archive of classes": "import tolerant.spark.session as s; s.archive_options = lambda home: ''",
    "a look for other data sources": "import tolerant.spark.pipeline as p; p._look_for_no_others = lambda spark: None",
}
"""What is taken away, as a program that runs before `tolerant run`."""

_PHASE = re.compile(r" s    (.+?): ([\d.]+) s, ([\d.]+) s of processor time")
_PATIENCE = 300.0  # seconds for a start on a busy machine


@dataclass
class Start:
    """A start: seconds and processor seconds, and those of its phases."""

    seconds: float
    processor: float
    phases: dict[str, tuple[float, float]] = field(default_factory=dict)


def main() -> None:
    rounds = 1 if arguments(__doc__ or "").quick else 3
    record_classes()  # if there is none yet
    starts = defaultdict(list)
    for _ in range(rounds):
        for name, program in WITHOUT.items():
            starts[name].append(start(program))
    figures = []
    for name in WITHOUT:
        figures.append(Figure(f"{name}: first answer", _median(s.seconds for s in starts[name]), "s"))
        figures.append(Figure(f"{name}: until then", _median(s.processor for s in starts[name]), "processor s"))
    for phase in starts["as it is"][0].phases:
        seconds, processor = zip(*(s.phases[phase] for s in starts["as it is"]), strict=True)
        figures.append(Figure(phase, _median(seconds), "s"))
        figures.append(Figure(phase, _median(processor), "processor s"))
    sys.exit(0 if report("start-phases", {"rounds": rounds}, figures) else 1)


def start(program: str) -> Start:
    """Start on a log of its own, wait for the first answer, and end."""
    with tempfile.TemporaryDirectory() as folder:
        log = ready_log(Path(folder))
        file, output = Path(folder) / "empty.sql", Path(folder) / "output.txt"
        file.write_text("")
        command = [sys.executable, "-c", f"{program}\nfrom tolerant.cli import main; main()", "run", str(file)]
        began = time.monotonic()
        with output.open("w") as written:
            options = ["--log", log.uri, "--clock", "log", "--verbose"]
            process = subprocess.Popen([*command, *options], stdout=written, stderr=subprocess.STDOUT)
        try:
            while not current_answers(log, "inbound"):
                if process.poll() is not None or time.monotonic() - began > _PATIENCE:
                    raise RuntimeError(f"no answer: {output.read_text()}")
                time.sleep(0.02)
            found = Start(time.monotonic() - began, processor_seconds(psutil.Process(process.pid)))
            time.sleep(1.0)  # the last phase is written after its answers
        finally:
            process.terminate()
            process.wait(60)
            log.close()
        for name, seconds, processor in _PHASE.findall(output.read_text()):
            found.phases[name] = (float(seconds), float(processor))
        return found


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


if __name__ == "__main__":
    main()
