"""The fields of each kind of shard's snapshots, as they are and as recorded with the number of their schema.

    PYTHONPATH=tests/fuzz:tests/spark .venv/bin/python tests/fuzz/snapshot_fields.py    record them

Recording is refused where the fields have changed and the number has not: give the shard's `SCHEMA` the next number
first, and a migration if a release has written the older one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tolerant.kernels.snapshots import Schema, State

FILE = Path(__file__).with_name("snapshot_fields.json")
NAMED_BY_CONTENT = {"arrived", "clocks", "columns", "dynamics", "groups", "parameters", "queries", "tables"}
"""States whose fields, if all of them are states or it is one of columns, are named by what is in them."""


class Layout(NamedTuple):
    """The number of a schema, and the paths of all fields; `*` stands for any name."""

    number: int
    fields: list[str]


def paths(state: State, name: str = "", before: str = "") -> Iterator[str]:
    """The paths of all fields, of parts and of records."""
    parts = all(isinstance(value, State) for value in state.values())
    by_content = name in {"columns", "parameters"} or (name in NAMED_BY_CONTENT and parts)
    for field, value in state.items():
        path = f"{before}{'*' if by_content or field.isdecimal() else field}"
        yield path
        if isinstance(value, State):
            yield from paths(value, field, f"{path}.")
        elif isinstance(value, np.ndarray):
            yield from (f"{path}.{column}" for column in value.dtype.names or ())


def layouts(snapshots: Iterable[tuple[Schema, bytes]]) -> dict[str, Layout]:
    """The layout of each schema, from snapshots that together have all of its fields."""
    fields: dict[tuple[str, int], set[str]] = {}
    for schema, snapshot in snapshots:
        fields.setdefault((schema.shard, schema.number), set()).update(paths(schema.unpack(snapshot)))
    return {shard: Layout(number, sorted(names)) for (shard, number), names in fields.items()}


def recorded() -> dict[str, Layout]:
    """The layouts of the file."""
    return {shard: Layout(*entry.values()) for shard, entry in json.loads(FILE.read_text()).items()}


def without_a_new_number(before: Mapping[str, Layout], now: Mapping[str, Layout]) -> list[str]:
    """Says of each shard whose fields have changed, and whose number has not, which fields they are."""
    return [
        f"{shard}: {sorted(set(layout.fields) ^ set(before[shard].fields))} in schema {layout.number}, as before"
        for shard, layout in now.items()
        if shard in before and layout.fields != before[shard].fields and layout.number == before[shard].number
    ]


def main() -> None:
    """Record the layouts as they are."""
    from test_restored_shards import snapshots

    now = layouts(snapshots())
    if FILE.exists() and (refused := without_a_new_number(recorded(), now)):
        sys.exit("\n".join(refused))
    entries = {shard: layout._asdict() for shard, layout in sorted(now.items())}
    FILE.write_text(json.dumps(entries, indent=1) + "\n")


if __name__ == "__main__":
    main()
