import pytest

from tolerant.experiments import load
from tolerant.experiments.workloads.cache_baselines import arc_hits, s3_fifo_hits, shifting_zipf
from tolerant.experiments.workloads.moving_streams import NOISES, WORKLOADS, policies, streams, temperatures


def measured(name, **small):
    experiment = load(name)
    return experiment.measure({**experiment.grid(True)[0], **small})


@pytest.mark.parametrize("workload", WORKLOADS)
def test_workloads_are_as_long_as_asked_and_repeat(workload):
    r, s, models = streams(workload, 50, 3)
    assert len(r) == len(s) == 50
    assert len(models) == 2
    again = streams(workload, 50, 3)
    assert (r == again[0]).all()
    assert (s == again[1]).all()


def test_temperatures_are_there_or_generated():
    values, _ = temperatures()
    assert len(values) == 3650
    assert 0 < values.min() < values.max() < 600


@pytest.mark.parametrize("name", ["retention-fig38", "retention-fig37"])
def test_what_is_only_drawn(name):
    experiment = load(name)
    assert experiment.judge([row for one in experiment.grid(True) for row in experiment.measure(one)]).reproduced


def rows_of(**by_workload):
    return [
        {"workload": workload, "policy": policy, "results": float(results)}
        for workload, found in by_workload.items()
        for policy, results in zip(policies(workload), found, strict=True)
    ]


GOOD = {
    "TOWER": (162, 50, 59, 229, 228, 229),
    "ROOF": (109, 47, 58, 188, 180, 251),
    "FLOOR": (80, 46, 59, 103, 126, 249),
    "WALK": (17, 22, 86, 69, 366),
}


def test_all_policies_on_all_workloads():
    found = measured("retention-fig39", ticks=60, runs=1)
    assert [row["policy"] for row in found] == policies("TOWER")
    judge = load("retention-fig39").judge
    assert judge(rows_of(**GOOD)).reproduced
    assert not judge(rows_of(**{**GOOD, "ROOF": (189, 47, 58, 188, 180, 251)})).reproduced
    assert "near the optimum on WALK" in judge(rows_of(**{**GOOD, "WALK": (17, 22, 350, 69, 366)})).finding


@pytest.mark.parametrize(("figure", "workload"), list(zip((310, 311, 312, 313), WORKLOADS, strict=True)))
def test_results_by_memory(figure, workload):
    name = f"retention-fig{figure}"
    assert {row["workload"] for row in measured(name, ticks=60, runs=1)} == {workload}
    rows = [
        {"policy": policy, "memory": memory, "results": float(results)}
        for policy, by_memory in {"rand": (10, 90), "heeb": (50, 99), "optimal": (60, 100)}.items()
        for memory, results in zip((1, 50), by_memory, strict=True)
    ]
    judge = load(name).judge
    assert judge(rows).reproduced
    rows[0]["results"] = 55.0
    verdict = judge(rows)
    assert not verdict.reproduced
    assert "behind a rule at 1" in verdict.finding


def hits(seeds, tuned, recorded=1):
    found = {"lru": 100, "lfu": 90, "heeb, α = memory": seeds, "heeb, tuned": tuned}
    return [{"policy": name, "memory": 10, "hits": one, "recorded": recorded} for name, one in found.items()]


def test_a_cache_for_temperatures():
    assert len(measured("retention-fig314", memory=3)) == 6
    judge = load("retention-fig314").judge
    assert judge(hits(101, 120)).reproduced
    assert not judge(hits(80, 120)).reproduced
    assert "1.200" in judge(hits(80, 120)).finding
    assert "GENERATED" in judge(hits(101, 120, recorded=0)).finding


def test_shares_of_the_memory():
    assert len(measured("retention-fig315", ticks=80, runs=2)) == 2
    cases = ("equal", "r lags by 2", "r lags by 4", "σ of s × 2", "σ of s × 4")
    judge = load("retention-fig315").judge
    for shares, reproduced in [((0.505, 0.324, 0.130, 0.665, 0.733), True), ((0.505, 0.324, 0.4, 0.665, 0.733), False)]:
        rows = [{"case": case, "share_r": share} for case, share in zip(cases, shares, strict=True)]
        assert judge(rows).reproduced is reproduced


def test_surfaces_from_few_points():
    assert measured("retention-fig316", alpha=10, points=5)[0]["error"] > 0.1
    judge = load("retention-fig316").judge
    assert judge([{"points": n, "error": 0.01} for n in (5, 9, 17)]).reproduced
    assert not judge([{"points": n, "error": 0.2} for n in (5, 9, 17)]).reproduced


def test_looking_ahead():
    assert len(measured("retention-fig320", lookahead=1)) == 3
    judge = load("retention-fig320").judge

    def rows(by_distance):
        return [
            {"lookahead": distance, "seed": seed, "policy": policy, "results": results + 2 * seed}
            for distance, results in by_distance.items()
            for seed in range(4)
            for policy in ("flow-expect", "heeb", "optimal")
        ]

    assert judge(rows({1: 300, 5: 320, 8: 320})).reproduced
    assert not judge(rows({1: 320, 5: 320, 8: 320})).reproduced


def test_lives_no_longer_than_the_memory():
    assert measured("retention-alpha", ticks=200, runs=1)[0]["ratio"] > 0.5
    judge = load("retention-alpha").judge
    rows = [{"workload": name, "memory": 2, "ratio": 1.1} for name in NOISES]
    assert judge(rows).reproduced
    assert not judge([*rows, {"workload": "ROOF", "memory": 5, "ratio": 0.9}]).reproduced


def test_learning_against_other_caches():
    found = measured("retention-unknown", references=800, values=50, memory=5)
    assert [row["cache"] for row in found] == ["lru", "lfu", "arc", "s3-fifo", "heeb, learned"]
    judge = load("retention-unknown").judge
    rows = [{"skew": 1.0, "every": 0, "cache": name, "hits": 100} for name in ("lru", "heeb, learned")]
    assert judge(rows).reproduced
    assert not judge([*rows, {"skew": 1.0, "every": 0, "cache": "arc", "hits": 110}]).reproduced


def test_the_other_caches_are_caches():
    assert arc_hits([1, 2, 1, 2, 1], 2) == s3_fifo_hits([1, 2, 1, 2, 1], 2) == 3
    assert arc_hits([1, 2, 3] * 5, 1) == 0
    values = shifting_zipf(1.0, 500, 5000, 0, seed=1).tolist()
    for hits_of in (arc_hits, s3_fifo_hits):
        assert 0.3 < hits_of(values, 50) / 5000 < 0.8
        assert hits_of(values, 500) >= 5000 - 500
