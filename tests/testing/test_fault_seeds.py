"""The promises of the real shard under the fault simulator: some of 1,000 seeds in `make test`, other
ones every day, and 20,000 in `make soak`.

A failing seed prints its history; `print(tolerant.testing.simulate_faults(seed))` plays it again.
"""

import pytest
import seed_budget

from tolerant.testing import simulate_faults


def test_no_promise_is_broken():
    seed_budget.check(seed_budget.play(simulate_faults, 1_000, least=40))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, 20_000, 200))
def test_no_promise_is_broken_in_the_long_run(first):
    seed_budget.check({seed: simulate_faults(seed) for seed in range(first, first + 200)})
