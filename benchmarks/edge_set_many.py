"""Values per second that a source takes while they stay inside their filters; the target is a million on one core.

Side by side with what a user would otherwise write: a dictionary and a comparison for each value.
"""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa

from side_by_side import Figure, arguments, compare, report
from tolerant.edge import Source
from tolerant.kernels.versions import version
from tolerant.sql import CreateStream, encode
from tolerant.streams import Column, Stream, sum_key
from tolerant.transport import MemoryLog
from tolerant.transport.rows import STATEMENTS, Grant, compacted, grants_batch
from tolerant.transport.sums import Sums, sums_body, sums_key


def main() -> None:
    quick = arguments(__doc__ or "").quick
    items, calls = (10_000, 5) if quick else (100_000, 10)
    keys = [(f"host-{n}", "in") for n in range(items)]
    rng = np.random.default_rng(0)
    values = [rng.uniform(-0.9, 0.9, items) for _ in range(calls)]
    listed = [row.tolist() for row in values]
    small = np.arange(100)
    with Source("traffic", prepared(keys), name="bench") as source:
        handles = source.register(keys)
        source.set_many(handles, np.zeros(items))
        source.flush()
        comparison = compare(
            f"{calls} calls of {items:,} values inside their filters",
            {
                "set_many, handles": lambda: [source.set_many(handles, row) for row in values],
                "set_many, keys": lambda: [source.set_many(keys, row) for row in listed],
                "dictionary": lambda: [dictionary(keys, row) for row in listed],
            },
        )
        narrow = compare(
            "calls of 100 values",
            {"set_many": lambda: [source.set_many(small, values[0][:100]) for _ in range(items // 100)]},
        )
    with Source("traffic", prepared(keys, summed=1_000), name="bench") as source:
        handles = source.register(keys)
        source.set_many(handles, np.zeros(items))
        summed = compare(
            "the same, in sums of a thousand that are filtered too",
            {"set_many": lambda: [source.set_many(handles, row) for row in values]},
        )
        summed_narrow = compare(
            "calls of 100 values, in such sums",
            {"set_many": lambda: [source.set_many(small, values[0][:100]) for _ in range(items // 100)]},
        )
    work = items * calls
    print(comparison.text(work, "values"))
    speeds = {timing.name: work / timing.best for timing in comparison.timings[:2]}
    figures = [
        *(Figure(f"values a second, {name}", s, "1/s", "≥ 1,000,000", s >= 1e6) for name, s in speeds.items()),
        Figure("values a second, 100 a call", items / narrow.timings[0].best, "1/s"),
        Figure("values a second, in sums of a thousand", work / summed.timings[0].best, "1/s"),
        Figure("values a second, 100 a call, in such sums", items / summed_narrow.timings[0].best, "1/s"),
        Figure("handles over dictionary", comparison.ratio("set_many, handles", "dictionary"), "×"),
    ]
    sys.exit(not report("edge-set-many", {"items": items, "calls": calls}, figures))


def prepared(keys: list[tuple[str, str]], summed: int = 0) -> MemoryLog:
    """A log with the stream and a filter of width 2 for every item; `summed`: and one for the sum of so many each."""
    columns = (Column("host", "STRING"), Column("kind", "STRING"), Column("rate", "DOUBLE"))
    body = encode(CreateStream(Stream("traffic", columns, ("host", "kind"))))
    log = MemoryLog()
    row = {"kind": "stream", "key": "traffic", "request": "", "text": "", "body": body}
    log.append("queries", pa.RecordBatch.from_pylist([row], STATEMENTS))
    told: list[Sums] = []
    grants = [Grant(f'["{host}","{kind}"]', 2.0, 0.0, 1, version(1, 1), False) for host, kind in keys]
    names = [grant.item for grant in grants]
    for first in range(0, len(keys) if summed else 0, summed or 1):
        own = tuple(names[first : first + summed])
        y, places, nothing = sum_key(0, first + 1), tuple(range(len(own))), (None,) * len(own)
        told.append(Sums((y,), own, (places,), ((1.0,) * len(own),), (1e9,), nothing, formed=True))
        grants.append(Grant(y, 1e9, 0.0, 1, version(1, 1), False))
    log.append("sums.traffic", compacted([(sums_key("bench", 0), 1, sums_body(told))]))
    log.append("grants.traffic", grants_batch(grants))
    return log


_centres: dict[tuple[str, str], float] = {}


def dictionary(keys: list[tuple[str, str]], values: list[float]) -> int:
    """The plain way: look each item's centre up and compare."""
    sent = 0
    for key, value in zip(keys, values, strict=True):
        if abs(value - _centres.setdefault(key, 0.0)) > 1.0:
            _centres[key] = value
            sent += 1
    return sent


if __name__ == "__main__":
    main()
