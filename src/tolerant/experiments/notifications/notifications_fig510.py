"""[DISS], Figure 5.10: stocks. Bytes per event and node stress against the number of subscriptions.

[DISS]'s trace (3,053 stocks, open and close of 60 days) is not public; the stand-in has as many stocks,
recommendations rounded to 0.01 and ratios that walk in steps of 2 %. [DISS]: 11.7 % of the events are not
ignorable; S-CN below 100 bytes per event and flat, stress at most 10; S-UN linear; CN flat and bad.
"""

from __future__ import annotations

from collections.abc import Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.changing_ranges import stocks, watched_stocks
from tolerant.experiments.workloads.delivery_rows import Parameters, delivered, listed, series

APPROACHES = ("s-un", "cn", "s-cn", "s-cn-active")


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: the numbers of subscriptions."""
    counts = [50_000, 200_000] if quick else [100_000, 200_000, 300_000, 400_000, 500_000]
    return [{"subscriptions": count, "events": 10_000 if quick else 100_000} for count in counts]


def measure(parameters: Parameters) -> list[Row]:
    """Measure bytes per event and stress of each approach."""
    table = stocks(int(parameters["events"]))
    return delivered(parameters, table, watched_stocks(int(parameters["subscriptions"])), APPROACHES)


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: S-CN below 100 bytes, stress at most 10, CN and S-UN far above, S-UN linear."""
    unicast, raw, content = (series(rows, "subscriptions", "bytes", approach) for approach in ("s-un", "cn", "s-cn"))
    counts = sorted({float(row["subscriptions"]) for row in rows})
    slopes = [size / count for size, count in zip(unicast, counts, strict=True)]
    stress = max(series(rows, "subscriptions", "max_stress", "s-cn"))
    busy = 1 - float(rows[0]["ignorable"])
    holds = (
        max(content) < 100 and stress <= 10 and max(slopes) <= 1.2 * min(slopes) and min(raw) > 10 * max(content)
        and unicast[-1] > 10 * content[-1]
    )  # fmt: skip
    finding = (
        f"{busy:.1%} of the events are not ignorable ([DISS]: 11.7 %); S-CN {listed(content, 0)} bytes an "
        f"event ([DISS]: "
        f"below 100), stress {stress:.0f}; S-UN {listed(unicast, 0)}, CN {listed(raw, 0)}; on generated stocks, "
        f"as the recorded "
        f"ones are not public"
    )
    return Verdict(holds, finding)


EXPERIMENT = Experiment(
    figure="[DISS], Figure 5.10",
    claim="on stocks S-CN takes below 100 bytes per event for any number of subscriptions, far below the others",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="subscriptions", y="bytes", series="approach", x_label="subscriptions", y_label="bytes per event", log_y=True
    ),
)
