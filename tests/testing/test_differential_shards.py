"""`BoundedShard` and the reference shard read the same log under the same grants, and know and answer the same.

The reference shard decides nothing here: it follows the grants that the real one issues. So arrays, compiled code and
the order of events are compared with dictionaries and one row at a time, through all faults of the simulator.
"""

import math
import pickle

import pytest
from reference_shard import ReferenceShard

from tolerant.filters.grant_log import GrantLog
from tolerant.kinds.bounded.shard import BoundedShard
from tolerant.testing import Faults, simulate_faults
from tolerant.transport.rows import Grant, read_current, unpack
from tolerant.transport.topics import SEVERAL, TopicKind

WITHOUT_PREDICTION = [seed for seed in range(16) if seed % 8 in (0, 3, 5, 7)]
"""The policies adaptive, uniform and exact: the reference shard predicts nothing and sums nothing."""

issued: list[Grant] = []


@pytest.fixture(autouse=True)
def record_grants(monkeypatch):
    """Records every grant when it is issued: of several in one batch only the last is sent, and all are believed."""
    queue = GrantLog._queue

    def recorded(self, which, widths, shrinks, since, versions, confirm):
        names = self._membership.item_names
        for item, width, shrinks_too, begin, version, ask in zip(
            which.tolist(), widths.tolist(), shrinks.tolist(), since.tolist(), versions.tolist(), confirm.tolist(),
            strict=True,
        ):  # fmt: skip
            issued.append(Grant(str(names[item]), width, self.shrink if shrinks_too else 0.0, begin, version, ask))
        queue(self, which, widths, shrinks, since, versions, confirm)

    monkeypatch.setattr(GrantLog, "_queue", recorded)


class Follower(ReferenceShard):
    """The reference shard with the grants of another."""

    def allot(self):
        pass

    def follow(self, grants):
        for grant in grants:
            item = self.items.get(grant.item)
            if item is not None and (not item.grants or grant.version > item.grants[-1].version):
                item.grants.append(grant)

    def current(self):
        return {(name, group): self.answer(select, members) for name, group, select, members in self.groups()}

    def answer(self, select, members):
        """A minimum settles as soon as its own interval is narrow enough; the plain shard waits for all its items."""
        low, value, high, stale, settling = super().answer(select, members)
        if select.fn in ("min", "max") and value is not None:
            settling = high - low > 2 * select.within * (1 + 1e-9)
        return low, value, high, stale, settling


class ComparedShard(BoundedShard):
    """The real shard, compared with a follower after every entry. It offers no sums: the follower knows none."""

    compared = 0
    may_be_wider = False
    """Whether the real shard may know less: it learns a clock row later that a restarted source lives."""

    def __init__(self, stream, shard, epoch, checkpoint):
        super().__init__(stream, shard, epoch, checkpoint)
        self.follower = Follower(stream, shard, epoch, checkpoint)
        self.current = {}

    def apply(self, batch):
        outputs = []
        for entry in batch:
            issued.clear()
            before = self.watermark
            said = super().apply([entry])
            self.follower.apply([entry])
            self.follower.follow(issued)
            self.note(said)
            outputs += [output for output in said if not TopicKind.SUMS.matches(output.topic)]
            if self.watermark != before:
                self.compare()
        return outputs

    def note(self, outputs):
        for output in outputs:
            if output.topic == SEVERAL or TopicKind.CURRENT.matches(output.topic):
                for row in unpack(output.payload).to_pylist():
                    key = TopicKind.CURRENT.owner(row.get("topic", output.topic)), row["key"]
                    self.current.pop(key, None)
                    if row["body"] is not None:
                        self.current[key] = read_current(row["body"])

    def compare(self):
        assert self.watermark == self.follower.watermark
        for key in self.follower.items:
            (centre, width), (reference, narrow) = self.believed(key), self.follower.believed(key)
            assert centre == pytest.approx(reference, rel=1e-9), key
            assert self.is_wider(width, narrow), key
        for key, (low, _, high, stale, settling) in self.follower.current().items():
            real = self.current[key]
            assert self.is_wider(upper(real["high"]), upper(high)), (key, real, high)
            assert self.is_wider(-lower(real["low"]), -lower(low)), (key, real, low)
            assert real["stale"] == stale, (key, real)
            assert real["settling"] == settling or (self.may_be_wider and real["settling"]), (key, real)
            ComparedShard.compared += 1

    def is_wider(self, number, least):
        return number == pytest.approx(least, rel=1e-9, abs=1e-9) or (self.may_be_wider and number > least)

    def snapshot(self):
        return pickle.dumps((super().snapshot(), self.follower.snapshot(), self.current))

    def restore(self, snapshot):
        real, follower, self.current = pickle.loads(snapshot)
        super().restore(real)
        self.follower.restore(follower)


def upper(end):
    return math.inf if end is None else end


def lower(end):
    return -math.inf if end is None else end


def compare_in(seed, shard, faults):
    before = ComparedShard.compared
    report = simulate_faults(seed, shard_factory=shard, faults=faults)
    # Entries are taken one by one, so a status is published before the late rows that its batch still has.
    assert [violation for violation in report.violations if violation.promise != "count"] == []
    assert ComparedShard.compared > before


@pytest.mark.parametrize("seed", WITHOUT_PREDICTION)
def test_both_shards_know_and_answer_the_same(seed):
    compare_in(seed, ComparedShard, Faults(source_crash=0.0))


class CautiousShard(ComparedShard):
    may_be_wider = True


@pytest.mark.parametrize("seed", WITHOUT_PREDICTION)
def test_where_sources_restart_the_real_shard_claims_no_more(seed):
    compare_in(seed, CautiousShard, Faults(source_crash=0.03))
