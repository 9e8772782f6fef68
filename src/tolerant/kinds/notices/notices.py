"""`MIN`, `MAX`, `COUNT`, `SUM`, `AVG` and `DISTINCT` over a range of a table's column: exact, said when they change.

One notice speaks to all whose answer a change has changed (`docs/design/notifications.md`), so what is said does not
grow with the subscriptions. They are known here for the active check alone: what reaches none of them is not said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.kernels.snapshots import State
from tolerant.kinds.notices.select import RangeAggregateSelect
from tolerant.notifications import Messages, RangeDistinct, RangeMax, RangeMin
from tolerant.notifications import RangeSubscriptions as RangeIndex
from tolerant.notifications.notice import LIMIT
from tolerant.relations import Changes, Relation, SubscriptionTable
from tolerant.sql import CreateQuery, CreateTable
from tolerant.sql.templates import parameter_types, range_ends
from tolerant.transport.notices import Packed, RowChanges, extremes_batch, totals_batch, values_batch
from tolerant.transport.subscriptions import read_subscription_rows, subscription_ids
from tolerant.transport.topics import notices_topic

Floats = NDArray[np.float64]
Notified = tuple[pa.RecordBatch | None, tuple[int, ...]]
"""Notices, and what to add to what is counted."""

_EVERYWHERE = (-np.inf, np.inf)
_COUNTED = ("ignorable", "easy", "difficult", "unheard")


class Notices:
    """One query for an aggregate over a range: a template with its subscriptions, or without parameters one for all."""

    tally = "notices"

    def __init__(self, query: CreateQuery, table: CreateTable, rows: Relation, state: State | None = None) -> None:
        self.query, self._select = query, RangeAggregateSelect.of(query)
        self._types = parameter_types(query, table)
        self.subscriptions = SubscriptionTable(self._types)
        self._counts = np.zeros(len(_COUNTED), np.int64)
        if state is not None:
            subscriptions, self._counts = state.exactly("subscriptions", "counts")
            self.subscriptions = SubscriptionTable.load(self._types, subscriptions)
        self._index = RangeIndex()
        if state is None and not query.parameters:
            self.subscriptions.add_many(subscription_ids({}), {})
        self._listen(self.subscriptions.ids(), self.subscriptions.columns())
        self._notifier = _notifier(self._select, table, rows)

    @classmethod
    def over(cls, query: CreateQuery, table: CreateTable, rows: Relation, state: State | None) -> Notices:
        """A new query over the rows that there are, or the one whose subscriptions were these."""
        return cls(query, table, rows, state)

    def __len__(self) -> int:
        return len(self.subscriptions)

    def state(self) -> State:
        """The subscriptions and the counts. The notices depend on the subscriptions, the rows and the changes alone, so
        a restore builds the indexes again from those.
        """
        return State(subscriptions=self.subscriptions.state(), counts=self._counts.copy())

    def figures(self) -> dict[str, int]:
        """How many changes concerned nobody's answer, whoever watches, how many did, and how many of these reached no
        subscription (the core's classes, `docs/design/notifications.md` §2.3 and §2.8).
        """
        return dict(zip(_COUNTED, self._counts.tolist(), strict=True))

    def take(self, batch: pa.RecordBatch) -> None:
        """Subscribe and unsubscribe, in the order of the rows.

        Raises:
            ValueError: the rows are not those of this template.
        """
        joining, ids, columns = read_subscription_rows(batch, self._types)
        low, high = range_ends(self.query, len(ids), columns)
        if not (low <= high)[joining].all():
            raise ValueError("a range has a low end above its high end")
        edges = np.flatnonzero(np.diff(joining.astype(np.int8))) + 1
        for run in np.split(np.arange(len(ids)), edges):
            given = {name: column[run] for name, column in columns.items()}
            if len(run) and joining[run[0]]:
                new = self.subscriptions.add_many(ids[run], given)
                self._listen(ids[run][new], {name: column[new] for name, column in given.items()})
            elif len(run):
                there = self.subscriptions.remove_many(ids[run])
                self._index.remove_many(ids[run][there])

    def outputs(self, changes: Changes, steps: NDArray[np.int64]) -> list[tuple[str, pa.RecordBatch]]:
        """The notices of the changes that reach a subscription."""
        select = self._select
        reached = row_changes(changes, steps, select.range.column, None if select.fn == "count" else select.column)
        batch, counts = self._notifier.notify(reached, self._index)
        self._counts += counts
        return [] if batch is None or not len(batch) else [(notices_topic(self.query.name), batch)]

    def _listen(self, ids: NDArray[np.int64], columns: Mapping[str, NDArray[Any]]) -> None:
        if len(ids):
            self._index.add_many(ids, *range_ends(self.query, len(ids), columns))


def row_changes(changes: Changes, steps: NDArray[np.int64], place: str, height: str | None) -> RowChanges:
    """Changes of a table as what became of each row: a row that was replaced is one entry, of the later step.

    `place` is the column of the range, `height` the one that is aggregated.
    """
    insert = changes.insert
    replaced = np.zeros(len(changes), np.bool_)  # the deletions that an insertion of the same row follows
    replaced[:-1] = (
        ~insert[:-1]
        & insert[1:]
        & (changes.at[:-1] == changes.at[1:])
        & np.asarray(changes.keys[:-1] == changes.keys[1:], np.bool_)
    )
    first = np.flatnonzero(~np.append(False, replaced[:-1]))
    last = first + replaced[first]
    x = changes.columns[place].astype(np.float64) + 0.0
    y = np.zeros(len(changes)) if height is None else changes.columns[height]
    return RowChanges(
        changes.keys[last], changes.at[last], steps[last], ~insert[first], insert[last], x[first], x[last], y[first],
        y[last],
    )  # fmt: skip


class _Notifier(Protocol):
    """How an aggregate says what changes are to those who watch it."""

    def notify(self, changes: RowChanges, whom: RangeIndex) -> Notified:
        """The notices that reach one of these subscriptions."""
        ...


def _notifier(select: RangeAggregateSelect, table: CreateTable, rows: Relation) -> _Notifier:
    by_column, keys = rows.rows(), rows.keys()
    if select.fn in ("min", "max"):
        kind = RangeMin if select.fn == "min" else RangeMax
        return _Extremes(kind.of(keys, by_column[select.range.column], by_column[select.column or ""]))
    if select.fn == "distinct":
        order = np.argsort(
            by_column[select.range.column], kind="stable"
        )  # places are then added at the end of their lists
        columns = (keys, by_column[select.range.column], by_column[select.column or ""])
        triples = zip(*(column[order].tolist() for column in columns), strict=True)
        return _Values(RangeDistinct.of(triples), table.type_of(select.column or "") or "")
    return _Totals(None if select.fn == "count" else table.type_of(select.column or ""))


class _Extremes:
    """MIN and MAX: the messages of the core, in one where they are of one change in place."""

    def __init__(self, table: RangeMin | RangeMax) -> None:
        self._table = table

    def notify(self, changes: RowChanges, whom: RangeIndex) -> Notified:
        ys = np.where(changes.has, changes.new_y.astype(np.float64), np.nan)
        before = self._table.counters
        messages = self._table.apply(changes.keys, changes.new_x, ys)
        counters = self._table.counters
        classes = (
            counters.ignorable - before.ignorable,
            counters.easy - before.easy,
            counters.difficult - before.difficult,
        )
        if not len(messages):
            return None, (*classes, 0)
        packed = packed_messages(messages, ~(changes.had & changes.has) | (changes.old_x == changes.new_x))
        concerned = packed.take(whom.any_many(Messages.of(packed.change, packed.lines)))
        unheard = len(np.unique(packed.change)) - len(np.unique(concerned.change))
        return extremes_batch(concerned, changes.steps, changes.at), (*classes, unheard)


def packed_messages(messages: Messages, in_place: NDArray[np.bool_], limit: int = LIMIT) -> Packed:
    """Messages of changes one by one, those of a change in place in one if they are 2 to `limit` (§2.6).

    All rectangles of such a change tile one: whoever is in it takes the best of the peak and the exposed rows that it
    has. `in_place` bool[changes].
    """
    lines = messages.lines
    begins = np.flatnonzero(np.append(True, np.diff(messages.change) != 0))
    sizes = np.diff(np.append(begins, len(lines)))
    together = in_place[messages.change[begins]] & (sizes > 1) & (sizes <= limit)
    inside = np.repeat(together, sizes)
    first = np.zeros(len(lines), np.bool_)
    first[begins] = True
    lines[begins[together], 3] = np.minimum.reduceat(lines[:, 3], begins)[together]
    lines[begins[together], 4] = np.maximum.reduceat(lines[:, 4], begins)[together]
    place = np.repeat(lines[begins, 1], sizes)
    exposed = np.where(lines[:, 1] == place, lines[:, 2], lines[:, 1])
    points = inside & ~first
    counts = np.where(together, sizes - 1, 0)
    # A group that is not taken together stands for as many rows as it has messages, without points.
    stands = ~points
    of_row = np.where(first, np.repeat(counts, sizes), 0)[stands]
    return Packed(
        messages.change[stands],
        lines[stands],
        np.append(0, np.cumsum(of_row)),
        np.stack([exposed[points], lines[points, 0]], axis=1),
    )


class _Values:
    """DISTINCT: which values came into ranges and which went."""

    def __init__(self, table: RangeDistinct, type_name: str) -> None:
        self._table, self._type = table, type_name

    def notify(self, changes: RowChanges, whom: RangeIndex) -> Notified:
        messages, owners = [], []
        for at, (key, had, has, x, value) in enumerate(
            zip(*(getattr(changes, name).tolist() for name in ("keys", "had", "has", "new_x", "new_y")), strict=True)
        ):
            if had:
                emitted = self._table.update(key, x, value) if has else self._table.delete(key)
            else:
                emitted = self._table.insert(key, x, value)
            messages += emitted
            owners += [at] * len(emitted)
        owner = np.array(owners, np.int64)
        ignorable, easy = len(changes) - len(np.unique(owner)), len(np.unique(owner))
        if not messages:
            return None, (ignorable, 0, 0, 0)
        rectangles = np.array([message[1:5] for message in messages], np.float64)
        reached = whom.any_many(Messages.of(owner, np.insert(rectangles, 0, 0.0, axis=1)))
        chosen = [message for message, is_reached in zip(messages, reached.tolist(), strict=True) if is_reached]
        owner = owner[reached]
        emitted = values_batch(
            self._type,
            changes.steps[owner],
            changes.at[owner],
            [message.value for message in chosen],
            rectangles[reached],
            [message.gone for message in chosen],
        )
        return emitted, (ignorable, easy, 0, easy - len(np.unique(owner)))


class _Totals:
    """COUNT, SUM and AVG: the change itself, to whoever has the row before it or after it."""

    def __init__(self, type_name: str | None) -> None:
        self._type = type_name

    def notify(self, changes: RowChanges, whom: RangeIndex) -> Notified:
        same = changes.had & changes.has & (changes.old_x == changes.new_x) & (changes.old_y == changes.new_y)
        reached = (changes.had & _held(whom, changes.old_x)) | (changes.has & _held(whom, changes.new_x))
        emitted = totals_batch(self._type, changes.take(reached & ~same))
        easy = len(changes) - int(np.count_nonzero(same))
        return emitted, (len(changes) - easy, easy, 0, easy - len(emitted))


def _held(whom: RangeIndex, xs: Floats) -> NDArray[np.bool_]:
    """Which of the places are in a subscription's range."""
    lines = np.empty((len(xs), 5))
    lines[:, 0], lines[:, 1], lines[:, 2] = 0.0, xs, xs
    lines[:, 3:] = _EVERYWHERE
    return whom.any_many(Messages.of(np.zeros(len(xs), np.int64), lines))
