"""Tables and changes for Hypothesis: few places and heights, so that ties are many."""

from hypothesis import strategies as st

places = st.integers(0, 7)
heights = st.integers(0, 5)
ids = st.integers(0, 5)
changes = st.lists(st.tuples(ids, places, st.one_of(st.none(), heights)), min_size=1, max_size=14)
"""(id, x, y): a new id inserts, a known one updates, None deletes."""
tables = st.dictionaries(ids, st.tuples(places, heights), max_size=6)


def of(cls, rows, **options):
    """A table that holds rows {id: (x, y)}."""
    return cls.of(list(rows), [x for x, _ in rows.values()], [y for _, y in rows.values()], **options)


def applied(rows, change):
    """The rows after a change."""
    id_, x, y = change
    rest = {key: row for key, row in rows.items() if key != id_}
    return rest if y is None else {**rest, id_: (x, y)}


def change_one(table, rows, change):
    """Make a change by the method that fits; its messages. Deleting what is not there is none."""
    id_, x, y = change
    if y is None:
        return table.delete(id_) if id_ in rows else []
    return table.update(id_, x, y) if id_ in rows else table.insert(id_, x, y)
