"""`Client`: reads answers and subscriptions for applications."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tolerant.client.answer_listener import AnswerExtractor, AnswerListener, Change, current_answers, newest_until
from tolerant.client.listeners import ListenerFactory, has_listener, listener_factory
from tolerant.client.liveness import Outage, OutageMonitor, mark_outage, query_outage
from tolerant.client.missing_replies import why_no_reply
from tolerant.client.row_select import SelectedRows, select_rows
from tolerant.client.statements import StatementClient
from tolerant.kinds.views.refresh import Refreshed, ViewRows, refresh, view_rows
from tolerant.queries import Answer
from tolerant.sql import CreateQuery, CreateTable, StatementError, Subscribe, Unsubscribe
from tolerant.sql.refusals import no_such
from tolerant.sql.subscriptions import bound_columns
from tolerant.sql.templates import bound_parameters, check_names
from tolerant.transport import Log, open_log
from tolerant.transport.feeds import Extractor, Feed, Listener
from tolerant.transport.log import START
from tolerant.transport.positions import Position
from tolerant.transport.subscriptions import subscription_ids

POLL = 0.05
"""Seconds between two reads of the log while nothing new is there."""

Stop = Callable[[], bool]


def _never() -> bool:
    return False


class NotAnswered(Exception):
    """No pipeline has replied: is `tolerant run` running?"""


class Subscription:
    """A template with its parameters bound; iterate for its changes, the current rows or the current answer first.

    A change is a `RowChange` where the query is for rows, an `AnswerChange` where it is for an aggregate. A pipeline
    that is out of service sends none: `settled` tells that from rows which do not change.
    """

    def __init__(
        self,
        number: int,
        feed: Feed,
        factory: ListenerFactory,
        listener: Listener,
        current: list[Any],
        outage: Callable[[], Outage | None],
    ) -> None:
        self._feed, self._factory, self._listener, self._current = feed, factory, listener, current
        self._outage = outage
        self.number = number

    @property
    def outage(self) -> Outage | None:
        """The reason why what has been read is not current, and since when; None: the pipeline is in service. It is
        read from the log at most twice a second, for all subscriptions to the query.
        """
        return self._outage()

    @property
    def settled(self) -> bool:
        """Whether the pipeline is in service: what it has published, once that is read, is current."""
        return self.outage is None

    @property
    def position(self) -> Position:
        """The position up to which everything has been read."""
        return self._listener.position

    def ready(self) -> Iterator[Any]:
        """Yield the changes that have been read but not yet yielded; does not read the log."""
        while self._current:
            yield self._current.pop(0)
        while self._listener.waiting:
            yield self._factory.change(*self._listener.waiting.popleft())

    def poll(self) -> bool:
        """Read the log once, for all listeners of the same query; return whether there was more."""
        return self._feed.poll()

    def changes(self, stop: Stop = _never) -> Iterator[Any]:
        """Yield every change, for ever or until `stop()`."""
        while not stop():
            yield from self.ready()
            if not self.poll():
                time.sleep(POLL)
        yield from self.ready()

    def __iter__(self) -> Iterator[Any]:
        return self.changes()


def _values(template: CreateQuery, parameters: Mapping[str, Any]) -> tuple[Any, ...]:
    check_names(template, parameters)
    return tuple(parameters[name] for name in template.parameters)


def _chosen(parameters: Mapping[str, Any], places: list[int]) -> dict[str, Any]:
    return {name: values[places] for name, values in parameters.items()}


class Client:
    """Reads answers and subscriptions. `log` is a log or its URI; `close` closes a log that was opened here. Each topic
    is read once, however many listeners it has.

    ```python
    with Client("sqlite:///tolerant.db") as client:
        for change in client.answers("inbound"):
            print(change.answer.value)
    ```
    """

    def __init__(self, log: Log | str) -> None:
        self._owns_log = isinstance(log, str)
        self.log: Log = open_log(log) if isinstance(log, str) else log
        self._statements = StatementClient(self.log)
        self._feeds: dict[str | tuple[str, ...], Feed] = {}
        self._monitors: dict[str, OutageMonitor] = {}

    # -- aggregates --------------------------------------------------------------------------------------------------

    def current(self, query: str) -> list[Answer]:
        """Return the newest answer of each group, in the order of the groups; none before the first.

        A settled answer keeps its promise of sources heard of within their lease (`Answer`). While the pipeline is out
        of service none is settled: each is stale and has `no_pipeline_since`.

        Raises:
            StatementError: there is no such query.
        """
        self._statements.check_query(query)
        return mark_outage(current_answers(self.log, query), query_outage(self.log, query))

    def outage(self, query: str) -> Outage | None:
        """Return why the query's published answers are not current, and since when; None: its pipeline is in service.
        A query that does not exist counts as `dropped`.
        """
        return query_outage(self.log, query)

    def answers(
        self, query: str, position: Position | str | int | None = None, *, stop: Stop = _never
    ) -> Iterator[Change]:
        """Yield the current answer of every group, then each change, for ever or until `stop()`.

        With a `position` (of a change that was processed, or its text; START: the oldest that the log still has) yield
        what follows it, instead of the current answers. A group's answers come in the order of `at` and none comes
        twice, also when a pipeline that restarted from an empty checkpoint has published old ones again.

        When the pipeline goes out of service the newest answer of each group comes again, stale and with
        `no_pipeline_since`, and once more as it was when the pipeline is back; both without a position. The same
        happens when the query is dropped.

        Raises:
            StatementError: there is no such query.
        """
        self._statements.check_query(query, or_was=position is not None)
        monitor = OutageMonitor(self.log, query)
        if position is None:
            # The end first: whatever is published between the two reads is then read twice, and dropped once.
            start = Position(self.log.end())
            current = current_answers(self.log, query)
            newest = {answer.group: answer for answer in current}
            current = monitor.mark(current)
        else:
            start, current = Position.of(position), []
            newest = newest_until(self.log, query, start)
        listener = AnswerListener(start, newest)
        feed = Feed(self.log, AnswerExtractor(query))
        feed.join(0, listener)
        yield from (Change(answer, start if answer is current[-1] else None) for answer in current)
        live = position is None  # while catching up, answers are as they were published
        while not stop():
            while listener.waiting:
                answer, after = listener.waiting.popleft()
                yield Change(monitor.mark([answer])[0] if live else answer, after)
            if feed.poll():
                continue
            if monitor.check() or (not live and monitor.state is not None):
                yield from (Change(answer, None) for answer in monitor.mark(listener.newest()))
            live = True
            time.sleep(POLL)

    def history(self, query: str) -> list[Answer]:
        """Return all answers that the log still has, as `answers` yields them from START; does not wait for more.

        Raises:
            StatementError: there are none, and there is no such query.
        """
        listener = AnswerListener(Position(START), {})
        feed = Feed(self.log, AnswerExtractor(query))
        feed.join(0, listener)
        end = self.log.end()
        while feed.poll():
            pass
        answers = [answer for answer, position in listener.waiting if position.entry <= end]
        if not answers:
            self._statements.check_query(query, or_was=True)
        return answers

    # -- views -------------------------------------------------------------------------------------------------------

    def refresh(self, view: str, *, timeout: float = 30.0) -> Refreshed:
        """Refresh a view; return its rows, and how long that took compared with what it promises.

        Raises:
            StatementError: there is no such view.
            NotAnswered: no pipeline has done so in `timeout` seconds.
        """
        begun = self.log.end()
        refreshed = refresh(self.log, view, timeout)
        if refreshed is None:
            raise NotAnswered(f"view {view} was not brought up to date: {why_no_reply(self.log, begun, timeout)}")
        return refreshed

    def view(self, view: str) -> ViewRows | None:
        """Return the view as it was last refreshed; None: it never was.

        While the pipeline is out of service it is not settled, and has `no_pipeline_since`.

        Raises:
            StatementError: there is no such view.
        """
        rows = view_rows(self.log, view)
        if rows is None:
            self._statements.check_query(view)
            return None
        state = query_outage(self.log, view)
        return rows if state is None else replace(rows, no_pipeline_since=state.since)

    # -- tables ------------------------------------------------------------------------------------------------------

    def select(self, text: str) -> SelectedRows:
        """Run a `SELECT … FROM table …` once over the table's current rows.

        Raises:
            StatementError: it is no such SELECT, or there is no such table.
        """
        return select_rows(self.log, text)

    # -- subscriptions -----------------------------------------------------------------------------------------------

    def subscribe(
        self, query: str, *, position: Position | str | None = None, timeout: float = 30.0, **parameters: float
    ) -> Subscription:
        """Subscribe to a template with these parameters, or listen to a query over a table that has none.

        The rows that are in the range now, or the answer over them, come first, then every change. With a `position`
        (of a change of this subscription that was processed) the changes after it come, each exactly once. While the
        pipeline is out of service nothing comes, and the subscription is not `settled`.

        Raises:
            StatementError: there is no such template, or the parameters are not its.
            NotAnswered: no pipeline has accepted the subscription in `timeout` seconds.
        """
        template, tables = self._template(query)
        values = _values(template, parameters)
        bound = bound_parameters(Subscribe(query, values), template, tables)
        if template.parameters and position is None:
            self._register(Subscribe(query, tuple(bound.values())), timeout)
        (number,) = subscription_ids({name: pa.array([value]) for name, value in bound.items()}).tolist()
        return self._listen(template, tables, [number], {n: np.array([v]) for n, v in bound.items()}, [position])[0]

    def subscriptions(
        self, query: str, *, positions: Sequence[Position | str | None] | None = None, **parameters: Sequence[float]
    ) -> list[Subscription]:
        """Listen to many subscriptions that are registered already, from a file say: one sequence per parameter.

        `positions`: one per subscription, of a change that was processed; its listener gets the changes after it, each
        exactly once, as with `subscribe`. None: it begins with the current rows or answer. All of them together cost
        one pass over the log.

        Raises:
            StatementError: there is no such template, or the parameters of some row, counted from 0, are not its.
            ValueError: `positions` are not one for each subscription, or a subscription is there twice.
        """
        template, tables = self._template(query)
        arrays = bound_columns(template, tables, parameters)
        numbers = subscription_ids(arrays).tolist()
        stored = [None] * len(numbers) if positions is None else list(positions)
        if len(stored) != len(numbers):
            raise ValueError(f"positions must be one for each of the {len(numbers)} subscriptions, got {len(stored)}")
        repeated = np.setdiff1d(np.arange(len(numbers)), np.unique(numbers, return_index=True)[1])
        if positions is not None and len(repeated):
            raise ValueError(f"row {repeated[0]} is the subscription of an earlier row: it has one position only")
        given = {name: array.to_numpy(zero_copy_only=False) for name, array in arrays.items()}
        return self._listen(template, tables, numbers, given, stored)

    def unsubscribe(self, query: str, *, timeout: float = 30.0, **parameters: float) -> None:
        """End the subscription to a template with these parameters, for all that share it: `UNSUBSCRIBE`.

        Returns when the pipeline has done so. Ending an unknown subscription is no error.

        Raises:
            StatementError: there is no such template, or the parameters are not its.
            NotAnswered: no pipeline has replied in `timeout` seconds; it takes effect when one gets there.
        """
        template, tables = self._template(query)
        bound = bound_parameters(Unsubscribe(query, _values(template, parameters)), template, tables)
        self._register(Unsubscribe(query, tuple(bound.values())), timeout)

    def changes(self, subscriptions: Sequence[Subscription], stop: Stop = _never) -> Iterator[tuple[Subscription, Any]]:
        """Yield the changes of all these subscriptions, for ever or until `stop()`. One read of the log costs as much
        as it finds, whatever the number of subscriptions.
        """
        feeds = list({id(subscription._feed): subscription._feed for subscription in subscriptions}.values())
        by_listener = {subscription._listener: subscription for subscription in subscriptions}
        active = list(subscriptions)  # all of them may have current rows
        while True:
            for subscription in active:
                yield from ((subscription, change) for change in subscription.ready())
            if stop():
                return
            has_more = [feed.poll() for feed in feeds]  # all of them, not only up to the first that has more
            listeners = [listener for feed in feeds for listener in feed.drain_active()]
            active = [by_listener[listener] for listener in listeners if listener in by_listener]
            if not any(has_more):
                time.sleep(POLL)

    def _template(self, query: str) -> tuple[CreateQuery, tuple[CreateTable, ...]]:
        catalogue = self._statements.catalogue()
        template = catalogue.queries.get(query)
        if template is None or not has_listener(template):
            known = (name for name, other in catalogue.queries.items() if has_listener(other))
            raise StatementError(no_such("query over a table named", query, known))
        return template, catalogue.tables_of(template)

    def _register(self, statement: Subscribe | Unsubscribe, timeout: float) -> None:
        sent = self._statements.send_subscription(statement).sent
        reply = self._statements.reply_to(sent, timeout)
        if reply is None:
            raise NotAnswered(why_no_reply(self.log, sent.position, timeout))
        if not reply.accepted:
            raise StatementError(reply.message)

    def _listen(
        self,
        template: CreateQuery,
        tables: tuple[CreateTable, ...],
        numbers: list[int],
        parameters: dict[str, Any],
        positions: Sequence[Position | str | None],
    ) -> list[Subscription]:
        factory = listener_factory(template, tables)
        fresh = [at for at, position in enumerate(positions) if position is None]
        resumed = [at for at, position in enumerate(positions) if position is not None]
        begun: dict[int, tuple[Listener, list[Any]]] = {}
        if fresh:
            chosen = [numbers[at] for at in fresh]
            begun |= zip(fresh, factory.begin(self.log, chosen, _chosen(parameters, fresh)), strict=True)
        if resumed:
            chosen, stored = [numbers[at] for at in resumed], [Position.of(positions[at] or "") for at in resumed]
            listeners = factory.resume(self.log, chosen, _chosen(parameters, resumed), stored)
            begun |= {at: (listener, []) for at, listener in zip(resumed, listeners, strict=True)}
        feed = self._feed(factory.extractor)
        feed.join_many({number: begun[at][0] for at, number in enumerate(numbers)})
        outage = partial(self._watched_outage, template.name)
        return [Subscription(number, feed, factory, *begun[at], outage) for at, number in enumerate(numbers)]

    def _watched_outage(self, query: str) -> Outage | None:
        if query not in self._monitors:
            self._monitors[query] = OutageMonitor(self.log, query)
        self._monitors[query].check()
        return self._monitors[query].state

    def _feed(self, extractor: Extractor) -> Feed:
        return self._feeds.setdefault(extractor.topic, Feed(self.log, extractor))

    # -- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the log, if it was opened here."""
        if self._owns_log:
            self.log.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
