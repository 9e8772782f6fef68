"""The arrays of a poller's snapshot, and the checks that they must pass before compiled code may use them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.polling.arrangement import Arrangement
from tolerant.polling.poller_arrays import Records

_DERIVED = ("start", "stop", "kind", "query", "server")  # fields that follow from queries and options


def saved_arrays(arrangement: Arrangement) -> dict[str, NDArray[Any]]:
    """Return every array that cannot be made from queries and options, by name."""
    arrays: dict[str, NDArray[Any]] = {}
    for prefix, table in _tables(arrangement).items():
        arrays |= {f"{prefix}.{name}": np.ascontiguousarray(table[name]) for name in table.dtype.names or ()}
    return arrays | dict(_tuples(arrangement))


def load_arrays(arrangement: Arrangement, arrays: Mapping[str, NDArray[Any]], now: int) -> None:
    """Write saved arrays into an arrangement of the same queries and options; now: the tick that they are of.

    Compiled code uses them as indices without a check, so they are checked here.

    Raises:
        ValueError: no poller can have saved these.
    """
    for prefix, table in _tables(arrangement).items():
        for name in table.dtype.names or ():
            array = arrays[f"{prefix}.{name}"]
            if name in _DERIVED and not np.array_equal(table[name], array):
                raise ValueError(f"{prefix}.{name} is not what the queries make it")
            table[name] = array
    for name, array in _tuples(arrangement):
        array[...] = arrays[name]
    _check_ranges(arrangement, now)


def _tables(arrangement: Arrangement) -> dict[str, Records]:
    return {"item": arrangement.items, "query": arrangement.table, "row": arrangement.rows.table}


def _tuples(arrangement: Arrangement) -> Iterator[tuple[str, NDArray[Any]]]:
    for prefix, bundle in (
        ("chain", arrangement.chains._asdict()),
        ("window", arrangement.window._asdict()),
        ("together", arrangement.correlations._asdict()),  # the name that snapshots have
    ):
        for name, array in bundle.items():
            yield f"{prefix}.{name}", array


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
