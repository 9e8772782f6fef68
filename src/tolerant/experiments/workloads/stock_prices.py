"""Generates stocks and portfolios like those of [GPR05], whose recorded prices are not public (`docs/design/polling.md`
§4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tolerant.polling import Run, simulate
from tolerant.queries import Aggregate
from tolerant.traces import Trace

ITEMS = 20
Steps = Callable[[np.random.Generator, NDArray[np.float64], int], NDArray[np.float64]]


def polled_trace(
    kind: str, ticks: int = 3000, *, sigma: float | None = None, correlation: float = 0.0, seed: int = 0
) -> Trace:
    """Generate twenty items that move like "walk", "momentum", "reverting" or "stock".

    sigma: the size of a step, 0.02 (stock: 0.01) if not given. correlation: of the items' steps, of a walk.

    >>> polled_trace("walk", ticks=5).values.shape
    (5, 20)
    """
    if kind not in _KINDS:
        raise ValueError(f"kind must be one of {', '.join(_KINDS)}, got {kind!r}")
    rng = np.random.default_rng((seed, 1))
    usual, moves = _KINDS[kind]
    scale = (usual if sigma is None else sigma) * np.exp(rng.normal(0, 0.5, ITEMS))
    start = rng.uniform(8, 140, ITEMS)
    if correlation:
        common = rng.normal(size=(ticks, 1))
        own = rng.normal(size=(ticks, ITEMS))
        values = np.cumsum(scale * (np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own), axis=0)
    else:
        values = moves(rng, scale, ticks)
    values = start + values
    return Trace(tuple(f"s{k}" for k in range(ITEMS)), np.round(values, 2) if kind == "stock" else values)


def _walk(rng: np.random.Generator, scale: NDArray[np.float64], ticks: int) -> NDArray[np.float64]:
    return np.cumsum(rng.normal(size=(ticks, len(scale))) * scale, axis=0)


def _momentum(rng: np.random.Generator, scale: NDArray[np.float64], ticks: int) -> NDArray[np.float64]:
    noise = rng.normal(size=(ticks, len(scale))) * scale / 2
    return np.cumsum(_decaying(noise, 0.8, np.sqrt(1 - 0.8**2)), axis=0)


def _reverting(rng: np.random.Generator, scale: NDArray[np.float64], ticks: int) -> NDArray[np.float64]:
    near = _decaying(rng.normal(size=(ticks, len(scale))) * 1.5 * scale, 0.9)
    return near + np.cumsum(rng.normal(size=(ticks, len(scale))) * 0.2 * scale, axis=0)


def _stock(rng: np.random.Generator, scale: NDArray[np.float64], ticks: int) -> NDArray[np.float64]:
    shape = (ticks, len(scale))
    volatility = scale * np.exp(_decaying(rng.normal(size=shape) * 0.1, 0.98))
    trend = _decaying(0.15 * volatility * rng.normal(size=shape), 0.95)
    level = np.cumsum(trend + 0.6 * volatility * rng.normal(size=shape), axis=0)
    return level + _decaying(0.8 * volatility * rng.normal(size=shape), 0.7)


def _decaying(noise: NDArray[np.float64], left: float, factor: float = 1.0) -> NDArray[np.float64]:
    """x ← left·x + factor·noise, from 0."""
    values = np.empty_like(noise)
    now = np.zeros(noise.shape[1])
    for tick, step in enumerate(noise):
        now = left * now + factor * step
        values[tick] = now
    return values


_KINDS: dict[str, tuple[float, Steps]] = {
    "walk": (0.02, _walk),
    "momentum": (0.02, _momentum),
    "reverting": (0.02, _reverting),
    "stock": (0.01, _stock),
}


def portfolios(
    count: int, within: float, fidelity: float, *, items: Sequence[str] | None = None, seed: int = 0
) -> list[Aggregate]:
    """Draw sums over 2 to 8 stocks with weights of 4000 to 5000, popular stocks more often (Zipf, 0.9).

    >>> all(2 <= len(query.weights) <= 8 for query in portfolios(10, 2400, 0.98))
    True
    """
    names = list(items) if items is not None else [f"s{k}" for k in range(ITEMS)]
    rng = np.random.default_rng((seed, 2))
    chance = 1.0 / np.arange(1, len(names) + 1) ** 0.9
    chance /= chance.sum()
    queries = []
    for k in range(count):
        size = min(int(rng.integers(2, 9)), len(names))
        chosen = rng.choice(len(names), size, replace=False, p=chance)
        weights = {names[i]: float(weight) for i, weight in zip(chosen, rng.uniform(4000, 5000, size), strict=True)}
        queries.append(Aggregate(f"q{k}", "sum", weights, within, fidelity))
    return queries


def outcome(run: Run, items: int = ITEMS) -> dict[str, float]:
    """Return pulls per item, and the mean and the 5th percentile of the queries' fidelity."""
    delivered = np.array(list(run.fidelity.values()))
    return {
        "pulls": run.pulls / items,
        "fidelity": float(delivered.mean()),
        "worst": float(np.quantile(delivered, 0.05)),
    }


def fixed_period(trace: Trace, queries: Sequence[Aggregate], period: int) -> dict[str, float]:
    """Return the figures of pulling every item each `period` ticks; sums only."""
    values = trace.filled()
    ticks = np.arange(trace.ticks)
    apart = values - values[ticks // period * period]
    column = {item: k for k, item in enumerate(trace.items)}
    delivered = []
    for query in queries:
        off = apart[:, [column[item] for item in query.weights]] @ np.array(list(query.weights.values()))
        delivered.append(float((np.abs(off) <= query.within).mean()))
    return {
        "pulls": float(-(-trace.ticks // period)),
        "fidelity": float(np.mean(delivered)),
        "worst": float(np.quantile(delivered, 0.05)),
    }


def measured(
    parameters: Mapping[str, float | int | str], chooser: str, seed: int, **options: object
) -> tuple[Run, dict[str, float]]:
    """Run `chooser` as the parameters say: trace, sigma, ticks, queries, within, fidelity."""
    sigma = parameters.get("sigma")
    trace = polled_trace(
        str(parameters["trace"]), int(parameters["ticks"]), sigma=None if sigma is None else float(sigma), seed=seed
    )
    queries = portfolios(
        int(parameters["queries"]), float(parameters["within"]), float(parameters["fidelity"]), seed=seed
    )
    run = simulate(trace, queries, chooser, seed=seed, **options)  # type: ignore[arg-type]
    return run, outcome(run)


def means(
    rows: Sequence[Mapping[str, float | int | str]], by: Sequence[str], of: str
) -> dict[tuple[float | int | str, ...], float]:
    """Return the mean of column `of` over the rows (of different seeds) that agree in the columns `by`."""
    groups: dict[tuple[float | int | str, ...], list[float]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(float(row[of]))
    return {key: float(np.mean(values)) for key, values in groups.items()}
