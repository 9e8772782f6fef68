"""[DISS], Figure 4.2: how much of all queries the largest groups hold when sizes are Zipf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.join_loads import zipf_share

GROUPS = 5000


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: β of the Zipf distribution."""
    return [{"beta": beta} for beta in ([1.0, 1.2] if quick else [1.0, 1.05, 1.1, 1.15, 1.2])]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure the share that the top groups hold."""
    beta = float(parameters["beta"])
    tops = (1, 50, 100, 250, 500, 1000, 2500, GROUPS)
    return [{**parameters, "top": top, "share": zipf_share(GROUPS, top, beta)} for top in tops]


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: at β = 1 a tenth of the groups holds about 70 %, and more for larger β."""
    tenth = {float(row["beta"]): float(row["share"]) for row in rows if row["top"] == 500}
    rises = all(tenth[a] < tenth[b] for a, b in zip(sorted(tenth), sorted(tenth)[1:], strict=False))
    summary = ", ".join(f"β {beta:g}: {share:.1%}" for beta, share in sorted(tenth.items()))
    return Verdict(0.65 <= tenth[1.0] <= 0.8 and rises, f"the top 500 of 5,000 groups hold {summary}")


EXPERIMENT = Experiment(
    figure="[DISS], Figure 4.2",
    claim="the top 10 % of the groups hold about 70 % of the queries at β = 1, more for larger β",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="top", y="share", series="beta", x_label="largest groups", y_label="share of queries", log_x=True),
)
