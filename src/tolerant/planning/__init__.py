"""Planning: which aggregator answers which part of a query, and how precisely.

A network of aggregators holds copies of items, each within some bound. A query is split into parts so that the client's
answer is always within the tolerance and few messages reach it: parts whose items cancel, bounds where they save most.
`plan` chooses, `simulate` counts; `PartServer` and `PlanClient` are the two ends of a part at run time, and `Planner`
keeps the plans of a stream good while items change their ways and aggregators come and go.
"""

from tolerant.planning.allocation import allocate
from tolerant.planning.alpha import AlphaController
from tolerant.planning.client import PlanClient
from tolerant.planning.dynamics import Dynamics
from tolerant.planning.explain import Explanation
from tolerant.planning.heuristics import HEURISTICS, plan, plan_many, plan_with
from tolerant.planning.levels import clamped, simulate_levels
from tolerant.planning.network import Network
from tolerant.planning.network_file import network_text, parse_network, read_network
from tolerant.planning.planner import Announced, Planner
from tolerant.planning.plans import Part, Plan, Unsatisfiable
from tolerant.planning.replanning import cost_under, reallocate, replan
from tolerant.planning.reported import Report, ReportedDynamics
from tolerant.planning.running import RunningDynamics
from tolerant.planning.serving import PartServer
from tolerant.planning.simulate import Run, simulate
from tolerant.planning.sketch import CosineSketch, cosine_between
from tolerant.planning.wiring import Way, depth, given, ways

__all__ = [
    "HEURISTICS",
    "AlphaController",
    "Announced",
    "CosineSketch",
    "Dynamics",
    "Explanation",
    "Network",
    "Part",
    "PartServer",
    "Plan",
    "PlanClient",
    "Planner",
    "Report",
    "ReportedDynamics",
    "Run",
    "RunningDynamics",
    "Unsatisfiable",
    "Way",
    "allocate",
    "clamped",
    "cosine_between",
    "cost_under",
    "depth",
    "given",
    "network_text",
    "parse_network",
    "plan",
    "plan_many",
    "plan_with",
    "read_network",
    "reallocate",
    "replan",
    "simulate",
    "simulate_levels",
    "ways",
]
