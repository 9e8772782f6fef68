"""Seed 003, Figure 3.12: results on FLOOR by memory."""

from __future__ import annotations

from tolerant.experiments.workloads.memories import by_memory

EXPERIMENT = by_memory("seed 003, Figure 3.12", "FLOOR")
