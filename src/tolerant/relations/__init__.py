"""Shared by the kinds of query over rows: tables whose rows change, subscriptions to templates, range selection.

`Relation` stores the current rows of a table and returns the net effect of a batch of `Changes`; `RowNumbers` numbers
its rows. `SubscriptionTable` stores the parameters of a template's subscriptions as arrays; `RangeSelection` finds the
subscriptions that a row matches. All of it is NumPy and compiled loops: no log, no Spark, no clock. Only texts and keys
are Python objects.
"""

from typing import TYPE_CHECKING

from tolerant.lazy_names import lazy_names

if TYPE_CHECKING:
    from tolerant.relations.numbers import RowNumbers
    from tolerant.relations.range_selection import ColumnRange, RangeSelection
    from tolerant.relations.relation import Relation
    from tolerant.relations.row_changes import Changes
    from tolerant.relations.subscription_table import SubscriptionTable

__all__ = ["Changes", "ColumnRange", "RangeSelection", "Relation", "RowNumbers", "SubscriptionTable"]

__getattr__ = lazy_names(
    __name__,
    {
        "tolerant.relations.numbers": ["RowNumbers"],
        "tolerant.relations.range_selection": ["ColumnRange", "RangeSelection"],
        "tolerant.relations.relation": ["Relation"],
        "tolerant.relations.row_changes": ["Changes"],
        "tolerant.relations.subscription_table": ["SubscriptionTable"],
    },
)
