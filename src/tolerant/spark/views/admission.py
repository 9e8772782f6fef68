"""Makes views and drops them as the statements require; refuses those whose promise cannot be kept, or that fail.

Whatever goes wrong with a view is that view's alone: it is tried once more, and refused if that fails too. A refusal is
a statement in the log that drops the view, so that a restart does not meet it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tolerant.kinds.views.select import ViewSelect
from tolerant.pipeline.hosting import Output
from tolerant.spark.failures import reason
from tolerant.spark.views.checkpoint import check_rows, read_groups
from tolerant.spark.views.clock import Clock
from tolerant.spark.views.failures import MAKING, NOT_THE_VIEW, PUSHING, TIMING, ViewFailures
from tolerant.spark.views.live import LiveView
from tolerant.spark.views.maintained import Engine, Maintained, Pushed
from tolerant.spark.views.outputs import Reply, ViewOutputs
from tolerant.spark.views.promise_keeping import PromiseKeeper
from tolerant.spark.views.refresh_costs import TooSlow
from tolerant.spark.views.shard import Ordered
from tolerant.spark.views.time_limits import TookTooLong
from tolerant.spark.views.view_state import Making, ViewState
from tolerant.spark.views.watch import after
from tolerant.sql import CreateQuery, CreateTable, Drop
from tolerant.sql.pipeline_inputs import Views
from tolerant.sql.view_select import ViewPlan, plan_of
from tolerant.streams import SECOND
from tolerant.transport.records import skipping

_FAILED = {PUSHING: "bringing it up to date", TIMING: "timing it"}


class ViewEngine(Engine, Protocol):
    """An engine with what a pipeline of views needs besides."""

    dialect: str

    def columns(self, plan: ViewPlan, tables: Sequence[CreateTable]) -> list[str]:
        """Returns the SQL types of the columns of a view over tables.

        Raises:
            ValueError: one of them, or of its keys and arguments, is a type that no table has, or it cannot be run.
        """
        ...

    def check(self) -> None:
        """Runs something that no view is to blame for; raises what is wrong with the engine, if anything is."""
        ...

    def rest(self) -> None:
        """Does, while no request waits, the housekeeping that would otherwise delay a push."""
        ...


class ViewAdmission:
    """Brings views into `state.live`, and takes them out.

    `number` returns the version of the present round; `report(live, pushed, at, seconds)` packs what was computed.
    """

    def __init__(
        self,
        views: Views,
        state: ViewState,
        engine: ViewEngine,
        outputs: ViewOutputs,
        promises: PromiseKeeper,
        clock: Clock,
        *,
        number: Callable[[], int],
        report: Callable[[LiveView, Pushed, int, float], list[Output]],
    ) -> None:
        self._tables = {table.name: table for table in views.tables}
        self._state, self._engine, self._clock = state, engine, clock
        self._outputs, self._promises = outputs, promises
        self._number, self._report = number, report
        self.failures = ViewFailures()

    # -- statements ------------------------------------------------------------------------------------------------

    def obey(self, only: set[str] | None = None) -> list[Output]:
        """Begins to make views and drops views as the statements require; replies for a new view when it is made.

        `only`: after a restart statements are read again; the views that were still being made.
        """
        state, outputs = self._state, list[Output]()
        statements, state.shard.statements = state.shard.statements, []
        replies, state.shard.replies = state.shard.replies, []
        open_queries = state.shard.queries
        for ordered in statements:
            statement = ordered.statement
            if isinstance(statement, Drop):
                dropped, waiting = self._drop(statement.name)
                outputs += dropped
                replies += waiting
            elif isinstance(statement, CreateQuery) and statement.name in open_queries:
                if only is not None and statement.name not in only:
                    continue
                outputs += self.begin(statement, ordered, replies)
        for making in state.making.values():
            making.replies += [reply for reply in replies if reply["key"] == making.live.name]
        return outputs + self._outputs.replies([reply for reply in replies if reply["key"] not in state.making])

    def _refuse(self, query: CreateQuery, reason: str, replies: list[Reply]) -> list[Output]:
        """Refuses a view that cannot be maintained: writes a statement to the log that drops it."""
        for reply in replies:
            if reply["key"] == query.name and reply["accepted"]:
                reply |= {"accepted": False, "message": reason}
        self._promises.tell(f"View {query.name} is REFUSED: {reason}")
        return self._outputs.refusal(query, reason, self._number())

    def _blame(self, error: Exception) -> str:
        """Returns what went wrong with a view, in a line; raises what is not the view's fault."""
        if isinstance(error, NOT_THE_VIEW):
            raise error
        self._engine.check()
        text = reason(error)
        return text if text.startswith(type(error).__name__) else f"{type(error).__name__}: {text}"

    def _drop(self, name: str) -> tuple[list[Output], list[Reply]]:
        """Drops a view; also returns the replies that waited for it to be made."""
        state = self._state
        making = state.making.pop(name, None)
        self.failures.forget(name)
        if name in state.live:
            self._take_out(name)
        elif making is None:
            return [], []
        outputs = [*self._outputs.tombstones(name, self._number()), self._outputs.no_status(name, self._number())]
        return outputs, making.replies if making else []

    def _take_out(self, name: str) -> None:
        """Maintains a view no longer."""
        self._state.practising.pop(name, None)
        self._state.live.pop(name)
        self._promises.withdraw(name)
        self.share()

    def share(self) -> None:
        """Shares the engine's time again among the views."""
        self._promises.share(self._state.live, warn=not self._state.practising)  # else some costs are of another run

    # -- making ----------------------------------------------------------------------------------------------------

    def begin(self, query: CreateQuery, ordered: Ordered, replies: list[Reply]) -> list[Output]:
        """Begins to make a view, or refuses it: `replies` are changed accordingly."""
        try:
            live = self._new(query)
        except ValueError as error:
            return self._refuse(query, str(error), replies)
        except Exception as error:
            return self._refuse(query, self._blame(error), replies)
        later = [after(applied, ordered.step) for applied in self._state.filed]
        self._make(Making(live, ordered, [], later))
        return []

    def _make(self, making: Making) -> None:
        making.pieces = making.compute(self._state.logs)
        self._state.making[making.live.name] = making

    def _new(self, query: CreateQuery) -> LiveView:
        select = ViewSelect.of(query)
        tables = [self._tables[name] for name in select.tables]
        plan = plan_of(select.sql, tables, self._engine.dialect)
        types = self._engine.columns(plan, tables)
        view = Maintained(plan, self._state.logs, self._engine, self._clock, select.refresh / SECOND)
        columns = [(part.name, type_) for part, type_ in zip(plan.outputs, types, strict=True)]
        return LiveView(query.name, view, columns, select.refresh, select.when)

    def make_piece(self, making: Making) -> list[Output]:
        """Makes the next piece of a view; after the last piece the view is live, or refused."""
        begun, name = self._clock.elapsed(), making.live.name
        try:
            ended = next(making.pieces, self) is self
            if ended:
                self._promises.admit(making.live)
            making.seconds += self._clock.elapsed() - begun
            outputs = self._finish(making) if ended else []
        except (TooSlow, TookTooLong, ValueError) as error:
            return self._give_up(making, str(error))
        except Exception as error:
            return self._make_again(making, self._blame(error))
        if ended:
            self._state.making.pop(name)
            self.failures.succeeded(name, MAKING)
            self._tell_timed(making.live)
        return outputs

    def _give_up(self, making: Making, why: str) -> list[Output]:
        """Refuses a view that cannot be made."""
        name, state = making.live.name, self._state
        state.making.pop(name)
        if state.live.pop(name, None) is not None:
            self._promises.withdraw(name)
        self.failures.forget(name)
        erased = self._outputs.tombstones(name, self._number())
        refusal = self._refuse(state.shard.queries[name], why, making.replies)
        return [*erased, *refusal, *self._outputs.replies(making.replies)]

    def _make_again(self, making: Making, why: str) -> list[Output]:
        """Makes a view once more that has failed; refuses it after the second time."""
        name = making.live.name
        if self.failures.is_second(name, MAKING, {}):
            return self._give_up(making, f"making it failed twice: {why}")
        if self._state.live.pop(name, None) is not None:
            self._promises.withdraw(name)
        self._promises.tell(f"View {name}: making it failed ({why}); it is made again")
        try:
            live = self._new(self._state.shard.queries[name])
        except Exception as error:
            return self._give_up(making, self._blame(error))
        self._make(Making(live, making.ordered, making.replies, making.later))
        return []

    def _finish(self, making: Making) -> list[Output]:
        """Publishes a view that has been made, and maintains it from now on."""
        state, live, ordered, now = self._state, making.live, making.ordered, self._clock.wall()
        live.ticked = ordered.at // live.tick
        state.live[live.name] = live
        self.share()
        outputs = self._outputs.remove_foreign(live, self._number())
        live.dirty = dict.fromkeys([*making.computed.touched, *live.said])
        outputs += self._report(live, making.computed, ordered.at, making.seconds)
        live.watch_from(state.logs, ordered.at, ordered.step, now)
        for applied in making.later:
            live.note(applied)
        live.look(making.later, state.watermark, now)
        return outputs + self._outputs.changes(live) + self._outputs.replies(making.replies)

    # -- after a restart -------------------------------------------------------------------------------------------

    def resume(self, views: Mapping[str, dict[str, Any]], making: Sequence[str]) -> list[Output]:
        """Restores views from their records; one whose records cannot be read is made again, or refused."""
        state, outputs = self._state, list[Output]()
        queries = state.shard.queries
        for name, record in views.items():
            if name in queries:
                try:
                    with skipping("what is known of the view", name):
                        live = self.resumed(queries[name], record)
                        state.live[name], state.practising[name] = live, live.costs.time_again(state.logs)
                except Exception as error:
                    self._promises.tell(f"View {name} is made again: {self._blame(error)}")
        for name in (*views, *making):
            if name in queries and name not in state.live and name not in state.making:
                outputs += self._begin_now(queries[name])
        return outputs

    def _begin_now(self, query: CreateQuery) -> list[Output]:
        """Begins to make a view from its tables as they are."""
        refusal = self.begin(query, Ordered(query, self._state.shard.steps, self._state.watermark), [])
        return [*self._outputs.tombstones(query.name, self._number()), *refusal] if refusal else []

    def resumed(self, query: CreateQuery, record: dict[str, Any]) -> LiveView:
        """Restores a view from its records; raises one of the errors of `skipping` if one of them cannot be read."""
        live = self._new(query)
        plan = live.view.plan
        stored = self._outputs.stored_groups(query.name)
        live.view.groups.by_key = read_groups(stored, len(plan.keys), len(plan.arguments), len(plan.extremes))
        if plan.everything and not live.view.groups.by_key:
            live.view.groups.clear()
        check_rows(live.columns, live.view.rows())
        live.resume(record, self._state.logs)
        live.ticked = self._state.watermark // live.tick
        live.said, unreadable = self._outputs.published_rows(live)
        if unreadable:
            raise ValueError(f"its published group {unreadable[0]:.80} is none of its own")
        live.dirty = dict.fromkeys([*live.view.groups.by_key, *live.said])
        return live

    def practise_piece(self, name: str) -> bool:
        """Continues to practise with a view that existed before this process; returns whether that was the last."""
        if next(self._state.practising[name], self) is not self:
            return False
        self._state.practising.pop(name)
        self._tell_timed(self._state.live[name])
        self.share()
        return True

    # -- what fails ------------------------------------------------------------------------------------------------

    def recover(self, live: LiveView, work: str, error: Exception, record: dict[str, Any] | None) -> list[Output]:
        """Restores a view that has failed at some work from its last record in the log; refuses it after the second
        time.

        Raises:
            Exception: the error, if no view is to blame, or what is wrong with the engine.
        """
        name, state, why = live.name, self._state, self._blame(error)
        if self.failures.is_second(name, work, {table: state.logs[table].last for table in live.tables}):
            self._take_out(name)
            self.failures.forget(name)
            erased = self._outputs.tombstones(name, self._number())
            return [*erased, *self._refuse(state.shard.queries[name], f"{_FAILED[work]} failed twice: {why}", [])]
        self._promises.tell(f"View {name}: {_FAILED[work]} failed ({why}); it is done again")
        practising = name in state.practising
        self._take_out(name)
        try:
            restored = self.resumed(state.shard.queries[name], record or {})
        except Exception as unreadable:
            self._promises.tell(f"View {name} is made again: {self._blame(unreadable)}")
            return self._begin_now(state.shard.queries[name])
        restored.watch, restored.fired, restored.served = live.watch, live.fired, live.served
        state.live[name] = restored
        if practising:
            state.practising[name] = restored.costs.time_again(state.logs)
        self.share()
        return []

    def _tell_timed(self, live: LiveView) -> None:
        left = len(self._state.making) + len(self._state.practising)
        rest = f"; {left} more to time" if left else ""
        self._promises.tell(
            f"View {live.name}: a refresh takes {live.costs.promise.floor:.2f} of {live.within:g} s{rest}"
        )
