"""Statements as shards of every kind read them, and who answers which."""

from __future__ import annotations

from tolerant.spark.intake import DeadRow
from tolerant.sql import AlterQuery, Catalogue, CreateQuery, Drop, Statement, Subscribe, Unsubscribe, home_of
from tolerant.transport.rows import unpack


def statement_rows(payload: bytes, dead: list[DeadRow]) -> list[tuple[str, str]]:
    """(request, body) of the statements in an entry of `queries`; what cannot be read joins `dead`."""
    try:
        return [(row["request"], row["body"]) for row in unpack(payload).to_pylist()]
    except (ValueError, KeyError) as error:
        dead.append(DeadRow(f"statements cannot be read: {error}", payload=payload[:4096]))
        return []


def owner_of(statement: Statement, catalogue: Catalogue) -> str | None:
    """The stream, table or pair whose pipeline answers a statement about queries; None: it is about something else.

    Of a query that is not there, the first stream says so, or where there is none the first that has a query, or else
    the first table.
    """
    match statement:
        case CreateQuery(select=select):
            return home_of(select)
        case AlterQuery(name=name) | Drop(what="query", name=name) | Subscribe(name=name) | Unsubscribe(name=name):
            query = catalogue.queries.get(name)
            if query is not None:
                return home_of(query.select)
            homes = [home_of(query.select) for query in catalogue.queries.values()]
            return min(catalogue.streams or homes or catalogue.tables, default=None)
    return None
