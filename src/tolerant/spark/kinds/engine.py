"""Bounded queries in event time: rows, silences, restarts, arrivals and departures, boundaries, in the one order
that counts.

Rows come sorted by (at, item, sequence), and rows of one `at` are one transaction. Most rows are plain and go to the
coordinator by the thousand; where something special happens (a source starts again or falls silent, an item appears,
goes or changes hands) the run is cut, and that transaction is handled by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.filters.asking import Coming
from tolerant.filters.coordinator import Coordinator
from tolerant.filters.state import STALE, Said
from tolerant.kernels.versions import COUNTER_BITS
from tolerant.spark.intake import BEAT, GONE, HELLO, UPDATE, WISH, DeadRow
from tolerant.spark.kinds.disputes import DISPUTED, Disputes
from tolerant.spark.kinds.forms import Forms
from tolerant.spark.kinds.recalled import Recalled
from tolerant.spark.kinds.roll import Roll
from tolerant.spark.kinds.tally import Tally
from tolerant.spark.sources import Sources
from tolerant.spark.timeline import in_order
from tolerant.sql.membership import Keys, aggregate, instance_name, members, query_and_group
from tolerant.sql.statements import AggregateSelect
from tolerant.streams import SECOND, Stream, is_sum
from tolerant.transport.conflicts import Conflict
from tolerant.transport.rows import Piece

Rows = NDArray[np.void]

LEAP = 1000
"""More boundaries than this are not passed one by one, when nobody is heard between them."""

_NONE = np.zeros(0, np.int64)


def _first(
    dead: Sequence[DeadRow], names: Sequence[str], find: Callable[[Sequence[str]], NDArray[np.int64]], room: int
) -> Sequence[DeadRow]:
    """The rows whose names are known, or among the first `room` that are not."""
    new = [name for name, place in zip(names, find(names).tolist(), strict=True) if place < 0]
    beyond = set(list(dict.fromkeys(new))[max(room, 0) :])
    return [row for row, name in zip(dead, names, strict=True) if name not in beyond] if beyond else dead


def _keyed(rows: Rows) -> Rows:
    """The rows of items; without a copy where all are."""
    keyed = rows["item"] >= 0
    return rows if keyed.all() else rows[keyed]


class Engine:
    """One shard's items, sources and queries, moved forward in event time."""

    def __init__(self, stream: Stream, shard: int, epoch: int, seed: int = 0) -> None:
        options = stream.options
        self._stream = stream
        self._lease = options.lease
        self.sources = Sources(options.lease)
        self.coordinator = Coordinator(
            period=options.period,
            shrink=options.shrink,
            policy=options.policy,
            seed=seed,
            shard=shard,
            epoch=epoch,
            interval=options.boundary,
            tick=options.tick,
            asks=True,
        )
        self.selects: dict[str, AggregateSelect] = {}
        self.instances: dict[str, list[str]] = {}
        self.tally = Tally()
        self.dead: list[DeadRow] = []
        self.incomplete = False
        """Whether there are items that the stream may not have: its answers lack them."""
        self._held: list[Said] = []  # of what is being done
        self._answers: list[Said] = []
        self._spoken: list[tuple[list[Said], list[str | None]]] = []
        self._forgotten: list[str] = []
        self.recalled = Recalled(options.latency)
        self.roll = Roll()
        self.disputes = Disputes(options.lease)
        self.forms = Forms(self.coordinator, self.roll, self.sources, shard, self._hold_answers)

    @property
    def seconds_per_period(self) -> float:
        """The time between two boundaries."""
        return self._stream.options.boundary / SECOND

    # -- items -----------------------------------------------------------------------------------------------------

    def items(self) -> NDArray[np.int64]:
        """The items that exist; sums are none."""
        found = self.roll.items()
        return found[~self.coordinator.compounds()[found]]

    def admit(self, keys: list[str]) -> NDArray[np.int64]:
        """The indices of keys; they are not items before one of their rows has been applied."""
        indices = self.coordinator.admit(keys)
        self.roll.make_room(len(self.coordinator.item_names()))
        return indices

    def release(self, waiting: NDArray[np.int64], now: int) -> None:
        """Let go of items that have been gone for long and that no row waits for."""
        self.coordinator.release(self.roll.forgotten(waiting, now, self._lease))

    # -- time ------------------------------------------------------------------------------------------------------

    def advance(self, rows: Rows, horizon: int) -> bool:
        """Apply rows up to the horizon, with the boundaries among them; whether there were any."""
        interval, before = self._stream.options.boundary, self.tally.boundaries
        proven = self._prove(self.roll.items())
        while (edge := (self.coordinator.ledger.passed + 1) * interval) < horizon:
            cut = int(np.searchsorted(rows["at"], edge, "right"))
            self._run(rows[:cut], edge)
            rows = rows[cut:]
            last = edge + interval >= horizon
            self.coordinator.boundary(edge, resend=last, unheard=self._unheard())
            self.tally.boundaries += 1
            self.tally.readings += self._used_items() * self._stream.options.period
            self._leap(int(rows["at"][0]) if len(rows) else horizon)
        self._run(rows, horizon)
        self.coordinator.reach(horizon)
        self.coordinator.say_of(proven, horizon)
        self.coordinator.settle(horizon)
        passed = self.tally.boundaries > before
        self._leave_out(self.forms.step(horizon, passed), horizon)
        self._keep_answers()
        return passed

    def _used_items(self) -> int:
        """How many items some query needs, each counted once, those within a sum too."""
        used = self.coordinator.linked() & ~self.coordinator.compounds()
        for _, part in self.forms.formed():
            used[part.items] = True
        return int(used.sum())

    def _leap(self, until: int) -> None:
        """Pass over the boundaries before `until` but the last, when they are many and nobody is heard meanwhile: the
        answers stay stale, and what widths are then is known without them.
        """
        interval, ledger = self._stream.options.boundary, self.coordinator.ledger
        told = self.recalled.next(until)
        last = (min(until, until if told is None else told) - 1) // interval
        if last - ledger.passed > LEAP and not self.sources.heard_of().any():
            self.tally.boundaries += last - 1 - ledger.passed
            self.coordinator.leap((last - 1) * interval)

    def _prove(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        """Let filters change by themselves as far as their sources are known to have lived; where that is news. An item
        that its source has not said again since its restart stays where it was.
        """
        owners = self.roll.owner[items]
        said = self.coordinator.sequences(items) >> COUNTER_BITS >= self.sources.epoch[owners]
        return self.coordinator.prove(items[said], self.sources.lived[owners[said]])

    def _leave_out(self, sums: NDArray[np.int64], at: int) -> None:
        """Forget sums that nobody needs or sends; a row of one that is sent after all makes it known again."""
        if len(sums):
            sequences = self.coordinator.sequences(sums).copy()
            self._forgotten.extend(str(self.coordinator.item_names()[item]) for item in sums)
            self.coordinator.dismiss(sums, at)
            self.coordinator.keep_sequences(sums, sequences)
            self.roll.depart(sums, at)

    def _unheard(self) -> NDArray[np.int64]:
        """The items of sources that are silent, and those that are disputed: nobody is asked about them."""
        silent = (
            np.flatnonzero(self.roll.present & self.sources.silent[self.roll.owner]) if self.sources.names else _NONE
        )
        return np.append(silent, np.array(self.disputes.items(), np.int64))

    def start(self, horizon: int) -> None:
        """Time begins: boundaries before the first horizon are not made up for."""
        self.coordinator.ledger.passed = max((horizon - 1) // self._stream.options.boundary, 0)

    def late(self, rows: Rows, horizon: int) -> None:
        """Apply rows whose time has passed, at once, and note for how long each query was without them."""
        self._count_late(rows, horizon)
        for at, items in self._missed(rows):
            for query in {name for name, _ in map(query_and_group, self._queries_of(items))}:
                self.tally.lose(query, at, horizon)
        moved = rows[in_order(rows)]
        moved["at"] = horizon
        self._run(moved, horizon)
        for source in np.unique(rows["source"]):
            if self.sources.heard[source] + self._lease < horizon:
                self.sources.silent[source] = True
                self.coordinator.mark_stale(self.roll.of_source(int(source)), True, horizon)
        self._keep_answers()

    def _count_late(self, rows: Rows, watermark: int) -> None:
        """Count late rows by source, with the longest delay of each that is certain."""
        self.tally.late += len(rows)
        delays = watermark + self._stream.options.latency - rows["at"]
        for source in np.unique(rows["source"]).tolist():
            mine = rows["source"] == source
            self.tally.count_late(self.sources.names[source], int(mine.sum()), int(delays[mine].max()))

    def _missed(self, rows: Rows) -> list[tuple[int, NDArray[np.int64]]]:
        """From when on which items were not known: a late beat or hello stands for all items of its source."""
        whole = (rows["kind"] == BEAT) | (rows["kind"] == HELLO)
        found = []
        for source in np.unique(rows["source"][whole]):
            first = int(rows["at"][whole & (rows["source"] == source)].min())
            found.append((first, self.roll.of_source(int(source))))
        items, first_rows = np.unique(rows["item"][~whole], return_index=True)
        found.extend((int(rows["at"][~whole][row]), items[k : k + 1]) for k, row in enumerate(first_rows))
        return found

    def foresee(self, waiting: Rows, horizon: int) -> None:
        """Ask the items that rows whose time has not come will make matter."""
        rows = waiting[(waiting["item"] >= 0) & (waiting["kind"] != WISH)]
        level = np.where(rows["kind"] == GONE, np.nan, rows["value"])
        self.coordinator.foresee(Coming(rows["item"].copy(), rows["sequence"].copy(), level), horizon)

    def recall(self, rows: Rows, ways: Iterable[list[Piece]], horizon: int) -> None:
        """Rows, which wait for their time, tell where their items have been until then."""
        for row, way in zip(rows, ways, strict=True):
            if self._is_news(row):
                self.recalled.hear(int(row["item"]), way, int(row["at"]), horizon)
        told = self._recall(horizon)
        if len(told):
            self.coordinator.say_of(told, horizon)
            self._keep_answers()

    def _is_news(self, row: np.void) -> bool:
        """Whether a row that has arrived, of an item, will be applied: it is its source's, and no repetition."""
        item, source, sequence = int(row["item"]), int(row["source"]), int(row["sequence"])
        applied = int(self.coordinator.sequences(np.array([item]))[0])
        current = sequence >> COUNTER_BITS >= self.sources.epoch[source]
        return bool(self.roll.present[item] and self.roll.owner[item] == source and current and sequence > applied)

    def _recall(self, at: int) -> NDArray[np.int64]:
        """Reckon with items where they have told that they are from `at` on; the items that this is about."""
        told = self.recalled.reach(at)
        if len(told.item):
            self.coordinator.reach(at)  # the ticks before `at` are answered by what was known then
            self.coordinator.recall(told.item, told.least, told.most)
        return told.item

    def doubt_all(self, rival: int, at: int) -> None:
        """Another pipeline grants under the epoch `rival`."""
        self.coordinator.doubt_all(rival, at)
        self._keep_answers()

    def expect(self, dead: Sequence[DeadRow], at: int) -> None:
        """Rows of items that are not known could not be used: the items exist, and until one of their rows can be used
        nothing is claimed of their queries."""
        dead = self._within_limits(dead, at)
        indices = self.admit([row.key for row in dead]).tolist()
        sources = self.sources.enlist([row.source for row in dead]).tolist()
        fresh: dict[int, int] = {}
        for row, item, source in zip(dead, indices, sources, strict=True):
            repeated = self.roll.gone_at[item] > 0 and self.roll.owner[item] == source
            repeated = repeated and row.sequence <= self.coordinator.sequences(np.array([item]))[0]
            if not self.roll.present[item] and not repeated:
                fresh[item] = source
        if fresh:
            items, owners = np.array(list(fresh)), np.array(list(fresh.values()))
            self._appear(items, owners, at)
            self.coordinator.mark_stale(items, True, at)

    def _within_limits(self, dead: Sequence[DeadRow], at: int) -> Sequence[DeadRow]:
        """The rows of items and sources that the stream may still have; of others it is not known what they are, and
        nothing is claimed any more."""
        limits = self._stream.options.limits
        kept = _first(dead, [row.key for row in dead], self.coordinator.find, limits.items - len(self.coordinator))
        kept = _first(kept, [row.source for row in kept], self.sources.find, limits.sources - len(self.sources))
        if len(kept) < len(dead) and not self.incomplete:
            self.incomplete = True
            self.coordinator.say_all(at)
            self._keep_answers()
        return kept

    def lose(self, dead: Sequence[DeadRow], at: int) -> None:
        """Rows could not be used: what their items' filters are is not known until a row of later sequence says."""
        lost: dict[int, int] = {}
        for row, item in zip(dead, self.coordinator.find([row.key for row in dead]).tolist(), strict=True):
            if item >= 0:
                # A row whose own number cannot be read stands behind all that was read of its source.
                number = row.sequence if row.sequence > 0 else int(self.sources.read[self.roll.owner[item]])
                lost[item] = max(lost.get(item, 0), number)
        if lost:
            self.recalled.forget(lost, at)  # the row that told it may be among them
            self.coordinator.doubt(np.array(list(lost)), np.array(list(lost.values())), at)
            gone = self.coordinator.find([row.key for row in dead if row.kind == "gone" and row.key])
            gone = gone[gone >= 0]
            self.coordinator.mark_stale(gone[self.roll.present[gone]], True, at)  # they may not exist any more
            self._keep_answers()

    def skip(self, rows: Sequence[DeadRow], at: int) -> None:
        """Rows are skipped that may have been good: their items are not known, and older rows tell nothing any more."""
        told = [row for row in rows if row.kind in ("update", "hello", "ack") or self._is_awaited(row.key)]
        self.expect(told, at)
        self.lose(rows, at)
        for row in rows:
            item = self.coordinator.find([row.key])
            if item[0] >= 0 and self.sources.names[self.roll.owner[item[0]]] == row.source:
                newest = np.maximum(self.coordinator.sequences(item), row.sequence)
                self.coordinator.keep_sequences(item, newest)

    def _is_awaited(self, key: str) -> bool:
        """Whether rows of an item wait, of which none has been applied yet."""
        item = int(self.coordinator.find([key])[0])
        return item >= 0 and not self.roll.present[item] and not self.roll.gone_at[item]

    def lose_all(self, at: int) -> None:
        """Nobody knows which items the rows were of that could not be used, nor whether all still exist."""
        items = self.roll.items()
        if len(items):
            self.recalled.forget(items.tolist(), at)
            self.coordinator.doubt(items, self.sources.read[self.roll.owner[items]], at)
            self.coordinator.mark_stale(items, True, at)
            self._keep_answers()

    def missed_starts(self, starts: Mapping[str, int], at: int) -> None:
        """Rows of sources, by name, could not be used that were of this epoch: if it is a new one, a source has started
        again, and only its next rows make its items fresh.
        """
        for name, epoch in starts.items():
            source = int(self.sources.enlist([name])[0])
            if epoch > self.sources.epoch[source]:
                self.sources.restart(source, epoch)
                self._restarted(source, epoch, at)
        self._keep_answers()

    # -- a run of rows ---------------------------------------------------------------------------------------------

    def _run(self, rows: Rows, until: int) -> None:
        while True:
            rows = self._without_ghosts(rows)
            at = self._next_special(rows, until)
            if at is None:
                self._plain(rows)
                return
            begin, end = np.searchsorted(rows["at"], at, "left"), np.searchsorted(rows["at"], at, "right")
            self._plain(rows[:begin])
            self._special(rows[begin:end], rows[end:], at)
            rows = rows[end:]

    def _without_ghosts(self, rows: Rows) -> Rows:
        """Leave out rows of items that are gone which are older than their going."""
        item = rows["item"]
        keyed = item >= 0
        ghost = keyed & ~self.roll.present[item] & (self.roll.gone_at[item] > 0)
        ghost &= self.roll.owner[item] == rows["source"]
        ghost &= rows["sequence"] <= self.coordinator.sequences(item)
        self.tally.duplicates += int(ghost.sum())
        return rows[~ghost] if ghost.any() else rows

    def _next_special(self, rows: Rows, until: int) -> int | None:
        """The time of the first transaction that is not just values of known items from live sources."""
        source, item = rows["source"], rows["item"]
        keyed = item >= 0
        special = (rows["kind"] == GONE) | (rows["kind"] == WISH) | self.sources.silent[source]
        special |= (rows["sequence"] >> COUNTER_BITS) > self.sources.epoch[source]
        special |= keyed & ~self.roll.present[item]
        special |= keyed & (self.roll.owner[item] != source)
        first = int(rows["at"][np.argmax(special)]) if special.any() else None
        silence = self.sources.next_silence(rows, until)
        if silence is not None:  # of late rows it may have been before; known it is from now on
            silence = max(silence, self.coordinator.at)
        told, settled = self.recalled.next(until), self.disputes.next_end()
        if settled is not None:
            settled = max(settled, self.coordinator.at) if settled <= until else None
        return min((at for at in (first, silence, told, settled) if at is not None), default=None)

    def _plain(self, rows: Rows) -> None:
        if not len(rows):
            return
        self.sources.hear(rows)
        self.tally.count(np.bincount(rows["kind"]))
        keyed = _keyed(rows)
        if len(keyed):
            self.roll.last_at[keyed["item"]] = keyed["at"]
            self.tally.duplicates += self.coordinator.update_many(
                keyed["item"].copy(),
                keyed["value"].copy(),
                keyed["at"].copy(),
                sequences=keyed["sequence"].copy(),
                grants=keyed["grant"].copy(),
                counts=keyed["kind"] == UPDATE,
                slopes=keyed["slope"].copy(),
                sent=keyed["heard"].copy(),
                reports=keyed["report"],
            )

    def _special(self, rows: Rows, later: Rows, at: int) -> None:
        self._silences(at)
        self._resolve(at)
        self._restarts(rows, at)
        self._revivals(rows, at)
        self._arrivals(rows, later, at)
        rows = self._wishes(self._handovers(rows, at))
        told = self._recall(at)
        departures = self._departures(rows)
        self._plain(rows[rows["kind"] != GONE])
        self.sources.hear(departures)
        self._depart(departures, at)
        if len(told):
            self.coordinator.say_of(told, at)

    def _wishes(self, rows: Rows) -> Rows:
        """Sources say which form they would rather send; the rows without that."""
        wishes = rows[rows["kind"] == WISH]
        if not len(wishes):
            return rows
        self.sources.hear(wishes)
        for row in wishes:
            item = np.array([row["item"]])
            if self.roll.present[row["item"]] and row["sequence"] > self.coordinator.sequences(item)[0]:
                self.tally.wish += 1
                self.coordinator.keep_sequences(item, np.array([row["sequence"]]))
                self.forms.wish(int(row["item"]), bool(row["value"]))
            else:
                self.tally.duplicates += 1
        return rows[rows["kind"] != WISH]

    def _silences(self, at: int) -> None:
        for source in self.sources.fallen_silent(at):
            self.sources.silent[source] = True
            self.coordinator.mark_stale(self.roll.of_source(int(source)), True, at)

    def _restarts(self, rows: Rows, at: int) -> None:
        epochs = rows["sequence"] >> COUNTER_BITS
        for source in np.unique(rows["source"][epochs > self.sources.epoch[rows["source"]]]):
            epoch = int(epochs[rows["source"] == source].max())
            self.sources.restart(int(source), epoch)
            self._restarted(int(source), epoch, at)

    def _restarted(self, source: int, epoch: int, at: int) -> None:
        items = self.roll.of_source(source)
        self.recalled.forget(items.tolist(), at)  # its clock may have been set back since it told something
        self.coordinator.mark_stale(self._undisputed(items), True, at, epoch=epoch)

    def _revivals(self, rows: Rows, at: int) -> None:
        for source in np.unique(rows["source"]):
            if self.sources.silent[source] and int(rows["heard"][rows["source"] == source].max()) + self._lease >= at:
                self.sources.silent[source] = False
                items = self._undisputed(self.roll.of_source(int(source)))
                current = self.coordinator.sequences(items) >> COUNTER_BITS >= self.sources.epoch[source]
                self.coordinator.mark_stale(items[current], False, at)

    def _arrivals(self, rows: Rows, later: Rows, at: int) -> None:
        """Items appear: all that do until the end of the run, at once. Their queries settle again only when a grant
        has gone out and come back, so nothing is claimed for the time until their own first row."""
        if not (self._strangers(rows)).any():
            return
        run = np.concatenate([rows, later])
        fresh = run[self._strangers(run)]
        items, first = np.unique(fresh["item"], return_index=True)
        self._appear(items, fresh["source"][first], at)

    def _appear(self, items: NDArray[np.int64], owners: NDArray[np.int64], at: int) -> None:
        self.roll.appear(items, owners)
        self.coordinator.forget_sequences(items, self.sources.epoch[owners])
        self._join(items, at)

    def _strangers(self, rows: Rows) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = (rows["item"] >= 0) & ~self.roll.present[rows["item"]]
        return found & (rows["kind"] != GONE) & (rows["kind"] != WISH)

    def _handovers(self, rows: Rows, at: int) -> Rows:
        """An item changes hands when another source says hello with it, later than all that is known of it. While the
        source that had it is heard, or says anything of it later, the item is disputed.
        """
        keyed = rows["item"] >= 0
        foreign = keyed & self.roll.present[rows["item"]] & (self.roll.owner[rows["item"]] != rows["source"])
        if not foreign.any():
            return rows
        taken = foreign & (rows["kind"] == HELLO) & (rows["at"] > self.roll.last_at[rows["item"]])
        items, sources = rows["item"][taken], rows["source"][taken]
        if len(items):
            self.forms.handed_over(items, at)
            self.recalled.forget(items.tolist(), at)
        before = self.roll.owner[items]
        self.roll.owner[items] = sources
        self.coordinator.forget_sequences(items, self.sources.epoch[sources])
        for item, owner, source in zip(items.tolist(), before.tolist(), sources.tolist(), strict=True):
            if not self.sources.silent[owner] or item in self.disputes:
                self._dispute(item, source, owner, at)
        refused = foreign & (self.roll.owner[rows["item"]] != rows["source"])
        self.dead.extend(self._refusal(row) for row in rows[refused])
        for row in rows[refused & (rows["heard"] + self._lease >= at)]:
            item = int(row["item"])
            if item in self.disputes:
                self.disputes.prolong(item, at)
            else:
                self._dispute(item, int(self.roll.owner[item]), int(row["source"]), at)
        return rows[~refused]

    def _dispute(self, item: int, owner: int, other: int, at: int) -> None:
        """Two sources claim an item: nothing is promised of it until one has been silent about it for a lease."""
        name, names = str(self.coordinator.item_names()[item]), self.sources.names
        self.disputes.begin(item, Conflict(name, names[owner], names[other], at), at)
        self.coordinator.mark_stale(np.array([item]), True, at, epoch=DISPUTED)

    def _undisputed(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.array([item for item in items.tolist() if item not in self.disputes], np.int64)

    def _resolve(self, at: int) -> None:
        """Disputes end: their items are as fresh as their owners' others."""
        items = self.disputes.over(at)
        self.disputes.end(items, at)
        for item in items:
            owner, one = int(self.roll.owner[item]), np.array([item])
            epoch = int(self.sources.epoch[owner])
            said = int(self.coordinator.sequences(one)[0]) >> COUNTER_BITS >= epoch
            self.coordinator.mark_stale(one, bool(self.sources.silent[owner]) or not said, at, epoch=epoch)

    def _refusal(self, row: np.void) -> DeadRow:
        key = str(self.coordinator.item_names()[row["item"]])
        owner = self.sources.names[self.roll.owner[row["item"]]]
        return DeadRow(
            f"the item belongs to source {owner!r}: another source must say hello with it first",
            key=key,
            at=int(row["at"]),
            source=self.sources.names[row["source"]],
            sequence=int(row["sequence"]),
            value=float(row["value"]),
        )

    def _departures(self, rows: Rows) -> Rows:
        gone = rows[rows["kind"] == GONE]
        real = self.roll.present[gone["item"]] & (gone["sequence"] > self.coordinator.sequences(gone["item"]))
        self.tally.duplicates += int((~real).sum())
        self.roll.discard(gone["item"][~real], int(gone["at"][0]) if len(gone) else 0)
        return gone[real]

    def _depart(self, gone: Rows, at: int) -> None:
        if not len(gone):
            return
        items = gone["item"].copy()
        self.tally.gone += len(items)
        self._forgotten.extend(str(self.coordinator.item_names()[item]) for item in items)
        self.forms.departing(items)
        self.disputes.end(items.tolist(), at)
        self.coordinator.dismiss(items, at)
        self.coordinator.keep_sequences(items, gone["sequence"].copy())
        self.roll.depart(items, at)

    # -- queries ---------------------------------------------------------------------------------------------------

    def open(self, selects: Mapping[str, AggregateSelect], at: int) -> None:
        """Queries start."""
        names = self.coordinator.item_names()
        texts = [str(names[item]) for item in self.items()]
        keys = Keys(self._stream, texts)
        opened = []
        for name, select in selects.items():
            self.selects[name] = select
            groups = members(select, keys)
            if not select.group_by and self._stream.options.shards == 1:
                groups.setdefault("", {})  # of several shards, the one that has the items answers
            self.instances[name] = list(groups)
            for group, weights in groups.items():
                opened.append(aggregate(name, group, select, {texts[i]: weight for i, weight in weights.items()}))
        self.coordinator.change(at, add=opened)
        self.forms.opened()
        self._keep_answers()

    def alter(self, name: str, select: AggregateSelect, at: int) -> None:
        """A query gets another tolerance."""
        self.selects[name] = select
        self.coordinator.change(at, alter={instance_name(name, group): select.within for group in self.instances[name]})
        self._keep_answers()

    def drop(self, name: str, at: int) -> None:
        """A query ends."""
        self._speak()
        del self.selects[name]
        dropped = [instance_name(name, group) for group in self.instances.pop(name)]
        self.forms.dropping(dropped)
        self.coordinator.change(at, drop=dropped)
        self.tally.forget(name)
        self._keep_answers()

    def _join(self, items: NDArray[np.int64], at: int) -> None:
        names = [str(self.coordinator.item_names()[item]) for item in items]
        sums = np.fromiter(map(is_sum, names), np.bool_, len(names))
        if sums.any():
            self.coordinator.mark_compound(items[sums])
        self.forms.appeared(items)
        keys = Keys(self._stream, [name for name in names if not is_sum(name)])
        everybody, items = items, items[~sums]
        joined: dict[str, dict[int, float]] = {}
        for name, select in self.selects.items():
            for group, weights in members(select, keys).items():
                if group not in self.instances[name]:
                    self.instances[name].append(group)
                    self.coordinator.prepare(aggregate(name, group, select, {}))
                joined[instance_name(name, group)] = {int(items[index]): w for index, w in weights.items()}
        self.coordinator.enter(joined, everybody, at)

    def _queries_of(self, items: NDArray[np.int64]) -> list[str]:
        names = self.coordinator.query_names()
        found = (str(names[query]) for query in self.coordinator.queries_of(items))
        return [name for name in found if not is_sum(name)]

    # -- saying ----------------------------------------------------------------------------------------------------

    def take_answers(self) -> list[tuple[list[Said], list[str | None]]]:
        """The answers since this was last asked, in order, each part with the names of its query indices."""
        self._speak()
        found, self._spoken = self._spoken, []
        return found

    @property
    def parts(self) -> int:
        """How many parts `take_answers` would give, the answers since the last query was dropped left out."""
        return len(self._spoken)

    def take_forgotten(self) -> list[str]:
        """The items that went since this was last asked."""
        found, self._forgotten = self._forgotten, []
        return found

    def _speak(self) -> None:
        """Put names to the answers so far: an index may be another query's after one is dropped."""
        if self._answers:
            self._spoken.append((self._answers, self.coordinator.query_names()))
            self._answers = []

    def _keep_answers(self) -> None:
        """Take what the coordinator said; of several answers of a query for one time only the last counts."""
        self._hold_answers()
        if not self._held:
            return
        said = Said._make(np.concatenate(columns) for columns in zip(*self._held, strict=True))
        self._held = []
        order = np.lexsort((said.at, said.query))
        repeated = np.zeros(len(order), np.bool_)
        query, at = said.query[order], said.at[order]
        repeated[order[:-1]] = (query[1:] == query[:-1]) & (at[1:] == at[:-1])
        self._answers.append(Said._make(column[~repeated] for column in said))

    def _hold_answers(self) -> None:
        """Take what the coordinator said, but for hidden queries, before one of those comes or goes."""
        parts = self.coordinator.take_answers()
        if not parts:
            return
        said = Said._make(np.concatenate(columns) for columns in zip(*parts, strict=True))
        if self.forms.sets:
            shown = ~self.forms.hidden_queries()[said.query]
            said = Said._make(column[shown] for column in said)
        if self.incomplete:
            said = said._replace(flags=said.flags | STALE)
        if len(said.query):
            self._held.append(said)

    # -- state -----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, NDArray[Any]], Any]:
        """Everything but the statements, as arrays and plain values, after what was said has been taken."""
        arrays, coordinator = self.coordinator.state()
        more, sources = self.sources.state()
        size = len(self.coordinator.item_names())
        arrays |= more | self.roll.state(size)
        told = [self.forms.state(), self.recalled.state(), self.incomplete, self.disputes.state()]
        values = [coordinator, sources, vars(self.tally), self.instances, *told]
        return arrays, values

    def load(self, arrays: dict[str, NDArray[Any]], values: Any, selects: Mapping[str, AggregateSelect]) -> None:
        """Become what `state` said."""
        coordinator, sources, tally, instances, forms, recalled, self.incomplete, disputes = values
        self.coordinator.load(arrays, coordinator)
        self.sources.load(arrays, sources)
        self.roll.load(arrays)
        self.tally = Tally(**tally)
        self.instances = instances
        self.selects = {name: selects[name] for name in instances}
        self.forms.load(forms)
        self.recalled.load(recalled)
        self.disputes.load(disputes)
