"""Compiled functions: Numba is loaded when one is called, and without it the same functions give the same bits."""

import json
import pickle
import subprocess
import sys

import pytest

from tolerant.kernels.random import mixed

_PROGRAM = """
import json, sys
if "blocked" in sys.argv:
    sys.modules["numba"] = None
import numpy as np
from tolerant.edge.source_core import SourceCore
from tolerant.edge.warm_up import warm_source
from tolerant.streams import StreamOptions, sum_key
from tolerant.transport.rows import Grant
from tolerant.transport.sums import SumOffers, Sums

assert not any(name.startswith("numba") and sys.modules[name] for name in sys.modules), "imported before it is needed"
options = StreamOptions(policy=sys.argv[1], period=5)
core = SourceCore("here", 1, options, moves_from=0.5)
warm_source(options)
rng, names = np.random.default_rng(int(sys.argv[2])), [f"k{i}" for i in range(12)]
handles, now = core.register(names), 1_000 * options.boundary
values, drift = rng.normal(size=12), rng.normal(size=12)
for step in range(80):
    now += options.tick
    values = values + drift + rng.normal(size=12)
    some = rng.random(12) < 0.8
    core.offer(handles[some], values[some], now)
    if step % 20 == 5:
        widths = rng.exponential(6.0, 12)
        grants = [Grant(n, w, options.shrink, 0, step, confirm=True, unit=3.0) for n, w in zip(names, widths)]
        core.grant(grants, core.clock)
    if step == 30:
        keys, weights = (sum_key(0, 1), sum_key(0, 2)), ((1.0, 0.3, -2.0), (1.0, 0.1))
        offer = Sums(keys, tuple(names[:4]), ((0, 1, 2), (1, 3)), weights, (4.0, 2.0), (None,) * 4, True)
        core.apply_sum_offers([SumOffers("here", 0, 1, (offer,))], core.clock)
    if step % 10 == 9:
        core.compare_forms()
batch = core.drain()
print(json.dumps([batch.num_rows, batch.to_pylist().__repr__()]))
"""


def rows_sent(policy: str, seed: int, *options: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _PROGRAM, policy, str(seed), *options],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return tuple(json.loads(done.stdout))


@pytest.mark.parametrize(("policy", "seed"), [("predictive", 1), ("predictive", 2), ("adaptive", 3), ("uniform", 4)])
def test_a_source_sends_the_same_rows_without_numba(policy: str, seed: int) -> None:
    rows, text = rows_sent(policy, seed)
    assert rows > 12
    assert rows_sent(policy, seed, "blocked") == (rows, text)


def test_a_compiled_function_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(mixed)) is mixed
