"""The slow twin of `BoundedShard`: dictionaries, one row at a time, nothing clever. `docs/design/pipeline.md` §3 and
§4, read out loud.

It shares no code with the shard but the width function and the statements, so the simulator's audit can be held
against two implementations. It answers once a clock row, and its policy is plain: over budget, everybody falls to the
uniform share; what is free goes to whoever sent most.
"""

from __future__ import annotations

import math
import pickle
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from tolerant.kernels.decay import decayed, periods_passed
from tolerant.kernels.versions import epoch_of, version
from tolerant.pipeline.hosting import Output
from tolerant.sql import AggregateSelect, Catalogue, decode, matches
from tolerant.streams import Stream, key_parts, key_text
from tolerant.transport.log import Entry
from tolerant.transport.rows import ANSWERS, NO_TIME, UPDATES, Grant, grants_batch, pack, unpack

KEYED = ("update", "hello", "ack", "gone")


@dataclass
class Item:
    """What is known of an item: its filter's centre, and the grants that may be in force."""

    source: str
    value: float = 0.0
    sequence: int = 0
    spoiled: int = 0  # the sequence of a row that could not be used: only later ones confirm anything
    grants: list[Grant] = field(default_factory=list)  # the confirmed one and all later ones, oldest first
    known: bool = False
    updates: int = 0

    def granted(self, passed: int, period: int) -> float:
        return width_of(self.grants[-1], passed, period) if self.grants else math.inf

    def believed(self, passed: int, period: int) -> float:
        if not self.known:
            return math.inf
        return max(width_of(grant, passed, period) for grant in self.grants)


def width_of(grant: Grant, passed: int, period: int) -> float:
    if grant.width == math.inf:
        return math.inf
    return decayed(grant.width, grant.shrink, max(0, passed - periods_passed(grant.since, period)))


@dataclass(frozen=True)
class Budget:
    """`Σ a·W ≤ limit` over the items of one group of one query."""

    coefficients: dict[str, float]
    limit: float

    def is_broken_by(self, widths: dict[str, float]) -> bool:
        used = sum(a * widths[key] for key, a in self.coefficients.items() if a)
        return used > self.limit * (1 + 1e-9)


