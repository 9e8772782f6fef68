"""What streams, tables and queries there are: a fold over statements, the same for everyone who reads the same log.

The sender checks with it before it writes, the pipeline's driver and every shard when they read; since it depends on
nothing but the statements and their order, they agree, and of two senders that use one name the second is refused
everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tolerant.sql.definitions import check_stream, check_table
from tolerant.sql.errors import NotAvailable, SecretShown, StatementError
from tolerant.sql.limits import LONGEST_MESSAGE, MOST_QUERIES, MOST_RELATIONS
from tolerant.sql.names import is_topic_name
from tolerant.sql.predicates import check_predicate
from tolerant.sql.query_kind import kind_of, kinds
from tolerant.sql.refusals import conflict, how_to_change, in_use, unknown
from tolerant.sql.render import render
from tolerant.sql.select import Select
from tolerant.sql.sql_text import number
from tolerant.sql.statements import (
    AggregateSelect,
    AlterQuery,
    CreateQuery,
    CreateStream,
    CreateTable,
    Creation,
    Drop,
    LocalStatement,
    Show,
    Statement,
    Subscribe,
    Unsubscribe,
)
from tolerant.sql.templates import bound_parameters
from tolerant.sql.tolerances import check_within, over_table
from tolerant.streams import Limits, Stream

UNCHANGED = "unchanged"
"""The message of a statement that says what already holds."""

_TABLE_FILES = (".csv", ".parquet")


@dataclass(frozen=True)
class Outcome:
    """What became of a statement: whether it was accepted, what to tell its sender, and whether it changed anything."""

    accepted: bool
    message: str
    changed: bool = False


class Catalogue:
    """The streams, tables and queries that the statements applied so far have left standing, by name.

    A subscription is checked and leaves nothing here: whether it changes anything, its template's pipeline knows.

    >>> from tolerant.sql import parse
    >>> catalogue = Catalogue()
    >>> catalogue.apply(parse("CREATE STREAM traffic (host STRING, rate DOUBLE) KEY (host)")).message
    'stream traffic created'
    >>> catalogue.apply(parse("CREATE QUERY load AS SELECT AVG(rate) FROM trafic WITHIN 5"))
    Outcome(accepted=False, message='there is no stream trafic; did you mean traffic?', changed=False)
    """

    def __init__(self, statements: Iterable[Statement] = ()) -> None:
        self.streams: dict[str, Stream] = {}
        self.tables: dict[str, CreateTable] = {}
        self.queries: dict[str, CreateQuery] = {}
        for statement in statements:
            self.apply(statement)

    def apply(self, statement: Statement) -> Outcome:
        """Take the next statement of the log; one that cannot be used is refused, and changes nothing."""
        existing = self.existing(statement)
        if existing is not None:
            return Outcome(True, _left_alone(statement, existing))
        try:
            self.check(statement)
            if isinstance(statement, CreateQuery) and (missing := statement.select.missing_file(self.tables)):
                raise StatementError(missing)
            if isinstance(statement, CreateStream) and _lacks_network(statement.stream):
                raise StatementError("the network is missing: the sender fills it in with with_network")
        except StatementError as error:
            message = error.reason + (f"; {error.hint}" if error.hint else "")
            return Outcome(False, message if len(message) <= LONGEST_MESSAGE else message[:LONGEST_MESSAGE] + "…")
        if self._holds(statement):
            return Outcome(True, UNCHANGED)
        return Outcome(True, self.record(statement), changed=True)

    def check(self, statement: Statement) -> None:
        """Raise StatementError (NotAvailable among them) if the statement could not be accepted now."""
        if not isinstance(statement, LocalStatement) and not is_topic_name(statement.about):
            raise StatementError(f"not a name for a stream, table or query: {statement.about!r:.60}")
        if self.existing(statement) is not None:
            return
        match statement:
            case CreateStream():
                self._check_stream(statement.stream)
            case CreateTable():
                self._check_table(statement)
            case CreateQuery():
                self._check_query(statement)
            case AlterQuery():
                self._check_alter(statement)
            case Drop():
                self._check_drop(statement)
            case Subscribe() | Unsubscribe():
                self._check_subscription(statement)
            case _:
                raise StatementError(f"{type(statement).__name__} is answered at once, and changes nothing")

    def record(self, statement: Statement) -> str:
        """Make it so, unchecked, and say what was done."""
        if isinstance(statement, Creation) and statement.if_not_exists:
            if self.existing(statement) is not None:
                return UNCHANGED
            statement = replace(statement, if_not_exists=False)
        match statement:
            case CreateStream(stream):
                self.streams[stream.name] = stream
                return f"stream {stream.name} created"
            case CreateTable():
                self.tables[statement.name] = statement
                return f"table {statement.name} created"
            case CreateQuery():
                self.queries[statement.name] = statement
                return f"query {statement.name} created"
            case AlterQuery(name, within):
                old = self.queries[name]
                self.queries[name] = replace(old, select=old.select.with_tolerance(within))
                return f"query {name} altered: WITHIN {number(within)}"
            case Drop(what, name):
                definitions: dict[str, dict[str, Any]] = {
                    "query": self.queries,
                    "stream": self.streams,
                    "table": self.tables,
                }
                del definitions[what][name]
                return f"{what} {name} dropped"
            case Subscribe() | Unsubscribe():
                done = "subscribed to" if isinstance(statement, Subscribe) else "unsubscribed from"
                return f"{done} {statement.name}"
            case _:
                raise ValueError(f"{type(statement).__name__} changes nothing")

    def existing(self, statement: Statement) -> Statement | None:
        """What a statement with IF NOT EXISTS leaves as it is: something of the same sort and name; None: nothing."""
        if not isinstance(statement, Creation) or not statement.if_not_exists:
            return None
        stream = self.streams.get(statement.about)
        match statement:
            case CreateStream():
                return None if stream is None else CreateStream(stream)
            case CreateTable():
                return self.tables.get(statement.about)
            case _:
                return self.queries.get(statement.about)

    def statements(self) -> list[Statement]:
        """Statements that, applied in order to an empty catalogue, make this one."""
        return [*map(CreateStream, self.streams.values()), *self.tables.values(), *self.queries.values()]

    def copy(self) -> Catalogue:
        """Another catalogue with the same content."""
        other = Catalogue()
        other.streams, other.tables, other.queries = dict(self.streams), dict(self.tables), dict(self.queries)
        return other

    def show(self, show: Show) -> list[str]:
        """The statements that would create what there is of a kind, one each, by name."""
        definitions: dict[str, list[Statement]] = {
            "streams": [CreateStream(stream) for stream in self.streams.values()],
            "tables": list(self.tables.values()),
            "queries": list(self.queries.values()),
        }
        return [
            render(statement) for statement in sorted(definitions[show.what], key=lambda statement: statement.about)
        ]

    def stream_of(self, select: AggregateSelect) -> Stream:
        """The stream that an aggregate is over."""
        if select.stream in self.tables and select.stream not in self.streams:
            other = select.weight.table if select.weight else ""
            plain = not other and select.where is None and not select.group_by and select.factor == 1.0
            first = f"put the stream first: FROM {other} JOIN {select.stream}" if other in self.streams else ""
            raise StatementError(
                f"expected a stream, found the table {select.stream}",
                expected="a stream",
                found=f"table {select.stream}",
                hint=first or f"leave WITHIN out; {over_table(plain)[1]}",
                about=("FROM", select.stream),
            )
        if select.stream not in self.streams:
            raise unknown("stream", select.stream, [*self.streams, *self.tables], "FROM", select.stream)
        return self.streams[select.stream]

    def advised(self, error: StatementError) -> StatementError:
        """The error with what is true for a table, where its relation is one."""
        if error.over_table is not None and error.over_table[0] in self.tables:
            relation, error.expected, error.hint = error.over_table
            error.reason = f"expected {error.expected}: {relation} is a table"
        return error

    def table(self, name: str) -> CreateTable:
        """The table of this name."""
        if name in self.streams:
            raise StatementError(f"expected a table, found the stream {name}", expected="a table", about=("FROM", name))
        if name not in self.tables:
            raise unknown("table", name, self.tables, "FROM", name)
        return self.tables[name]

    def tables_of(self, query: CreateQuery) -> tuple[CreateTable, ...]:
        """The tables that a query is over, in the order in which it names them."""
        return tuple(map(self.table, query.select.relations))

    def queries_over(self, relation: str) -> list[CreateQuery]:
        """The queries that read a stream or table, in the order they were created."""
        return [query for query in self.queries.values() if relation in query.select.relations]

    def aggregates(self, stream: str) -> dict[str, AggregateSelect]:
        """The aggregates over a stream, by the names of their queries, in the order they were created."""
        selects = {name: query.select.aggregate for name, query in self.queries.items()}
        return {name: select for name, select in selects.items() if select is not None and select.stream == stream}

    def withholding(self, stream: str) -> frozenset[str]:
        """The queries over a stream whose answers are withheld while they are not settled."""
        return frozenset(name for name, select in self.aggregates(stream).items() if select.withholds)

    def _holds(self, statement: Statement) -> bool:
        match statement:
            case CreateStream(stream):
                return self.streams.get(stream.name) == stream
            case CreateTable():
                return self.tables.get(statement.name) == statement
            case CreateQuery():
                return self.queries.get(statement.name) == statement
            case AlterQuery(name, within):
                return self.queries[name].select.tolerance == within
            case _:
                return False

    def _check_stream(self, stream: Stream) -> None:
        check_stream(stream)
        if stream.network is not None:
            from tolerant.sql.networks import check_network  # it needs NumPy, which most statements do not

            check_network(stream)
        existing = self.streams.get(stream.name)
        if existing == stream or (
            existing is not None and _lacks_network(stream) and replace(existing, network=None) == stream
        ):
            return
        if existing is not None and replace(existing, network=None) == replace(stream, network=None):
            raise conflict("stream", stream.name, f"{render(CreateStream(existing))}, with another network")
        if existing is not None:
            raise conflict("stream", stream.name, render(CreateStream(existing)))
        if stream.name in self.tables:
            raise StatementError(f"{stream.name} is the name of a table", about=("STREAM", stream.name))
        self._check_room()
        if stream.uri is not None and stream.uri.startswith("kafka://"):
            raise NotAvailable(
                "streams that are read from kafka are not available yet",
                hint="without FROM a stream is fed by edge sources, through the log",
                about=("FROM",),
            )
        if stream.uri is not None and not any(kind.hosts(stream) for kind in kinds()):
            raise _unreadable_address(
                "a stream",
                stream.uri,
                "'http://host/path/{key}' or 'network.toml'",
                "without FROM a stream is fed by edge sources, through the log",
            )

    def _check_table(self, table: CreateTable) -> None:
        check_table(table)
        if self.tables.get(table.name) == table:
            return
        if table.name in self.tables:
            raise conflict("table", table.name, render(self.tables[table.name]))
        if table.name in self.streams:
            raise StatementError(f"{table.name} is the name of a stream", about=("TABLE", table.name))
        self._check_room()
        if table.uri is not None and not table.uri.lower().endswith(_TABLE_FILES):
            raise _unreadable_address("a table", table.uri, "'file.csv' or 'file.parquet'")

    def _check_room(self) -> None:
        if len(self.streams) + len(self.tables) >= MOST_RELATIONS:
            raise StatementError(f"there are {MOST_RELATIONS:,} streams and tables, and there can be no more")

    def _check_query(self, query: CreateQuery) -> None:
        existing = self.queries.get(query.name)
        if existing is not None:
            self._check_same(existing, query)
            return
        if len(self.queries) >= MOST_QUERIES:
            raise StatementError(f"there are {MOST_QUERIES:,} queries, and there can be no more", about=("QUERY",))
        _check_conditions(query.select)
        for relation in query.select.relations:
            if relation not in self.streams and relation not in self.tables:
                aggregate = query.select.aggregate
                what = "stream" if aggregate is not None and relation == aggregate.stream else "table"
                raise unknown(what, relation, [*self.streams, *self.tables], "FROM", relation)
            self._check_query_count(relation)
        kind = kind_of(query.select, self)
        if query.parameters and not kind.templates:
            raise NotAvailable(
                f"templates of the kind {kind.name} are not available yet: {query.name} has parameters",
                about=("QUERY", query.name),
            )
        kind.check(query, self)

    def _check_query_count(self, relation: str) -> None:
        """Refuse one query more than a stream or table may have."""
        stream = self.streams.get(relation)
        most = Limits.queries if stream is None else stream.options.max_queries
        if len(self.queries) >= most and len(self.queries_over(relation)) >= most:
            raise StatementError(
                f"{relation} has {most:,} queries, the most it may have",
                hint="DROP QUERY one that nobody needs, or create the stream WITH (max_queries = …)",
            )

    def _check_same(self, existing: CreateQuery, query: CreateQuery) -> None:
        if without_files(existing) != without_files(query):
            raise conflict(
                "query", query.name, render(existing), how_to_change(without_files(existing), without_files(query))
            )
        if not query.select.missing_file(self.tables) and existing != query:
            raise conflict("query", query.name, f"{render(existing)}, with other {query.select.FILE_CONTENT}")

    def _check_alter(self, alter: AlterQuery) -> None:
        query = self._known_query(alter.name)
        check_within(alter.within)
        if query.select.tolerance is None:
            raise StatementError(f"query {alter.name} has no tolerance to alter", about=("QUERY", alter.name))

    def _check_drop(self, drop: Drop) -> None:
        if drop.what == "query":
            self._known_query(drop.name)
            return
        relations = self.streams if drop.what == "stream" else self.tables
        if drop.name not in relations:
            raise unknown(drop.what, drop.name, relations, "DROP", drop.name)
        users = [query.name for query in self.queries_over(drop.name)]
        if users:
            raise in_use(drop.what, drop.name, users)

    def _check_subscription(self, statement: Subscribe | Unsubscribe) -> None:
        """Subscriptions themselves are not kept here: they are rows of their template's own topic, by the million."""
        query = self._known_query(statement.name)
        if not query.parameters:
            raise StatementError(
                f"query {statement.name} has no parameters: it is read as it is, by everyone",
                expected="the name of a template",
                found=statement.name,
                about=(statement.name,),
            )
        if statement.uri is None:
            bound_parameters(statement, query, self.tables_of(query))
        elif not statement.uri.lower().endswith(_TABLE_FILES):
            raise _unreadable_address("subscriptions", statement.uri, "'file.csv' or 'file.parquet'")

    def _known_query(self, name: str) -> CreateQuery:
        if name not in self.queries:
            raise unknown("query", name, self.queries, name)
        return self.queries[name]


