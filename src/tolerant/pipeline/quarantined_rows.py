"""What shards of every kind make of an entry in quarantine: a dead letter, rows that were not applied, and statements
that must not go half-obeyed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tolerant.kernels.versions import epoch_of
from tolerant.pipeline.intake import DeadRow
from tolerant.sql import Catalogue, Drop, Statement, decode
from tolerant.transport.quarantine import Quarantined, WaitingRow
from tolerant.transport.topics import QUERIES

Early = tuple[str, str]
"""(request, body) of a statement that waits for time to begin."""


def letter(skipped: Quarantined) -> DeadRow:
    """The dead letter of an entry in quarantine."""
    return DeadRow(why(skipped), payload=skipped.excerpt)


def why(skipped: Quarantined) -> str:
    """The reason of its dead letters."""
    return f"quarantined: entry {skipped.position} of {skipped.topic}: {skipped.reason}"


def skipped_rows(skipped: Quarantined) -> list[DeadRow]:
    """The rows that it would have brought, as far as they are about anything; none if it could not be decoded."""
    return [
        DeadRow(why(skipped), kind=row.kind, key=row.key, source=row.source, sequence=row.sequence)
        for row in skipped.rows or ()
        if row.kind not in ("clock", "heartbeat")
    ]


def skip_statements(skipped: Quarantined, catalogue: Catalogue, take: Callable[[str, Statement], None]) -> bool:
    """Whether it is one of statements; a query that could not be altered is dropped: others take its new tolerance for
    granted.
    """
    if skipped.topic != QUERIES:
        return False
    for row in skipped.rows or ():
        if row.kind == "alter" and row.key in catalogue.queries:
            take("", Drop("query", row.key))
    return True


def source_epochs(skipped: Quarantined) -> dict[str, int]:
    """The newest epoch of each source that its rows are of."""
    newest: dict[str, int] = {}
    for row in skipped.rows or ():
        if row.kind != "clock" and row.source:
            newest[row.source] = max(newest.get(row.source, 0), epoch_of(row.sequence))
    return newest


def foreign_epoch(skipped: Quarantined, checkpoint: str) -> int:
    """The newest epoch of another checkpoint's clock rows in it; 0: there are none."""
    clocks = (row for row in skipped.rows or () if row.kind == "clock" and row.source not in ("", checkpoint))
    return max((epoch_of(row.sequence) for row in clocks), default=0)


def query_row(query: str) -> WaitingRow:
    """A query that waits for time to move on before it is opened."""
    return WaitingRow(query, "", 0)


def early_row(statement: Early) -> WaitingRow:
    """A statement that waits for time to begin."""
    return WaitingRow(statement[0], "", -1)


def sift_early(skipped: Quarantined, early: Sequence[Early]) -> tuple[list[Early], list[DeadRow]]:
    """Returns the statements that continue to wait for the first watermark, and dead letters of the others.

    Dropping a statement drops all statements about the same name: a query must not be created without its changes.
    """
    names = {_about(body) for request, body in early if skipped.drops(early_row((request, body)))}
    dropped = [
        statement
        for statement in early
        if skipped.drops(early_row(statement)) or (_about(statement[1]) in names - {None})
    ]
    letters = [DeadRow(why(skipped), kind="statement", key=request, payload=_bytes(body)) for request, body in dropped]
    return [statement for statement in early if statement not in dropped], letters


def _about(body: str) -> str | None:
    try:
        return decode(body).about
    except Exception:  # it may be what brought the entry here
        return None


def _bytes(body: object) -> bytes:
    return str(body).encode(errors="replace")[:4096]
