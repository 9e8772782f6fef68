"""The poller as `docs/design/polling.md` §2 and §5.1 describe it, in plain Python: slow and obvious, for comparison."""

import itertools
import math

import numpy as np

from tolerant.kernels.random import uniforms
from tolerant.polling.query_arrays import item_key

EPS = 1 + 1e-9


def coefficients(query):
    if query.fn == "count":
        return {}
    size = len(query.weights) if query.fn == "avg" else 1
    return {i: w / size for i, w in query.weights.items() if w}


def share(query, item):
    terms = coefficients(query)
    if query.fn in ("min", "max"):
        return query.within
    w, total, n = abs(terms[item]), sum(map(abs, terms.values())), len(terms)
    return query.within / w if n == 1 else (total - w) / total * query.within / (w * (n - 1))


def aggregate(query, values):
    terms = coefficients(query)
    if query.fn in ("min", "max"):
        return (min if query.fn == "min" else max)(values[i] for i in terms)
    return sum(w * values[i] for i, w in terms.items())


def apart(query, true, held):
    """E_q, from differences."""
    if query.fn == "count":
        return 0.0
    if query.fn in ("min", "max"):
        return abs(aggregate(query, true) - aggregate(query, held))
    return abs(sum(w * (true[i] - held[i]) for i, w in coefficients(query).items()))


class Item:
    def __init__(self, name, bound, states, seed):
        self.h = states // 2
        self.delta = bound / self.h
        self.counts = np.zeros((states, states))
        self.key = item_key(seed, name)
        self.x = self.k = 0
        self.drift = self.dx = self.rho = 0.0
        self.cap, self.pulls, self.last, self.value = 1, 0, None, None

    def state(self, rate):
        if self.delta == 0:
            return 0
        return int(min(max(math.floor(rate / self.delta + 0.5), -self.h), self.h))

    def step(self, t):
        row = self.counts[self.k + self.h]
        if row.sum() > 0:
            u = uniforms(self.key, np.array([t]))[0]
            self.k = int(np.argmax(np.cumsum(row) > u * row.sum())) - self.h
        self.drift += self.k * self.delta

    def pc(self, t):
        return self.drift + (t - self.last) * self.dx

    def pull(self, value, t, smoothing, max_interval, path=None):
        if self.last is None:
            self.value, self.last, self.pulls = value, t, 1
            return
        m, change = t - self.last, value - self.value
        steps = (
            [(change / m, m)] if path is None else [(b - a, 1) for a, b in zip([self.value, *path], path, strict=False)]
        )
        for rate, ticks in steps:
            y = self.state(rate)
            self.counts[self.x + self.h, y + self.h] += 1
            self.counts[y + self.h, y + self.h] += ticks - 1
            self.x = y
        self.dx = smoothing * (change - self.drift) / m + (1 - smoothing) * self.dx
        self.rho += max(0.02, 1 / self.pulls) * (change**2 / m - self.rho)
        self.value, self.last, self.k, self.drift = value, t, self.x, 0.0
        self.pulls += 1
        self.cap = min(2 * self.cap, max_interval)


def predicted_off(query, items, t, marked):
    values = {i: items[i].value for i in coefficients(query)}
    moved = {i: items[i].value + (0 if i in marked else items[i].pc(t)) for i in values}
    if query.fn in ("min", "max"):
        return aggregate(query, moved) - aggregate(query, values)
    return sum(w * items[i].pc(t) for i, w in coefficients(query).items() if i not in marked)


def scores(query, items, t, marked):
    """Of one min or max: the change of the answer if only one item moved; if all are 0, |PC|."""
    values = {i: items[i].value for i in coefficients(query)}
    held = aggregate(query, values)
    free = [i for i in values if i not in marked]
    found = {i: abs(aggregate(query, values | {i: values[i] + items[i].pc(t)}) - held) for i in free}
    return found if any(found.values()) else {i: abs(items[i].pc(t)) for i in free}


def choose(chooser, queries, items, t, sf, marked, ratio):
    def over(q):
        return q.fn != "count" and abs(predicted_off(q, items, t, marked)) > sf[q.name] * q.within * EPS

    if chooser == "all":
        for q in queries:
            if over(q):
                marked |= set(coefficients(q))
    elif chooser == "per-item":
        for q in queries:
            for i in coefficients(q):
                if i not in marked and abs(items[i].pc(t)) > sf[q.name] * share(q, i) * EPS:
                    marked.add(i)
    elif chooser == "positive-negative":
        for q in queries:
            while over(q):
                off = predicted_off(q, items, t, marked)
                if q.fn in ("min", "max"):
                    found = scores(q, items, t, marked)
                    marked |= {i for i, s in found.items() if s > 0 and s >= max(found.values())}
                    continue
                sign = 1 if off > 0 else -1
                parts = {i: sign * w * items[i].pc(t) for i, w in coefficients(q).items() if i not in marked}
                positive = {i: c for i, c in parts.items() if c > 0}
                below = {i: c for i, c in positive.items() if c < abs(off)}
                marked |= {max(below, key=below.get)} if below else set(positive)
    elif chooser == "max" and any(over(q) for q in queries):
        found = {i: 0.0 for i in items if i not in marked}
        for i in found:
            reach = sum(abs(coefficients(q).get(i, 0.0)) for q in queries if q.fn in ("sum", "avg"))
            found[i] = abs(items[i].pc(t)) * reach
        for q in queries:
            if q.fn in ("min", "max"):
                for i, s in scores(q, items, t, marked).items():
                    found[i] += s
        best = max(found.values(), default=0.0)
        marked |= {i for i, s in found.items() if s > 0 and s >= ratio * best}


