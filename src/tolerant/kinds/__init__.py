"""The kinds of query, a folder each: how its statements are recognised, checked and written (`select.py`), and the
shard that hosts its core, and what clients listen to. `docs/adding-a-kind.md` adds one.

A good member knows its select by shape alone (`recognise`), its relations' definitions only in `check`, and says in
every error what it expected. Its `__init__.py` is read whenever a statement is, so it imports no core and no Arrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tolerant.sql.query_kind import QueryKind

if TYPE_CHECKING:
    from tolerant.pipeline.hosting import ShardFactory

_FOLDERS = (
    "views",
    "kept_joins",
    "joins",
    "notices",
    "polled",
    "network",
    "bounded",
    "ranges",
)
"""In the order in which they are asked for a statement: the first that knows it has it."""

KINDS: tuple[QueryKind[Any], ...] = tuple(import_module(f"{__name__}.{folder}").KIND for folder in _FOLDERS)


def shard_factory(relation: object, epoch: int, checkpoint: str, log: str = "") -> ShardFactory:
    """What makes the shards of a relation's pipeline; it travels to Spark's workers."""
    kind = next(kind for kind in KINDS if kind.hosts(relation))
    assert kind.shards is not None
    return kind.shards(relation, epoch, checkpoint, log)
