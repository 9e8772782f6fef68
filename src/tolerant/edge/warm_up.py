"""Loads compiled code and modules before a source's first value needs them.

A row has to be in the log within the latency allowance after its event time. Loading compiled code and modules would
use up most of that, so everything runs once, on values that are discarded, when a source is created.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from tolerant.edge.source_core import SourceCore
from tolerant.streams import StreamOptions, sum_key
from tolerant.transport import rows
from tolerant.transport.rows import Grant, grants_batch, read_grants
from tolerant.transport.sums import SumOffers, Sums

if TYPE_CHECKING:
    from tolerant.sql import CreateTable

_FIRST_PERIOD = 1_000  # its number
_PERIOD = 10  # ticks, at most: a long period does nothing that a short one does not


@cache
def warm_source(options: StreamOptions) -> None:
    """Run once per process what a source of a stream with these options runs: values, ticks, period ends, grants, sums,
    and the rows sent for them.
    """
    options = replace(options, period=min(options.period, _PERIOD))
    core = SourceCore("warm", 1, options, moves_from=1.0)
    names, now = ["a", "b"], _FIRST_PERIOD * options.boundary
    handles = core.register(names)
    core.grant(_grants(names, 1, options), now)
    for step in range(3):
        core.offer(handles, np.array([5.0, -5.0]) * step, core.nearest(now + step * options.tick))
    core.grant(_grants(names, 2, options), core.clock)
    sums = Sums((sum_key(0, 1),), ("a", "b"), ((0, 1),), ((1.0, 1.0),), (1.0,), (None, None), True)
    core.apply_sum_offers([SumOffers("warm", 0, 1, (sums,))], core.clock)
    for boundary in (1, 2):
        core.offer(handles, np.array([40.0, -20.0]) * boundary, core.clock + options.boundary)
        core.advance(core.clock + options.tick)
    core.remove(int(handles[0]), core.clock)
    core.compare_forms()  # which otherwise runs only once in fifty periods
    batch = core.drain()
    assert batch is not None
    rows.unpack(rows.pack(batch))


def _grants(names: list[str], version: int, options: StreamOptions) -> list[Grant]:
    """Return grants as they are read from the log."""
    grants = [Grant(name, 1.0, options.shrink, 0, version, confirm=version > 1, unit=1.0) for name in names]
    return read_grants(rows.unpack(rows.pack(grants_batch(grants))))


@cache
def warm_table(table: CreateTable) -> None:
    """Run once per process what feeding a table runs: rows, and the batch sent for them."""
    from tolerant.edge.change_buffer import ChangeBuffer  # with what only tables need

    buffer = ChangeBuffer(table, "warm", 1)
    nulls = (None,) * len(table.columns)
    buffer.delete("warm", 1)
    buffer.insert("warm", nulls, 2)  # type: ignore[arg-type]
    batch = buffer.drain()
    assert batch is not None
    rows.unpack(rows.pack(batch))
