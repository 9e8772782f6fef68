"""A pipeline without Spark, for checks that kill it: a shard, a clock, and a checkpoint on disk.

Run as: python plain_pipeline.py LOG STREAM FOLDER. A batch that was begun is done again as it was, and its outputs are
written once.
"""

import os
import pickle
import sys
import time
from pathlib import Path
from typing import Any

from tolerant.edge import find_stream
from tolerant.kinds.bounded.shard import BoundedShard
from tolerant.transport import open_log
from tolerant.transport.log import START
from tolerant.transport.rows import clock_batch
from tolerant.transport.topics import QUERIES

CHECKPOINT = "plain"
CLOCK = 0.1  # seconds


def keep(path: Path, what: object) -> None:
    """Write a file whole or not at all."""
    new = path.with_suffix(".new")
    new.write_bytes(pickle.dumps(what))
    os.replace(new, path)


def kept(path: Path, default: Any) -> Any:
    return pickle.loads(path.read_bytes()) if path.exists() else default


def main(uri: str, name: str, folder: str) -> None:
    log, home = open_log(uri), Path(folder)
    stream = find_stream(log, name, 60)
    topics, epoch = (f"updates.{name}", QUERIES), log.next_epoch(f"pipeline/{name}", CHECKPOINT)
    batch, position, snapshot, born = kept(home / "state", (0, START, None, epoch))
    shard = BoundedShard(stream, 0, born, CHECKPOINT)
    if snapshot is not None:
        shard.restore(snapshot)
    while True:
        began = time.monotonic()
        log.append(topics[0], clock_batch(time.time_ns() // 1000, epoch, CHECKPOINT))
        begun, end = kept(home / "plan", (0, START))
        if begun != batch + 1:
            begun, end = batch + 1, log.end()
            keep(home / "plan", (begun, end))
        entries = [entry for entry in log.read(topics, position) if entry.position <= end]
        outputs = shard.apply(entries)
        log.append_once(CHECKPOINT, begun, [(output.topic, output.payload) for output in outputs])
        batch, position = begun, end
        keep(home / "state", (batch, position, shard.snapshot(), born))
        time.sleep(max(0.0, CLOCK - (time.monotonic() - began)))


if __name__ == "__main__":
    main(*sys.argv[1:])
