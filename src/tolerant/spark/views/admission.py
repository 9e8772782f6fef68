"""Makes views and drops them as the statements require; refuses those whose promise cannot be kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tolerant.kinds.views.select import ViewSelect
from tolerant.pipeline.hosting import Output
from tolerant.spark.views.checkpoint import check_rows, read_groups
from tolerant.spark.views.clock import Clock
from tolerant.spark.views.live import LiveView
from tolerant.spark.views.maintained import Engine, Maintained, Pushed
from tolerant.spark.views.outputs import Reply, ViewOutputs
from tolerant.spark.views.promise_keeping import PromiseKeeper
from tolerant.spark.views.refresh_costs import TooSlow
from tolerant.spark.views.shard import Ordered
from tolerant.spark.views.view_state import Making, ViewState
from tolerant.spark.views.watch import after
from tolerant.sql import CreateQuery, CreateTable, Drop
from tolerant.sql.pipeline_inputs import Views
from tolerant.sql.view_select import plan_of
from tolerant.transport.records import skipping


class ViewEngine(Engine, Protocol):
    """An engine with what a pipeline of views needs besides."""

    dialect: str

    def columns(self, sql: str, tables: Sequence[CreateTable]) -> list[str]:
        """Returns the SQL types of the columns of a select over tables (`ViewPlan.sql`).

        Raises:
            ValueError: one of them is a type that no table has, or the select cannot be run.
        """
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
                try:
                    self.begin(statement, ordered)
                except ValueError as error:
                    outputs += self._refuse(statement, str(error), replies)
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

    def _drop(self, name: str) -> tuple[list[Output], list[Reply]]:
        """Drops a view; also returns the replies that waited for it to be made."""
        state = self._state
        making = state.making.pop(name, None)
        state.practising.pop(name, None)
        live = state.live.pop(name, None)
        if live is None:
            return [], making.replies if making else []
        self._promises.withdraw(name)
        self.share()
        return self._outputs.tombstones(live, self._number()), []

    def share(self) -> None:
        """Shares the engine's time again among the views."""
        self._promises.share(self._state.live, warn=not self._state.practising)  # else some costs are of another run

    # -- making ----------------------------------------------------------------------------------------------------

    def begin(self, query: CreateQuery, ordered: Ordered) -> None:
        """Begins to make a view.

        Raises:
            ValueError: it cannot be computed.
        """
        later = [after(applied, ordered.step) for applied in self._state.filed]
        making = Making(self._new(query), ordered, [], later)
        making.pieces = making.compute(self._state.logs)
        self._state.making[query.name] = making

    def _new(self, query: CreateQuery) -> LiveView:
        select = ViewSelect.of(query)
        tables = [self._tables[name] for name in select.tables]
        plan = plan_of(select.sql, tables, self._engine.dialect)
        types = self._engine.columns(plan.sql, tables)
        view = Maintained(plan, self._state.logs, self._engine, self._clock)
        columns = [(part.name, type_) for part, type_ in zip(plan.outputs, types, strict=True)]
        return LiveView(query.name, view, columns, select.refresh, select.when)

    def make_piece(self, making: Making) -> list[Output]:
        """Makes the next piece of a view; after the last piece the view is live, or refused."""
        begun, state = self._clock.elapsed(), self._state
        name, query = making.live.name, state.shard.queries[making.live.name]
        try:
            ended = next(making.pieces, self) is self
            if ended:
                self._promises.admit(making.live)
        except (TooSlow, ValueError) as error:
            state.making.pop(name)
            refusal = self._refuse(query, str(error), making.replies)
            return refusal + self._outputs.replies(making.replies)
        making.seconds += self._clock.elapsed() - begun
        if not ended:
            return []
        state.making.pop(name)
        outputs = self._finish(making)
        self._tell_timed(making.live)
        return outputs

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

    def resume(self, views: Mapping[str, dict[str, Any]], making: Sequence[str]) -> None:
        """Restores views from their records; one whose records cannot be read is made again."""
        state = self._state
        queries = state.shard.queries
        for name, record in views.items():
            query = queries[name]
            with skipping("what is known of the view", name):
                live = state.live[name] = self.resumed(query, record)
                state.practising[name] = live.costs.time_again(state.logs)
        for name in (*views, *making):
            if name in queries and name not in state.live and name not in state.making:
                self.begin(queries[name], Ordered(queries[name], state.shard.steps, state.watermark))

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

    def practise_piece(self, name: str) -> None:
        """Continues to practise with a view that existed before this process."""
        if next(self._state.practising[name], self) is self:
            self._state.practising.pop(name)
            self._tell_timed(self._state.live[name])
            self.share()

    def _tell_timed(self, live: LiveView) -> None:
        left = len(self._state.making) + len(self._state.practising)
        rest = f"; {left} more to time" if left else ""
        self._promises.tell(
            f"View {live.name}: a refresh takes {live.costs.promise.floor:.2f} of {live.within:g} s{rest}"
        )
