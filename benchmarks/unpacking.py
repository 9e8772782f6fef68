"""What it costs to unpack an entry of the log that may come from anybody: its declared sizes are read before it is
decompressed, and every value in it is checked. Against PyArrow alone, which trusts it, and all that a shard does to it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from side_by_side import Figure, arguments, compare, report
from tolerant.filters.coordinator import Coordinator
from tolerant.pipeline.intake import Intake
from tolerant.pipeline.sources import Sources
from tolerant.sql import CreateStream, parse
from tolerant.transport.arrow_limits import check_declared
from tolerant.transport.rows import LIMITS, pack, unpack, unpack_trusted, updates_batch

SIZES = (1, 1_000, 100_000)


def main() -> None:
    quick = arguments(__doc__ or "").quick
    figures = []
    for size in SIZES:
        payload, calls = pack(rows(size)), max(5, (2_000 if quick else 20_000) // size)
        intake = an_intake()
        comparison = compare(
            f"{calls:,} entries of {size:,} rows, {len(payload):,} bytes each",
            {
                "checked": lambda payload=payload, calls=calls: [unpack(payload) for _ in range(calls)],
                "declared sizes alone": lambda payload=payload, calls=calls: [
                    check_declared(payload, LIMITS) for _ in range(calls)
                ],
                "trusted": lambda payload=payload, calls=calls: [unpack_trusted(payload) for _ in range(calls)],
                "into a shard": lambda payload=payload, calls=calls, intake=intake: [
                    intake.read(payload) for _ in range(calls)
                ],
            },
        )
        print(comparison.text(calls * size, "rows"))
        best = {timing.name: timing.best for timing in comparison.timings}
        figures.append(Figure(f"checked against trusted, {size:,} rows", best["checked"] / best["trusted"], "times"))
        share = (best["checked"] - best["trusted"]) / best["into a shard"]
        figures.append(Figure(f"checks as a share of reading, {size:,} rows", share, "of the time"))
    report("unpacking", {"columns": "those of updates"}, figures)


def rows(size: int) -> pa.RecordBatch:
    """Updates of as many items, as a source sends them."""
    rng, number = np.random.default_rng(0), np.arange(1, size + 1)
    keys = [f'["host-{n}","in"]' for n in range(size)]
    return updates_batch(
        kind="update", keys=keys, at=number, source="edge", sequence=number, through=size, value=rng.normal(size=size)
    )


def an_intake() -> Intake:
    created = parse("CREATE STREAM traffic (host STRING, kind STRING, rate DOUBLE) KEY (host, kind)")
    assert isinstance(created, CreateStream)
    coordinator = Coordinator([])
    return Intake(
        created.stream,
        coordinator.membership.find,
        coordinator.membership.intern,
        Sources(10**7),
        coordinator.membership.__len__,
    )


if __name__ == "__main__":
    main()