class ReferenceShard:
    def __init__(self, stream: Stream, shard: int, epoch: int, checkpoint: str) -> None:
        self.stream, self.checkpoint, self.epoch = stream, checkpoint, epoch
        self.period = stream.options.boundary
        self.foreign_epoch = 0
        self.issued = 0
        self.clock: int | None = None
        self.watermark: int | None = None
        self.passed = 0
        self.catalogue = Catalogue()
        self.arrived: list[dict] = []
        self.waiting: list[dict] = []
        self.items: dict[str, Item] = {}
        self.gone: dict[str, int] = {}
        self.heard: dict[str, int] = {}
        self.epochs: dict[str, int] = {}
        self.lived: dict[tuple[str, int], int] = {}  # by source and epoch: the greatest `through` that has been read
        self.last: dict[tuple[str, str], tuple] = {}
        self.grants: list[Grant] = []
        self.answers: list[tuple] = []

    # -- Hosted ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        return pickle.dumps(vars(self))

    def waiting_rows(self) -> list:
        return []

    def restore(self, snapshot: bytes) -> None:
        vars(self).update(pickle.loads(snapshot))

    def believed(self, key: str) -> tuple[float, float]:
        item = self.items[key]
        passed = periods_passed(self.watermark, self.period) if self.watermark is not None else 0
        return item.value, self.believed_width(item, passed)

    def believed_width(self, item: Item, passed: int) -> float:
        """A source that has died shrinks nothing."""
        lived = self.lived.get((item.source, epoch_of(item.sequence)), 0)
        return item.believed(min(passed, periods_passed(lived, self.period)), self.period)

    def ends(self, key: str) -> tuple[float, float]:
        value, width = self.believed(key)
        return value - width / 2, value + width / 2

    def recalled(self, key: str) -> bool:
        return False

    def apply(self, batch: Sequence[Entry]) -> list[Output]:
        for entry in batch:
            if entry.topic == "queries":
                for body in unpack(entry.payload).column("body").to_pylist():
                    self.catalogue.apply(decode(body))
            else:
                self.read(entry.payload)
        return self.say()

    def say(self) -> list[Output]:
        grants, self.grants = self.grants, []
        answers, self.answers = self.answers, []
        outputs = [Output(f"grants.{self.stream.name}", pack(grants_batch(grants)))] if grants else []
        for query in dict.fromkeys(answer[0] for answer in answers):
            rows = [dict(zip(ANSWERS.names, answer, strict=True)) for answer in answers if answer[0] == query]
            outputs.append(Output(f"answers.{query}", pack(pa.RecordBatch.from_pylist(rows, ANSWERS))))
        return outputs

    # -- rows and time --------------------------------------------------------------------------------------------

    def read(self, payload: bytes) -> None:
        try:
            batch = unpack(payload)
        except ValueError:
            return
        for row in batch.to_pylist() if batch.schema.equals(UPDATES) else []:
            if row["kind"] == "clock":
                self.tick(row)
            elif not self.is_usable(row):
                self.spoil(row)
            else:
                self.arrive(row)

    def arrive(self, row: dict) -> None:
        start = row["source"], epoch_of(row["sequence"])
        self.lived[start] = max(self.lived.get(start, 0), row["through"])
        if self.watermark is not None and row["at"] <= self.watermark:
            self.apply_late(row)
        else:
            self.arrived.append(row)

    def apply_late(self, row: dict) -> None:
        self.apply_row(row)

    def is_usable(self, row: dict) -> bool:
        if row["kind"] == "heartbeat":
            return True
        return self.is_key(row["key"]) and row["kind"] in KEYED and math.isfinite(row["value"])

    def is_key(self, key: str) -> bool:
        try:
            key_parts(key, self.stream.key_types)
        except ValueError:
            return False
        return True

    def spoil(self, row: dict) -> None:
        item = self.items.get(row["key"])
        if item is None and self.tells_of_an_item(row):
            item = self.items[row["key"]] = Item(row["source"])
        if item is not None:
            item.spoiled = max(item.spoiled, row["sequence"])
            item.known = False

    def tells_of_an_item(self, row: dict) -> bool:
        kind, key = row["kind"], row["key"]
        return kind in ("update", "hello", "ack") and row["sequence"] > self.gone.get(key, 0) and self.is_key(key)

    def tick(self, row: dict) -> None:
        epoch, whose, at = epoch_of(row["sequence"]), row["source"], row["at"]
        if whose not in ("", self.checkpoint):
            self.foreign_epoch = max(self.foreign_epoch, epoch)
            for item in self.items.values():
                item.known = False
            return
        if whose:
            self.epoch = max(self.epoch, epoch)
        if at == NO_TIME:
            return
        for arrived in self.arrived:
            if arrived["at"] > at + self.stream.options.lease:
                self.spoil(arrived)
            else:
                self.waiting.append(arrived)
        self.arrived = []
        first = self.clock is None
        self.clock = at if first else max(self.clock, at)
        self.watermark = self.clock - self.stream.options.latency
        if first:
            self.passed = periods_passed(self.watermark, self.period)
        self.advance()

    def advance(self) -> None:
        due = [row for row in self.waiting if row["at"] <= self.watermark]
        self.waiting = [row for row in self.waiting if row["at"] > self.watermark]
        for row in sorted(due, key=lambda row: (row["at"], row["key"], row["sequence"])):
            self.boundaries(row["at"])
            self.apply_row(row)
        self.boundaries(self.watermark)
        self.publish()

    def boundaries(self, at: int) -> None:
        while self.passed < periods_passed(at, self.period):
            self.passed += 1
            self.allot()

    def apply_row(self, row: dict) -> None:
        source, sequence, key = row["source"], row["sequence"], row["key"]
        self.heard[source] = max(self.heard.get(source, row["at"]), row["at"])
        self.epochs[source] = max(self.epochs.get(source, 0), epoch_of(sequence))
        if row["kind"] == "heartbeat":
            return
        item = self.items.get(key)
        if sequence <= (item.sequence if item else self.gone.get(key, 0)):
            return
        if row["kind"] == "gone":
            self.gone[key] = sequence
            self.items.pop(key, None)
            return
        if item is None:
            item = self.items[key] = Item(source)
        item.value, item.sequence = row["value"], sequence
        item.updates += row["kind"] == "update"
        self.confirm(item, row["grant"])

    def confirm(self, item: Item, carried: int) -> None:
        """A version that is not held makes the width unknown; so does one that a rival's grant may have replaced."""
        held = [grant for grant in item.grants if grant.version >= carried]
        item.known = (
            item.sequence > item.spoiled
            and bool(held)
            and held[0].version == carried
            and epoch_of(carried) > self.foreign_epoch
        )
        if item.known:
            item.grants = held

    # -- queries --------------------------------------------------------------------------------------------------

    def groups(self) -> Iterator[tuple[str, str, AggregateSelect, dict[str, Item]]]:
        for name, query in self.catalogue.queries.items():
            select = query.select
            found: dict[str, dict[str, Item]] = defaultdict(dict)
            for key, item in self.items.items():
                row = dict(zip(self.stream.key, key_parts(key, self.stream.key_types), strict=True))
                if select.where is None or matches(select.where, row):
                    group = key_text(tuple(row[c] for c in select.group_by)) if select.group_by else ""
                    found[group][key] = item
            for group, members in found.items():
                yield name, group, select, members

    def budgets(self) -> Iterator[Budget]:
        for _, _, select, members in self.groups():
            if select.fn in ("min", "max"):
                yield from (Budget({key: 1.0}, 2 * select.within) for key in members)
            elif select.fn != "count":
                limit = 2 * select.within * (len(members) if select.fn == "avg" else 1)
                yield Budget(dict.fromkeys(members, abs(select.factor)), limit)

    def allot(self) -> None:
        """At a boundary: tighten what is over budget, ask again for what is not confirmed, let one item grow."""
        budgets = list(self.budgets())
        believed = {key: self.believed_width(item, self.passed) for key, item in self.items.items()}
        free = set(self.items) - {key for budget in budgets for key in budget.coefficients}
        for key in sorted(free):
            if self.items[key].granted(self.passed, self.period) != math.inf or not self.items[key].grants:
                self.issue(key, math.inf)
        over = [budget for budget in budgets if budget.is_broken_by(believed)]
        for key in sorted({key for budget in over for key in budget.coefficients}):
            self.tighten(key, [budget for budget in budgets if key in budget.coefficients], believed[key])
        if self.stream.options.policy == "adaptive":
            self.grow([budget for budget in budgets if budget not in over], over, believed)
        for item in self.items.values():
            item.updates = 0

    def tighten(self, key: str, budgets: list[Budget], believed: float) -> None:
        item = self.items[key]
        exact = self.stream.options.policy == "exact"
        share = 0.0 if exact else min(b.limit / sum(b.coefficients.values()) for b in budgets)
        newest = item.granted(self.passed, self.period)
        if not item.grants or share < newest or epoch_of(item.grants[-1].version) < self.epoch:
            self.issue(key, min(share, newest))
        elif newest < believed:
            last = item.grants[-1]
            self.grants.append(Grant(key, last.width, last.shrink, last.since, last.version, True))

    def grow(self, budgets: list[Budget], over: list[Budget], believed: dict[str, float]) -> None:
        stuck = {key for budget in over for key in budget.coefficients}
        able = {key for budget in budgets for key in budget.coefficients} - stuck
        for key in sorted(able, key=lambda key: (-self.items[key].updates, key))[:1]:
            own = [budget for budget in budgets if key in budget.coefficients]
            room = min(
                (b.limit - sum(a * believed[k] for k, a in b.coefficients.items())) / b.coefficients[key] for b in own
            )
            if room > 1e-9 and believed[key] == self.items[key].granted(self.passed, self.period):
                self.issue(key, believed[key] + room)

    def issue(self, key: str, width: float) -> None:
        item = self.items[key]
        confirm = width < self.believed_width(item, self.passed)
        shrink = self.stream.options.shrink if self.stream.options.policy == "adaptive" and width < math.inf else 0.0
        grant = Grant(key, width, shrink, self.passed * self.period + 1, self.next_version(), confirm)
        item.grants.append(grant)
        self.grants.append(grant)

    def next_version(self) -> int:
        self.issued += 1
        return version(self.epoch, self.issued)

    # -- answers --------------------------------------------------------------------------------------------------

    def publish(self) -> None:
        spoken = set()
        for name, group, select, members in self.groups():
            spoken.add((name, group))
            answer = self.answer(select, members)
            if self.last.get((name, group)) != answer:
                self.last[name, group] = answer
                self.answers.append((name, group, self.watermark, *answer))
        self.last = {key: answer for key, answer in self.last.items() if key in spoken}

    def answer(self, select: AggregateSelect, members: dict[str, Item]) -> tuple:
        passed = periods_passed(self.watermark, self.period)
        widths = [self.believed_width(item, passed) for item in members.values()]
        stale = any(self.is_stale(item) for item in members.values())
        values = [item.value for item in members.values()]
        if select.fn == "count":
            return (float(len(values)),) * 3 + (stale, False)
        if select.fn in ("min", "max"):
            best = min if select.fn == "min" else max
            low = best(v - w / 2 for v, w in zip(values, widths, strict=True))
            high = best(v + w / 2 for v, w in zip(values, widths, strict=True))
            settling = max(widths) > 2 * select.within * (1 + 1e-9)
        else:
            share = select.factor / (len(values) if select.fn == "avg" else 1)
            middle, half = share * math.fsum(values), abs(share) * math.fsum(widths) / 2
            low, high = middle - half, middle + half
            settling = half > select.within * (1 + 1e-9)
        if not (math.isfinite(low) and math.isfinite(high)):
            return (low if math.isfinite(low) else None, None, high if math.isfinite(high) else None, stale, True)
        return (low, (low + high) / 2, high, stale, settling)

    def is_stale(self, item: Item) -> bool:
        heard = self.heard.get(item.source)
        if heard is None or self.watermark - heard > self.stream.options.lease:
            return True
        return epoch_of(item.sequence) < self.epochs[item.source]
