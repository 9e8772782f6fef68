"""The wire format of the report that an update of a predictive source carries (`docs/design/filters.md` §5.1)."""

from __future__ import annotations

import numpy as np

from tolerant.filters.state import CURVES

REPORT = np.dtype([("unit", "<f4"), ("age", "<u4"), ("curves", "u1", (CURVES,))])
"""What an item would have sent at other widths: the uniform width that the curves are relative to, the ticks that they
cover, and the two curves as `tolerant.filters.rate_curves` encodes them. All zeros: no report.
"""
