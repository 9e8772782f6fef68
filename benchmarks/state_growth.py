"""Whether state grows with rows: an hour of events in trace time through the real pipeline, sizes sampled all along.

The state of a shard (its snapshot) is measured by giving the log's entries to a shard in this process; the checkpoint's
files and the memory of the pipeline's Python processes on the real thing. Flat: the last quarter is no more than a
fifth above the second (in the first, items and queries arrive). The files have no bar: Spark keeps those of the last
hundred batches, and an hour of events in trace time is hardly more batches than that.
"""

from __future__ import annotations

import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import psutil

from side_by_side import Figure, arguments, report
from tolerant.client import load_catalogue
from tolerant.demo.pipeline import DemoPipeline, log_uri
from tolerant.demo.run import Outcome, perform
from tolerant.demo.traffic import STREAM, Shape
from tolerant.demo.view import Moment
from tolerant.kinds.bounded.shard import BoundedShard
from tolerant.transport import open_log

FLAT = 1.2
Sample = tuple[int, float, float]
"""Boundaries passed, megabytes of the checkpoint, megabytes of memory of the Python processes."""


def main() -> None:
    quick = arguments(__doc__ or "").quick
    shape = Shape(ticks=600 if quick else 3_700)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        samples, outcome = play(folder, shape)
        snapshots = snapshot_sizes(log_uri(folder))
    figures = [
        *growth("state of the shard", "kB", snapshots, judge=not quick),
        *growth("files of the checkpoint", "MB", quarters(samples, 1), judge=False),
        *growth("memory of Python processes", "MB", quarters(samples, 2), judge=not quick),
        Figure("rows", sum(outcome.costs[-1].messages.values()), ""),
        Figure("broken promises", outcome.audit.violations, "", "0", outcome.audit.violations == 0),
    ]
    inputs = {"seconds of events": shape.ticks, "items": len(outcome.trace.items), "boundaries": outcome.boundaries}
    sys.exit(0 if report("state-growth", inputs, figures) else 1)


def growth(name: str, unit: str, sizes: list[float], *, judge: bool) -> list[Figure]:
    """A figure a quarter, and the growth from the second to the last."""
    ratio = sizes[3] / sizes[1]
    each = [Figure(f"{name}, quarter {n + 1}", size, unit) for n, size in enumerate(sizes)]
    bar = (f"≤ {FLAT}", ratio <= FLAT) if judge else ("", None)
    return [*each, Figure(f"{name}, last over second", ratio, "×", *bar)]


def play(folder: Path, shape: Shape) -> tuple[list[Sample], Outcome]:
    samples: list[Sample] = []
    sampled = [0.0]

    def show(moment: Moment) -> None:
        if moment.boundaries and time.monotonic() - sampled[0] > 2:
            sampled[0] = time.monotonic()
            samples.append((moment.boundaries, checkpoint_size(folder / "checkpoint"), python_memory()))

    pipeline = DemoPipeline(folder, "local[2]", shape)
    outcome = perform(folder, shape, lambda log: pipeline, began=time.time(), show=show)
    return samples, outcome


def quarters(samples: list[Sample], column: int) -> list[float]:
    """The median of a column in each quarter of the boundaries."""
    table = np.array(samples)
    edges = np.linspace(0, table[-1, 0], 5)
    parts = [table[(table[:, 0] > low) & (table[:, 0] <= high), column] for low, high in pairwise(edges)]
    return [float(np.median(part)) if len(part) else float("nan") for part in parts]


def snapshot_sizes(uri: str) -> list[float]:
    """Kilobytes of a shard's snapshot after each quarter of the log."""
    log = open_log(uri, create=True)
    shard = BoundedShard(load_catalogue(log).streams[STREAM], 0, 1, "bench")
    entries = log.read([f"updates.{STREAM}", "queries"])
    cuts = np.linspace(0, len(entries), 5).astype(int)
    sizes = []
    for first, last in pairwise(cuts):
        shard.apply(entries[first:last])
        sizes.append(len(shard.snapshot()) / 1e3)
    log.close()
    return sizes


def checkpoint_size(folder: Path) -> float:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue  # Spark has just cleaned it up
    return total / 1e6


def python_memory() -> float:
    total = 0
    for process in psutil.Process().children(recursive=True):
        try:
            if "python" in process.name():
                total += process.memory_info().rss
        except psutil.Error:
            continue  # it has just ended
    return total / 1e6


if __name__ == "__main__":
    main()
