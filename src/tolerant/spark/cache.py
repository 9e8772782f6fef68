"""Cores that this worker process holds between batches, so that state need not be read and rebuilt for each.

A core in here is a copy of what the state store holds, and each state has a stamp of its own. It is taken out before
it is changed and put back under the new stamp after the last write to the store: a task that dies half-way leaves
nothing behind, and one whose writes were thrown away leaves a stamp that the store does not have.
"""

from __future__ import annotations

import gc

from tolerant.pipeline.hosting import Hosted

_CORES: dict[tuple[str, int], tuple[bytes, Hosted]] = {}


def take(pipeline: str, shard: int, stamp: bytes | None) -> Hosted | None:
    """The core of a shard, if it is here in the state of this stamp; it is no longer here afterwards."""
    entry = _CORES.pop((pipeline, shard), None)
    return entry[1] if entry is not None and entry[0] == stamp else None


def put(pipeline: str, shard: int, stamp: bytes, core: Hosted) -> None:
    """Keep the core, which is in the state of this stamp."""
    _CORES[pipeline, shard] = (stamp, core)


def settle() -> None:
    """Call when a worker has loaded and built what it will keep: the garbage collector leaves that alone from then on.

    PySpark's workers collect after each task, over all objects that there are: 50 ms with the libraries alone. What is
    frozen is left out; it is still freed when its last reference goes.
    """
    gc.collect()
    gc.freeze()


def clear() -> None:
    """Forget everything, as a new worker would."""
    _CORES.clear()
