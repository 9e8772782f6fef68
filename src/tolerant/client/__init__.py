"""What applications use: send statements, listen to answers and subscriptions.

The current answer comes first, then every change; a kept position is resumed from, exactly once. One client reads each
topic once for all that listen. How a kind of query speaks to its listeners is an `Extractor`.
"""

from tolerant.client.answers import Change
from tolerant.client.client import Client, NotAnswered, Subscription
from tolerant.client.deliveries import RowChange
from tolerant.client.feeds import Extractor, Found, Listener
from tolerant.client.listing import SubscriptionPage, list_subscriptions
from tolerant.client.liveness import Outage
from tolerant.client.notices import AnswerChange
from tolerant.client.positions import Position
from tolerant.client.refreshing import ConditionMet, Refreshed, ViewRows
from tolerant.client.results import KeptChange, KeptShare, kept_share
from tolerant.client.selecting import SelectedRows
from tolerant.client.statements import (
    Comparison,
    Registered,
    Reply,
    Sent,
    compare,
    missing,
    read,
    reply_to,
    send,
    send_subscription,
    standing,
    subscribed,
)

__all__ = [
    "AnswerChange",
    "Change",
    "Client",
    "Comparison",
    "ConditionMet",
    "Extractor",
    "Found",
    "KeptChange",
    "KeptShare",
    "Listener",
    "NotAnswered",
    "Outage",
    "Position",
    "Refreshed",
    "Registered",
    "Reply",
    "RowChange",
    "SelectedRows",
    "Sent",
    "Subscription",
    "SubscriptionPage",
    "ViewRows",
    "compare",
    "kept_share",
    "list_subscriptions",
    "missing",
    "read",
    "reply_to",
    "send",
    "send_subscription",
    "standing",
    "subscribed",
]
