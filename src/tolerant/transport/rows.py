"""The rows of the log, as Arrow batches, and the bytes that they travel as (`docs/design/pipeline.md` §2).

Times are microseconds. `sequence` and `grant` are (epoch, counter) pairs packed by `tolerant.kernels.versions`; 0 is
"none".
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.streams import EARLIEST, LATEST, Limits
from tolerant.transport.arrow_limits import check_declared

LIMITS = Limits()
"""What an entry may hold where nothing else has been said."""

_LONGEST_REASON = 500
_WORD = pa.dictionary(pa.int32(), pa.string())

UPDATES = pa.schema(
    [
        ("kind", _WORD),  # update hello heartbeat ack gone form_request clock
        ("key", _WORD),  # the item, or the sum of items; empty for heartbeat and clock
        ("at", pa.int64()),  # event time; a clock row that only announces an epoch has NO_TIME
        ("source", _WORD),  # the source's name; for a clock row the id of the checkpoint, or empty
        ("sequence", pa.int64()),  # for a clock row version(pipeline epoch, 0), or 0
        ("through", pa.int64()),
        ("value", pa.float64()),
        ("slope", pa.float64()),
        ("report", pa.binary()),
        ("grant", pa.int64()),
    ]
)
"""Rows of `updates.<stream>`."""

_PIECE = pa.struct([("since", pa.int64()), ("least", pa.float64()), ("most", pa.float64())])

UPDATES_WITH_HISTORY = pa.schema([*UPDATES, ("recent_ranges", pa.list_(_PIECE))])
"""The same where some row tells where its item has been, the oldest piece first; null where not."""


class TimedRange(NamedTuple):
    """Between which values an item was from `since` on, until the next piece, or the row that tells it."""

    since: int
    least: float
    most: float


NO_TIME = -(2**62)
"""The `at` of a clock row that announces an epoch and moves no time."""

ANSWERS = pa.schema(
    [
        ("query", pa.string()),
        ("group", pa.string()),
        ("at", pa.int64()),
        ("low", pa.float64()),
        ("value", pa.float64()),
        ("high", pa.float64()),
        ("stale", pa.bool_()),
        ("settling", pa.bool_()),
    ]
)
"""Rows of `answers.<query>`: nulls are ends that are not known."""

STATEMENTS = pa.schema(
    [
        ("kind", pa.string()),  # stream table query alter drop subscribe unsubscribe
        ("key", pa.string()),  # the name it is about
        ("request", pa.string()),  # chosen by the sender; the reply repeats it
        ("text", pa.string()),  # as the person wrote it
        ("body", pa.string()),  # as `tolerant.sql.encode` wrote it
    ]
)
"""Rows of `queries`."""

REPLIES = pa.schema(
    [
        ("request", pa.string()),
        ("key", pa.string()),
        ("accepted", pa.bool_()),
        ("message", pa.string()),
        ("at", pa.int64()),
    ]
)
"""Rows of `replies`."""

DEAD = pa.schema(
    [
        ("reason", pa.string()),
        ("kind", pa.string()),
        ("key", pa.string()),
        ("at", pa.int64()),
        ("source", pa.string()),
        ("sequence", pa.int64()),
        ("value", pa.float64()),
        ("payload", pa.binary()),  # the bytes that could not be read, where there was no row at all
        ("count", pa.int64()),  # of how many rows it is said; null: of one
    ]
)
"""Rows of `dead_letters.<stream>`."""

COMPACTED = pa.schema(
    [
        ("key", pa.string()),
        ("version", pa.int64()),  # the greatest of a key is kept; equal replaces
        ("body", pa.binary()),  # null: the key is forgotten
    ]
)
"""Rows of every compacted topic."""

SEVERAL = pa.schema([("topic", pa.string()), *COMPACTED])
"""Rows of several compacted topics at once: what `append` takes for the topic `log.SEVERAL`."""


def compacted(rows: Sequence[tuple[str, int, bytes | None]]) -> pa.RecordBatch:
    """Rows (key, version, body) for a compacted topic; a body of None forgets the key."""
    columns = [
        pa.array([key for key, _, _ in rows], pa.string()),
        pa.array([version for _, version, _ in rows], pa.int64()),
        pa.array([body for _, _, body in rows], pa.binary()),
    ]
    return pa.record_batch(columns, schema=COMPACTED)


_LARGE = 16 << 10  # bytes from which on compression pays: on the disk, and at every step of the way through Spark
_SQUEEZED = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1))
_END = b"\xff\xff\xff\xff\0\0\0\0"  # of an Arrow IPC stream


@lru_cache(maxsize=64)
def _beginning(schema: pa.Schema) -> bytes | None:
    """What every stream of this schema begins with; None if dictionaries follow, which differ."""
    if any(pa.types.is_dictionary(field.type) for field in schema):
        return None
    beginning: bytes = schema.serialize().to_pybytes()
    return beginning


def pack(batch: pa.RecordBatch) -> bytes:
    """The batch as the bytes of an Arrow IPC stream; a large one is compressed, to a quarter or so."""
    large = batch.nbytes > _LARGE
    beginning = None if large else _beginning(batch.schema)
    if beginning is not None:  # a third of the time that a writer takes: a batch may say a thousand answers
        return beginning + batch.serialize().to_pybytes() + _END
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_SQUEEZED if large else None) as writer:
        writer.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def pack_parts(batch: pa.RecordBatch, ends: Sequence[int]) -> list[bytes]:
    """Parts of a batch of short rows, each packed: rows 0 … ends[0] − 1, then up to ends[1], and so on.

    A thousand queries may each have an answer to say; asking each part for its size would take most of the time.
    """
    beginning, few = _beginning(batch.schema), _LARGE // 256
    parts = [batch.slice(begin, end - begin) for begin, end in pairwise([0, *ends])]
    if beginning is None:
        return [pack(part) for part in parts]
    return [beginning + part.serialize().to_pybytes() + _END if len(part) <= few else pack(part) for part in parts]


def parts(batch: pa.RecordBatch, most: int) -> list[pa.RecordBatch]:
    """The batch, or where it has more rows than an entry may have several, to be appended together.

    >>> [len(part) for part in parts(compacted([("a", n, b"") for n in range(5)]), 2)]
    [2, 2, 1]
    """
    return [batch.slice(begin, most) for begin in range(0, len(batch), most)] or [batch]


def unpack(payload: bytes, limits: Limits | None = LIMITS) -> pa.RecordBatch:
    """The batch that `pack` made these bytes from, wherever they come from: nothing in them can do harm.

    What the payload says of its size is checked before it is decompressed, and every value in it afterwards: offsets,
    the indices of dictionaries, UTF-8. `limits` None: any size is fine, for what a pipeline or the log itself packed.

    Raises:
        ValueError: the bytes are not one packed Arrow batch, or a larger one than `limits` allow.
    """
    try:
        check_declared(payload, limits)
        batch = unpack_trusted(payload)
        batch.validate(full=True)
        _check_views(batch, limits)
        batch.schema.names  # noqa: B018  # that they are UTF-8, nobody else looks at
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise ValueError(f"not a packed Arrow batch: {str(error)[:_LONGEST_REASON]}") from None
    return batch


def _check_views(batch: pa.RecordBatch, limits: Limits | None) -> None:
    """Refuse lists that are parts of one another, and so have more values together than an entry may have."""
    for column in batch.columns if limits is not None else ():
        if pa.types.is_list_view(column.type):
            import pyarrow.compute as pc  # takes longer to import than the rest of Arrow, and few entries have lists

            size = pc.sum(pc.list_value_length(column), min_count=0).as_py()
            if limits is not None and size > limits.entry_rows:
                raise ValueError(f"its lists have {size:,} values, more than {limits.entry_rows:,} per entry")


def unpack_trusted(payload: bytes) -> pa.RecordBatch:
    """`unpack` of bytes that this very pipeline packed, without looking at every value again.

    Raises:
        ValueError: the bytes are not one packed Arrow batch.
    """
    try:
        with pa.ipc.open_stream(payload) as reader:
            return reader.read_next_batch()
    except (pa.ArrowException, OSError, StopIteration) as error:
        raise ValueError(f"not a packed Arrow batch: {error}") from error


def updates_batch(  # noqa: PLR0913
    *,
    kind: str | list[str],
    keys: list[str],
    at: NDArray[np.int64] | list[int],
    source: str,
    sequence: NDArray[np.int64] | list[int],
    through: int | NDArray[np.int64],
    value: NDArray[np.float64] | list[float] | None = None,
    grant: NDArray[np.int64] | list[int] | None = None,
    slope: NDArray[np.float64] | list[float] | None = None,
    report: list[bytes | None] | None = None,
    ways: list[list[TimedRange] | None] | None = None,
) -> pa.RecordBatch:
    """Rows of one source for `updates.<stream>`; `kind` is one for all or one a row; by default no prediction.

    `ways`: where the rows' items have been.
    """
    n = len(keys)
    columns = [
        _words([kind] * n if isinstance(kind, str) else kind),
        _words(keys),
        pa.array(at, pa.int64()),
        _words([source] * n),
        pa.array(sequence, pa.int64()),
        pa.array(np.full(n, through), pa.int64()),
        pa.array(np.zeros(n) if value is None else value, pa.float64()),
        pa.array(np.zeros(n) if slope is None else slope, pa.float64()),
        pa.nulls(n, pa.binary()) if report is None else pa.array(report, pa.binary()),
        pa.array(np.zeros(n, np.int64) if grant is None else grant, pa.int64()),
    ]
    if ways is None:
        return pa.record_batch(columns, schema=UPDATES)
    histories = [None if way is None else [piece._asdict() for piece in way] for way in ways]
    return pa.record_batch(
        [*columns, pa.array(histories, UPDATES_WITH_HISTORY.field("recent_ranges").type)], schema=UPDATES_WITH_HISTORY
    )


def _words(texts: list[str]) -> pa.DictionaryArray:
    """Texts as a column that names each once; not encoded by Arrow's functions, which take 20 MB to import."""
    if texts and texts.count(texts[0]) == len(texts):
        return pa.DictionaryArray.from_arrays(np.zeros(len(texts), np.int32), pa.array(texts[:1], pa.string()))
    return pa.array(texts, _WORD)


