"""Protocols with one mistake each, which the fault simulator has to catch: what a lapse in the real code would look
like.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from reference_shard import ReferenceShard

from tolerant.edge.source_core import SourceCore
from tolerant.kernels.versions import epoch_of, version
from tolerant.testing import Faults

# -- the pipeline's side ----------------------------------------------------------------------------------------------


class BelievesTighteningsAtOnce(ReferenceShard):
    """A narrower width is counted as soon as it is decided, whatever the source has confirmed."""

    def issue(self, key, width):
        super().issue(key, width)
        item = self.items[key]
        item.grants = item.grants[-1:]

    def confirm(self, item, carried):
        item.known = bool(item.grants)


class ReusesVersions(ReferenceShard):
    """A new grant of an item takes the place and the number of the one before."""

    def issue(self, key, width):
        held = self.items[key].grants
        self.reused = held[-1].version if held and epoch_of(held[-1].version) == self.epoch else None
        super().issue(key, width)
        if self.reused:
            del held[-2]

    def next_version(self):
        return self.reused or super().next_version()


class StartsAgainUnderItsOldEpoch(ReferenceShard):
    """A pipeline on an empty checkpoint numbers its grants like the one before."""

    def next_version(self):
        self.issued += 1
        return version(1, self.issued)


class TakesAnyVersionForItsNewest(ReferenceShard):
    """A row confirms the newest grant, whatever version it carries."""

    def confirm(self, item, carried):
        super().confirm(item, item.grants[-1].version if item.grants else 0)


class TrustsForEver(ReferenceShard):
    """Items of a source that is silent, or has not said them again after its restart, count as fresh."""

    faults = Faults(source_crash=0.05)

    def is_stale(self, item):
        return False


class ForgetsSpoiledRows(ReferenceShard):
    """A row that could not be used leaves the item's width as it was."""

    faults = Faults(corrupt_row=0.1)

    def spoil(self, row):
        pass


class DropsLateRows(ReferenceShard):
    """What is late is not applied."""

    def apply_late(self, row):
        pass


class AppliesRowsAsTheyCome(ReferenceShard):
    """Rows do not wait for their time: the watermark's answer has what happens after it."""

    def read(self, payload):
        super().read(payload)
        for row in self.arrived:
            self.apply_row(row)
        self.arrived = []


class NeverSettles(ReferenceShard):
    """Every answer is settling: never wrong, and of no use."""

    def answer(self, select, members):
        return (*super().answer(select, members)[:4], True)


class NeverAsksAgain(ReferenceShard):
    """A tightening that was lost on its way is not sent again."""

    def tighten(self, key, budgets, believed):
        before = len(self.grants)
        issued = self.issued
        super().tighten(key, budgets, believed)
        if self.issued == issued:
            del self.grants[before:]


class CountsBatches(ReferenceShard):
    """What it says depends on how the log is cut into batches."""

    def say(self):
        for item in self.items.values():
            item.updates = 0
        return super().say()


class ForgetsPartOfItsState(ReferenceShard):
    """The rows that wait are not in the snapshot."""

    def restore(self, snapshot):
        super().restore(snapshot)
        self.waiting = []


# -- the source's side ------------------------------------------------------------------------------------------------


class DoesNotReapply(SourceCore):
    """After a shrink the filters are not applied again to the last offered values."""

    def _reapply(self, moment):
        pass


class DoesNotShrink(SourceCore):
    """The filters keep the width that they were given."""

    def grant(self, grants, now):
        super().grant([replace(grant, shrink=0.0) for grant in grants], now)


class NeverAcknowledges(SourceCore):
    """Grants that ask for an answer get none."""

    def grant(self, grants, now):
        super().grant([replace(grant, confirm=False) for grant in grants], now)


class TakesWhateverComesLast(SourceCore):
    """The grant that arrives last is in force, under the newest version that was seen."""

    faults = Faults(late_grant=0.4, statement=0.8)

    def grant(self, grants, now):
        seen = self._grants.newest
        renumbered = []
        for grant in grants:
            newest = max(grant.version, seen[grant.item].version if grant.item in seen else 0)
            renumbered.append(replace(grant, version=newest))
        super().grant(renumbered, now)


class AcknowledgesWithoutRecentring(SourceCore):
    """The answer to a grant carries the value, but the filter stays where it was."""

    def _enforce(self, grants, at):
        handles = np.array(list(grants), np.int64)
        centres = self._filters.centre[handles].copy()
        super()._enforce(grants, at)
        self._filters.centre[handles] = centres
