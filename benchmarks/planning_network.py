"""Messages and rows of a network of aggregators on a log, against sending every reading, and naive plans.

Sources, five aggregators and the pipeline's shard run in one process, in trace time (`tolerant.testing.networks`): 25
random walks, 20 queries of 3 to 10 items. Every settled answer is held against the truth. What is counted are rows in
the log: parts, plans, beats and hellos, and reports.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from dataclasses import replace

from side_by_side import Figure, arguments, report
from tolerant.planning import Network, plan
from tolerant.testing.networks import SimulatedNetwork
from tolerant.transport.rows import unpack

ITEMS = [f"S{number}" for number in range(25)]
AGGREGATORS, QUERIES = 5, 20


def network(rng: random.Random) -> Network:
    """Every item at two aggregators or three."""
    bounds: dict[str, dict[str, float]] = {f"D{number}": {} for number in range(AGGREGATORS)}
    for item in ITEMS:
        for name in rng.sample(list(bounds), rng.choice((2, 3))):
            bounds[name][item] = rng.uniform(0.01, 0.05)
    return Network(bounds)


def main() -> None:
    seconds = 60 if arguments(__doc__ or "").quick else 300
    rng = random.Random(0)
    texts = []
    for number in range(QUERIES):
        some = ", ".join(f"'{item}'" for item in rng.sample(ITEMS, rng.randint(3, 10)))
        texts.append(f"CREATE QUERY q{number} AS SELECT SUM(price) FROM prices WHERE item IN ({some}) WITHIN 3")
    world = SimulatedNetwork(0, network(rng), faults=False, queries=texts)
    world.steps = {item: rng.choice((0.02, 0.1, 0.3)) for item in world.items}
    begun = time.perf_counter()
    world.run(seconds)
    took = time.perf_counter() - begun
    kinds = Counter(
        kind
        for topic in ("updates.prices", "reports.prices")
        for entry in world.log.read(topic)
        for kind in (unpack(entry.payload).to_pydict().get("kind") or ["report"])
    )
    asked = [item for query in world.shard.planner.queries.values() for item in query.weights]
    readings = sum(len(world.journal[item].ats) for item in asked)
    dynamics = world.shard.planner.dynamics.dynamics()
    made = naive = 0.0
    for said in world.shard.planner.announced.values():
        assert said.plan is not None
        ours = replace(said.plan, dynamics=dynamics)
        made += sum(part.refreshes or 0.0 for part in ours.explain(0.1))
        apart = plan(said.plan.query, world.network, dynamics, "naive")
        naive += sum(part.refreshes or 0.0 for part in apart.explain(0.1))
    parts = kinds["update"] + kinds["hello"] + kinds["gone"]
    others = kinds["heartbeat"] + kinds["report"] + world.shard._counters["grants"]
    wrong = len(world.violations())
    figures = [
        Figure("rows of parts over readings of their items", parts / readings, "", "≤ 0.5", parts / readings <= 0.5),
        Figure("all rows to and from the pipeline over readings", (parts + others) / readings, ""),
        Figure("expected refreshes of the plans over naive ones", made / naive, "", "< 1", made < naive),
        Figure("settled answers that were wrong", float(wrong), "", "0", wrong == 0),
        Figure("trace time over time, all in one process", seconds / took, "×"),
    ]
    inputs = {"seconds": seconds, "items": len(ITEMS), "aggregators": AGGREGATORS, "queries": QUERIES}
    sys.exit(0 if report("planning_network", inputs, figures) else 1)


if __name__ == "__main__":
    main()
