"""Filters: send only what the promise needs.

Every source keeps a small interval around the last value it sent and is silent while its value stays inside; the
widths of the intervals are what the pipeline allocates. `Filter` is the source's side, `Coordinator` the pipeline's: it
allocates widths and turns values into answers that are never further from the truth than their tolerance. `simulate`
runs both over a recorded trace. `aggregation_costs` estimates whether a source sends less by filtering its items or
the sums that queries make of them. The method is that of [OJW03].
"""

from typing import TYPE_CHECKING

from tolerant.lazy_names import lazy_names

if TYPE_CHECKING:
    from tolerant.filters.bound_cache import BoundCache
    from tolerant.filters.changes import Change
    from tolerant.filters.coordinator import Coordinator
    from tolerant.filters.filter import Filter
    from tolerant.filters.filter_simulation import Run, simulate
    from tolerant.filters.form_choice import FormChoice, aggregation_costs, cheaper_form
    from tolerant.filters.latency_coordinator import LatencyCoordinator

__all__ = [
    "BoundCache", "Change", "Coordinator", "Filter", "FormChoice", "LatencyCoordinator", "Run", "aggregation_costs",
    "cheaper_form", "simulate",
]  # fmt: skip

__getattr__ = lazy_names(
    __name__,
    {
        "tolerant.filters.bound_cache": ["BoundCache"],
        "tolerant.filters.changes": ["Change"],
        "tolerant.filters.coordinator": ["Coordinator"],
        "tolerant.filters.filter": ["Filter"],
        "tolerant.filters.filter_simulation": ["Run", "simulate"],
        "tolerant.filters.form_choice": ["FormChoice", "aggregation_costs", "cheaper_form"],
        "tolerant.filters.latency_coordinator": ["LatencyCoordinator"],
    },
)