def are_updates(batch: pa.RecordBatch) -> bool:
    """Whether a batch has the columns of `updates.<stream>`."""
    return bool(batch.schema.equals(UPDATES) or batch.schema.equals(UPDATES_WITH_HISTORY))


def clock_batch(at: int, epoch: int = 0, checkpoint: str = "") -> pa.RecordBatch:
    """One clock row. Without epoch and checkpoint it is anybody's time (a replay's); at NO_TIME only an epoch."""
    from tolerant.kernels.versions import version

    return updates_batch(kind="clock", keys=[""], at=[at], source=checkpoint, sequence=[version(epoch, 0)], through=at)


def current_body(answer: dict[str, object]) -> bytes:
    """A row of ANSWERS as the body of its row in the compacted topic `current.<query>`."""
    return json.dumps(answer, separators=(",", ":"), ensure_ascii=False).encode()


def read_current(body: bytes) -> dict[str, Any]:
    """The row that `current_body` made the bytes from: arguments for `tolerant.queries.Answer`.

    Raises:
        ValueError: they are no such row; or what `json.loads` raises.
    """
    row: dict[str, Any] = json.loads(body)
    numbers = (row["low"], row["value"], row["high"], row.get("fidelity"), row.get("delivered"))
    fine = isinstance(row["query"], str) and isinstance(row.get("group", ""), str) and type(row["at"]) is int
    if not fine or not all(number is None or type(number) in (int, float) for number in numbers):
        raise ValueError("not an answer")
    return row


