"""`Client`: what applications listen with."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tolerant.client.answers import AnswerExtractor, AnswerListener, Change, current_answers, newest_until
from tolerant.client.feeds import Extractor, Feed, Listener
from tolerant.client.hearing import Hearing, can_be_heard, hearing
from tolerant.client.liveness import Outage, OutageMonitor, mark_outage, query_outage
from tolerant.client.positions import Position
from tolerant.client.refreshing import Refreshed, ViewRows, refresh, view_rows
from tolerant.client.selecting import SelectedRows, select_rows
from tolerant.client.statements import check_query, reply_to, send_subscription, standing
from tolerant.client.waiting import why_no_reply
from tolerant.queries import Answer
from tolerant.sql import CreateQuery, CreateTable, StatementError, Subscribe, Unsubscribe
from tolerant.sql.refusals import no_such
from tolerant.sql.subscriptions import bound_columns
from tolerant.sql.templates import bound_parameters, check_names
from tolerant.transport import Log, open_log
from tolerant.transport.log import START
from tolerant.transport.subscriptions import subscription_ids

POLL = 0.05
"""Seconds between two looks at the log while nothing new is there."""

Stop = Callable[[], bool]


def _never() -> bool:
    return False


class NotAnswered(Exception):
    """No pipeline has taken the subscription: is `tolerant run` running?"""


class Subscription:
    """One set of parameters of a template; iterate for its changes, the current rows or the current answer first.

    A change is a `RowChange` where the query is for rows, an `AnswerChange` where it is for an aggregate.
    """

    def __init__(self, number: int, feed: Feed, hearing: Hearing, listener: Listener, current: list[Any]) -> None:
        self._feed, self._hearing, self._listener, self._current = feed, hearing, listener, current
        self.number = number

    @property
    def position(self) -> Position:
        """Where it stands: everything up to here has been read."""
        return self._listener.position

    def ready(self) -> Iterator[Any]:
        """What has been read and not been given yet; does not look at the log."""
        while self._current:
            yield self._current.pop(0)
        while self._listener.waiting:
            yield self._hearing.change(*self._listener.waiting.popleft())

    def poll(self) -> bool:
        """Look once at the log, for all that listen to the same query; whether there was more."""
        return self._feed.poll()

    def changes(self, stop: Stop = _never) -> Iterator[Any]:
        """Every change, for ever or until `stop()`."""
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


def _taken(parameters: Mapping[str, Any], places: list[int]) -> dict[str, Any]:
    return {name: values[places] for name, values in parameters.items()}


class Client:
    """A reader of answers and of subscriptions. `log` is a log or its URI; one that was opened here is closed by
    `close`. Each topic is read once, however many listen to it.

    ```python
    with Client("sqlite:///tolerant.db") as client:
        for change in client.answers("inbound"):
            print(change.answer.value)
    ```
    """

    def __init__(self, log: Log | str) -> None:
        self._own = isinstance(log, str)
        self.log: Log = open_log(log) if isinstance(log, str) else log
        self._feeds: dict[str | tuple[str, ...], Feed] = {}

    # -- aggregates --------------------------------------------------------------------------------------------------

    def current(self, query: str) -> list[Answer]:
        """The newest answer of each group, in the order of the groups; none before the first.

        While the pipeline is out of service none is settled: each is stale and has `no_pipeline_since`.

        Raises:
            StatementError: there is no such query.
        """
        answers = current_answers(self.log, query)
        if not answers:
            check_query(self.log, query)
        return mark_outage(answers, query_outage(self.log, query))

    def outage(self, query: str) -> Outage | None:
        """Why nothing that this query's pipeline published is current, and since when; None: it is in service."""
        return query_outage(self.log, query)

    def answers(
        self, query: str, position: Position | str | int | None = None, *, stop: Stop = _never
    ) -> Iterator[Change]:
        """The current answer of every group, then each change, for ever or until `stop()`.

        With a `position` (of a change that was dealt with, or its text; START: the oldest that the log still holds)
        what stands after it, instead of the current ones. A group's answers come in the order of `at` and none comes
        twice, also when a pipeline that started anew has said old ones again.

        When the pipeline goes out of service the newest answer of each group comes again, stale and with
        `no_pipeline_since`, and once more as it was when the pipeline is back; both without a position.

        Raises:
            StatementError: there is no such query.
        """
        check_query(self.log, query)
        monitor = OutageMonitor(self.log, query)
        if position is None:
            # The end first: whatever is published between the two reads is then seen twice, and dropped once.
            start = Position(self.log.end())
            current = current_answers(self.log, query)
            seen = {answer.group: answer for answer in current}
            current = monitor.mark(current)
        else:
            start, current = Position.of(position), []
            seen = newest_until(self.log, query, start)
        listener = AnswerListener(start, seen)
        feed = Feed(self.log, AnswerExtractor(query))
        feed.join(0, listener)
        yield from (Change(answer, start if answer is current[-1] else None) for answer in current)
        live = position is None  # what a reader catches up with was current when it was published
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
        """All answers that the log still holds, as `answers` would give them from START; does not wait for more.

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
            check_query(self.log, query)
        return answers

    # -- views -------------------------------------------------------------------------------------------------------

    def refresh(self, view: str, *, timeout: float = 30.0) -> Refreshed:
        """Bring a view up to date: its rows, and how long that took against what it promises.

        Raises:
            StatementError: there is no such view.
            NotAnswered: no pipeline has done so in `timeout` seconds.
        """
        begun = self.log.end()
        found = refresh(self.log, view, timeout)
        if found is None:
            raise NotAnswered(f"view {view} was not brought up to date: {why_no_reply(self.log, begun, timeout)}")
        return found

    def view(self, view: str) -> ViewRows | None:
        """The view as it was last brought up to date; None: it never was.

        Raises:
            StatementError: there is no such view.
        """
        rows = view_rows(self.log, view)
        if rows is None:
            check_query(self.log, view)
        return rows

    # -- tables ------------------------------------------------------------------------------------------------------

    def select(self, text: str) -> SelectedRows:
        """What a `SELECT … FROM table …` gives over the table's current rows, once.

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
        (of a change of this subscription that was dealt with) what stands after it, exactly once.

        Raises:
            StatementError: there is no such template, or the parameters are not its.
            NotAnswered: no pipeline has taken the subscription in `timeout` seconds.
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
        """`subscribe` for many that have been registered, from a file say: a sequence for each parameter.

        `positions`: one for each, of a change of that subscription that was dealt with; it hears what stands after it,
        exactly once, as `subscribe` does with a position. None: it begins with what is current. All of them take one
        pass over the log.

        Raises:
            StatementError: there is no such template, or the parameters of some row, counted from 0, are not its.
            ValueError: `positions` are not one for each subscription, or a subscription is there twice.
        """
        template, tables = self._template(query)
        arrays = bound_columns(template, tables, parameters)
        numbers = subscription_ids(arrays).tolist()
        kept = [None] * len(numbers) if positions is None else list(positions)
        if len(kept) != len(numbers):
            raise ValueError(f"positions must be one for each of the {len(numbers)} subscriptions, got {len(kept)}")
        repeated = np.setdiff1d(np.arange(len(numbers)), np.unique(numbers, return_index=True)[1])
        if positions is not None and len(repeated):
            raise ValueError(f"row {repeated[0]} is the subscription of an earlier row: it has one position only")
        given = {name: array.to_numpy(zero_copy_only=False) for name, array in arrays.items()}
        return self._listen(template, tables, numbers, given, kept)

    def unsubscribe(self, query: str, *, timeout: float = 30.0, **parameters: float) -> None:
        """End the subscription to a template with these parameters, for all who share it: `UNSUBSCRIBE`.

        Returns when the pipeline has done so. One that is not there is no error.

        Raises:
            StatementError: there is no such template, or the parameters are not its.
            NotAnswered: no pipeline has replied in `timeout` seconds; it will when it gets there.
        """
        template, tables = self._template(query)
        bound = bound_parameters(Unsubscribe(query, _values(template, parameters)), template, tables)
        self._register(Unsubscribe(query, tuple(bound.values())), timeout)

    def changes(self, subscriptions: Sequence[Subscription], stop: Stop = _never) -> Iterator[tuple[Subscription, Any]]:
        """What any of these subscriptions hears, for ever or until `stop()`. A look at the log costs what it finds, not
        what there is to listen to.
        """
        feeds = list({id(one._feed): one._feed for one in subscriptions}.values())
        by_listener = {one._listener: one for one in subscriptions}
        moved = list(subscriptions)  # all of them may have current rows
        while True:
            for one in moved:
                yield from ((one, change) for change in one.ready())
            if stop():
                return
            found = [feed.poll() for feed in feeds]  # all of them, not only up to the first that has more
            stirred = [listener for feed in feeds for listener in feed.stirred()]
            moved = [by_listener[listener] for listener in stirred if listener in by_listener]
            if not any(found):
                time.sleep(POLL)

    def _template(self, query: str) -> tuple[CreateQuery, tuple[CreateTable, ...]]:
        catalogue = standing(self.log)
        held = catalogue.queries.get(query)
        if held is None or not can_be_heard(held):
            known = (name for name, q in catalogue.queries.items() if can_be_heard(q))
            raise StatementError(no_such("query over a table named", query, known))
        return held, catalogue.tables_of(held)

    def _register(self, statement: Subscribe | Unsubscribe, timeout: float) -> None:
        sent = send_subscription(self.log, statement).sent
        reply = reply_to(self.log, sent, timeout)
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
        how = hearing(template, tables)
        fresh, resumed = ([at for at, held in enumerate(positions) if (held is None) is new] for new in (True, False))
        begun: dict[int, tuple[Listener, list[Any]]] = {}
        if fresh:
            chosen = [numbers[at] for at in fresh]
            begun |= zip(fresh, how.begin(self.log, chosen, _taken(parameters, fresh)), strict=True)
        if resumed:
            chosen, kept = [numbers[at] for at in resumed], [Position.of(positions[at] or "") for at in resumed]
            listeners = how.resume(self.log, chosen, _taken(parameters, resumed), kept)
            begun |= {at: (listener, []) for at, listener in zip(resumed, listeners, strict=True)}
        feed = self._feed(how.extractor)
        feed.join_many({number: begun[at][0] for at, number in enumerate(numbers)})
        return [Subscription(number, feed, how, *begun[at]) for at, number in enumerate(numbers)]

    def _feed(self, extractor: Extractor) -> Feed:
        return self._feeds.setdefault(extractor.topic, Feed(self.log, extractor))

    # -- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the log, if it was opened here."""
        if self._own:
            self.log.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
