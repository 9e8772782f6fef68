"""The slow, obvious form of what is tested: lists of rows, every score anew at every tick."""

import itertools

import numpy as np

from tolerant.retention.scorer import ENDLESS, score


def slow_join(r, s, memory, scored, window=None, warmup=0):
    """`scored(stream, value, life, tick)` gives what a row is worth; results, held rows of r, all held rows."""
    held, results, of_r, of_all = [], 0, 0, 0
    for t in range(len(r)):
        if t >= warmup:
            results += sum(value == (s[t] if stream == 0 else r[t]) for stream, value, _ in held)
        held += [(0, int(r[t]), t), (1, int(s[t]), t)]
        if window is not None:
            held = [row for row in held if row[2] + window > t]
        while len(held) > memory:
            held.remove(min(held, key=lambda row: rank(row, scored, window, t)))
        if t >= warmup:
            of_r += sum(stream == 0 for stream, _, _ in held)
            of_all += len(held)
    return results, of_r, of_all


def rank(row, scored, window, t):
    stream, value, arrival = row
    life = ENDLESS if window is None else arrival + window - t
    return scored(stream, value, life, t), arrival, -stream


def by_frequency(r, s):
    streams = (list(map(int, r)), list(map(int, s)))
    return lambda stream, value, life, t: streams[1 - stream][: t + 1].count(value)


def by_life(r, s):
    count = by_frequency(r, s)
    return lambda stream, value, life, t: count(stream, value, life, t) * life


def by_scorer(r, s, scorers):
    streams = (r, s)

    def scored(stream, value, life, t):
        return score(scorers[stream], np.int64(0), np.int64(value), np.int64(life), np.int64(t), streams[1 - stream][t])

    return scored


def slow_cache(references, memory, ranked):
    """`ranked(value, last, tick)`: the least goes; hits by tick."""
    last, hits = {}, []
    for t, value in enumerate(map(int, references)):
        hits.append(value in last)
        last[value] = t
        if len(last) > memory:
            del last[min(last, key=lambda v: (ranked(v, last[v], t), last[v]))]
    return hits


def best_by_trying(r, s, memory, window=None, warmup=0):
    """The most results of any sequence of decisions."""
    states: dict[tuple, int] = {(): 0}
    for t in range(len(r)):
        after: dict[tuple, int] = {}
        for held, results in states.items():
            if t >= warmup:
                results += sum(value == (s[t] if stream == 0 else r[t]) for stream, value, _ in held)
            rows = [*held, (0, int(r[t]), t), (1, int(s[t]), t)]
            rows = [row for row in rows if window is None or row[2] + window > t]
            for kept in itertools.combinations(rows, min(memory, len(rows))):
                after[kept] = max(after.get(kept, -1), results)
        states = after
    return max(states.values(), default=0)
