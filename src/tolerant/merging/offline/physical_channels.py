"""Maps logical channels to fewer physical ones (`docs/design/merging.md` §2.10)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from tolerant.kernels.array_types import Flags, Floats, Integers


def allocate(
    sizes: ArrayLike,
    wants: Sequence[Iterable[int]],
    physical: int,
    *,
    header: float,
    listen: float = 0.0,
) -> Integers:
    """Return the physical channel of each group, int[g], numbered by first group.

    A client is tuned to every physical channel that carries a group it wants, and reads the header of every other
    message there (`header` each, and `listen` per row of it). Joins the two channels that add least until `physical`
    are left, then moves single groups while that helps.

    >>> allocate([24, 16, 20, 9], [[0], [0, 1], [2], [2, 3], [1]], 2, header=1, listen=0.1).tolist()
    [0, 0, 1, 1]
    """
    cost = _message_costs(sizes, header, listen)
    clients, weights = _clients(wants, len(cost))
    if physical < 1:
        raise ValueError(f"physical must be at least 1, got {physical}")
    where = np.arange(len(cost))
    if physical < len(cost):
        where = _moved(_joined(clients, weights, cost, physical), clients, weights, cost, physical)
    _, first, numbers = np.unique(where, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[numbers]


def overhearing(
    where: ArrayLike, sizes: ArrayLike, wants: Sequence[Iterable[int]], *, header: float, listen: float = 0.0
) -> float:
    """Return X, what clients spend on messages of others that share their physical channels.

    >>> round(overhearing([0, 0, 0, 0], [24, 16, 20, 9], [[0], [0, 1], [2], [2, 3], [1]], header=1, listen=0.1), 6)
    34.6
    """
    cost = _message_costs(sizes, header, listen)
    clients, weights = _clients(wants, len(cost))
    given = np.asarray(where, np.int64)
    if given.shape != cost.shape:
        raise ValueError(f"where must be one for each of the {len(cost)} groups, got shape {given.shape}")
    total = 0.0
    for channel in np.unique(given):
        on = given == channel
        tuned = clients[:, on].any(axis=1)
        total += float(weights[tuned].sum() * cost[on].sum() - weights @ clients[:, on] @ cost[on])
    return total


def _message_costs(sizes: ArrayLike, header: float, listen: float) -> Floats:
    given = np.asarray(sizes, np.float64)
    if given.ndim != 1 or not (np.isfinite(given).all() and (given >= 0).all()):
        raise ValueError(f"sizes must be float[g], finite and not negative, got {sizes!r}")
    for name, value in (("header", header), ("listen", listen)):
        if not (np.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be finite and not negative, got {value}")
    return header + listen * given


def _clients(wants: Sequence[Iterable[int]], groups: int) -> tuple[Flags, Floats]:
    """The groups that each kind of client wants, bool[c, g], and the number of clients of that kind."""
    wanted = np.zeros((len(wants), groups), np.bool_)
    for client, groups_of in enumerate(wants):
        for group in groups_of:
            if not 0 <= group < groups:
                raise ValueError(f"wants: client {client} wants group {group}, there are 0 to {groups - 1}")
            wanted[client, group] = True
    kinds, counts = np.unique(wanted, axis=0, return_counts=True)
    return kinds.reshape(-1, groups), counts.astype(np.float64)


def _joined(clients: Flags, weights: Floats, cost: Floats, physical: int) -> Integers:
    """Join the two channels whose union raises X least, until `physical` are left.

    X = Σ tuned(C)·cost(C) − a constant, so that a union adds both tuned sets' difference times what the other sends.
    """
    groups = len(cost)
    where, tuned, load = np.arange(groups), clients.astype(np.float64), cost.copy()
    alive = np.ones(groups, np.bool_)
    both = (tuned * weights[:, None]).T @ tuned  # clients tuned to either of two channels at once
    for _ in range(groups - physical):
        count = np.diag(both)
        added = (count[:, None] + count[None, :] - both) * (load[:, None] + load[None, :])
        added -= (count * load)[:, None] + (count * load)[None, :]
        added[~alive] = np.inf
        added[:, ~alive] = np.inf
        np.fill_diagonal(added, np.inf)
        a, b = sorted(np.unravel_index(int(np.argmin(added)), added.shape))
        where[where == b] = a
        tuned[:, a] = np.maximum(tuned[:, a], tuned[:, b])
        load[a] += load[b]
        alive[b] = False
        both[a] = both[:, a] = (tuned[:, a] * weights) @ tuned
    return where


def _moved(where: Integers, clients: Flags, weights: Floats, cost: Floats, physical: int) -> Integers:
    """Move single groups while X falls."""
    channels = np.unique(where)
    reception = np.stack([clients[:, where == channel].sum(axis=1) for channel in channels], axis=1)
    load = np.array([cost[where == channel].sum() for channel in channels])
    at = np.searchsorted(channels, where)
    better = True
    while better:
        better = False
        for group in range(len(cost)):
            mine, here = clients[:, group], at[group]
            without = weights @ (reception[:, here] - mine > 0)
            saved = (weights @ (reception[:, here] > 0)) * load[here] - without * (load[here] - cost[group])
            joined = weights @ ((reception > 0) | mine[:, None])
            added = joined * (load + cost[group]) - (weights @ (reception > 0)) * load
            added[here] = saved
            target = int(np.argmin(added))
            if saved - added[target] > 1e-12 * (1.0 + abs(saved)):
                reception[:, here] -= mine
                reception[:, target] += mine
                load[here] -= cost[group]
                load[target] += cost[group]
                at[group] = target
                better = True
    return at
