"""Rows of the topic `queries`: read so that no row stops who reads it, whoever wrote it."""

from __future__ import annotations

import pyarrow as pa

from tolerant.transport.rows import unpack

_NEEDED = ("request", "body")


def read_statement_rows(payload: bytes) -> tuple[list[tuple[str, str]], list[str]]:
    """(request, body) of the statements in an entry, in order, and for each row that has none the reason.

    Raises:
        ValueError: the entry holds no rows of statements at all; says what it holds.
    """
    batch = unpack(payload)
    for name in _NEEDED:
        places = batch.schema.get_all_field_indices(name)
        if len(places) != 1:
            raise ValueError(f"expected one column {name}, found {len(places)}")
        if not pa.types.is_string(batch.schema.field(places[0]).type):
            raise ValueError(f"expected column {name} to be text, found {batch.schema.field(places[0]).type}")
    requests, bodies = (batch.column(name).to_pylist() for name in _NEEDED)
    rows = [(request or "", body) for request, body in zip(requests, bodies, strict=True) if body is not None]
    missing = [f"row {place} has no body" for place, body in enumerate(bodies) if body is None]
    return rows, missing
