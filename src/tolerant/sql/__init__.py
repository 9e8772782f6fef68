"""Statement text → typed statements, checked: what a person writes, what travels in the log, and what it amounts to.

`parse` and `parse_many` read text; `encode` and `decode` carry statements through the log; a `Catalogue` folds them
into the streams, tables and queries that there are; `matches` says whether a key satisfies a query's WHERE. Only the
first two need sqlglot, and load it when they are called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tolerant.sql.catalogue import Catalogue, Outcome
from tolerant.sql.errors import NotAvailable, StatementError
from tolerant.sql.kinds import KINDS, Kind, kind_of
from tolerant.sql.pipeline_ids import AppendOnlyJoinInput, JoinInput, PipelineId
from tolerant.sql.predicates import And, Between, Compare, In, Like, Not, Or, Parameter, Predicate, matches
from tolerant.sql.render import render
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
    Select,
    SelectRows,
    Show,
    Statement,
    Subscribe,
    Unsubscribe,
    Weight,
    relations,
)
from tolerant.sql.templates import Tables, bound_parameters, column_ranges, parameter_types
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


def with_weights(query: CreateQuery, catalogue: Catalogue, base_dir: Path | str = ".") -> CreateQuery:
    """The query with the weights that its table's file holds; as it is if it has none. Paths start at `base_dir`.

    Raises:
        StatementError: the file cannot be used; names the file, the row and the column.
    """
    from tolerant.sql.weights import with_weights

    return with_weights(query, catalogue, base_dir)


def with_lookup(query: CreateQuery, catalogue: Catalogue, base_dir: Path | str = ".") -> CreateQuery:
    """The query with a digest of the file that it looks rows up in; as it is if it looks up none. Paths start at
    `base_dir`.

    Raises:
        StatementError: the file cannot be read.
    """
    from tolerant.sql.lookups import with_lookup

    return with_lookup(query, catalogue, base_dir)


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
    "KINDS",
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
    "Kind",
    "Like",
    "LocalStatement",
    "Not",
    "NotAvailable",
    "Or",
    "Outcome",
    "Parameter",
    "PipelineId",
    "Predicate",
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
    "relations",
    "render",
    "subscription_row",
    "with_lookup",
    "with_network",
    "with_weights",
]
