"""Statement text → typed statements, checked: what a person writes, what travels in the log, and what it amounts to.

`parse` and `parse_many` read text; `encode` and `decode` carry statements through the log; a `Catalogue` folds them
into the streams, tables and queries that there are; `matches` says whether a key satisfies a query's WHERE. Only the
first two need sqlglot, and load it when they are called.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tolerant.sql.catalogue import Catalogue, Outcome
from tolerant.sql.errors import NotAvailable, StatementError
from tolerant.sql.pipeline_ids import PipelineId
from tolerant.sql.pipeline_inputs import AppendOnlyJoinInput, JoinInput
from tolerant.sql.predicates import And, Between, Compare, In, Like, Not, Or, Parameter, Predicate, matches
from tolerant.sql.query_kind import QueryKind, kind_of
from tolerant.sql.render import render
from tolerant.sql.select import Select
from tolerant.sql.statements import (
    AggregateSelect,
    AlterQuery,
    CreateQuery,
    CreateStream,
    CreateTable,
    DeleteRows,
    Drop,
    InsertRows,
    LocalStatement,
    SelectRows,
    Show,
    Statement,
    Subscribe,
    Tables,
    Unsubscribe,
    Weight,
)
from tolerant.sql.templates import bound_parameters, column_ranges, parameter_types
from tolerant.sql.wire import decode, encode

if TYPE_CHECKING:
    from pathlib import Path

    from pyarrow import RecordBatch

    from tolerant.sql.subscriptions import SubscriptionFile


def parse(text: str, catalogue: Catalogue | None = None) -> Statement:
    """The one statement that the text holds; with a catalogue also checked against it.

    >>> parse("ALTER QUERY inbound WITHIN 3")
    AlterQuery(name='inbound', within=3.0)

    Raises:
        StatementError: whatever is wrong, with line, column, what was found and what was expected.
    """
    from tolerant.sql.parser import parse

    return parse(text, catalogue)


def parse_many(text: str, catalogue: Catalogue | None = None) -> list[Statement]:
    """The statements of a file, in order, each with its text and position.

    With a catalogue each is checked as if those before it had been applied; the catalogue itself is left as it is.

    Raises:
        StatementError: the first thing that is wrong, with line, column, what was found and what was expected.
    """
    from tolerant.sql.parser import parse_many

    return parse_many(text, catalogue)


def with_files(query: CreateQuery, catalogue: Catalogue, base_dir: Path | str = ".") -> CreateQuery:
    """The query with what its files hold: the weights of its table, or a digest of the file in which it looks rows up;
    as it is if it needs none. Paths start at `base_dir`.

    Raises:
        StatementError: a file cannot be used; names the file, the row and the column.
    """
    from pathlib import Path

    select = query.select.with_files(catalogue, Path(base_dir))
    return query if select is query.select else replace(query, select=select)


def with_network(statement: CreateStream, base_dir: Path | str = ".") -> CreateStream:
    """The statement with the network that its `network.toml` holds; as it is if it has none. Paths start at `base_dir`.

    Raises:
        StatementError: the file cannot be used; names the file, the aggregator and the item.
    """
    from tolerant.sql.networks import with_network

    return with_network(statement, base_dir)


def read_subscriptions(
    path: Path | str, query: CreateQuery, tables: Tables, kind: str = "subscribe"
) -> SubscriptionFile:
    """The subscriptions to a template that stand in a file: iterating gives packed rows, a piece at a time.

    `kind`: subscribe or unsubscribe. Rows that cannot be used are refused by their number; see `SubscriptionFile`.

    Raises:
        StatementError: when iterating, the file cannot be read, or lacks a column.
    """
    from tolerant.sql.subscriptions import SubscriptionFile

    return SubscriptionFile(path, query, tables, kind)


def subscription_row(statement: Subscribe | Unsubscribe, query: CreateQuery, tables: Tables) -> RecordBatch:
    """The one row of `SUBSCRIBE name(value, …)` or `UNSUBSCRIBE name(value, …)`, for `subscriptions.<table>`.

    Raises:
        StatementError: the values cannot be given to the template's parameters.
    """
    from tolerant.sql.subscriptions import subscription_row

    return subscription_row(statement, query, tables)


__all__ = [
    "AggregateSelect",
    "AlterQuery",
    "And",
    "AppendOnlyJoinInput",
    "Between",
    "Catalogue",
    "Compare",
    "CreateQuery",
    "CreateStream",
    "CreateTable",
    "DeleteRows",
    "Drop",
    "In",
    "InsertRows",
    "JoinInput",
    "Like",
    "LocalStatement",
    "Not",
    "NotAvailable",
    "Or",
    "Outcome",
    "Parameter",
    "PipelineId",
    "Predicate",
    "QueryKind",
    "Select",
    "SelectRows",
    "Show",
    "Statement",
    "StatementError",
    "Subscribe",
    "Unsubscribe",
    "Weight",
    "bound_parameters",
    "column_ranges",
    "decode",
    "encode",
    "kind_of",
    "matches",
    "parameter_types",
    "parse",
    "parse_many",
    "read_subscriptions",
    "render",
    "subscription_row",
    "with_files",
    "with_network",
]
