"""The flat index with many blocks: splits, joins, runs, groups that span blocks; against a sorted list."""

from math import inf

import numpy as np
import pytest

from tolerant.notifications import RangeMin
from tolerant.notifications.pair_blocks import RUN, SIZE, USED


def holds_together(table, expected):
    """The directory agrees with the blocks, and the pairs are those expected."""
    blocks = table._index.blocks
    used = int(blocks.sizes[USED])
    xs, ys = table._index.pairs()
    assert list(zip(xs.tolist(), ys.tolist(), strict=True)) == sorted(expected)
    assert sorted(blocks.order.tolist()) == list(range(len(blocks.order)))
    for k in range(used):
        block = blocks.order[k]
        size = blocks.counts[block]
        assert 0 < size <= SIZE
        assert (blocks.first_x[k], blocks.first_y[k]) == (blocks.xs[block, 0], blocks.ys[block, 0])
        assert blocks.low[k] == blocks.ys[block, :size].min()
    for run in range(-(-used // RUN)):
        assert blocks.runs[run] == blocks.low[run * RUN : min(run * RUN + RUN, used)].min()


@pytest.mark.parametrize("spread", [1, 40, 100_000], ids=["one place", "few places", "many places"])
def test_the_index_holds_together_through_growth_and_decay(spread):
    rng = np.random.default_rng(spread)
    table, plain, rows = RangeMin(), RangeMin("a2b"), {}
    for number in range(3000):
        grows = number < 1800
        if rows and rng.random() < (0.1 if grows else 0.9):
            id_ = list(rows)[rng.integers(len(rows))]
            del rows[id_]
            assert table.delete(id_) == plain.delete(id_)
        else:
            row = int(rng.integers(spread)), int(rng.integers(500))
            rows[number] = row
            assert table.insert(number, *row) == plain.insert(number, *row)
        if number % 300 == 0:
            holds_together(table, rows.values())
    holds_together(table, rows.values())
    for x1 in range(0, spread, max(spread // 50, 1)):
        assert table.minimum(x1, x1 + spread / 10) == plain.minimum(x1, x1 + spread / 10)


def test_many_runs_are_searched_from_end_to_end():
    n = 30_000
    rng = np.random.default_rng(0)
    ys = rng.uniform(10, 20, n)
    ys[[5, 14_000, n - 3]] = 1, 2, 3
    table = RangeMin.of(np.arange(n), np.arange(n), ys)
    assert int(table._index.blocks.sizes[USED]) > 4 * RUN
    assert table.affected_range(100, 5) == (5, 14_000)
    assert table.affected_range(20_000, 2.5) == (14_000, inf)
    assert table.affected_range(20_000, 0.5) == (-inf, inf)
    assert table.affected_range(n - 1, 3) == (n - 3, inf)
    for _ in range(200):
        x1, x2 = sorted(rng.integers(0, n, 2).tolist())
        assert table.minimum(x1, x2) == ys[x1 : x2 + 1].min()


def test_one_by_one_and_loaded_are_the_same_table():
    rng = np.random.default_rng(3)
    n = 2000
    xs, ys = rng.integers(0, 700, n), rng.integers(0, 100, n)
    loaded, grown = RangeMin.of(np.arange(n), xs, ys), RangeMin()
    grown.apply(np.arange(n), xs, ys)
    ids, new = rng.integers(0, n, 500), rng.integers(0, 100, 500).astype(float)
    new[::9] = np.nan
    assert list(loaded.apply(ids, xs[ids], new)) == list(grown.apply(ids, xs[ids], new))
    again = RangeMin.of(*loaded.rows())
    assert list(again.apply(ids, xs[ids], new)) == list(loaded.apply(ids, xs[ids], new))


def test_memory_goes_with_the_rows():
    table = RangeMin()
    table.apply(np.arange(50_000), np.arange(50_000), np.ones(50_000))
    per_row = sum(part.nbytes for part in table._index.blocks) / 50_000
    assert per_row <= 48
    table.apply(np.arange(49_000), np.zeros(49_000), np.full(49_000, np.nan))
    table.insert(-1, 0, 0)
    assert sum(part.nbytes for part in table._index.blocks) < 50_000 * per_row / 8
