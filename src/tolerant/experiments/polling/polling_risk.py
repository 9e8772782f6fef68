"""Beyond [GPR05]: pulling by the risk of a violation, against [GPR05]'s choosers and fixed periods (§5.1, §5.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.stock_prices import fixed_period, means, measured, polled_trace, portfolios

TRACES = ("walk", "momentum", "stock", "reverting")
JUDGED = ("walk", "momentum", "stock")
METHODS: dict[str, tuple[str, dict[str, bool]]] = {
    "max": ("max", {}),
    "positive-negative": ("positive-negative", {}),
    "per-item": ("per-item", {}),
    "risk": ("risk", {}),
    "risk, calibrated": ("risk", {"calibrated": True, "forecast": True}),
    "risk with forecast": ("risk", {"forecast": True}),
    "ideal-push": ("ideal-push", {}),
    "least-push": ("least-push", {}),
}
AT_MOST = 0.65


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: traces × tolerances × fidelities × seeds."""
    bounds, asked = ([2400], [0.98]) if quick else ([1800, 2400, 3000, 5400], [0.9, 0.98, 0.99])
    return [
        {"trace": t, "within": b, "fidelity": f, "seed": seed, "queries": 500, "ticks": 3000}
        for t in TRACES
        for b in bounds
        for f in asked
        for seed in range(3 if quick else 5)
    ]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure pulls per item, mean fidelity, and that of the worst 5 % of queries."""
    seed = int(parameters["seed"])
    rows: list[Row] = []
    for method, (chooser, options) in METHODS.items():
        _, figures = measured(parameters, chooser, seed, **options)
        rows.append({**parameters, "method": method, **_described(figures)})
    rows.append({**parameters, "method": "fixed period, by hand", **_described(_by_hand(parameters, seed))})
    return rows


def _described(figures: Mapping[str, float]) -> Row:
    return {"pulls": figures["pulls"], "delivered": figures["fidelity"], "worst": figures["worst"]}


def _by_hand(parameters: Mapping[str, float | int | str], seed: int) -> dict[str, float]:
    """The longest period that gives the fidelity asked for in the mean, known only afterwards."""
    trace = polled_trace(str(parameters["trace"]), int(parameters["ticks"]), seed=seed)
    asked = float(parameters["fidelity"])
    queries = portfolios(int(parameters["queries"]), float(parameters["within"]), asked, seed=seed)
    low, high = 1, 400
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fixed_period(trace, queries, middle)["fidelity"] >= asked else (low, middle)
    return fixed_period(trace, queries, low)


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: risk, plain and calibrated, must need at most 0.65 of max's pulls at 2400 and 0.98, at no lower
    fidelity.
    """
    at = [row for row in rows if row["within"] == 2400 and row["fidelity"] == 0.98]
    pulls, got, worst = (means(at, ["trace", "method"], name) for name in ("pulls", "delivered", "worst"))
    holds = all(
        pulls[t, m] <= AT_MOST * pulls[t, "max"] and got[t, m] >= max(got[t, "max"], 0.98)
        for t in JUDGED
        for m in ("risk", "risk, calibrated")
    )
    summary = "; ".join(
        f"{t}: {pulls[t, 'risk'] / pulls[t, 'max']:.2f} of max's pulls, {got[t, 'risk']:.3f} (worst 5 %: "
        f"{worst[t, 'risk']:.3f}) against {got[t, 'max']:.3f} ({worst[t, 'max']:.3f}), calibrated "
        f"{pulls[t, 'risk, calibrated'] / pulls[t, 'max']:.2f}, "
        f"{got[t, 'risk, calibrated']:.3f} ({worst[t, 'risk, calibrated']:.3f}), with forecast "
        f"{pulls[t, 'risk with forecast'] / pulls[t, 'max']:.2f}"
        for t in dict.fromkeys(key[0] for key in pulls)
    )
    return Verdict(holds, summary)


EXPERIMENT = Experiment(
    figure="docs/design/polling.md §5.1 (beyond [GPR05])",
    claim="risk, plain or calibrated, needs ≤ 0.65 of max's pulls on walk, momentum and stock, at no lower fidelity",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="delivered", y="pulls", series="method", panel="trace", x_label="fidelity", y_label="pulls per item"),
)
