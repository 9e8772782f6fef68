"""What the queries of a poller are thought to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tolerant.polling.arrays import COUNT, MIN, Floats, Links, Records
from tolerant.polling.forecasts import foretold
from tolerant.polling.options import Options
from tolerant.polling.trust import BROKEN, KNOWN, assess, claim
from tolerant.queries import Aggregate


@dataclass(frozen=True)
class PolledAnswer:
    """A query's answer at tick `at`: value ∓ within, right a fraction `asked` of the time.

    fidelity: the fraction thought to have been delivered up to the last full window (`specs/2-polling.md` §5.5), NaN
    before the first. claimed: the fraction that can be promised now, at most `asked`. stale: so much less than that is
    asked for, because some item cannot be had, that nothing is promised. learning: some item is not known well yet.
    """

    query: str
    at: int
    low: float
    value: float
    high: float
    asked: float
    fidelity: float
    stale: bool = False
    claimed: float = 1.0
    learning: bool = False

    @classmethod
    def of(
        cls, queries: Sequence[Aggregate], table: Records, links: Links, items: Records, now: int, options: Options
    ) -> list[PolledAnswer]:
        """The answers of those of the queries, each with its record, whose items all have a value."""
        shown = values_of(items, now)
        risks, states = np.empty(len(table)), np.empty(len(table), np.int8)
        assess(table, links, items, now, options.oldest, options.patience, options.calibrated, risks, states)
        answers = []
        for query, record, risk, state in zip(queries, table, risks.tolist(), states.tolist(), strict=True):
            span = slice(int(record["start"]), int(record["stop"]))
            members = links.items[span]
            if (items["last"][members] < 0).any() or (len(query.weights) == 0 and query.fn != "count"):
                continue
            value = _value(query, int(record["kind"]), shown[members], links.weights[span])
            known = record["ticks"] >= options.window
            delivered = float(record["good"] / record["ticks"]) if known else float("nan")
            answers.append(
                cls(
                    query.name,
                    now,
                    value - query.within,
                    value,
                    value + query.within,
                    query.fidelity,
                    delivered,
                    state == BROKEN,
                    claim(query.fidelity, risk, state, delivered),
                    options.chooser != "every-tick" and bool((items["pulls"][members] < KNOWN).any()),
                )
            )
        return answers


def _value(query: Aggregate, kind: int, values: Floats, weights: Floats) -> float:
    if kind == COUNT:
        return float(len(query.weights))
    if query.fn in ("sum", "avg"):
        return float(weights @ values)
    return float(values.min() if kind == MIN else values.max())


def values_of(items: Records, tick: int) -> Floats:
    """The value that answers use for each item at a tick, float64[items]."""
    values: Floats = items["value"].copy()
    for i in np.flatnonzero(items["predictor"]):
        record = items[i]
        values[i] = foretold(
            record["value"], record["level"], record["rate"], record["predictor"], int(tick - record["last"])
        )
    return values
