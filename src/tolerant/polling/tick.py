"""One tick of the poller: which items to pull (`docs/design/polling.md` §2.2).

`simulate` and `Poller` run these functions in the same order, so they decide the same.
"""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import compiled_no_refcount
from tolerant.polling.choice.choosers import (
    choose_all,
    choose_max,
    choose_max_of_over,
    choose_per_item,
    choose_positive_negative,
)
from tolerant.polling.choice.lanes import Lanes
from tolerant.polling.choice.pull_limits import enforce_limits
from tolerant.polling.choice.risk import RiskRows, adapt_z, choose_risk, is_unreachable, mark, recompute_variances
from tolerant.polling.model.correlations import Correlations, update_correlations
from tolerant.polling.poller_arrays import Floats, Integers, Links, Records, Servers, Settings, Workspace

EVERY_TICK, ALL, PER_ITEM, POSITIVE_NEGATIVE, MAX, RISK, MAX_OVER, MAX_REPEATED = range(8)
ANY_OVER = (MAX, MAX_REPEATED)
"""Choosers that test at each tick whether any query is over."""


@compiled_no_refcount
def mark_due(rows: RiskRows, items: Records, every: bool, tick: int) -> None:
    """Mark the items that must be pulled whatever the chooser says (§2.5)."""
    for i in range(len(items)):
        item = items[i]
        if item.blocked > tick:
            continue
        if every or item.always or item.last < 0 or tick - item.last >= item.cap or is_unreachable(item, tick):
            mark(rows, items, i, tick)


@compiled_no_refcount
def mark_predicted(  # noqa: PLR0913
    queries: Records, links: Links, lanes: Lanes, items: Records, chooser: int, ratio: float, workspace: Workspace,
    hint: Integers, tick: int,
) -> None:  # fmt: skip
    """Mark what a chooser of [GPR05] picks, from predictions only. A blocked item counts as unchanged."""
    for i in range(len(items)):
        item = items[i]
        workspace.values[i], workspace.reach[i], workspace.marked[i] = item.value, item.reach, False
        workspace.changes[i] = item.predicted if not item.marked and item.blocked <= tick else 0.0
    if chooser == 1:
        choose_all(queries, links, workspace.values, workspace.changes, workspace.marked)
    elif chooser == 2:
        choose_per_item(queries, links, workspace.changes, workspace.marked)
    elif chooser == 3:
        choose_positive_negative(queries, links, workspace)
    elif chooser == 6:
        choose_max_of_over(queries, links, workspace, ratio)
    again = chooser == 4 or chooser == 7
    while again:
        again = choose_max(queries, links, lanes, workspace, ratio, hint) and chooser == 7
    for i in range(len(items)):
        if workspace.marked[i] and items[i].blocked <= tick:
            items[i].marked = True


@compiled_no_refcount
def decide(  # noqa: PLR0913
    queries: Records, links: Links, lanes: Lanes, rows: RiskRows, items: Records, correlation: Floats,
    settings: Settings, servers: Servers, workspace: Workspace, hint: Integers, tick: int,
) -> None:  # fmt: skip
    """Mark the items to pull at a tick; every chain has been advanced to it."""
    risky = settings.chooser == 5
    if risky:
        workspace.pressure[:] = np.nan
        recompute_variances(rows, items, tick)
    mark_due(rows, items, settings.chooser == 0, tick)
    if risky:
        choose_risk(rows, items, tick, workspace.pressure, servers.start, servers.items, correlation)
    elif settings.chooser != 0:
        mark_predicted(queries, links, lanes, items, settings.chooser, settings.pull_ratio, workspace, hint, tick)
    if settings.limit > 0 or servers.limits.size > 0:
        enforce_limits(rows, items, tick, settings.limit, servers.limits, risky, workspace.pressure)


@compiled_no_refcount
def end_tick(
    rows: RiskRows, items: Records, correlations: Correlations, settings: Settings, tick: int, ticks: int
) -> None:
    """End a tick after its pulls, except for the feedback. ticks: until the next one."""
    if settings.chooser == 5:
        adapt_z(rows, items, tick, ticks, correlations.correlation)
    if correlations.points.size > 0 and tick % 30 == 0:
        update_correlations(correlations, tick, settings.max_interval)
