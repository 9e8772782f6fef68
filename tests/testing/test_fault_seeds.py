"""The promises of the real shard under the fault simulator: 1,000 seeds in `make test`, 20,000 in `make soak`.

A failing seed prints its history; `print(tolerant.testing.simulate_faults(seed))` plays it again.
"""

import pytest

from tolerant.testing import simulate_faults

CHUNK = 25


def check(seeds):
    failed = [report for report in map(simulate_faults, seeds) if not report.ok]
    assert not failed, "\n\n".join(map(str, failed[:3]))


@pytest.mark.parametrize("first", range(0, 1_000, CHUNK))
def test_no_promise_is_broken(first):
    check(range(first, first + CHUNK))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1_000, 20_000, 200))
def test_no_promise_is_broken_in_the_long_run(first):
    check(range(first, first + 200))
