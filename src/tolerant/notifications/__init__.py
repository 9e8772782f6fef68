"""Notifies many subscribers with few messages, without knowing the subscribers.

Many subscriptions watch one table, each through its own range. When a row changes, the tables here compute which
answers changed and to what, as messages that any content-based broker can route: a message is a rectangle, a
subscription a point, and a message affects a subscription exactly when the point lies in the rectangle. Every affected
subscriber receives exactly one message, no other subscriber receives any, and the number of messages is minimal.
"""

from tolerant.notifications.joined_rows import Joined, JoinedRows
from tolerant.notifications.message import Message, Messages
from tolerant.notifications.notice import Notice, pack
from tolerant.notifications.offline.delivery_simulation import DeliveryRun, simulate
from tolerant.notifications.range_distinct import RangeDistinct
from tolerant.notifications.range_min import ChangeCounters, RangeMax, RangeMin
from tolerant.notifications.range_subscriptions import RangeSubscriptions
from tolerant.notifications.range_totals import Delta, RangeTotals, RunningTotal
from tolerant.notifications.two_dimensions import Notice2D, RangeMin2D
from tolerant.notifications.zones import Zones

__all__ = [
    "ChangeCounters",
    "DeliveryRun",
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
    "RangeSubscriptions",
    "RangeTotals",
    "RunningTotal",
    "Zones",
    "pack",
    "simulate",
]
