"""Relations and range selection as a person would explain them: dicts, loops, no index."""

from itertools import groupby

from tolerant.relations import Changes


class SlowRelation:
    """Key → row. `apply` takes (insert, key, at, source, sequence, row) and gives (insert, key, at, row)."""

    def __init__(self):
        self.rows = {}
        self.applied = set()
        self.unknown = self.duplicates = 0

    def apply(self, changes):
        fresh = []
        for change in changes:
            if change[3:5] in self.applied:
                self.duplicates += 1
            else:
                self.applied.add(change[3:5])
                fresh.append(change)
        effects = []
        for at, transaction in groupby(fresh, key=lambda change: change[2]):
            effects += self._transaction(at, list(transaction))
        return effects

    def _transaction(self, at, changes):
        before = dict(self.rows)
        touched = list(dict.fromkeys(change[1] for change in changes))
        for insert, key, _, _, _, row in changes:
            if insert:
                self.rows[key] = row
            elif key in self.rows:
                del self.rows[key]
            else:
                self.unknown += 1
        for key in touched:
            old, new = before.get(key), self.rows.get(key)
            if old != new:
                if old is not None:
                    yield (False, key, at, old)
                if new is not None:
                    yield (True, key, at, new)


class SlowRangeSelection:
    """Id → ((low, high), …), a pair a column; every row is compared with every subscription."""

    def __init__(self):
        self.boxes = {}

    def matching(self, rows):
        return [
            (number, id_)
            for number, row in enumerate(rows)
            for id_, box in sorted(self.boxes.items())
            if all(low <= value <= high for value, (low, high) in zip(row, box, strict=True))
        ]


def said(changes: Changes):
    """Changes as the twin gives them: (insert, key, at, row as a tuple)."""
    rows = zip(*(column.tolist() for column in changes.columns.values()), strict=True)
    return list(zip(changes.insert.tolist(), changes.keys.tolist(), changes.at.tolist(), rows, strict=True))
