"""Tolerances: what can be one, and what to say where a relation has none."""

from __future__ import annotations

import math

from tolerant.sql.errors import StatementError

ASK_FOR_WITHIN = "how wrong may the answer be? Add WITHIN and a number; WITHIN 0 is exact"


def over_table(plain: bool) -> tuple[str, str]:
    """What is expected where the relation is a table, and the hint; `plain`: one aggregate of a column, nothing beside
    it.
    """
    view = "REFRESH WITHIN '10 s' makes it a view, over all rows"
    if not plain:
        return "REFRESH WITHIN", f"a table has no tolerance: {view}"
    return "BETWEEN or REFRESH WITHIN", f"exact over a range: add WHERE and one column BETWEEN two numbers; or {view}"


def check_within(within: float) -> None:
    """Raise StatementError unless this can be a tolerance."""
    if not (math.isfinite(within) and within >= 0):
        raise StatementError(
            f"a tolerance is a number, 0 or more, found {within}", expected="a number, 0 or more", about=("WITHIN",)
        )
