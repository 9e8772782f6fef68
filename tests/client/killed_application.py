"""The application that `test_killed_client` kills; in a file of its own, so that it starts quickly."""

import sqlite3

import numpy as np

from tolerant.client import Client
from tolerant.kernels.integers import IntegerMap

# What the first call of a compiled function loads, every client finds loaded: it is forked from a process that has it.
IntegerMap().put_many(np.array([1]), np.array([1]))


def application(log: str, file: str) -> None:
    """Writes down every change that it hears, and in the same transaction the position after it."""
    kept = sqlite3.connect(file, timeout=30)
    kept.execute("CREATE TABLE IF NOT EXISTS heard (step INTEGER, kind TEXT, id INTEGER, current INTEGER)")
    kept.execute("CREATE TABLE IF NOT EXISTS place (position TEXT)")
    kept.commit()
    place = kept.execute("SELECT position FROM place").fetchone()
    with Client(log) as client:
        subscription = client.subscribe("cheap", position=place[0] if place else None)
        for change in subscription:
            mark = change.position.mark if change.position else -1
            row = (mark, change.kind, change.row["id"], change.current)
            kept.execute("INSERT INTO heard VALUES (?, ?, ?, ?)", row)
            if change.position is not None:
                kept.execute("DELETE FROM place")
                kept.execute("INSERT INTO place VALUES (?)", (str(change.position),))
                kept.commit()
