"""The arrays of a poller's snapshot, and the checks that they must pass before compiled code may use them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.snapshots import State
from tolerant.polling.arrangement import Arrangement
from tolerant.polling.poller_arrays import Records

_DERIVED = ("start", "stop", "kind", "query", "server")  # fields that follow from queries and options


PARTS = ("item", "query", "row", "chain", "window", "together")
"""Of the state of a poller: its tables, then its bundles of arrays."""


def saved_arrays(arrangement: Arrangement) -> State:
    """Return every array that cannot be made from queries and options, by part."""
    tables = {
        part: State({name: np.ascontiguousarray(table[name]) for name in table.dtype.names or ()})
        for part, table in _tables(arrangement).items()
    }
    bundles = {part: State(bundle) for part, bundle in _bundles(arrangement).items()}
    return State(tables | bundles)


def load_arrays(arrangement: Arrangement, parts: Mapping[str, State], now: int) -> None:
    """Write saved arrays into an arrangement of the same queries and options; now: the tick that they are of.

    Compiled code uses them as indices without a check, so they are checked here.

    Raises:
        ValueError: no poller can have saved these.
    """
    for part, table in _tables(arrangement).items():
        names = table.dtype.names or ()
        for name, saved in zip(names, parts[part].exactly(*names), strict=True):
            if name in _DERIVED and not np.array_equal(table[name], saved):
                raise ValueError(f"{part}.{name} is not what the queries make it")
            table[name] = saved
    for part, bundle in _bundles(arrangement).items():
        for array, saved in zip(bundle.values(), parts[part].exactly(*bundle), strict=True):
            array[...] = saved
    _check_ranges(arrangement, now)


def _tables(arrangement: Arrangement) -> dict[str, Records]:
    return {"item": arrangement.items, "query": arrangement.table, "row": arrangement.rows.table}


def _bundles(arrangement: Arrangement) -> dict[str, dict[str, NDArray[Any]]]:
    return {
        "chain": arrangement.chains._asdict(),
        "window": arrangement.window._asdict(),
        "together": arrangement.correlations._asdict(),
    }


def _check_ranges(arrangement: Arrangement, now: int) -> None:
    items, last_state = arrangement.items, arrangement.options.states - 1
    pulled = items[items["last"] >= 0]
    ranges = {
        "last": (items["last"], -1, now),
        "stepped": (pulled["stepped"], pulled["last"], now),
        "learned": (items["learned"], 0, last_state),
        "running": (items["running"], 0, last_state),
        "predictor": (items["predictor"], 0, arrangement.chains.errors.shape[1] - 1),
        "cap": (items["cap"], 1, 2**31),
        "since": (arrangement.table["since"], -1, now),
    }
    for name, (values, least, most) in ranges.items():
        if not np.all((least <= values) & (values <= most)):
            raise ValueError(f"{name} is out of range")
