"""Routes rows to shards: `WITH (shards = n, shard = column)`.

Every row of an item goes to the shard of its key; clock rows, beats and statements go to all. Where a source's rows
all went elsewhere, a shard gets a heartbeat in their place, made from the last of them: else it would take a source
that
is busy with other shards' items for a dead one. All of it is a function of the payload alone, so a batch that is run
again is split alike.
"""

from __future__ import annotations

import json
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tolerant.streams import Stream, is_sum, key_parts, shard_of_sum
from tolerant.transport import rows
from tolerant.transport.log import Entry
from tolerant.transport.quarantine import is_marked
from tolerant.transport.topics import QUERIES

_FOR_ALL = ("clock", "heartbeat")


@lru_cache(maxsize=1 << 20)
def shard_of(key: str, stream: Stream) -> int:
    """The shard that an item belongs to; `key` as `key_text` wrote it. The same in every process and release.

    Raises:
        ValueError: the text is not a key of the stream.
    """
    if is_sum(key):
        return shard_of_sum(key) % stream.options.shards
    parts = key_parts(key, stream.key_types)
    column = stream.options.shard
    part = list(parts) if column is None else parts[stream.key.index(column)]
    return zlib.crc32(json.dumps(part, separators=(",", ":")).encode()) % stream.options.shards


def split(payload: bytes, stream: Stream) -> list[tuple[int, bytes]]:
    """A payload of `updates.<stream>` as (shard, payload) for each shard that has rows in it; none is lost.

    What cannot be read goes to shard 0 as it is, which writes it to the dead letters.
    """
    try:
        batch = rows.unpack(payload, stream.options.limits)
    except ValueError:
        return [(0, payload)]
    if not rows.are_updates(batch):
        return [(0, payload)]
    shards = stream.options.shards
    kinds = batch.column("kind").cast(pa.string())
    for_all = pc.is_in(kinds, value_set=pa.array(_FOR_ALL)).to_numpy(zero_copy_only=False)
    if for_all.all():
        return [(shard, payload) for shard in range(shards)]
    of_row = np.where(for_all, -1, _shards(batch.column("key"), stream))
    return [(shard, rows.pack(part)) for shard in range(shards) if (part := _part(batch, of_row, shard)).num_rows]


def splitter(stream: Stream) -> Split | None:
    """How the rows of a stream are split between its shards; None: it has one."""
    return Split(stream) if stream.options.shards > 1 else None


class Splitter(ABC):
    """Divides the rows of a pipeline between its shards."""

    def __init__(self, shards: int) -> None:
        self.shards = shards

    @abstractmethod
    def parts(self, topic: str, payload: bytes) -> list[tuple[int, bytes]]:
        """What each shard gets of an entry of a topic of rows."""

    def part(self, shard: int, entries: Iterable[Entry]) -> list[Entry]:
        """What a shard gets of entries, in their order; statements and what must be skipped go to all shards."""
        mine = []
        for entry in entries:
            if entry.topic == QUERIES or is_marked(entry.topic):
                mine.append(entry)
            else:
                parts = self.parts(entry.topic, entry.payload)
                mine += [replace(entry, payload=payload) for number, payload in parts if number == shard]
        return mine


class Split(Splitter):
    """Splits the rows of a stream by their keys."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream.options.shards)
        self._stream = stream

    def parts(self, topic: str, payload: bytes) -> list[tuple[int, bytes]]:
        """See `Splitter.parts`."""
        return split(payload, self._stream)


def _shards(keys: pa.DictionaryArray, stream: Stream) -> NDArray[np.int64]:
    """The shard of each row by its key; 0 where there is none that can be read."""

    def one(key: str | None) -> int:
        try:
            return shard_of(key or "", stream) if len(key or "") <= stream.options.max_key_length else 0
        except (ValueError, TypeError):
            return 0

    by_word = np.array([one(key) for key in keys.dictionary.to_pylist()] or [0], np.int64)
    indices = keys.indices
    known = indices.is_valid().to_numpy(zero_copy_only=False)
    return np.where(known, by_word[indices.fill_null(0).to_numpy()], 0)


def _said_through(batch: pa.RecordBatch, sources: pa.StringArray, mine: NDArray[np.bool_]) -> pa.RecordBatch:
    """The batch with the `through` of each source's last row also in the last one that is `mine`."""
    names, timeless = sources.to_pylist(), pc.not_equal(batch.column("kind").cast(pa.string()), "clock")
    marked = timeless.fill_null(True).to_numpy(zero_copy_only=False)
    last, own = ({names[row]: row for row in np.flatnonzero(chosen).tolist()} for chosen in (marked, marked & mine))
    behind = [(row, last[name]) for name, row in own.items() if last[name] != row]
    place = batch.schema.get_field_index("through")
    through = batch.column(place)
    if not behind or through.null_count:
        return batch
    numbers = through.to_numpy(zero_copy_only=False).copy()
    for row, end in behind:
        numbers[row] = numbers[end]
    return batch.set_column(place, batch.schema.field(place), pa.array(numbers, pa.int64()))


def _part(batch: pa.RecordBatch, of_row: NDArray[np.int64], shard: int) -> pa.RecordBatch:
    """The rows for one shard in their order, with a heartbeat for each source that has rows for others only. The last
    row of each source says for the shard what the last one of all says: through when the source has said everything.
    """
    mine = (of_row == shard) | (of_row < 0)
    sources = batch.column("source").cast(pa.string())
    batch = _said_through(batch, sources, mine)
    silent = set(pc.unique(sources).to_pylist()) - set(pc.unique(sources.filter(pa.array(mine))).to_pylist()) - {None}
    if not silent:
        return batch.filter(pa.array(mine))
    names = sources.to_pylist()
    last = {name: row for row, name in enumerate(names) if name in silent}
    table = batch.to_pydict()
    for row in last.values():
        mine[row] = True
        table["kind"][row], table["key"][row], table["value"][row] = "heartbeat", "", 0.0
        table["slope"][row], table["report"][row], table["grant"][row] = 0.0, None, 0
    columns = [_column(table[field.name], field.type) for field in batch.schema]
    return pa.record_batch(columns, schema=batch.schema).filter(pa.array(mine))


def _column(values: list[object], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, kind)
