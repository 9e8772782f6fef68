"""Planning: which aggregator answers which part of a query, and how precisely [GR07].

A network of aggregators holds copies of items, each within some bound. A query is split into parts so that the client's
answer is always within the tolerance and few messages reach it: parts whose items cancel, bounds where they save most.
`plan` chooses the parts, `simulate` counts messages over a recorded trace; `PartServer` and `PlanClient` are the two
ends of a part at run time, and `Planner` revises the plans of a stream while items change their behaviour and
aggregators come and go.

`optimizer/` finds parts and bounds, `offline/` needs a whole trace and is for experiments.
"""

from tolerant.planning.aggregator_network import Network
from tolerant.planning.alpha_controller import AlphaController
from tolerant.planning.copy_routes import CopyRoute, copy_routes, depth, feed_widths
from tolerant.planning.dynamics import Dynamics
from tolerant.planning.heuristics import HEURISTICS, plan, plan_many, plan_with
from tolerant.planning.levels import clamped
from tolerant.planning.network_file import network_text, parse_network, read_network
from tolerant.planning.offline.cosine_sketch import CosineSketch, cosine_between
from tolerant.planning.offline.level_simulation import simulate_levels
from tolerant.planning.offline.plan_simulation import Run, simulate
from tolerant.planning.optimizer.bound_allocation import allocate
from tolerant.planning.part_server import PartServer
from tolerant.planning.plan_client import PlanClient
from tolerant.planning.plan_explanation import PartExplanation
from tolerant.planning.plan_revision import cost_under, reallocate, replan
from tolerant.planning.query_plan import Part, Plan, Unsatisfiable
from tolerant.planning.reported_dynamics import DynamicsReport, ReportedDynamics
from tolerant.planning.running_dynamics import RunningDynamics
from tolerant.planning.stream_planner import AnnouncedPlan, Planner, PlannerOptions

__all__ = [
    "HEURISTICS",
    "AlphaController",
    "AnnouncedPlan",
    "CopyRoute",
    "CosineSketch",
    "Dynamics",
    "DynamicsReport",
    "Network",
    "Part",
    "PartExplanation",
    "PartServer",
    "Plan",
    "PlanClient",
    "Planner",
    "PlannerOptions",
    "ReportedDynamics",
    "Run",
    "RunningDynamics",
    "Unsatisfiable",
    "allocate",
    "clamped",
    "copy_routes",
    "cosine_between",
    "cost_under",
    "depth",
    "feed_widths",
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
]
