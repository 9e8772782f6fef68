"""Static widths, from the constraints alone (`docs/design/filters.md` §2.3); an item in no constraint gets infinity."""

import numpy as np

from tolerant.filters.constraints import WidthConstraints
from tolerant.filters.state import Floats


def exact(rows: WidthConstraints) -> Floats:
    """Width 0 for every queried item: every change is sent."""
    return np.where(rows.unqueried, np.inf, 0.0)


def uniform(rows: WidthConstraints) -> Floats:
    """Equal widths within a constraint, the narrowest of an item's constraints; the start of the adaptive policies."""
    return rows.uniform.copy()
