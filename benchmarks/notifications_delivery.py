"""How much sending can be saved: the goals of `docs/design/notifications.md` §5 on Table 5.1's workload.

Counts, not times: the same on every machine. Zones are those of §6.
"""

from __future__ import annotations

import numpy as np

from side_by_side import Figure, arguments, report
from tolerant.experiments.workloads.changing_ranges import changing_rows, watched_ranges
from tolerant.notifications import RangeMin, RangeSubscriptions, Zones, simulate

ACTIVE = ((10_000, 1_000_000, 0.35), (50_000, 500_000, 0.1), (100_000, 500_000, 0.08))
"""Rows, subscriptions, and the share of the messages that the active check may leave."""


def active(events: int) -> list[Figure]:
    figures = []
    for rows, count, bar in ACTIVE:
        table = changing_rows(rows, events)
        said, held = RangeMin.of(*table.rows).apply(*table.changes), RangeSubscriptions()
        held.add_many(np.arange(count), *watched_ranges(count))
        share = len(held.active(said)) / len(said)
        name = f"active check, {rows:,} rows, {count:,} subscriptions"
        figures.append(Figure(name, share, "× the messages", f"≤ {bar}", share <= bar))
    return figures


def packed(events: int) -> list[Figure]:
    table, watched = changing_rows(50_000, events), watched_ranges(500_000)
    runs = {name: simulate(table.rows, table.changes, watched, name) for name in ("s-cn", "packed", "s-un-aggregated")}
    by_chance = simulate(table.rows, table.changes, watched, "s-un-aggregated", gateways="random")
    messages, size = runs["packed"].messages / events, runs["packed"].bytes / runs["s-cn"].bytes
    return [
        Figure("S-CN, messages an update", runs["s-cn"].messages / events, "", "2.0 to 2.3", None),
        Figure("packed, messages an update", messages, "", "≤ 1.3", messages <= 1.3),
        Figure("packed over S-CN, bytes", size, "×", "≤ 0.8", size <= 0.8),
        Figure("unicast by gateway, content, messages an update", runs["s-un-aggregated"].messages / events, ""),
        Figure("unicast by gateway, random, messages an update", by_chance.messages / events, ""),
    ]


def zones(events: int) -> list[Figure]:
    table, watched = changing_rows(50_000, events), watched_ranges(500_000)
    held = RangeSubscriptions()
    held.add_many(np.arange(len(watched[0])), *watched)
    sent = held.active(RangeMin.of(*table.rows).apply(*table.changes))
    found = [(count, len(Zones(*watched, count).reached_many(sent)[0]) / len(sent)) for count in (16, 64, 256, 1024)]
    return [Figure(f"zones that a message meets, of {count}", share, "") for count, share in found]


def main() -> None:
    events = 5_000 if arguments("How much sending can be saved.").quick else 20_000
    if not report("notifications-delivery", {"events": events}, [*active(events), *packed(events), *zones(events)]):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
