"""Loads what the first values of a source need, before they are there.

An event time is taken, and then the row has to be in the log within the latency allowance. Compiled code and modules
that are loaded only then would take most of it, so all of it is run once, on values that nobody sees, when a source is
made.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from tolerant.edge.core import SourceCore
from tolerant.edge.rowbox import RowBox
from tolerant.sql import CreateTable
from tolerant.streams import StreamOptions, sum_key
from tolerant.transport import rows
from tolerant.transport.forms import Forms, Sums
from tolerant.transport.rows import Grant, grants_batch, read_grants

_BEGIN = 1_000  # boundaries
_PERIOD = 10  # ticks, at most: a long period does nothing that a short one does not


@cache
def warm_source(options: StreamOptions) -> None:
    """Do once in this process what a source of a stream with these options does: values, ticks, boundaries, grants,
    sums, and what is sent of them.
    """
    options = replace(options, period=min(options.period, _PERIOD))
    core = SourceCore("warm", 1, options, moves_from=1.0)
    names, now = ["a", "b"], _BEGIN * options.boundary
    handles = core.register(names)
    core.grant(_grants(names, 1, options), now)
    for step in range(3):
        core.offer(handles, np.array([5.0, -5.0]) * step, core.nearest(now + step * options.tick))
    core.grant(_grants(names, 2, options), core.clock)
    sums = Sums((sum_key(0, 1),), ("a", "b"), ((0, 1),), ((1.0, 1.0),), (1.0,), (None, None), True)
    core.form([Forms("warm", 0, 1, (sums,))], core.clock)
    for boundary in (1, 2):
        core.offer(handles, np.array([40.0, -20.0]) * boundary, core.clock + options.boundary)
        core.advance(core.clock + options.tick)
    core.remove(int(handles[0]), core.clock)
    for one in core._sums.sets.values():  # what is looked at once in fifty periods
        core._sums.better(one)
    batch = core.drain()
    assert batch is not None
    rows.unpack(rows.pack(batch))


def _grants(names: list[str], version: int, options: StreamOptions) -> list[Grant]:
    """Grants as they come out of the log."""
    grants = [Grant(name, 1.0, options.shrink, 0, version, confirm=version > 1, unit=1.0) for name in names]
    return read_grants(rows.unpack(rows.pack(grants_batch(grants))))


@cache
def warm_table(table: CreateTable) -> None:
    """Do once in this process what feeding a table does: rows, and what is sent of them."""
    box = RowBox(table, "warm", 1)
    nothing = (None,) * len(table.columns)
    box.delete("warm", 1)
    box.insert("warm", nothing, 2)  # type: ignore[arg-type]
    batch = box.take()
    assert batch is not None
    rows.unpack(rows.pack(batch))
