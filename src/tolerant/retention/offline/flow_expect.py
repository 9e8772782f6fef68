"""Implements FlowExpect: computes the best fixed plan over the next ticks, follows it for one tick ([DISS] 3.3; §2.5).

Not optimal however far it looks: a fixed plan cannot depend on future values (3.3.4).
"""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.retention.models import StreamModel
from tolerant.retention.offline.flow import Arcs, best_flow
from tolerant.retention.offline.match_chances import MatchChances
from tolerant.retention.value_arrays import Flags, Floats, Integers, i64


def flow_expect(
    r: Integers,
    s: Integers,
    memory: int,
    models: tuple[StreamModel, StreamModel],
    window: int | None,
    warmup: int,
    lookahead: int,
) -> tuple[int, float]:
    """Return the results that count, and the share of r among the rows held."""
    streams = (r, s)
    held = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))  # stream, value, arrival
    meetings = (MatchChances(models[0], models[1], lookahead), MatchChances(models[1], models[0], lookahead))
    results = of_r = of_all = 0
    for t in range(len(r)):
        stream, value, arrival = held
        now = np.array([s[t], r[t]])
        if t >= warmup:
            results += int(np.count_nonzero(value == now[stream]))
        stream, arrival = np.append(stream, [0, 1]), np.append(arrival, [t, t])
        value = np.append(value, [r[t], s[t]])
        life = np.full(len(value), 2**62) if window is None else arrival + window - t
        stream, value, arrival, life = (column[life > 0] for column in (stream, value, arrival, life))
        if len(value) > memory:
            lasts = (int(streams[0][t]), int(streams[1][t]))
            gains = _gains(models, stream, value, life, t, lasts, lookahead)
            later = np.stack([meetings[k].at(t, lasts[k], lasts[1 - k]) for k in (0, 1)])
            # Of equally good plans the search finds the one whose chains it meets first: those of the newest rows.
            planned = decide(np.ascontiguousarray(gains[::-1]), later, memory)[0][::-1]
            kept = _filled(planned, stream, arrival, memory)
            stream, value, arrival = stream[kept], value[kept], arrival[kept]
        held = (stream, value, arrival)
        if t >= warmup:
            of_r += int(np.count_nonzero(stream == 0))
            of_all += len(stream)
    return results, of_r / of_all if of_all else float("nan")


def _gains(
    models: tuple[StreamModel, StreamModel], stream: Integers, value: Integers, life: Integers, tick: int,
    lasts: tuple[int, int], steps: int,
) -> Floats:  # fmt: skip
    """Return the gain of each candidate 1…steps ticks ahead, float64[candidates, steps]."""
    gains = np.zeros((len(value), steps))
    for k in (0, 1):
        gains[stream == k] = models[1 - k].chances(value[stream == k], tick, lasts[1 - k], steps)
    return np.where(np.arange(1, steps + 1) <= life[:, None], gains, 0.0)


def _filled(kept: Flags, stream: Integers, arrival: Integers, memory: int) -> Integers:
    """Return the rows that the plan keeps, and the newest others while there is room (of one tick: r first)."""
    order = np.lexsort((stream, -arrival, ~kept))
    return np.sort(order[:memory])


@compiled
def decide(gains: Floats, later: Floats, memory: int) -> tuple[Flags, float]:
    """Return which candidates the best plan keeps for the next tick, and the plan's gain.

    gains: float64[candidates, steps]. later: float64[2, steps, steps], what a row of r or s that comes i + 1 ticks from
    now gains j + 1 ticks from now.
    """
    n, steps = gains.shape
    chains = n + 2 * (steps - 1)
    base = np.zeros(steps + 1, np.int64)  # the first node of a tick; chains' nodes precede the hub
    hub = np.zeros(steps + 1, np.int64)
    for i in range(1, steps + 1):
        base[i] = hub[i - 1] + 1
        hub[i] = base[i] + n + 2 * (i - 1)
    m = steps + 2 * chains * steps
    tails, heads = np.empty(m, np.int64), np.empty(m, np.int64)
    room, gain = np.ones(m, np.int64), np.zeros(m)
    k = 0
    for i in range(steps):
        tails[k], heads[k], room[k] = hub[i], hub[i + 1], memory
        k += 1
    entries = np.empty(n, np.int64)
    for chain in range(chains):
        enters = 0 if chain < n else (chain - n) // 2 + 1
        for i in range(enters + 1, steps + 1):
            tails[k] = hub[enters] if i == enters + 1 else base[i - 1] + chain
            heads[k] = base[i] + chain
            gain[k] = gains[chain, i - 1] if chain < n else later[(chain - n) % 2, enters - 1, i - 1]
            if chain < n and i == 1:
                entries[chain] = k
            k += 1
            tails[k], heads[k] = base[i] + chain, hub[i]
            k += 1
    arcs = Arcs(tails[:k], heads[:k], room[:k], gain[:k])
    sink = i64(hub[steps])
    flow = best_flow(sink + 1, arcs, i64(0), sink, memory)
    return flow[entries] > 0, float((flow * gain[:k]).sum())
