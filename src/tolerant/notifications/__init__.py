"""Notifications: tell many subscribers with few messages, without knowing them.

Many watch one table, each through a range of their own. When a row changes, the tables here say whose answer changed
and to what, in messages that any broker can route: a message is a rectangle, a subscription a point, and a subscriber
is told exactly when its point lies in the rectangle. Every affected subscriber is told exactly once, nobody else is
told, and no fewer messages would do.
"""

from tolerant.notifications.distinct import RangeDistinct
from tolerant.notifications.joined import Joined, JoinedRows
from tolerant.notifications.message import Message, Messages
from tolerant.notifications.packed import Notice, pack
from tolerant.notifications.simulate import Run, simulate
from tolerant.notifications.subscriptions import Subscriptions
from tolerant.notifications.table import Counters, RangeMax, RangeMin
from tolerant.notifications.totals import Delta, RangeTotals, RunningTotal
from tolerant.notifications.two_dimensions import Notice2D, RangeMin2D
from tolerant.notifications.zones import Zones

__all__ = [
    "Counters",
    "Delta",
    "Joined",
    "JoinedRows",
    "Message",
    "Messages",
    "Notice",
    "Notice2D",
    "RangeDistinct",
    "RangeMax",
    "RangeMin",
    "RangeMin2D",
    "RangeTotals",
    "Run",
    "RunningTotal",
    "Subscriptions",
    "Zones",
    "pack",
    "simulate",
]
