"""[GR07], Figure 7: alpha, which prefers tight aggregators, trades repairs of choices for messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.aggregator_networks import halves, portfolios, random_network, trace_of, traces
from tolerant.planning import Dynamics, Plan, plan_many, simulate

SHARE = 0.5
"""At the largest alpha at most this share of the queries that needed repair at alpha 0 may need it."""


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: alpha from 0 to 20 for several bounds."""
    alphas = (0, 2, 10) if quick else (0, 0.5, 1, 2, 5, 10, 20)
    bounds = (0.8,) if quick else (0.3, 0.5, 0.8, 1.0)
    names = traces("minute prices", "walk")
    return [
        {"trace": name, "within": within, "alpha": alpha, "queries": 100 if quick else 500}
        for name in (names[:1] if quick else names)
        for within in bounds
        for alpha in alphas
    ]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure the share of queries whose choice had to be repaired, and the mean refreshes, without those that none
    meets.
    """
    trace = trace_of(str(parameters["trace"]))
    learn, run = halves(trace)
    network = random_network(trace.items, 0.015, 0.04, seed=1)
    queries = portfolios(trace.items, int(parameters["queries"]), float(parameters["within"]), seed=1)
    outcomes = plan_many(queries, network, Dynamics.of(learn), alpha=float(parameters["alpha"]))
    plans = [made for made in outcomes if isinstance(made, Plan)]
    return [
        {
            **parameters,
            "dropped": 1 - len(plans) / len(outcomes),
            "repaired": sum(made.repairs > 0 for made in plans) / max(len(plans), 1),
            "refreshes": sum(simulate(made, run).refreshes for made in plans) / max(len(plans), 1),
            "series": f"within {parameters['within']}",
        }
    ]


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: repairs must fall with alpha, by half at least, and messages must not fall."""
    findings, holds = [], True
    for case in dict.fromkeys((row["trace"], row["within"]) for row in rows):
        some = [row for row in rows if (row["trace"], row["within"]) == case]
        by_alpha = sorted(some, key=lambda row: float(row["alpha"]))
        first, last = by_alpha[0], by_alpha[-1]
        holds &= float(last["repaired"]) <= SHARE * float(first["repaired"])
        holds &= float(last["refreshes"]) >= 0.97 * float(first["refreshes"])
        shares = " → ".join(f"{float(row['repaired']):.0%}" for row in by_alpha)
        findings.append(
            f"{case[0]}, within {case[1]} ({float(first['dropped']):.0%} dropped): repaired {shares}, refreshes "
            f"×{float(last['refreshes']) / max(float(first['refreshes']), 1e-9):.2f}"
        )
    alphas = ", ".join(f"{float(row['alpha']):g}" for row in by_alpha)
    return Verdict(holds, f"alpha {alphas}: {'; '.join(findings)}")


EXPERIMENT = Experiment(
    figure="[GR07], Figure 7",
    claim="the share of queries whose choice cannot meet the bound falls with alpha, and messages rise",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="alpha", y="repaired", series="series", panel="trace", y_label="share of queries repaired"),
)
