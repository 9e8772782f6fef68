"""Statements as shards of every kind read them, who answers which, and what every shard says besides its answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from tolerant.pipeline.hosting import Output
from tolerant.pipeline.intake import DeadRow, dead_batch
from tolerant.sql import AlterQuery, Catalogue, CreateQuery, Drop, PipelineId, Statement, Subscribe, Unsubscribe, decode
from tolerant.transport.rows import REPLIES, pack
from tolerant.transport.statements import read_statement_rows
from tolerant.transport.topics import REPLIES_TOPIC, dead_letters_topic

_REPORTED = 100
"""Rows without a statement that are dead letters of their own, per entry."""


def statement_rows(payload: bytes, dead: list[DeadRow]) -> list[tuple[str, str]]:
    """(request, body) of the statements in an entry of `queries`; what cannot be read joins `dead`."""
    try:
        rows, missing = read_statement_rows(payload)
    except ValueError as error:
        dead.append(DeadRow(f"statements cannot be read: {error}", payload=payload[:4096]))
        return []
    dead += [DeadRow(f"statement cannot be read: {reason}", payload=payload[:4096]) for reason in missing[:_REPORTED]]
    if len(missing) > _REPORTED:
        dead.append(DeadRow(f"{len(missing):,} rows of one entry have no statement", payload=payload[:4096]))
    return rows


def take_statements(
    rows: Sequence[tuple[str, str]], take: Callable[[str, Statement], None], dead: list[DeadRow]
) -> None:
    """Take (request, body) of statements in order; one that cannot be used joins `dead`."""
    for request, body in rows:
        try:
            statement = decode(body)
        except ValueError as error:
            dead.append(DeadRow(f"statement cannot be read: {error!s:.1000}", payload=body.encode()[:4096]))
        else:
            take(request, statement)


def dead_letter_and_reply_outputs(
    home: str, dead: Sequence[DeadRow], replies: Sequence[dict[str, object]]
) -> list[Output]:
    """The dead letters of a stream, table or pair, and replies to statements; nothing where there are none."""
    outputs = [Output(dead_letters_topic(home), pack(dead_batch(dead)))] if dead else []
    if replies:
        outputs.append(Output(REPLIES_TOPIC, pack(pa.RecordBatch.from_pylist(list(replies), REPLIES))))
    return outputs


def owner_of(statement: Statement, catalogue: Catalogue) -> str | None:
    """The stream, table or pair whose pipeline answers a statement about queries; None: it is about something else.

    Of a query that is not there, the first stream says so, or where there is none the first that has a query, or else
    the first table.
    """
    match statement:
        case CreateQuery(select=select):
            return str(PipelineId.of(select))
        case AlterQuery(name=name) | Drop(what="query", name=name) | Subscribe(name=name) | Unsubscribe(name=name):
            query = catalogue.queries.get(name)
            if query is not None:
                return str(PipelineId.of(query.select))
            homes = [str(PipelineId.of(query.select)) for query in catalogue.queries.values()]
            return min(catalogue.streams or homes or catalogue.tables, default=None)
    return None