def _left_alone(statement: Statement, existing: Statement) -> str:
    same = without_files(statement) == without_files(existing)
    return f"{UNCHANGED}: {statement.kind} {statement.about} exists" + (
        "" if same else f", and is another: {render(existing)}"
    )


def _unreadable_address(what: str, uri: str, expected: str, hint: str = "") -> StatementError:
    """Build the error for an address that cannot be read from; a user and password in it are not repeated."""
    kind = SecretShown if "@" in uri else StatementError
    shown = repr(re.sub(r"^([^/@]*//)?.*@", r"\1…@", uri, flags=re.DOTALL))
    return kind(f"{what} cannot be read from {shown}", expected=expected, found=shown, hint=hint, about=("FROM",))


def _check_conditions(select: Select) -> None:
    """Refuse conditions that no text could say."""
    try:
        for predicate in select.conditions:
            check_predicate(predicate)
    except ValueError as error:
        raise StatementError(str(error), about=("WHERE",)) from None


def _lacks_network(stream: Stream) -> bool:
    return stream.networked and stream.network is None


_Statement = TypeVar("_Statement", bound=Statement)


def without_files(statement: _Statement) -> _Statement:
    """The statement without what its sender has read from files."""
    if isinstance(statement, CreateStream):
        return replace(statement, stream=replace(statement.stream, network=None))
    if not isinstance(statement, CreateQuery):
        return statement
    return replace(statement, select=statement.select.without_files())
