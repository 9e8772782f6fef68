"""What the kinds of query over rows share: tables whose rows change, templates' subscriptions, plain range selection.

`Relation` holds a table's current rows and says what a batch of `Changes` changed in effect, `RowNumbers` numbers
them. `Subscriptions` holds the parameters of a template's subscriptions as arrays, `RangeSelection` says which of them
a row concerns. All of it is NumPy and compiled loops: no log, no Spark, no clock. Only texts and keys are an object
each.
"""

from tolerant.relations.changes import Changes
from tolerant.relations.numbers import RowNumbers
from tolerant.relations.ranges import ColumnRange, RangeSelection
from tolerant.relations.relation import Relation
from tolerant.relations.subscriptions import Subscriptions

__all__ = ["Changes", "ColumnRange", "RangeSelection", "Relation", "RowNumbers", "Subscriptions"]
