"""`Client`: what applications listen with."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tolerant.client.answers import AnswerExtractor, AnswerListener, Change, current_answers, newest_until
from tolerant.client.feeds import Extractor, Feed, Listener
from tolerant.client.hearing import Hearing, can_be_heard, hearing
from tolerant.client.positions import Position
from tolerant.client.refreshing import Refreshed, ViewRows, refresh, view_rows
from tolerant.client.statements import reply_to, send_subscription, standing
from tolerant.queries import Answer
from tolerant.sql import CreateQuery, CreateTable, StatementError, Subscribe
from tolerant.sql.templates import bound_parameters, parameter_types
from tolerant.transport import Log, open_log
from tolerant.transport.changes import ARROW
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
        feed.join(number, listener)

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
        """The newest answer of each group, in the order of the groups."""
        return current_answers(self.log, query)

    def answers(
        self, query: str, position: Position | str | int | None = None, *, stop: Stop = _never
    ) -> Iterator[Change]:
        """The current answer of every group, then each change, for ever or until `stop()`.

        With a `position` (of a change that was dealt with, or its text; START: the oldest that the log still holds)
        what stands after it, instead of the current ones. A group's answers come in the order of `at` and none comes
        twice, also when a pipeline that started anew has said old ones again.
        """
        if position is None:
            # The end first: whatever is published between the two reads is then seen twice, and dropped once.
            start = Position(self.log.end())
            current = self.current(query)
            seen = {answer.group: answer for answer in current}
        else:
            start, current = Position.of(position), []
            seen = newest_until(self.log, query, start)
        listener = AnswerListener(start, seen)
        feed = Feed(self.log, AnswerExtractor(query))
        feed.join(0, listener)
        yield from (Change(answer, start if answer is current[-1] else None) for answer in current)
        while not stop():
            while listener.waiting:
                yield Change(*listener.waiting.popleft())
            if not feed.poll():
                time.sleep(POLL)

    def history(self, query: str) -> list[Answer]:
        """All answers that the log still holds, as `answers` would give them from START; does not wait for more."""
        listener = AnswerListener(Position(START), {})
        feed = Feed(self.log, AnswerExtractor(query))
        feed.join(0, listener)
        end = self.log.end()
        while feed.poll():
            pass
        return [answer for answer, position in listener.waiting if position.entry <= end]

    # -- views -------------------------------------------------------------------------------------------------------

    def refresh(self, view: str, *, timeout: float = 30.0) -> Refreshed:
        """Bring a view up to date: its rows, and how long that took against what it promises.

        Raises:
            StatementError: there is no such view.
            NotAnswered: no pipeline has done so in `timeout` seconds.
        """
        found = refresh(self.log, view, timeout)
        if found is None:
            raise NotAnswered(f"view {view} was not brought up to date in {timeout:g} s: is `tolerant run` running?")
        return found

    def view(self, view: str) -> ViewRows | None:
        """The view as it was last brought up to date; None: it never was."""
        return view_rows(self.log, view)

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
        missing = [name for name in template.parameters if name not in parameters]
        unknown = [name for name in parameters if name not in template.parameters]
        if missing or unknown:
            wanted = ", ".join(template.parameters) or "no parameters"
            raise StatementError(f"{query} takes {wanted}, found {', '.join(parameters) or 'none'}")
        values = tuple(parameters[name] for name in template.parameters)
        bound = bound_parameters(Subscribe(query, values), template, tables)
        if template.parameters and position is None:
            self._register(Subscribe(query, values), timeout)
        (number,) = subscription_ids({name: pa.array([value]) for name, value in bound.items()}).tolist()
        return self._listen(template, tables, [number], {n: np.array([v]) for n, v in bound.items()}, position)[0]

    def subscriptions(self, query: str, **parameters: Sequence[float]) -> list[Subscription]:
        """`subscribe` for many that have been registered, from a file say: a sequence for each parameter."""
        template, tables = self._template(query)
        types = parameter_types(template, tables)
        arrays = {name: pa.array(parameters[name]).cast(ARROW[type_name]) for name, type_name in types.items()}
        numbers = subscription_ids(arrays).tolist()
        given = {name: array.to_numpy(zero_copy_only=False) for name, array in arrays.items()}
        return self._listen(template, tables, numbers, given, None)

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
            known = sorted(name for name, q in catalogue.queries.items() if can_be_heard(q))
            raise StatementError(
                f"there is no query over a table named {query}; there are: {', '.join(known) or 'none'}"
            )
        return held, catalogue.tables_of(held)

    def _register(self, statement: Subscribe, timeout: float) -> None:
        reply = reply_to(self.log, send_subscription(self.log, statement).sent, timeout)
        if reply is None:
            raise NotAnswered(f"no pipeline has taken the subscription in {timeout:g} s: is `tolerant run` running?")
        if not reply.accepted:
            raise StatementError(reply.message)

    def _listen(
        self,
        template: CreateQuery,
        tables: tuple[CreateTable, ...],
        numbers: list[int],
        parameters: dict[str, Any],
        position: Position | str | None,
    ) -> list[Subscription]:
        how = hearing(template, tables)
        feed = self._feed(how.extractor)
        if position is not None:
            listeners = how.resume(self.log, numbers, parameters, Position.of(position))
            begun: list[tuple[Listener, list[Any]]] = [(listener, []) for listener in listeners]
        else:
            begun = how.begin(self.log, numbers, parameters)
        return [
            Subscription(number, feed, how, listener, current)
            for number, (listener, current) in zip(numbers, begun, strict=True)
        ]

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
