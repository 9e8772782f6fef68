"""Static widths, from the rows alone (`specs/1-filters.md` §2.3); whoever is in no row gets an infinite width."""

import numpy as np

from tolerant.filters.rows import Rows
from tolerant.filters.state import Floats


def exact(rows: Rows) -> Floats:
    """Width 0 for every queried item: all changes are sent."""
    return np.where(rows.unqueried, np.inf, 0.0)


def uniform(rows: Rows) -> Floats:
    """Equal widths inside a row, the narrowest of an item's rows wins; where adaptive policies start."""
    return rows.uniform.copy()
