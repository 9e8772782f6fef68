"""Test doubles that are product code, and the seeded fault simulator.

`FailingLog` fails on cue, `ScriptedSource` plays a script and dies on cue. `simulate_faults(seed)` plays a whole
history of sources, pipelines, clocks and people under every fault that the protocol has to survive, and judges it.
`LocalPipeline` runs a pipeline without Spark.
"""

from tolerant.testing.audit import Violation
from tolerant.testing.failing import Call, FailingLog
from tolerant.testing.faults import Faults
from tolerant.testing.local_pipeline import LocalPipeline
from tolerant.testing.pipelines import Auditable, ShardFactory
from tolerant.testing.scripted import Crash, Restart, ScriptedSource, Set
from tolerant.testing.simulation import Report, simulate_faults
from tolerant.testing.sources import SourceFactory

__all__ = [
    "Auditable",
    "Call",
    "Crash",
    "FailingLog",
    "Faults",
    "LocalPipeline",
    "Report",
    "Restart",
    "ScriptedSource",
    "Set",
    "ShardFactory",
    "SourceFactory",
    "Violation",
    "simulate_faults",
]
