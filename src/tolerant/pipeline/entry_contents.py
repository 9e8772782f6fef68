"""Says what the rows of an entry are about, in a process of its own: the entry may be one that crashes its reader."""

from __future__ import annotations

import json
import resource
import subprocess
import sys

import pyarrow as pa

from tolerant.transport.quarantine import NamedRow
from tolerant.transport.rows import unpack

_PATIENCE = 60.0  # seconds
_MEMORY = 4 << 30  # bytes of address space that the process gets
_MOST = 100_000  # rows beyond which all is as good as unknown
_KEYS = ("key", "item", "aggregator", "view", "template")
_SOURCES = ("source", "request", "aggregator")


def named_rows(payload: bytes) -> tuple[NamedRow, ...] | None:
    """What each row of a packed batch is about; None if that cannot be found out."""
    command = [sys.executable, "-m", "tolerant.pipeline.entry_contents"]
    try:
        done = subprocess.run(command, input=payload, capture_output=True, timeout=_PATIENCE, check=True)
        return tuple(NamedRow(*row) for row in json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError, TypeError):
        return None


def read_names(payload: bytes) -> list[NamedRow]:
    """What each row is about, in this process.

    Raises:
        ValueError: the bytes are not a packed batch of rows that are about anything.
    """
    batch = unpack(payload)
    batch.validate(full=True)
    if len(batch) > _MOST:
        raise ValueError(f"at most {_MOST} rows, got {len(batch)}")
    keys = _column(batch, _KEYS)
    if keys is None:
        raise ValueError(f"columns must be those of rows, got {batch.schema.names}")
    kinds, sources, numbers = (_column(batch, names) for names in (("kind",), _SOURCES, ("sequence",)))
    return [
        NamedRow(
            _text(kinds[row] if kinds else ""),
            _text(keys[row]),
            _text(sources[row] if sources else ""),
            number if numbers and isinstance(number := numbers[row], int) else 0,
        )
        for row in range(len(batch))
    ]


def _column(batch: pa.RecordBatch, names: tuple[str, ...]) -> list[object] | None:
    name = next((name for name in names if name in batch.schema.names), None)
    return None if name is None else batch.column(name).to_pylist()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    sys.stdout.write(json.dumps(read_names(sys.stdin.buffer.read())))
