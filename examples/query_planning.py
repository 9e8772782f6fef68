"""Plans which aggregator answers which part of a query: `python query_planning.py`."""

from __future__ import annotations

from tolerant.planning import Dynamics, Network, plan, simulate
from tolerant.queries import Aggregate
from tolerant.traces import random_walk


def main() -> tuple[int, int]:
    """Print the plan; return its refreshes and those of a plan that asks for every item apart."""
    network = Network({"north": {"a": 0.1, "b": 0.1}, "south": {"b": 0.2, "c": 0.1, "d": 0.1}})
    trace = random_walk(["a", "b", "c", "d"], 10_000, steps=[0.5, 1.0, 1.0, 0.2], seed=1)
    folio = Aggregate("folio", "sum", {"a": 2, "b": 3, "c": -1, "d": 4}, within=40)
    made = plan(folio, network, Dynamics.of(trace))
    for part in made.parts:
        print(f"{part.aggregator} answers {', '.join(part.weights)} within {part.within:.1f}")
    apart = plan(folio, network, Dynamics.of(trace), "naive")
    refreshes = simulate(made, trace).refreshes, simulate(apart, trace).refreshes
    print(f"{refreshes[0]:,} refreshes, {refreshes[1]:,} item by item")
    return refreshes


if __name__ == "__main__":
    main()
