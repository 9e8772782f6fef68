import numpy as np
import pytest

from tolerant.experiments.polling import (
    polling_ablations,
    polling_fig4,
    polling_fig5,
    polling_fig6,
    polling_fig7,
    polling_fig8,
    polling_fig9,
    polling_fig10,
    polling_real,
    polling_risk,
)
from tolerant.experiments.workloads import polled_trace, portfolios
from tolerant.experiments.workloads.stock_prices import fixed_period, means
from tolerant.traces import Trace

SMALL = {"queries": 3, "ticks": 450, "seed": 0, "within": 2400, "fidelity": 0.98}


@pytest.mark.parametrize(
    ("experiment", "parameters", "column"),
    [
        (polling_fig4, {}, "pulls"),
        (polling_fig5, {"trace": "stock"}, "share"),
        (polling_fig6, {"trace": "stock"}, "ratio"),
        (polling_fig7, {"trace": "stock", "safety": 1.0}, "delivered"),
        (polling_fig8, {"trace": "stock"}, "loss"),
        (polling_fig9, {"trace": "walk"}, "gap"),
        (polling_fig10, {"trace": "walk", "sigma": 0.03}, "pulls"),
        (polling_risk, {"trace": "momentum"}, "worst"),
        (polling_ablations, {"trace": "reverting"}, "worst"),
    ],
)
def test_every_experiment_measures(experiment, parameters, column):
    rows = experiment.measure({**SMALL, **parameters})
    assert rows
    assert all(np.isfinite(row[column]) for row in rows)


def test_figure_4_is_judged_by_order():
    def rows(*pulls):
        names = ("max", "positive-negative", "per-item")
        return [{"within": 1, "chooser": c, "pulls": p, "fidelity": 0.9} for c, p in zip(names, pulls, strict=True)]

    assert polling_fig4.judge(rows(1, 2, 3)).reproduced
    assert not polling_fig4.judge(rows(2, 1, 3)).reproduced


def test_figure_5_is_judged_by_shape():
    def rows(share, loose):
        pulls = {(1800, 0.9): 200, (1800, 0.98): 300, (3000, 0.9): 100, (3000, 0.98): 150, (5400, 0.9): 50}
        pulls[5400, 0.98] = 50 + loose
        return [{"within": w, "fidelity": f, "pulls": p, "share": share} for (w, f), p in pulls.items()]

    assert polling_fig5.judge(rows(0.1, 10)).reproduced
    assert not polling_fig5.judge(rows(0.2, 10)).reproduced
    assert not polling_fig5.judge(rows(0.1, 60)).reproduced


def test_figures_6_and_8_are_judged_by_their_bounds():
    def ratio(value):
        return [{"within": 1800, "over": over, "ratio": value} for over in ("ideal-push", "least-push")]

    assert polling_fig6.judge(ratio(4.9)).reproduced
    assert not polling_fig6.judge(ratio(5.1)).reproduced

    def loss(value):
        return [{"of": "so far", "tick": 1000, "loss": value}, {"of": "so far", "tick": 200, "loss": 50.0}]

    assert polling_fig8.judge(loss(2.0)).reproduced
    assert not polling_fig8.judge(loss(3.5)).reproduced


def test_figure_7_is_judged_by_its_fall():
    def rows(at_one):
        got = {(2400, 0.5): 0.99, (2400, 1.0): at_one, (5400, 0.5): 0.999, (5400, 1.0): 0.99}
        return [{"within": w, "safety": s, "delivered": d} for (w, s), d in got.items()]

    assert polling_fig7.judge(rows(0.95)).reproduced
    assert not polling_fig7.judge(rows(0.91)).reproduced


