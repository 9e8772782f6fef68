"""The pipeline's side of the filters: who holds how much width, and what every query is known to be.

The promise: as long as each source applies the newest grant that reached it, every settled answer contains the truth
and is at most 2·within wide (`specs/0-pipeline.md` §4, `specs/1-filters.md` §2.6).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.filters import applying, bounds, exchange
from tolerant.filters.asking import NOTHING_COMES, Coming, sides, to_ask
from tolerant.filters.book import Book
from tolerant.filters.exchange import Part, Room
from tolerant.filters.growth import boundary as grow
from tolerant.filters.growth import check_share
from tolerant.filters.ledger import Ledger
from tolerant.filters.overlaps import Overlaps, Shares, overlaps
from tolerant.filters.planner import Planner
from tolerant.filters.shares import fitted, start_widths
from tolerant.filters.state import Decided, Flags, Floats, Integers, Said
from tolerant.filters.view import ItemView, Standing, item_view, last_answers, narrowed, standing
from tolerant.kernels.random import key_of
from tolerant.kernels.versions import version
from tolerant.queries import Aggregate, Answer


def _checked_rate(item: str, rate: float) -> float:
    if not (np.isfinite(rate) and rate >= 0):
        raise ValueError(f"max_rates of item {item!r} must be finite and not negative, got {rate}")
    return float(rate)


LIVE_POLICIES = ("exact", "uniform", "adaptive", "predictive")
"""The policies that a coordinator can run."""

_ROUNDING = 1e-12

_SMOOTHING = 0.1
"""How fast an item's shown rate follows what it sends."""


