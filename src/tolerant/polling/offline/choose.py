"""One choice without a history: which items to pull, given the predicted change of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tolerant.polling.choice.lanes import build_lanes
from tolerant.polling.offline.exact_choice import choose_exact
from tolerant.polling.polling_options import CHOOSERS, PollingOptions
from tolerant.polling.query_arrays import (
    build_query_arrays,
    index_items,
    new_items,
    reset_feedback,
    set_item_bounds,
    workspace_for,
)
from tolerant.polling.tick import mark_predicted
from tolerant.queries import Aggregate

_STATELESS = ("all", "per-item", "positive-negative", "max", "exact", "max-over", "max-repeated")


def choose(
    changes: Mapping[str, float],
    queries: Sequence[Aggregate],
    chooser: str = "max",
    *,
    pull_ratio: float = 0.8,
    values: Mapping[str, float] | None = None,
    costs: Mapping[str, float] | None = None,
) -> set[str]:
    """Return the items to pull when each is predicted to have changed by `changes` since its last pull.

    chooser: "all", "per-item", "positive-negative", "max", "exact" (the cheapest set after which every query is
    within). values: values in use, needed for min and max. costs: of a pull, by item, for "exact".

    >>> query = Aggregate.over("total", "sum", ["a", "b", "c", "d"], within=200)
    >>> changes = {"a": 500, "b": 75, "c": -200, "d": -150}
    >>> choose(changes, [query], "max"), choose(changes, [query], "positive-negative")
    ({'a'}, {'b'})
    """
    if chooser not in _STATELESS:
        raise ValueError(f"chooser must be one of {', '.join(_STATELESS)}, got {chooser!r}")
    options = PollingOptions("max", pull_ratio, costs=costs)
    index = index_items(queries)
    names = tuple(index)
    table, links = build_query_arrays(queries, index)
    reset_feedback(table, None, 0.0)
    moved = _numbers("changes", changes, names)
    used = _numbers("values", values or {}, names) if len(links.ordered) else np.zeros(len(names))
    if chooser == "exact":
        marked = choose_exact(table, links, used, moved, options.pull_costs(names))
    else:
        items, _ = new_items(names, options.states, 0, past=0, propagate=False)
        set_item_bounds(items, table, links, options.states)
        items["value"], items["predicted"] = used, moved
        if names:
            lanes, workspace = build_lanes(table, links, len(names)), workspace_for(len(names))
            hint = np.zeros(1, np.int64)
            mark_predicted(table, links, lanes, items, CHOOSERS[chooser], float(pull_ratio), workspace, hint, 0)
        marked = items["marked"]
    return {name for name, pulled in zip(names, marked, strict=True) if pulled}


def _numbers(
    argument: str, given: Mapping[str, float], names: Sequence[str]
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    missing = [name for name in names if name not in given]
    if missing:
        raise ValueError(f"{argument} must have every item of the queries, got none for {missing[0]!r}")
    numbers = np.array([given[name] for name in names], np.float64)
    for name, number in zip(names, numbers, strict=True):
        if not np.isfinite(number):
            raise ValueError(f"{argument} must be finite, got {number} for item {name!r}")
    return numbers
