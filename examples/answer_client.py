"""Follows a query from where it stopped: `python answer_client.py QUERY [changes]`; the position is kept in a file.

Run the pipeline and a source first: `tolerant run examples/traffic.sql`, `python examples/feed.py`.
"""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

from tolerant.client import Client


def main(query: str, changes: int | None = None, log: str = "sqlite:///tolerant.db", kept: str = "position") -> None:
    """Print each answer, and keep the position behind it."""
    file = Path(f"{query}.{kept}")
    with Client(log) as client:
        position = file.read_text() if file.exists() else None
        for change in islice(client.answers(query, position), changes):
            answer = change.answer
            state = "settled" if answer.settled else "not settled"
            print(f"{answer.low} ≤ {answer.value} ≤ {answer.high}, {state}", flush=True)  # None: not known
            if change.position is not None:
                file.write_text(str(change.position))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)
