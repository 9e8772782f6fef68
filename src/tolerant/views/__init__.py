"""Views: refresh lazily, yet be ready in time.

Changes of a view's tables are cheapest to push in large batches, but whoever asks for the view must not wait longer
than a limit. `schedule` says for recorded arrivals when to push which tables; costs are `Linear`, `Measured` from
timings, or any callable. `Scheduler` decides live, tick by tick. `audit` says what kind of plan a plan is.
"""

from tolerant.views.audit import Audit, audit
from tolerant.views.linear import Linear
from tolerant.views.measured import Measured
from tolerant.views.schedule import Schedule, schedule
from tolerant.views.scheduler import Scheduler

__all__ = ["Audit", "Linear", "Measured", "Schedule", "Scheduler", "audit", "schedule"]
