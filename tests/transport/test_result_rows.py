"""Result rows that share their lists of subscriptions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tolerant.streams import Column
from tolerant.transport.results import results_batch, rows_naming
from tolerant.transport.rows import pack, unpack

TABLES = [("r", [Column("id", "BIGINT")]), ("s", [Column("id", "BIGINT")])]
RUNS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4)), max_size=8)


def batch_of(runs, subscriptions):
    n = len(runs)
    starts = np.array([start for start, _ in runs], np.int64)
    return results_batch(
        TABLES,
        insert=np.ones(n, np.bool_),
        at=np.arange(n),
        steps=np.arange(n),
        starts=starts,
        stops=starts + np.array([size for _, size in runs], np.int64),
        subscriptions=subscriptions,
        columns={"r.id": np.arange(n), "s.id": np.arange(n)},
    )


@given(RUNS, st.sets(st.integers(0, 20)))
def test_rows_name_who_they_are_for(runs, wanted):
    subscriptions = np.arange(12) * 5 % 13
    batch = unpack(pack(batch_of(runs, subscriptions)))
    lists = [subscriptions[start : start + size].tolist() for start, size in runs]
    assert batch.column("subscriptions").to_pylist() == lists
    rows, named = rows_naming(batch, wanted)
    expected = [(row, one) for row, own in enumerate(lists) for one in own if one in wanted]
    assert list(zip(rows.tolist(), named.tolist(), strict=True)) == expected


def test_shared_lists_are_written_once():
    subscriptions = np.random.default_rng(0).integers(0, 2**62, 5_000)
    runs = [(0, size) for size in range(4_000, 5_001)]
    assert len(pack(batch_of(runs, subscriptions))) < 10 * subscriptions.nbytes / 8
