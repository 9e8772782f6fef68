"""Small random problems."""

import math

import numpy as np
from hypothesis import strategies as st

from tolerant.views import Linear

# Quarters, so that sums are exact and a tie is a tie.
quarters = st.integers(1, 12).map(lambda n: n / 4)
linears = st.builds(Linear, quarters, st.integers(0, 16).map(lambda n: n / 4))


def stairs(width, height):
    return lambda rows: height * math.ceil(rows / width)


def roots(scale, setup):
    return lambda rows: scale * math.sqrt(rows) + setup if rows else 0.0


def capped(slope, most):
    return lambda rows: min(slope * rows, most)


concave = st.one_of(
    linears, st.builds(roots, quarters, st.sampled_from([0.0, 1.5])), st.builds(capped, quarters, st.integers(2, 9))
)
subadditive = st.one_of(concave, st.builds(stairs, st.integers(1, 5), quarters))


@st.composite
def problems(draw, costs=subadditive, tables=3, ticks=8, rows=3, least=0):
    """(costs, arrivals, limit)."""
    n = draw(st.integers(1, tables))
    found = draw(st.lists(costs, min_size=n, max_size=n))
    length = draw(st.integers(least, ticks))
    counts = draw(st.lists(st.lists(st.integers(0, rows), min_size=n, max_size=n), min_size=length, max_size=length))
    limit = draw(st.integers(0, 40)) / 4
    return found, np.array(counts, np.int64).reshape(length, n), limit
