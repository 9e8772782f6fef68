"""[DISS], Figure 3.11: results on ROOF by memory."""

from __future__ import annotations

from tolerant.experiments.workloads.results_by_memory import by_memory

EXPERIMENT = by_memory("[DISS], Figure 3.11", "ROOF")