class Coordinator:
    """Hands out filter widths and keeps the answers of any number of overlapping queries.

    Parameters: `queries`, their items' first `values`; `period` in ticks between boundaries; `shrink`, what a filter
    gives up at each;
    `costs` of a message per item (default 1); `allowance`, how long an update may be under way, in the unit of `at`:
    answers are then of that long ago, or with `max_rates` (the most that an item can change in a unit of time) of now,
    and so much wider (`specs/1-filters.md` §2.7); `seed` and `shard` key the random order of ties; `epoch` is the first
    half of each grant's version; `interval`, microseconds between boundaries, where `at` is event time (without it,
    each call of `boundary` is one), and `tick`, microseconds between two steps of a predicted centre; `share`: among
    how many of the most deviating items "adaptive" splits what is free (§5.2); `asks`: whether items of MIN and MAX
    queries may go unheard and be asked, which takes sources that heed a grant's leave (§5.3, predictive only).

    >>> c = Coordinator([Aggregate.over("both", "sum", ["x", "y"], 3)], values={"x": 10, "y": 20})
    >>> c.widths, c.answers()[0].low
    ({'x': 3.0, 'y': 3.0}, 27.0)
    """

    def __init__(
        self,
        queries: Iterable[Aggregate] = (),
        *,
        values: Mapping[str, float] | None = None,
        period: int = 10,
        shrink: float = 0.05,
        costs: Mapping[str, float] | None = None,
        allowance: int = 0,
        max_rates: Mapping[str, float] | None = None,
        seed: int = 0,
        policy: str = "adaptive",
        shard: int = 0,
        epoch: int = 1,
        interval: int | None = None,
        tick: int = 1,
        share: int = 1,
        asks: bool = False,
    ) -> None:
        if policy not in LIVE_POLICIES:
            raise ValueError(f"policy must be one of {', '.join(LIVE_POLICIES)}, got {policy!r}")
        if period < 1 or period != int(period):
            raise ValueError(f"period must be a whole number of ticks, at least 1, got {period}")
        if not 0 <= shrink < 1:
            raise ValueError(f"shrink must be in [0, 1), got {shrink}")
        self.policy, self.period, self.seed, self.shard = policy, int(period), seed, shard
        if not allowance >= 0:
            raise ValueError(f"allowance must be a time, not negative, got {allowance}")
        check_share(share)
        self.share = int(share)
        self._asks = asks and policy == "predictive"
        self.shrink = shrink if policy == "adaptive" else 0.0
        self.allowance = allowance
        self.late = 0
        """Updates that came after `allowance`, applied all the same."""
        self._max_rates = {item: _checked_rate(item, rate) for item, rate in (max_rates or {}).items()}
        self._waiting: list[tuple[int, str, float, int | None, float]] = []
        self._frontier = -(2**62)
        self.at = 0
        self.tick = 0
        """Up to which tick the predicted centres have moved."""
        self._length = int(tick)
        self.planner = Planner(self.period)
        self._costs = dict(costs or {})
        self._book = Book()
        self.ledger = Ledger(self._book, self.shrink, epoch, interval)
        self._targets: Floats | None = None
        self._said: list[Said] = []
        for query in queries:
            self._open(query)
        self._reallocate(0, joining=False)
        for item, value in (values or {}).items():
            self.update(item, value, 0)
        self._release(0)
        self.take_decisions()
        self.take_answers()
        self._book.items.updates[:] = 0

    # -- what is known ------------------------------------------------------------------------------------------------

    @property
    def widths(self) -> dict[str, float]:
        """The newest width granted to each item, confirmed or not."""
        granted = self.ledger.granted()
        return {name: float(granted[item]) for name, item in self._book.index.items()}

    def believed(self, item: str) -> tuple[float, float]:
        """(centre, width) of the filter that must be reckoned with for an item; an infinite width is unknown."""
        index = self._book.index[item]
        items = self._book.items
        return bounds.centre_at(items, index, self.tick), float(bounds.width_at(items, index, self.tick))

    def ends(self, item: str) -> tuple[float, float]:
        """Between which values an item must be reckoned with: in its filter, or beyond its leave, or where it has told
        that it is.
        """
        return bounds.ends(self._book.items, self._book.index[item], self.tick)

    def answers(self, now: int | None = None) -> list[Answer]:
        """What every query is known to be; a query with an item that has no value yet is left out.

        With an allowance and without maximal rates it is what they were at now − allowance; `now` is by default the
        time of the newest update. With maximal rates and `now`, an answer is as narrow as those and the time since the
        updates allow.
        """
        if self._delays:
            newest = max([self.at, *(row[0] for row in self._waiting)])
            self._release((newest if now is None else now) - self.allowance)
            self._say(self._book.alive(), max(self._frontier, self.at))
            return last_answers(self._book, self._frontier)
        self._say(self._book.alive(), self.at)
        found = last_answers(self._book, self.at)
        if now is None or not self._max_rates or not self.allowance or self.policy == "predictive":
            return found
        members = {member.name: member for member in self._book.members if member is not None}
        return [narrowed(one, members[one.query], self._book.items, now, self.allowance) for one in found]

    @property
    def _delays(self) -> bool:
        return self.allowance > 0 and not self._max_rates

    def _release(self, frontier: int) -> None:
        """Apply the updates sent up to `frontier`, in the order in which they were sent."""
        self._frontier = max(self._frontier, frontier)
        due = [row for row in self._waiting if row[0] <= self._frontier]
        del self._waiting[: len(due)]
        for at, item, value, grant, slope in due:
            self._apply(item, value, at, grant, slope)

    def standing(self, names: Iterable[str]) -> list[Standing]:
        """How each of these queries stands."""
        return standing(self._book, names)

    def item_view(self, items: Integers) -> ItemView:
        """What people ask about items first: who holds how much, and what it sends."""
        return item_view(self._book, items, self.ledger.granted(), self.period, self.tick)

    # -- rows ------------------------------------------------------------------------------------------------------

    def reach(self, at: int) -> None:
        """Time passes up to `at`: predicted centres move, tick by tick, and answers with them."""
        until = at // self._length
        if until > self.tick:
            queries = self._book.queries
            said = bounds.room((until - self.tick) * int((queries.moving > 0).sum()))
            links = self._book.links()
            self._keep(
                said, bounds.pass_ticks(self.tick, until, self._length, self._book.items, queries, links, said, 0)
            )
            self.tick = until

    def update(self, item: str, value: float, at: int, grant: int | None = None, *, slope: float = 0.0) -> None:
        """A source sent a value, and how much it expects it to change in a tick. `grant` is the version that the row
        carries; None confirms the newest.
        """
        if item not in self._book.index:
            raise ValueError(f"item {item!r} is in no query")
        if not np.isfinite(value):
            raise ValueError(f"value of item {item!r} must be finite, got {value}")
        if self._delays:
            self.late += at <= self._frontier
            insort(self._waiting, (at, item, float(value), grant, slope), key=lambda row: row[0])
        else:
            self._apply(item, value, at, grant, slope)

    def _apply(self, item: str, value: float, at: int, grant: int | None, slope: float) -> None:
        index = np.array([self._book.index[item]])
        self.update_many(
            index,
            np.array([value], np.float64),
            np.array([at]),
            sequences=self.sequences(index) + 1,
            grants=self.ledger.newest(index) if grant is None else np.array([grant]),
            slopes=np.array([slope], np.float64),
        )

    def update_many(
        self,
        items: Integers,
        values: Floats,
        ats: Integers,
        *,
        sequences: Integers,
        grants: Integers,
        counts: Flags | None = None,
        slopes: Floats | None = None,
        sent: Integers | None = None,
        reports: NDArray[np.void] | None = None,
    ) -> int:
        """Rows in the order in which they apply, as arrays over item indices (`admit` gives them); how many were
        duplicates.

        `counts` says which rows are updates; the others (confirmations, hellos) count in no burden. `slopes`: of the
        predicted centres, a tick. `sent`: when the rows were, where that is not `ats`. `reports`: of type `REPORT`.
        """
        if not len(items):
            return 0
        self.reach(int(ats[0]))
        links = self._book.links()
        degree = links.item_start[items + 1] - links.item_start[items]
        moving = (slopes is not None and bool(slopes.any())) or bool((self._book.queries.moving > 0).any())
        ticks = (int(ats[-1]) // self._length - self.tick) * len(self._book.members) if moving else 0
        said = bounds.room(int(degree.sum()) + ticks)
        known = self._book.items.known[items]
        nothing = np.zeros(len(items))
        filters = applying.Filters(
            values,
            nothing if slopes is None else slopes,
            (ats if sent is None else sent) // self._length,
            grants,
            *applying.report_columns(reports, len(items)),
        )
        self.ledger.time_grants(items, grants)
        written, duplicates, strange = applying.apply_rows(
            items, ats, sequences, np.ones(len(items), np.bool_) if counts is None else counts, filters,
            self.ledger.floor, self.ledger.passed, self.ledger.powers, self.tick, self._length,
            self._book.items, self._book.queries, links, said,
        )  # fmt: skip
        self._keep(said, written)
        self.tick = max(self.tick, int(ats[-1]) // self._length)
        self.ledger.answer_strangers(items, ats, grants, known, strange)
        self.at = max(self.at, int(ats[-1]))
        return int(duplicates)

    def prove(self, items: Integers, lived: Integers) -> Integers:
        """The sources of these items are known to have lived up to these event times, and no longer; the items of which
        something else is known by that. `say_of` says what comes of it.
        """
        state, ledger = self._book.items, self.ledger
        ticks, passed = lived // self._length, (lived - 1) // (ledger.interval or 1)  # `boundaries_passed`, of many
        before, boundaries = state.lived[items], state.lived_passed[items]
        state.lived[items], state.lived_passed[items] = ticks, passed
        moved = (np.minimum(ticks, self.tick) != np.minimum(before, self.tick)) & (state.slope[items] != 0.0)
        shrunk = (np.minimum(passed, ledger.passed) != np.minimum(boundaries, ledger.passed)) & (self.shrink > 0)
        changed = items[moved | shrunk]
        if shrunk.any():
            ledger.refresh()
            self._book.queries.dirty[self._book.alive()] = True
        elif len(changed):
            self._book.queries.dirty[self.queries_of(changed)] = True
        return changed

    @property
    def away(self) -> bool:
        """Whether any item is on leave."""
        return bool(self._book.items.far.any())

    def recall(self, items: Integers, least: Floats, most: Floats) -> None:
        """Items on leave are known, whatever their leave, to be between these from now on; infinite: that is over.
        `say_of` says what comes of it.
        """
        state, away = self._book.items, self._book.items.far[items] != 0
        state.least[items], state.most[items] = np.where(away, least, -np.inf), np.where(away, most, np.inf)
        self._book.queries.dirty[self.queries_of(items)] = True

    def recalled(self, item: str) -> bool:
        """Whether an item is known by what it has told, whatever its leave."""
        return bool(np.isfinite(self._book.items.least[self._book.index[item]]))

    def say_of(self, items: Integers, at: int) -> None:
        """Give the answers that have items which changed."""
        self.reach(at)
        self._say(self.queries_of(items), at)

    def say_all(self, at: int) -> None:
        """Give every answer again, changed or not."""
        self.reach(at)
        alive = self._book.alive()
        self._book.queries.said_flags[alive] = -1
        self._say(alive, at)

    def foresee(self, coming: Coming, at: int) -> None:
        """Ask the items on leave that may be too near by what is coming."""
        if self._asks:
            book = self._book
            near = to_ask(self.tick, coming, book.items, book.queries, book.links())
            if len(near):
                self.ledger.ask(near, at)

    def settle(self, at: int) -> None:
        """Let items grow into room that has been confirmed to be free, and ask those that may be too near."""
        self.foresee(NOTHING_COMES, at)
        which, widths = self.planner.grow(self._book, at // self._length)
        if len(which):
            self.ledger.issue(which, widths, np.zeros(len(which), np.bool_), at)
            self._refresh(at)

    def doubt(self, items: Integers, sequences: Integers, at: int) -> None:
        """Rows of these items could not be used: their widths are not known until a row of later sequence confirms
        one.
        """
        self.reach(at)
        state = self._book.items
        np.maximum.at(state.doubt, items, sequences)
        state.known[items] = False
        state.least[items], state.most[items] = -np.inf, np.inf  # as what told it may be one of those rows
        self._refresh(at)

    def doubt_all(self, rival: int, at: int) -> None:
        """Another pipeline grants under the epoch `rival`: nothing is known until it is confirmed under a newer one."""
        self.reach(at)
        state, ledger = self._book.items, self.ledger
        state.known[:] = False
        ledger.floor = max(ledger.floor, version(rival, 0))
        which = np.array(list(self._book.index.values()), np.int64)
        older = which[(state.held[which] > 0) & (ledger.newest(which) < ledger.floor)]
        if len(older) and ledger.epoch > rival:
            ledger.repeat(older, at)
        self._refresh(at)

    def advance_epoch(self, epoch: int, at: int) -> None:
        """Number grants under a newer epoch; what is not known is granted again under it."""
        self.ledger.epoch = epoch
        state = self._book.items
        which = np.flatnonzero((state.held > 0) & ~state.known)
        if len(which):
            self.ledger.repeat(which, at)

    def mark_stale(self, items: Integers, stale: bool, at: int, epoch: int | None = None) -> None:
        """These items' source has gone silent, or is back. With `epoch`: it has started again, and only rows of that
        epoch make its items fresh."""
        self.reach(at)
        if epoch is not None:
            self._book.items.epoch[items] = epoch
        links = self._book.links()
        bounds.mark_stale(items, stale, self._book.items, self._book.queries, links)
        self._say(self.queries_of(items), at)

    # -- boundaries ------------------------------------------------------------------------------------------------

    def boundary(self, at: int, *, resend: bool = True, unheard: Integers | None = None) -> dict[str, float]:
        """A period ends: filters shrink by themselves, and what that frees goes where it saves most. The new widths
        granted.

        `resend`: also send again what has not been confirmed (when several boundaries pass at once, only at the last),
        but for the items `unheard`.
        """
        self._release(at - self.allowance)
        self.reach(at)
        state, ledger = self._book.items, self.ledger
        widths = ledger.granted()
        ledger.pass_boundary(at)
        changed: dict[str, float] = {}
        if self.policy == "adaptive":
            ledger.refresh()
            after, granted = self._grow(widths)
            which = np.flatnonzero(granted)
            ledger.issue(which, after[which], np.ones(len(which), np.bool_), at)
            changed = {str(self._book.item_names[item]): float(after[item]) for item in which}
        elif self.policy == "predictive":
            changed = self._follow_plans(widths, at)
            if self._asks:
                self._free(at)
        state.pace[:] += _SMOOTHING * (state.updates - state.pace)
        state.updates[:] = 0
        if resend:
            ledger.resend(unheard)
        self._refresh(at + 1 if ledger.interval else at)
        return changed

    def leap(self, at: int) -> None:
        """Pass over all boundaries and ticks up to the boundary `at`, at once: nobody has sent anything meanwhile, and
        no answer is settled, so none is given.
        """
        skipped = self.ledger.leap(at)
        self._book.items.pace[:] *= (1.0 - _SMOOTHING) ** skipped
        self._book.queries.dirty[self._book.queries.moving > 0] = True
        self.tick = max(self.tick, at // self._length)

    def _free(self, at: int) -> None:
        found = self.planner.free(self._book, at // self._length)
        if len(found.which):
            self.ledger.leave(found.which, found.far, found.floors, at)

    def _follow_plans(self, widths: Floats, at: int) -> dict[str, float]:
        """Grow what an earlier plan has made room for, then tighten what a new one asks for; the new widths."""
        tick, names = at // self._length, self._book.item_names
        moves = [self.planner.grow(self._book, tick)]
        if not len(moves[0][0]):
            moves.append(self.planner.tighten(self._book, widths, tick))
        for which, new in moves:
            self.ledger.issue(which, new, np.zeros(len(which), np.bool_), at)
        return {str(names[item]): float(width) for which, new in moves for item, width in zip(which, new, strict=True)}

    def _grow(self, widths: Floats) -> tuple[Floats, Flags]:
        """The widths after growth, and who gets a grant; `widths` are those of the period that ends."""
        state, n = self._book.items, self._book.size
        result = grow(
            self._book.rows(),
            widths,
            state.updates[:n],
            state.cost[:n],
            period=self.period,
            shrink=self.shrink,
            targets=self._targets,
            key=key_of(self.seed, self.shard, self.ledger.passed),
            shrunk=self.ledger.granted(),
            believed=state.width[:n],
            share=self.share,
        )
        self._targets = result.targets
        return result.widths, result.granted

    # -- changes at run time ---------------------------------------------------------------------------------------

    def add(self, query: Aggregate, at: int) -> dict[str, float]:
        """Start a query; the widths that change now, each one message."""
        return self.change(at, add=[query])

    def drop(self, name: str, at: int) -> dict[str, float]:
        """End a query; the widths that change now."""
        return self.change(at, drop=[name])

    def alter(self, name: str, within: float, at: int, *, immediate: bool = True) -> dict[str, float]:
        """Give a query another tolerance; the widths that change now. A narrower one holds once it is confirmed.

        Not immediate (adaptive only): nothing is tightened, and nobody grows until shrinking has caught up; the answer
        has its true width until then.
        """
        return self.change(at, alter={name: within}, lazy=not immediate and self.shrink > 0)

    def change(
        self,
        at: int,
        *,
        add: Iterable[Aggregate] = (),
        drop: Iterable[str] = (),
        alter: Mapping[str, float] | None = None,
        lazy: bool = False,
    ) -> dict[str, float]:
        """Start, end and alter any number of queries at once; the widths that change now. `lazy`: see `alter`."""
        self.reach(at)
        for name in drop:
            self._require(name)
            self._book.close(name)
        for name, within in (alter or {}).items():
            self._require(name)
            if not (np.isfinite(within) and within >= 0):
                raise ValueError(f"within of query {name!r} must be finite and not negative, got {within}")
            before = self._book.member(name).within
            self._book.retune(name, float(within))
            if self._book.rows().beta.min(initial=0.0) < 0:
                self._book.retune(name, before)
                raise ValueError(
                    f"query {name!r} cannot be answered within {within} at an allowance of {self.allowance}"
                )
        for query in add:
            self._open(query)
        return self._reallocate(at, joining=False, lazy=lazy)

    def prepare(self, query: Aggregate) -> None:
        """Make room for a query whose items `enter` next."""
        self._open(query)

    def admit(self, names: Sequence[str]) -> Integers:
        """Indices for these items, new or known."""
        return self._book.admit(names)

    def enter(self, members: Mapping[str, Mapping[int, float]], newcomers: Integers, at: int) -> dict[str, float]:
        """Items (by index) appear, and join queries with their weights: all that do at one time. The widths that
        change.

        A newcomer that no query needs is granted an infinite width, or it would send for ever.
        """
        self.reach(at)
        for name, weights in members.items():
            self._require(name)
            self._book.enter(name, weights)
        changed = self._reallocate(at, joining=True)
        idle = newcomers[self._book.items.held[newcomers] == 0]
        self.ledger.issue(idle, np.full(len(idle), np.inf), np.zeros(len(idle), np.bool_), at)
        return changed

    def dismiss(self, items: Integers, at: int) -> dict[str, float]:
        """Items cease to exist; the widths that change now. Their indices stay theirs until `release`."""
        self.reach(at)
        self._book.dismiss(items)
        return self._reallocate(at, joining=False)

    def edit(
        self,
        *,
        fold: Iterable[Part] = (),
        unfold: Iterable[Part] = (),
        add: Iterable[Aggregate] = (),
        drop: Iterable[str] = (),
    ) -> None:
        """Let sums stand for items, or no more, and queries begin and end; widths follow with what is called next,
        `exchange` or `dismiss`.
        """
        for name in drop:
            self._require(name)
            self._book.close(name)
        for part in unfold:
            exchange.unfold(self._book, part)
        for part in fold:
            exchange.fold(self._book, part)
        for query in add:
            self._open(query)

    def exchange(
        self,
        at: int,
        *,
        fold: Iterable[Part] = (),
        unfold: Iterable[Part] = (),
        add: Iterable[Aggregate] = (),
        drop: Iterable[str] = (),
    ) -> dict[str, float]:
        """`edit` in one transaction; the widths that change now. See `room` for when that unsettles nothing."""
        self.reach(at)
        self.edit(fold=fold, unfold=unfold, add=add, drop=drop)
        return self._reallocate(at, joining=False)

    def room(self, part: Part) -> Room:
        """How much of its query's row a part can have now."""
        return exchange.room(self._book, part)

    def stands(self, part: Part) -> bool:
        """Whether the query of a part has its items, with its weights."""
        return exchange.stands(self._book, part)

    def overlaps(self, owner: Integers, free: Flags, hidden: Flags) -> Overlaps:
        """The parts of queries that sums could stand for, over items that are free to; see `overlaps.overlaps`."""
        return overlaps(self._book, owner, free, hidden, self.ledger.granted())

    def shares(self) -> Shares:
        """How wide such parts may be, as things stand."""
        return Shares(self._book, self.ledger.granted())

    def stale(self, items: Integers) -> Flags:
        """Which of these items are stale."""
        return self._book.items.stale[items]

    def compounds(self) -> Flags:
        """Which item indices are sums of others."""
        return self._book.items.compound[: self._book.size]

    def linked(self) -> Flags:
        """Which item indices are in some query."""
        return np.diff(self._book.links().item_start) > 0

    def mark_compound(self, items: Integers) -> None:
        """These items are sums of others, which averages do not count."""
        self._book.mark_compound(items)

    def release(self, items: Integers) -> None:
        """Let the indices of dismissed items be used by others."""
        self._book.release(items)

    def _open(self, query: Aggregate) -> None:
        if query.name in self._book.query_index:
            raise ValueError(f"there is a query named {query.name!r} already")
        indices = self._book.admit(query.weights)
        for item, name in zip(indices, query.weights, strict=True):
            self._book.items.cost[item] = self._costs.get(name, 1.0)
            self._book.items.pad[item] = 2.0 * self._max_rates.get(name, 0.0) * self.allowance
        weights = dict(zip(indices.tolist(), query.weights.values(), strict=True))
        self._book.open(query.name, query.fn, query.within, weights)
        if self._max_rates:
            self._check_rates(query)

    def _check_rates(self, query: Aggregate) -> None:
        for item in query.weights:
            if item not in self._max_rates:
                raise ValueError(f"max_rates has no rate for item {item!r} of query {query.name!r}")
        if self._book.rows().beta.min(initial=0.0) < 0:
            self._book.close(query.name)
            raise ValueError(
                f"query {query.name!r} cannot be answered within {query.within}: its items may change by more than "
                f"that in an allowance of {self.allowance}"
            )

    def _require(self, name: str) -> None:
        if name not in self._book.query_index:
            raise ValueError(f"there is no query named {name!r}")

    def _reallocate(self, at: int, *, joining: bool, lazy: bool = False) -> dict[str, float]:
        """Bring widths in line with the queries: newcomers start, rows over budget are cut, fixed items take their
        cap.
        """
        book = self._book
        self._targets = None
        book.items.pending[:] = 0.0
        rows, before = book.rows(), self.ledger.granted()
        newcomers = np.isinf(before) & ~rows.unqueried
        alive = [member for member in book.members if member is not None]
        divisors = np.array([book.counted(one) if one.fn == "avg" else 0 for one in alive], np.int64)
        start = start_widths(rows, newcomers, joining, divisors[rows.query])
        after = np.where(newcomers, start, before)
        after[rows.fixed] = rows.caps[rows.fixed]
        if self.policy == "exact":
            after[:] = 0.0
        if not lazy:
            after = fitted(rows, np.where(rows.unqueried, 0.0, after))
        after[rows.unqueried] = np.inf
        shrinks = rows.adaptable & (self.shrink > 0)
        return self._issue_changes(before, after, shrinks, at)

    def _issue_changes(self, before: Floats, after: Floats, shrinks: Flags, at: int) -> dict[str, float]:
        none = self._book.items.held[: self._book.size] == 0
        moved = ~np.isclose(before, after, rtol=_ROUNDING, atol=0.0)
        # An item outside all queries that was never granted anything is none of ours (it may have ceased to exist).
        which = np.flatnonzero(moved | (np.isfinite(after) & (none | (self.ledger.shrinking() != shrinks))))
        self.ledger.issue(which, after[which], shrinks[which], at)
        if self._asks:
            self._call_back(at)
        self._refresh(at)
        return {str(self._book.item_names[item]): float(after[item]) for item in which if moved[item]}

    def _call_back(self, at: int) -> None:
        """Ask the items on leave that a query needs which is no extreme, or the other one."""
        items, n = self._book.items, self._book.size
        links = self._book.links()
        wrong = (items.far[:n] != sides(n, self._book.queries, links)) & (np.diff(links.item_start[: n + 1]) > 0)
        which = np.flatnonzero(wrong & (items.far[:n] != 0) & ~items.asked[:n])
        if len(which):
            self.ledger.ask(which, at)

    # -- state -----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, NDArray[Any]], Any]:
        """Everything as arrays and plain values, after the decisions and answers have been taken; `load` takes it
        back.
        """
        arrays, book = self._book.state()
        arrays["targets"] = np.zeros(0) if self._targets is None else self._targets
        return arrays, [book, self._targets is None, self.at, self.tick, self.ledger.state(), self.planner.state()]

    def load(self, arrays: Mapping[str, NDArray[Any]], values: Any) -> None:
        """Become what `state` said, bit for bit."""
        book, none, self.at, self.tick, numbers, planner = values
        self.planner.load(planner)
        self.ledger.load(numbers)
        self._targets = None if none else arrays["targets"]
        self._book.load(arrays, book)
        self._said = []

    # -- saying ----------------------------------------------------------------------------------------------------

    def take_decisions(self) -> Decided:
        """The grants decided since this was last asked, the newest of each item; `item_names` tells whose they are."""
        return self.ledger.take()

    def take_answers(self) -> list[Said]:
        """The answers given since this was last asked, in order; `query_name` tells whose they are."""
        found, self._said = self._said, []
        return found

    def __len__(self) -> int:
        """How many items have an index."""
        return len(self._book.index)

    def find(self, names: Sequence[str]) -> Integers:
        """The indices of these items, −1 for one that has none."""
        index = self._book.index
        return np.fromiter(map(index.get, names, repeat(-1)), np.int64, len(names))

    def sequences(self, items: Integers) -> Integers:
        """The sequence of the newest row applied, for item indices."""
        return self._book.items.sequence[items]

    def keep_sequences(self, items: Integers, sequences: Integers) -> None:
        """Remember the newest sequence of dismissed items, by which a repeated row is known."""
        self._book.items.sequence[items] = sequences

    def forget_sequences(self, items: Integers, epochs: Integers) -> None:
        """Items are sent by another source, of this epoch, from now on: its rows are numbered on their own."""
        self._book.items.sequence[items] = 0
        self._book.items.doubt[items] = 0
        self._book.items.epoch[items] = epochs

    def item_names(self) -> list[str | None]:
        """The name of each item index."""
        return self._book.item_names

    def query_names(self) -> list[str | None]:
        """The name of each query index."""
        return [None if member is None else member.name for member in self._book.members]

    def _refresh(self, at: int) -> None:
        """Believed widths, sums and answers anew, for all."""
        book = self._book
        self.at = max(self.at, at)
        self.ledger.refresh()
        alive = book.alive()
        bounds.rescan(alive, self.tick, book.items, book.queries, book.links())
        self._say(alive, at)

    def queries_of(self, items: Integers) -> Integers:
        """The indices of the queries that have one of these items."""
        links = self._book.links()
        spans = [links.item_queries[links.item_start[item] : links.item_start[item + 1]] for item in items]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *spans]))

    def _say(self, queries: Integers, at: int) -> None:
        said = bounds.room(len(queries))
        written = bounds.say(queries, at, self.tick, self._book.items, self._book.queries, self._book.links(), said, 0)
        self._keep(said, written)

    def _keep(self, said: Said, written: int) -> None:
        if written:
            self._said.append(Said._make(array[:written] for array in said))
