"""What each part of [GPR05]'s method contributes: one left out or replaced at a time (`docs/design/polling.md` §4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.stock_prices import fixed_period, means, measured, polled_trace, portfolios

TRACES = ("walk", "momentum", "stock", "reverting")
VARIANTS: dict[str, tuple[str, dict[str, object]]] = {
    "max": ("max", {}),
    "no dX": ("max", {"smoothing": 0.0}),
    "expected chain": ("max", {"execution": "expected"}),
    **{f"{states} states": ("max", {"states": states}) for states in (5, 11, 41, 121)},
    **{f"pull ratio {ratio:g}": ("max", {"pull_ratio": ratio}) for ratio in (0.3, 0.5, 1.0)},
    "only queries that are over": ("max-over", {}),
    "repeated within a tick": ("max-repeated", {}),
    "honest estimate": ("max", {"estimate": "honest"}),
    "forgetting 1 % a tick": ("max", {"forgetting": 0.01}),
}
PERIODS = (10, 20, 40)


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: traces × seeds at 2400 and 0.98."""
    size: Row = {"queries": 100 if quick else 500, "ticks": 1500 if quick else 3000, "within": 2400, "fidelity": 0.98}
    traces = TRACES[:2] if quick else TRACES
    return [{"trace": t, "seed": seed, **size} for t in traces for seed in range(2 if quick else 5)]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure pulls per item and fidelity of every variant."""
    seed = int(parameters["seed"])
    rows: list[Row] = []
    for number, (variant, (chooser, options)) in enumerate(VARIANTS.items()):
        _, figures = measured(parameters, chooser, seed, **options)
        rows.append({**parameters, "variant": variant, "number": number, **_described(figures)})
    trace = polled_trace(str(parameters["trace"]), int(parameters["ticks"]), seed=seed)
    queries = portfolios(int(parameters["queries"]), 2400, 0.98, seed=seed)
    for number, period in enumerate(PERIODS, len(VARIANTS)):
        figures = fixed_period(trace, queries, period)
        rows.append({**parameters, "variant": f"every {period} ticks", "number": number, **_described(figures)})
    return rows


def _described(figures: Mapping[str, float]) -> Row:
    return {"pulls": figures["pulls"], "delivered": figures["fidelity"], "worst": figures["worst"]}


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: the number of states must not matter much; the rest is reported."""
    pulls, got = (means(rows, ["trace", "variant"], name) for name in ("pulls", "delivered"))
    traces = list(dict.fromkeys(key[0] for key in pulls))
    ratios = [pulls[t, f"{s} states"] / pulls[t, "max"] for t in traces for s in (11, 41, 121)]
    summary = "; ".join(
        f"{variant}: " + " ".join(f"{pulls[t, variant] / pulls[t, 'max']:.2f} ({got[t, variant]:.3f})" for t in traces)
        for variant in dict.fromkeys(key[1] for key in pulls)
    )
    return Verdict(
        all(0.7 <= ratio <= 1.4 for ratio in ratios),
        f"pulls over max's (fidelity) on {', '.join(map(str, traces))}: {summary}",
    )


EXPERIMENT = Experiment(
    figure="[GPR05], ablations",
    claim="from 11 to 121 states the number of pulls hardly changes",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="delivered", y="pulls", series="variant", panel="trace", x_label="fidelity", y_label="pulls per item"
    ),
)
