"""Schedules the refreshes of materialized views: batches changes, yet keeps a limit on the time of a refresh.

Changes of a view's tables are cheapest to push in large batches, but a request for the view must not wait longer than
a limit. `schedule` plans for recorded arrivals when to push which tables; costs are `Linear`, `Measured` from timings,
or any callable. `Scheduler` decides live, tick by tick. `audit` checks whether a plan is valid, lazy and minimal.
"""

from tolerant.views.linear import Linear
from tolerant.views.measured import Measured
from tolerant.views.offline.plan_audit import PlanAudit, audit
from tolerant.views.schedule import Schedule, schedule
from tolerant.views.scheduler import Scheduler

__all__ = ["Linear", "Measured", "PlanAudit", "Schedule", "Scheduler", "audit", "schedule"]
