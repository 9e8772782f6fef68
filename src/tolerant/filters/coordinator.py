"""The pipeline's side of the filters: allocates widths to items, and answers queries.

The promise: as long as each source applies the newest grant that reached it, every settled answer contains the truth
and is at most 2·within wide (`docs/design/pipeline.md` §4, `docs/design/filters.md` §2.6).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from tolerant.filters import bounds, row_application
from tolerant.filters.answer_emitter import AnswerEmitter
from tolerant.filters.changes import Change
from tolerant.filters.grant_log import GrantLog
from tolerant.filters.growth import check_share
from tolerant.filters.item_evidence import ItemEvidence
from tolerant.filters.item_membership import Membership
from tolerant.filters.state import Flags, Floats, Integers
from tolerant.filters.status_view import ItemView, item_view, last_answers
from tolerant.filters.width_fitting import fitted, start_widths
from tolerant.filters.width_policies import POLICIES, PolicyOptions
from tolerant.kernels.snapshots import Fields, Restorable
from tolerant.queries import Aggregate, Answer

_ROUNDING = 1e-12

_SMOOTHING = 0.1
"""Weight of the last period in the rate that is shown of an item."""


class Coordinator(Restorable):
    """Allocates filter widths and answers any number of overlapping queries.

    Parameters: `queries`, and first `values` of their items; `period`: its length in ticks; `shrink`: the fraction of
    its width that a filter loses at the end of each; `costs` of a message per item (default 1); `margins`: see
    `Membership` (`LatencyCoordinator` sets them); `seed` and `shard`: keys of the random order of ties; `policy`:
    "exact", "uniform", "adaptive" or "predictive"; `epoch`: the first half of each grant's version; `interval`: length
    of a period in microseconds, where `at` is event time (without it, each call of `boundary` ends a period), and
    `tick`: microseconds between two steps of a predicted centre; `share`: number of the most deviating items among
    which "adaptive" splits what is free (§5.2); `probes`: whether items of MIN and MAX queries may be suppressed and
    probed, for sources that support it (§5.3, predictive only).

    Its parts: `membership`, the items and queries; `grant_log`, the grants to send; `emitter`, the answers that
    changed; `evidence`, for facts about items that do not come with their rows; `policy`, which decides widths.

    >>> c = Coordinator([Aggregate.over("both", "sum", ["x", "y"], 3)], values={"x": 10, "y": 20})
    >>> c.widths, c.answers()[0].low
    ({'x': 3.0, 'y': 3.0}, 27.0)
    """

    FIELDS = Fields(parts=["membership", "emitter", "grant_log", "policy"])

    def __init__(  # noqa: PLR0913
        self,
        queries: Iterable[Aggregate] = (),
        *,
        values: Mapping[str, float] | None = None,
        period: int = 10,
        shrink: float = 0.05,
        costs: Mapping[str, float] | None = None,
        margins: Mapping[str, float] | None = None,
        seed: int = 0,
        policy: str = "adaptive",
        shard: int = 0,
        epoch: int = 1,
        interval: int | None = None,
        tick: int = 1,
        share: int = 1,
        probes: bool = False,
    ) -> None:
        if policy not in POLICIES:
            raise ValueError(f"policy must be one of {', '.join(POLICIES)}, got {policy!r}")
        if period < 1 or period != int(period):
            raise ValueError(f"period must be a whole number of ticks, at least 1, got {period}")
        if not 0 <= shrink < 1:
            raise ValueError(f"shrink must be in [0, 1), got {shrink}")
        check_share(share)
        self.membership = Membership(costs, margins)
        self.grant_log = GrantLog(self.membership, shrink if policy == "adaptive" else 0.0, epoch, interval)
        self.emitter = AnswerEmitter(self.membership, self.grant_log, tick)
        self.evidence = ItemEvidence(self.membership, self.grant_log, self.emitter)
        self._options = PolicyOptions(int(period), seed, shard, int(share), probes)
        self.policy = POLICIES[policy](policy, self.membership, self.grant_log, self.emitter, self._options)
        self.apply(Change(add=queries), 0)
        for item, value in (values or {}).items():
            self.update(item, value, 0)
        self.grant_log.drain_grants()
        self.emitter.drain_answers()
        self.membership.items.updates[:] = 0

    # -- what is known ------------------------------------------------------------------------------------------------

    @property
    def widths(self) -> dict[str, float]:
        """The newest width granted to each item, confirmed or not."""
        granted = self.grant_log.granted()
        return {name: float(granted[item]) for name, item in self.membership.index.items()}

    def believed(self, item: str) -> tuple[float, float]:
        """(centre, width) of an item's filter, as far as it is certain; an infinite width is unknown."""
        items, index, tick = self.membership.items, self.membership.index[item], self.emitter.tick
        return bounds.centre_at(items, index, tick), float(bounds.width_at(items, index, tick))

    def value_bounds(self, item: str) -> tuple[float, float]:
        """Bounds of an item's value: see `bounds.value_bounds`."""
        return bounds.value_bounds(self.membership.items, self.membership.index[item], self.emitter.tick)

    def answers(self, at: int | None = None) -> list[Answer]:
        """The answers of all queries, dated `at` (default: the newest update); omits queries with an item that has no
        value yet.
        """
        newest = self.emitter.at
        self.emitter.emit(self.membership.alive(), newest if at is None else max(at, newest))
        return last_answers(self.membership, newest if at is None else at)

    def item_view(self, items: Integers) -> ItemView:
        """Width, rate and burden of these items, as `tolerant explain` shows them."""
        return item_view(self.membership, items, self.grant_log.granted(), self._options.period, self.emitter.tick)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def update(self, item: str, value: float, at: int, grant: int | None = None, *, slope: float = 0.0) -> None:
        """Apply a value that a source sent, and the change per tick that it predicts.

        `grant` is the version that the row carries; None confirms the newest.
        """
        if item not in self.membership.index:
            raise ValueError(f"item {item!r} is in no query")
        if not np.isfinite(value):
            raise ValueError(f"value of item {item!r} must be finite, got {value}")
        index = np.array([self.membership.index[item]])
        self.update_many(
            index,
            np.array([value], np.float64),
            np.array([at]),
            sequences=self.membership.sequences(index) + 1,
            grants=self.grant_log.newest(index) if grant is None else np.array([grant]),
            slopes=np.array([slope], np.float64),
        )

    def update_many(  # noqa: PLR0913
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
        """Apply rows in this order, as arrays over item indices (see `Membership.intern`); returns the number of
        duplicates.

        `counts`: which rows are updates; the others (confirmations, hellos) count in no burden. `slopes`: of the
        predicted centres, per tick. `sent`: when the rows were sent, if not at `ats`. `reports`: of type `REPORT`.
        """
        if not len(items):
            return 0
        emitter, grant_log = self.emitter, self.grant_log
        emitter.advance_to(int(ats[0]))
        state, queries, links = self.membership.arrays()
        degree = links.item_start[items + 1] - links.item_start[items]
        moving = (slopes is not None and bool(slopes.any())) or bool((queries.moving > 0).any())
        until = int(ats[-1]) // emitter.length
        ticks = (until - emitter.tick) * len(self.membership.registered) if moving else 0
        batch = bounds.empty_batch(int(degree.sum()) + ticks)
        known = state.known[items]
        filters = row_application.Filters(
            values,
            np.zeros(len(items)) if slopes is None else slopes,
            (ats if sent is None else sent) // emitter.length,
            grants,
            *row_application.report_columns(reports, len(items)),
        )
        grant_log.time_grants(items, grants)
        written, duplicates, unknown = row_application.apply_rows(
            items, ats, sequences, np.ones(len(items), np.bool_) if counts is None else counts, filters,
            grant_log.least_version, grant_log.passed, grant_log.powers, emitter.tick, emitter.length,
            state, queries, links, batch,
        )  # fmt: skip
        emitter.append(batch, written)
        emitter.tick = max(emitter.tick, until)
        grant_log.regrant_unknown_versions(items, ats, grants, known, unknown)
        emitter.at = max(emitter.at, int(ats[-1]))
        return int(duplicates)

    # -- periods ------------------------------------------------------------------------------------------------------

    def boundary(self, at: int, *, resend: bool = True, silent: Integers | None = None) -> dict[str, float]:
        """End a period: filters shrink by themselves, and the policy reallocates what that frees. Returns the new
        widths granted.

        `resend`: also send unconfirmed grants again (when several periods end at once, only at the last), except those
        of `silent` items.
        """
        self.emitter.advance_to(at)
        state, widths = self.membership.items, self.grant_log.granted()
        self.grant_log.end_period(at)
        changed = self.policy.on_period_end(widths, at)
        state.pace[:] += _SMOOTHING * (state.updates - state.pace)
        state.updates[:] = 0
        if resend:
            self.grant_log.resend(silent)
        self.emitter.refresh(at + 1 if self.grant_log.interval else at)
        return changed

    def skip_periods(self, at: int) -> None:
        """End all periods up to `at` at once, where no source has sent anything in them and no answer is settled: no
        answers are emitted.
        """
        skipped = self.grant_log.skip_periods(at)
        self.membership.items.pace[:] *= (1.0 - _SMOOTHING) ** skipped
        self.emitter.skip_to(at)

    # -- changes of queries and items ---------------------------------------------------------------------------------

    def add(self, query: Aggregate, at: int) -> dict[str, float]:
        """Start a query; returns the widths that change now, each one message."""
        return self.apply(Change(add=[query]), at)

    def drop(self, name: str, at: int) -> dict[str, float]:
        """End a query; returns the widths that change now."""
        return self.apply(Change(drop=[name]), at)

    def alter(self, name: str, within: float, at: int, *, immediate: bool = True) -> dict[str, float]:
        """Change the tolerance of a query; returns the widths that change now. A narrower tolerance is kept once the
        tightening is confirmed; not immediate: see `Change.lazy`.
        """
        return self.apply(Change(alter={name: within}, lazy=not immediate), at)

    def apply(self, change: Change, at: int) -> dict[str, float]:
        """Change queries and items, and reallocate widths; returns the widths that change now."""
        self.emitter.advance_to(at)
        change.apply_to(self.membership)
        joining = change.joining is not None
        changed = self._reallocate(at, joining=joining, lazy=change.lazy and self.grant_log.shrink > 0)
        if change.joining is not None:
            idle = change.joining[self.membership.items.grant_count[change.joining] == 0]
            self.grant_log.issue(idle, np.full(len(idle), np.inf), np.zeros(len(idle), np.bool_), at)
        return changed

    def _reallocate(self, at: int, *, joining: bool, lazy: bool) -> dict[str, float]:
        """Fit widths to the queries: new items start, constraints over budget are cut, fixed items get their cap."""
        membership, grant_log = self.membership, self.grant_log
        rows, before = membership.rows(), grant_log.granted()
        new = np.isinf(before) & ~rows.unqueried
        queries = [query for query in membership.registered if query is not None]
        divisors = np.array(
            [membership.counted_items(query) if query.fn == "avg" else 0 for query in queries], np.int64
        )
        after = np.where(new, start_widths(rows, new, joining, divisors[rows.query]), before)
        after[rows.fixed] = rows.caps[rows.fixed]
        after = self.policy.initial(after)
        if not lazy:
            after = fitted(rows, np.where(rows.unqueried, 0.0, after))
        after[rows.unqueried] = np.inf
        shrinks = rows.adaptable & (grant_log.shrink > 0)
        moved = ~np.isclose(before, after, rtol=_ROUNDING, atol=0.0)
        # An item outside all queries that was never granted anything is left alone (it may have been removed).
        ungranted = membership.items.grant_count[: membership.size] == 0
        which = np.flatnonzero(moved | (np.isfinite(after) & (ungranted | (grant_log.shrinking() != shrinks))))
        grant_log.issue(which, after[which], shrinks[which], at)
        self.policy.on_reallocate(at)
        self.emitter.refresh(at)
        return {str(membership.item_names[item]): float(after[item]) for item in which if moved[item]}