def test_figures_9_and_10_are_judged_where_the_claim_is_made():
    def gaps(interpolated, honest):
        return [
            {"trace": t, "within": 2400, "estimate": e, "gap": g}
            for t in ("walk", "stock")
            for e, g in (("interpolated", interpolated), ("honest", honest))
        ]

    assert polling_fig9.judge(gaps(0.8, 0.1)).reproduced
    assert not polling_fig9.judge(gaps(1.8, 0.1)).reproduced
    assert not polling_fig9.judge(gaps(0.8, -0.5)).reproduced

    def pulls(stock, reverting):
        return [
            {"trace": t, "within": 2400, "brings": b, "pulls": p}
            for t, more in (("stock", stock), ("reverting", reverting))
            for b, p in (("the last value", 10.0), ("every value", 10.0 * more))
        ]

    assert polling_fig10.judge(pulls(1.1, 3.8)).reproduced
    assert "reverting 2400" in polling_fig10.judge(pulls(1.1, 3.8)).finding
    assert not polling_fig10.judge(pulls(1.5, 1.0)).reproduced


def test_risk_is_judged_by_pulls_and_fidelity():
    def rows(share, fidelity, calibrated=0.6):
        methods = {"max": (100, 0.985), "risk": (100 * share, fidelity)}
        methods |= {"risk, calibrated": (100 * calibrated, 0.99), "risk with forecast": (50, 0.99)}
        return [
            {"trace": t, "within": 2400, "fidelity": 0.98, "method": m, "pulls": p, "delivered": d, "worst": d}
            for t in ("walk", "momentum", "stock")
            for m, (p, d) in methods.items()
        ]

    assert polling_risk.judge(rows(0.6, 0.99)).reproduced
    assert not polling_risk.judge(rows(0.7, 0.99)).reproduced
    assert not polling_risk.judge(rows(0.6, 0.982)).reproduced
    assert not polling_risk.judge(rows(0.6, 0.99, 0.7)).reproduced


def test_recorded_traces_are_measured_where_they_are(tmp_path, monkeypatch):
    monkeypatch.setenv("TOLERANT_DATA", str(tmp_path))
    rows = polling_real.measure({"trace": "markets-minute", "ticks": 10, "queries": 2, "fidelity": 0.98})
    assert "TOLERANT_DATA" in polling_real.judge(rows).finding
    trace = Trace(("a", "b", "c"), polled_trace("walk", 300).values[:, :3])
    found = polling_real.compared(trace, 3, 0.98)
    judged = polling_real.judge([{"trace": "t", "method": m, **row} for m, row in found.items()])
    assert "risk" in judged.finding


def test_ablations_are_judged_by_states():
    rows = polling_ablations.measure({**SMALL, "ticks": 200, "trace": "walk"})
    assert polling_ablations.judge(rows).finding
    bent = [{**row, "pulls": row["pulls"] * (3 if row["variant"] == "41 states" else 1)} for row in rows]
    assert not polling_ablations.judge(bent).reproduced


def test_workloads_are_what_they_say():
    for kind in ("walk", "momentum", "stock", "reverting"):
        assert polled_trace(kind, 50, seed=1).values.tolist() == polled_trace(kind, 50, seed=1).values.tolist()
    together = np.corrcoef(np.diff(polled_trace("walk", 3000, correlation=0.6).values, axis=0).T)
    assert together[np.triu_indices(20, 1)].mean() == pytest.approx(0.6, abs=0.05)
    with pytest.raises(ValueError, match="kind"):
        polled_trace("sine")
    often = np.bincount([int(item[1:]) for query in portfolios(300, 1, 0.9) for item in query.weights], minlength=20)
    assert often[0] > 2 * often[10]


def test_a_fixed_period_of_one_tick_is_never_wrong():
    trace, queries = polled_trace("walk", 40), portfolios(3, 100, 0.9)
    assert fixed_period(trace, queries, 1) == {"pulls": 40.0, "fidelity": 1.0, "worst": 1.0}
    assert fixed_period(trace, queries, 20)["pulls"] == 2.0


def test_means_go_over_what_is_not_named():
    rows = [{"a": 1, "seed": s, "x": s} for s in (0, 2)]
    assert means(rows, ["a"], "x") == {(1,): 1.0}
