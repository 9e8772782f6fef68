"""Sums in place of items, between sources and shard: far fewer messages, no promise broken, there and back."""

import numpy as np
import pytest
from forms_play import Play

TICKS = 1500
HOSTS = [f"h{number}" for number in range(20)]
AVERAGE = "CREATE QUERY q AS SELECT AVG(rate) FROM traffic WITHIN 1"


def walks(seed: int, count: int = 20, ticks: int = TICKS) -> np.ndarray:
    return np.cumsum(np.random.default_rng(seed).normal(0, 1, (ticks, count)), axis=0)


def run(play: Play, values: np.ndarray) -> Play:
    play.start("s")
    for row in values:
        play.tick({"s": dict(zip(HOSTS, row.tolist(), strict=False))})
    return play


@pytest.mark.parametrize("policy", ["adaptive", "predictive"])
def test_an_average_of_one_source_takes_far_fewer_messages(policy):
    values = walks(1)
    apart = run(Play(AVERAGE, policy=policy, formed=False), values)
    together = run(Play(AVERAGE, policy=policy), values)
    print(policy, apart.counted(), together.counted())
    for play in (apart, together):
        play.check("q", values.mean(axis=1), 1.0)
    assert together.formed_sums() == 1
