"""What a pipeline writes down of each batch, in the transaction of its outputs: the topic `batches.<pipeline>`.

A shard is restored from a snapshot by applying the same batches again. The digest of its outputs says whether that led
to the same state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from tolerant.transport.log import Log
from tolerant.transport.rows import pack, unpack
from tolerant.transport.topics import batches_topic

SCHEMA = pa.schema(
    [
        ("checkpoint", pa.string()),
        ("shard", pa.int32()),
        ("end", pa.int64()),
        ("one_by_one", pa.bool_()),
        ("digest", pa.binary()),
    ]
)


class DoneBatch(NamedTuple):
    """A batch of a shard whose outputs are in the log.

    end: the position up to which it read. one_by_one: its entries were applied one at a time (`Careful`).
    digest: of all that the shard has published up to there.
    """

    checkpoint: str
    shard: int
    end: int
    one_by_one: bool
    digest: bytes


def done_entry(pipeline: str, done: Iterable[DoneBatch]) -> tuple[str, bytes]:
    """The (topic, payload) that writes batches down."""
    rows = [batch._asdict() for batch in done]
    return batches_topic(pipeline), pack(pa.RecordBatch.from_pylist(rows, SCHEMA))


def done_batches(log: Log, pipeline: str, checkpoint: str, shard: int, after: int, until: int) -> list[DoneBatch]:
    """The batches of a shard that end behind `after` and not behind `until`, in their order.

    A record stands behind the entries that it is about, so those before `after` need not be read.
    """
    batches = [
        DoneBatch(*row)
        for entry in log.read(batches_topic(pipeline), after)
        for row in zip(*unpack(entry.payload, None).to_pydict().values(), strict=True)
    ]
    return [
        batch
        for batch in batches
        if batch.checkpoint == checkpoint and batch.shard == shard and after < batch.end <= until
    ]
