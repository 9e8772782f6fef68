"""A thousand items on a real server that misbehaves: the promise is kept, with a tenth of the requests."""

import asyncio

import numpy as np
import pytest

pytest.importorskip("aiohttp")


from tolerant.edge.polling import Endpoint, HttpPoller, Limits, MemorySink
from tolerant.queries import Aggregate
from tolerant.testing.faulty_server import FaultyServer

FAULTS = ("500", "malformed", "nan", "slow", "drop")


async def played(items, queries, ticks, tick, per_request):
    rng = np.random.default_rng(0)
    names = [f"s{k}" for k in range(items)]
    values = np.full(items, 100.0)
    steps = rng.uniform(0.05, 0.2, items)
    asked = [
        Aggregate.over(f"q{k}", "sum", rng.choice(names, 8, replace=False).tolist(), 3.0, 0.9) for k in range(queries)
    ]
    referred = len({item for query in asked for item in query.weights})
    async with FaultyServer(dict(zip(names, values.tolist(), strict=True)), etags=True) as server:
        endpoint = Endpoint(server.url + "/quotes?of={symbol}", "$.{symbol}.price", key=("symbol",), batch=per_request)
        limits = Limits(at_once=16, timeout=4 * tick, pause=0.01)
        good, counted = 0, 0
        async with HttpPoller(endpoint, asked, MemorySink(), tick=tick, limits=limits) as poller:
            for t in range(ticks):
                if t:
                    values += rng.normal(0, 1, items) * steps
                    server.values.update(zip(names, values.tolist(), strict=True))
                if t > 10 and t % 5 == 0:  # 1 % of the items are in trouble, others each time
                    broken = rng.choice(names, items // 100, replace=False)
                    server.faults = {str(name): FAULTS[k % len(FAULTS)] for k, name in enumerate(broken)}
                poller.step(t)
                await asyncio.sleep(tick)
                if t == 0:
                    await poller.drain()  # the first pull of everything takes as long as the limits say
                for answer, query in zip(poller.poller.current(), asked, strict=True):
                    truth = sum(server.values[item] for item in query.weights)
                    good, counted = good + (abs(answer.value - truth) <= query.within), counted + 1
            await poller.drain()
            return poller.counts, good / counted, referred * ticks, server.most_at_once


@pytest.mark.parametrize("per_request", [1, 10])
@pytest.mark.soak
def test_a_thousand_items_on_a_faulty_server(per_request):
    counts, fidelity, every_tick, at_once = asyncio.run(played(1000, 150, 240, 0.25, per_request))
    print(f"{counts}, fidelity {fidelity:.3f}, {counts.pulls / every_tick:.3f} of every tick")
    assert counts.failed > 50
    assert fidelity >= 0.9
    assert counts.pulls <= 0.1 * every_tick
    assert at_once <= 16
