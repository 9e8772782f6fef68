"""[GPR05]'s question on recorded traces: markets, clouds, weather data. TOLERANT_DATA names the folder that has them.

The tolerance of each query is set so that its items would have to be pulled about every 10 ticks: 3 times the
deviation of its sum's change per tick.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.stock_prices import means, outcome
from tolerant.polling import simulate
from tolerant.queries import Aggregate
from tolerant.traces import Trace

FILES = ("markets-minute", "stocks-daily", "cloud-5min", "weather-hourly")
METHODS: dict[str, tuple[str, dict[str, bool]]] = {
    "max": ("max", {}),
    "risk": ("risk", {}),
    "risk, calibrated": ("risk", {"calibrated": True, "forecast": True}),
    "risk, correlated": ("risk", {"correlated": True}),
    "risk with forecast": ("risk", {"forecast": True}),
    "ideal-push": ("ideal-push", {}),
}
NOTHING = "no trace"


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: one set per recorded trace."""
    return [{"trace": name, "ticks": 2000 if quick else 8000, "queries": 100, "fidelity": 0.98} for name in FILES]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure pulls as a part of every-tick, fidelity delivered in the mean and by the worst 5 % of queries."""
    path = Path(os.environ.get("TOLERANT_DATA", ".")) / f"{parameters['trace']}.parquet"
    if not path.exists():
        return [{**parameters, "method": NOTHING, "pulls": 0.0, "delivered": 0.0, "worst": 0.0}]
    whole = Trace.read(path)
    trace = Trace(whole.items, whole.values[: int(parameters["ticks"])])
    return [
        {**parameters, "method": method, **summary}
        for method, summary in compared(trace, int(parameters["queries"]), float(parameters["fidelity"])).items()
    ]


def compared(trace: Trace, count: int, fidelity: float) -> dict[str, Row]:
    """Every method on `count` weighted sums over the trace."""
    queries = scaled_sums(trace, count, fidelity)
    referred = len({item for query in queries for item in query.weights})
    rows: dict[str, Row] = {}
    for method, (chooser, options) in METHODS.items():
        figures = outcome(simulate(trace, queries, chooser, **options), referred)
        rows[method] = {
            "pulls": figures["pulls"] / trace.ticks,
            "delivered": figures["fidelity"],
            "worst": figures["worst"],
        }
    return rows


def scaled_sums(trace: Trace, count: int, fidelity: float, seed: int = 0) -> list[Aggregate]:
    """Sums over 2 to 8 items, each weighted by one over its deviation per tick, whatever its unit."""
    rng = np.random.default_rng(seed)
    changes = np.diff(trace.filled(), axis=0)
    scale = changes.std(axis=0)
    usable = np.flatnonzero(scale > 0)
    queries = []
    for k in range(count):
        size = min(int(rng.integers(2, 9)), len(usable))
        chosen = rng.choice(usable, size, replace=False)
        weights = rng.uniform(0.5, 1.5, size) / scale[chosen]
        within = 3 * float((changes[:, chosen] @ weights).std())
        named = {trace.items[i]: float(w) for i, w in zip(chosen, weights, strict=True)}
        queries.append(Aggregate(f"q{k}", "sum", named, within, fidelity))
    return queries


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: calibrated risk must deliver what was asked for, in the mean over the queries, on
    every trace.
    """
    there = [row for row in rows if row["method"] != NOTHING]
    if not there:
        return Verdict(False, "not measured: set TOLERANT_DATA to the folder with the recorded traces")
    pulls, got, worst = (means(there, ["trace", "method"], name) for name in ("pulls", "delivered", "worst"))
    traces = list(dict.fromkeys(key[0] for key in pulls))
    summary = "; ".join(
        f"{t}: " + ", ".join(f"{m} {pulls[t, m]:.2f} ({got[t, m]:.3f}; {worst[t, m]:.3f})" for m in METHODS)
        for t in traces
    )
    holds = all(got[t, "risk, calibrated"] >= 0.98 for t in traces)
    return Verdict(holds, f"pulls as a part of every-tick (mean fidelity; worst 5 %), 0.98 asked: {summary}")


EXPERIMENT = Experiment(
    figure="[GPR05] on recorded traces",
    claim="asking by calibrated risk delivers the fidelity asked for on recorded traces",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="delivered", y="pulls", series="method", panel="trace", x_label="fidelity", y_label="of every tick"),
)
