"""Filters: send only what the promise needs.

Every source keeps a small interval around the last value it sent and is silent while its value stays inside; the
widths of the intervals are the currency. `Filter` is the source's side, `Coordinator` the pipeline's: it hands out
widths and turns values into answers that are never further from the truth than asked. `simulate` runs both over a
recorded trace. `aggregation_costs` says whether a source had better filter items or the sums made of them.
"""

from tolerant.filters.aggregation import FormChoice, aggregation_costs, cheaper_form
from tolerant.filters.cache import BoundCache
from tolerant.filters.coordinator import Coordinator
from tolerant.filters.filter import Filter
from tolerant.filters.simulate import Run, simulate

__all__ = [
    "BoundCache", "Coordinator", "Filter", "FormChoice", "Run", "aggregation_costs", "cheaper_form", "simulate",
]  # fmt: skip
