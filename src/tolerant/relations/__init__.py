"""Shared by the kinds of query over rows: tables whose rows change, subscriptions to templates, range selection.

`Relation` stores the current rows of a table and returns the net effect of a batch of `Changes`; `RowNumbers` numbers
its rows. `SubscriptionTable` stores the parameters of a template's subscriptions as arrays; `RangeSelection` finds the
subscriptions that a row matches. All of it is NumPy and compiled loops: no log, no Spark, no clock. Only texts and keys
are Python objects.
"""

from tolerant.relations.numbers import RowNumbers
from tolerant.relations.range_selection import ColumnRange, RangeSelection
from tolerant.relations.relation import Relation
from tolerant.relations.row_changes import Changes
from tolerant.relations.subscription_table import SubscriptionTable

__all__ = ["Changes", "ColumnRange", "RangeSelection", "Relation", "RowNumbers", "SubscriptionTable"]
