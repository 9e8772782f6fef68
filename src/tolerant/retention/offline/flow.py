"""Computes a maximum-gain flow in an acyclic graph by successive shortest paths (§2.4).

Initial potentials come from one pass over the nodes in topological order; then each round runs Dijkstra's search and
sends every unit that fits on the best paths. It ends when no path gains.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.retention.value_arrays import Floats, Integers, i64

_EPSILON = 1e-11


class Arcs(NamedTuple):
    """Arc k leads from tails[k] to the higher-numbered heads[k], for up to room[k] units that gain gains[k] each."""

    tails: Integers
    heads: Integers
    room: Integers
    gains: Floats


@compiled
def best_flow(nodes: int, arcs: Arcs, source: int, sink: int, units: int) -> Integers:
    """Return how many units go through each arc, int64[arcs], for the largest gain of at most `units` from source to
    sink.
    """
    m = arcs.tails.size
    starts, slots = _adjacency(nodes, arcs)
    # Arc 2k is arc k, arc 2k + 1 its residual.
    left = np.zeros(2 * m, np.int64)
    for k in range(m):
        left[2 * k] = arcs.room[k]
    price = _first_prices(nodes, arcs, starts, slots, source)
    best = np.full(nodes, np.inf)
    state = np.zeros(nodes, np.int64)  # the round in which a node was settled (positive) or abandoned (negative)
    heap_key, heap_node = np.empty(4 * m + 8), np.empty(4 * m + 8, np.int64)
    pointer = np.zeros(nodes, np.int64)
    path = np.empty(nodes, np.int64)
    turn = 0
    while units > 0 and price[sink] < -_EPSILON:
        turn += 1
        if turn > 1:
            if not _search(arcs, starts, slots, left, price, best, state, heap_key, heap_node, source, sink, turn):
                break
            if price[sink] >= -_EPSILON:
                break
        units -= _send(arcs, starts, slots, left, price, state, pointer, path, source, sink, units, turn)
    flow = np.empty(m, np.int64)
    for k in range(m):
        flow[k] = left[2 * k + 1]
    return flow


@compiled
def _adjacency(nodes: int, arcs: Arcs) -> tuple[Integers, Integers]:
    """Return the arcs that leave each node, residual arcs included: slots[starts[v] : starts[v + 1]]."""
    starts = np.zeros(nodes + 2, np.int64)
    for k in range(arcs.tails.size):
        starts[arcs.tails[k] + 2] += 1
        starts[arcs.heads[k] + 2] += 1
    for v in range(nodes):
        starts[v + 2] += starts[v + 1]
    slots = np.empty(2 * arcs.tails.size, np.int64)
    for k in range(arcs.tails.size):
        slots[starts[arcs.tails[k] + 1]] = 2 * k
        starts[arcs.tails[k] + 1] += 1
        slots[starts[arcs.heads[k] + 1]] = 2 * k + 1
        starts[arcs.heads[k] + 1] += 1
    return starts, slots


@compiled
def _first_prices(nodes: int, arcs: Arcs, starts: Integers, slots: Integers, source: int) -> Floats:
    """Return the least cost (most gain, negative) from the source to each node; infinite where no path leads."""
    price = np.full(nodes, np.inf)
    price[source] = 0.0
    for node in range(nodes):
        for place in range(starts[node], starts[node + 1]):
            k = slots[place] // 2
            if slots[place] % 2 == 0 and arcs.room[k] > 0:
                price[arcs.heads[k]] = min(price[arcs.heads[k]], price[node] - arcs.gains[k])
    return price


@compiled
def _ends(arcs: Arcs, arc: int) -> tuple[int, float]:
    """Return where an arc leads, and what a unit costs there."""
    k = arc // 2
    if arc % 2 == 0:
        return arcs.heads[k], -arcs.gains[k]
    return arcs.tails[k], arcs.gains[k]


@compiled
def _search(  # noqa: PLR0913
    arcs: Arcs, starts: Integers, slots: Integers, left: Integers, price: Floats, best: Floats, state: Integers,
    heap_key: Floats, heap_node: Integers, source: int, sink: int, turn: int,
) -> bool:  # fmt: skip
    """Run Dijkstra over reduced costs until the sink is settled, update prices; return whether the sink was reached."""
    for node in range(best.size):
        best[node] = np.inf
    best[source] = 0.0
    heap_key[0], heap_node[0] = 0.0, source
    size = i64(1)
    settled = np.empty(price.size, np.int64)
    n_settled = 0
    while size:
        key, node = heap_key[0], heap_node[0]
        size = _pop(heap_key, heap_node, size)
        if state[node] == turn or key > best[node]:
            continue
        state[node] = turn
        settled[n_settled] = node
        n_settled += 1
        if node == sink:
            for k in range(n_settled):
                price[settled[k]] += best[settled[k]] - best[sink]
            for k in range(price.size):
                price[k] += best[sink]
            return True
        for place in range(starts[node], starts[node + 1]):
            arc = slots[place]
            if left[arc] > 0:
                to, cost = _ends(arcs, arc)
                if state[to] != turn:
                    reached = key + max(cost + price[node] - price[to], 0.0)
                    if reached < best[to]:
                        best[to] = reached
                        size = _push(heap_key, heap_node, size, reached, to)
    return False


@compiled
def _send(  # noqa: C901, PLR0913
    arcs: Arcs, starts: Integers, slots: Integers, left: Integers, price: Floats, state: Integers, pointer: Integers,
    path: Integers, source: int, sink: int, units: int, turn: int,
) -> int:  # fmt: skip
    """Send what fits along arcs of reduced cost 0, depth first; dead ends are not tried again."""
    for k in range(pointer.size):
        pointer[k] = starts[k]
    sent, depth, node = 0, 0, source
    while True:
        if node == sink:
            amount = units - sent
            for k in range(depth):
                amount = min(amount, left[path[k]])
            for k in range(depth):
                left[path[k]] -= amount
                left[path[k] ^ 1] += amount
            sent += amount
            # A prefix of the path may still have room: restarting at the source is simple, and paths are few.
            for k in range(depth):
                state[_ends(arcs, path[k] ^ 1)[0]] = 0
            state[sink] = 0
            depth, node = 0, source
            if sent == units:
                return sent
            continue
        state[node] = -turn
        moved = False
        while pointer[node] < starts[node + 1]:
            arc = slots[pointer[node]]
            if left[arc] > 0:
                to, cost = _ends(arcs, arc)
                if state[to] != -turn and cost + price[node] - price[to] < _EPSILON:
                    path[depth] = arc
                    depth += 1
                    node = to
                    moved = True
                    break
            pointer[node] += 1
        if not moved:
            if depth == 0:
                return sent
            depth -= 1
            node = _ends(arcs, path[depth] ^ 1)[0]
            pointer[node] += 1


@compiled
def _push(key: Floats, node: Integers, size: int, new_key: float, new_node: int) -> int:
    at = size
    while at > 0 and key[(at - 1) // 2] > new_key:
        key[at], node[at] = key[(at - 1) // 2], node[(at - 1) // 2]
        at = (at - 1) // 2
    key[at], node[at] = new_key, new_node
    return size + 1


@compiled
def _pop(key: Floats, node: Integers, size: int) -> int:
    size -= 1
    last_key, last_node = key[size], node[size]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and key[child + 1] < key[child]:
            child += 1
        if key[child] >= last_key:
            break
        key[at], node[at] = key[child], node[child]
        at = child
    key[at], node[at] = last_key, last_node
    return size
