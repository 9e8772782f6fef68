"""The report that an update of a predictive source carries, as it travels (`specs/1-filters.md` §5.1)."""

from __future__ import annotations

import numpy as np

from tolerant.filters.state import CURVES

REPORT = np.dtype([("unit", "<f4"), ("age", "<u4"), ("curves", "u1", (CURVES,))])
"""What an item would have sent at other widths: relative to which width, over how many ticks, and the two curves as
`tolerant.filters.curves` codes them. All zeros: no report.
"""
