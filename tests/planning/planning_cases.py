"""Random networks, queries, dynamics and traces for the property tests."""

import numpy as np
from hypothesis import strategies as st

from tolerant.planning import Dynamics, Network
from tolerant.queries import Aggregate
from tolerant.traces import Trace

ITEMS = tuple("abcdefgh")


def network_of(rng, items, aggregators, scale=1.0, tree=False, grid=False):
    """Each item is served by someone; in a tree a child's bounds are looser than its parent's."""
    bounds, parents = {}, {}
    for a in range(aggregators):
        served = {}
        parent = f"D{rng.integers(a)}" if tree and a and rng.random() < 0.7 else None
        for item in rng.permutation(items)[: rng.integers(1, len(items) + 1)]:
            c = float(rng.choice([0, 0.25, 0.5, 1])) if grid else float(rng.uniform(0, 1))
            served[str(item)] = scale * c + (bounds[parent].get(str(item), 0.0) if parent else 0.0)
        bounds[f"D{a}"] = served
        if parent:
            parents[f"D{a}"] = parent
    for item in items:
        if not any(item in served for served in bounds.values()):
            bounds["D0"][item] = scale * 0.0
    return Network(bounds, parents)


def dynamics_of(rng, items, kind):
    """kind: independent, correlated (few factors, so that items cancel), wild (not positive semidefinite), still."""
    n = len(items)
    sumdiff = rng.lognormal(0, 1, n)
    if kind == "independent":
        return Dynamics(items, sumdiff, np.eye(n))
    if kind == "still":
        return Dynamics(items, np.zeros(n), np.eye(n))
    if kind == "correlated":
        factors = rng.normal(size=(n, 2))
        factors /= np.linalg.norm(factors, axis=1)[:, None]
        cosine = np.clip(factors @ factors.T, -1, 1)
    else:
        cosine = rng.uniform(-1, 1, (n, n))
        cosine = (cosine + cosine.T) / 2
    np.fill_diagonal(cosine, 1.0)
    return Dynamics(items, sumdiff, cosine)


@st.composite
def cases(draw, most=8, fns=("sum", "avg", "max", "min"), tree=False, aggregators=6):
    """(query, network, dynamics): satisfiable, now and then just so."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    items = ITEMS[: draw(st.integers(1, most))]
    network = network_of(rng, items, draw(st.integers(1, aggregators)), tree=tree, grid=draw(st.booleans()))
    dynamics = dynamics_of(rng, items, draw(st.sampled_from(["independent", "correlated", "wild", "still"])))
    fn = draw(st.sampled_from(fns))
    weights = dict.fromkeys(items, 1.0)
    if fn in ("sum", "avg"):
        weights = {item: float(rng.uniform(0.5, 5) * rng.choice([-1, 1, 1])) for item in items}
    share = len(items) if fn == "avg" else 1
    best = [abs(weight) / share * network.tightest(item) for item, weight in weights.items()]
    tightest = max(best) if fn in ("min", "max") else sum(best)
    within = max(tightest, 1e-3) * draw(st.sampled_from([1.0, 1.05, 1.3, 2.0, 5.0, 50.0]))
    return Aggregate("q", fn, weights, within), network, dynamics


def walk(rng, items, ticks, grid, gaps):
    """A random walk, in cents if `grid`; with missing readings if `gaps`."""
    values = 10 + np.cumsum(rng.normal(0, 0.3, (ticks, len(items))), axis=0)
    if grid:
        values = np.round(values * 4) / 4
    if gaps:
        values[rng.random(values.shape) < 0.2] = np.nan
        values[-1] = 10.0
    return Trace(items, values)
