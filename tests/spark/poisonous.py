"""Shards with a bug: an update to POISON raises, or kills the worker."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

from tolerant.kinds.bounded.shard import BoundedShard
from tolerant.pipeline.intake import ACK, Arrived
from tolerant.streams import Stream

POISON = 666.0


@dataclass(frozen=True)
class Poisonous:
    """Makes such shards; travels to the workers."""

    stream: Stream
    epoch: int
    checkpoint: str
    kills: bool

    def __call__(self, shard: int) -> BoundedShard:
        return _Broken(self, shard)


class _Broken(BoundedShard):
    def __init__(self, made: Poisonous, shard: int) -> None:
        super().__init__(made.stream, shard, made.epoch, made.checkpoint)
        self._kills = made.kills

    def _take_arrived(self, arrived: Arrived, partition: int) -> None:
        if ((arrived.rows["value"] == POISON) & (arrived.rows["kind"] != ACK)).any():
            if self._kills:
                os.kill(os.getpid(), signal.SIGKILL)
            raise ZeroDivisionError("a bug")
        super()._take_arrived(arrived, partition)