class Risk:
    def __init__(self, queries):
        self.rows = []
        for q in queries:
            terms, f = coefficients(q), min(q.fidelity, 0.9999)
            if q.within == 0 or not terms:
                continue
            if q.fn in ("min", "max"):
                self.rows += [[{i: 1.0}, q.within, (1 - f) / len(terms), 1.6] for i in terms]
            else:
                self.rows.append([terms, q.within, 1 - f, 1.6])

    def variance(self, row, items, t, marked):
        return sum(w * w * items[i].rho * (t - items[i].last) for i, w in row[0].items() if i not in marked)

    def choose(self, items, t, marked, costs):
        for row in self.rows:
            while self.variance(row, items, t, marked) * row[3] ** 2 > (row[1] * EPS) ** 2:
                free = [i for i in row[0] if i not in marked and items[i].rho > 0 and items[i].last < t]
                if not free:
                    break
                index = {
                    i: items[i].rho * (t - items[i].last) ** 2
                    * sum((r[0].get(i, 0) * r[3] / r[1]) ** 2 for r in self.rows) / costs.get(i, 1)
                    for i in free
                }  # fmt: skip
                marked.add(max(index, key=index.get))

    def follow(self, items, t):
        for row in self.rows:
            s = self.variance(row, items, t, ())
            p = math.erfc(row[1] / math.sqrt(2 * s)) if s > 0 else 0.0
            row[3] = min(max(row[3] * math.exp(min(0.01 * (p / row[2] - 1), 0.2)), 0.3), 6)


def simulate(
    trace, queries, chooser, *, pull_ratio=0.8, max_interval=60, smoothing=0.8, window=200, states=21, safety=None,
    intermediates=False, seed=0, gamma=0.1, learning_rate=0.98, costs=None,
):  # fmt: skip
    """(pulls by tick as sets of items, good ticks by query, safety factors)"""
    values = [dict(zip(trace.items, row, strict=True)) for row in trace.filled().tolist()]
    names = dict.fromkeys(i for q in queries for i in coefficients(q))
    items = {i: Item(i, min(share(q, i) for q in queries if i in coefficients(q)), states, seed) for i in names}
    sf = {q.name: 1.0 if safety is None else safety for q in queries}
    gammas, before = {q.name: gamma for q in queries}, {}
    risk = Risk(queries)
    history = {i: [] for i in items}  # (tick, value) of every pull
    held_at, pulled, good = [], [], {q.name: 0 for q in queries}
    for t, now in enumerate(values):
        marked = set(items) if t == 0 else set()
        if t:
            for item in items.values():
                item.step(t)
            always = {i for q in queries if q.within == 0 for i in coefficients(q)}
            marked |= {i for i, item in items.items() if t - item.last >= item.cap} | always
            if chooser == "risk":
                risk.choose(items, t, marked, costs or {})
            else:
                choose(chooser, queries, items, t, sf, marked, pull_ratio)
        for i in items:
            if i in marked:
                last = items[i].last
                path = [values[k][i] for k in range(last + 1, t + 1)] if intermediates and last is not None else None
                items[i].pull(now[i], t, smoothing, max_interval, path)
                history[i].append((t, now[i]))
        pulled.append(marked)
        held_at.append({i: item.value for i, item in items.items()})
        for q in queries:
            good[q.name] += apart(q, now, held_at[t]) <= q.within * EPS
        if t and chooser == "risk":
            risk.follow(items, t)
        if t and t % window == 0 and safety is None and chooser != "risk":
            for q in queries:
                ok = 0
                for k in range(t - window + 1, t + 1):
                    guess = {i: held_at[k][i] + missed(history[i], values, i, k, intermediates) for i in items}
                    ok += apart(q, guess, held_at[k]) <= q.within * EPS
                feedback(q, ok / window, sf, gammas, before, learning_rate)
    return pulled, good, sf


def missed(pulls, values, item, k, intermediates):
    """Interpolated less held value at tick k, from the pulls known."""
    for (a, low), (b, high) in itertools.pairwise(pulls):
        if a < k < b:
            return values[k][item] - low if intermediates else (high - low) * (k - a) / (b - a)
    return 0.0


def feedback(query, delivered, sf, gammas, before, learning_rate=0.98):
    ahead = 100 * (delivered - query.fidelity)
    ahead = 0.0 if abs(ahead) < 1e-9 else ahead
    if query.name in before:
        same = ahead * before[query.name] > 0
        gammas[query.name] *= 1 / learning_rate if same else learning_rate
    sf[query.name] = min(max(sf[query.name] * math.exp(gammas[query.name] * ahead), 0.05), 2.0)
    before[query.name] = ahead