@dataclass(frozen=True)
class Grant:
    """A filter width from the pipeline to a source; `docs/design/pipeline.md` §4."""

    item: str
    width: float
    shrink: float
    since: int
    version: int
    confirm: bool
    unit: float = 0.0
    """The item's uniform width, which its source measures other widths by; 0: no query needs it."""
    far: int = 0
    """1: until its next row the item may be anything above `leave` unheard; −1: below."""
    leave: float = 0.0


GRANT_BODY = np.dtype(
    [("width", "<f8"), ("shrink", "<f8"), ("since", "<i8"), ("unit", "<f8"), ("confirm", "?"), ("far", "i1"),
     ("leave", "<f8")]
)  # fmt: skip
"""The body of a grant's row."""

_BODY_SIZE = GRANT_BODY.itemsize


def grants_batch(grants: list[Grant]) -> pa.RecordBatch:
    """Grants as rows of the compacted topic `grants.<stream>`."""
    bodies = np.array([tuple(getattr(g, name) for name in GRANT_BODY.names or ()) for g in grants], GRANT_BODY)
    return grants_columns([g.item for g in grants], np.array([g.version for g in grants], np.int64), bodies)


def grants_columns(items: list[str], versions: NDArray[np.int64], bodies: NDArray[np.void]) -> pa.RecordBatch:
    """`grants_batch` for many: `bodies` has the type GRANT_BODY."""
    size, data = GRANT_BODY.itemsize, bodies.tobytes()
    offsets = np.arange(0, len(data) + 1, size, dtype=np.int32)
    body = pa.Array.from_buffers(pa.binary(), len(items), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return pa.record_batch([pa.array(items, pa.string()), pa.array(versions, pa.int64()), body], schema=COMPACTED)


def read_grants(batch: pa.RecordBatch) -> list[Grant]:
    """The grants in rows that `grants_batch` made; rows that only forget an item are left out, and so are, with a
    warning, those that cannot be grants.
    """
    bodies = batch.column("body").to_pylist()
    # In Python and not with Arrow's functions: importing those alone takes 20 MB of every source.
    places = [place for place, body in enumerate(bodies) if isinstance(body, bytes) and len(body) == _BODY_SIZE]
    grants = np.frombuffer(b"".join(bodies[place] for place in places), GRANT_BODY)
    fine = _are_grants(grants)
    unreadable = sum(body is not None for body in bodies) - int(fine.sum())
    if unreadable:
        warnings.warn(f"{unreadable} grants were left out, they cannot be read", UserWarning, stacklevel=2)
    items, versions = batch.column("key").to_pylist(), batch.column("version").to_pylist()
    return [
        Grant(
            items[place],
            float(grant["width"]),
            float(grant["shrink"]),
            int(grant["since"]),
            versions[place],
            bool(grant["confirm"]),
            float(grant["unit"]),
            int(grant["far"]),
            float(grant["leave"]),
        )
        for place, grant, is_fine in zip(places, grants, fine, strict=True)
        if is_fine
    ]


def _are_grants(bodies: NDArray[np.void]) -> NDArray[np.bool_]:
    numbers = np.isfinite(bodies["unit"]) & np.isfinite(bodies["leave"]) & (bodies["width"] >= 0)
    numbers &= (bodies["shrink"] >= 0) & (bodies["shrink"] < 1) & (np.abs(bodies["far"]) <= 1)
    usable: NDArray[np.bool_] = numbers & (bodies["since"] >= EARLIEST) & (bodies["since"] <= LATEST)
    return usable
