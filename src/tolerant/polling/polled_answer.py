"""The answers of a poller's queries, each with the fidelity that it can claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tolerant.polling.model.predictors import predicted_value
from tolerant.polling.poller_arrays import COUNT, MIN, Floats, Links, Records
from tolerant.polling.polling_options import PollingOptions
from tolerant.polling.trust import BROKEN, KNOWN, assess, claim
from tolerant.queries import Aggregate


@dataclass(frozen=True)
class PolledAnswer:
    """A query's answer at tick `at`: value ∓ within, right for a fraction `asked` of the time.

    fidelity: the fraction estimated to have been delivered up to the last full window (`docs/design/polling.md` §5.5),
    NaN before the first. claimed: the fraction that can be promised now, at most `asked`. stale: some item is
    unreachable, and so little could be claimed that nothing is promised. learning: some item has too few pulls yet.
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
        cls,
        queries: Sequence[Aggregate],
        table: Records,
        links: Links,
        items: Records,
        now: int,
        options: PollingOptions,
    ) -> list[PolledAnswer]:
        """Return the answers of those queries, each with its record in `table`, whose items all have a value."""
        used = values_in_use(items, now)
        risks, states = np.empty(len(table)), np.empty(len(table), np.int8)
        assess(table, links, items, now, options.oldest, options.patience, options.calibrated, risks, states)
        answers = []
        for query, record, risk, state in zip(queries, table, risks.tolist(), states.tolist(), strict=True):
            span = slice(int(record["start"]), int(record["stop"]))
            members = links.items[span]
            if (items["last"][members] < 0).any() or (len(query.weights) == 0 and query.fn != "count"):
                continue
            value = _value(query, int(record["kind"]), used[members], links.weights[span])
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


def values_in_use(items: Records, tick: int) -> Floats:
    """Return the value that answers use for each item at a tick, float64[items]."""
    values: Floats = items["value"].copy()
    for i in np.flatnonzero(items["predictor"]):
        record = items[i]
        values[i] = predicted_value(
            record["value"], record["level"], record["rate"], record["predictor"], int(tick - record["last"])
        )
    return values
