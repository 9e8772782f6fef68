"""Exchanges of items and sums with one mistake each, which the fault simulator has to catch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tolerant.testing import Faults
from tolerant.testing.adversarial import AdversarialShard, AdversarialSource

# -- the pipeline's side ----------------------------------------------------------------------------------------------


class _Careless(AdversarialShard):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.spoil(self._engine)


class SwapsBeforeItIsConfirmed(_Careless):
    """A sum takes its items' places as soon as it is there, whatever its width is known to be."""

    faults = Faults(statement=0.1, source_crash=0.0, lost_grant=0.3)

    def spoil(self, engine):
        engine.sums._fits = lambda one: True


class CountsSumsAsItems(_Careless):
    """An average divides by its sums too."""

    def spoil(self, engine):
        engine._coordinator.membership.mark_sums = lambda items: None
        engine._coordinator.membership.sums = lambda: np.zeros(engine._coordinator.membership.size, np.bool_)


class LetsSumsOutliveTheirItems(_Careless):
    """When an item goes, its sum stays in its place."""

    faults = replace(Faults.none(), statement=0.1, churn=0.02)

    def spoil(self, engine):
        engine.sums.departing = lambda items: None


# -- the source's side ------------------------------------------------------------------------------------------------


class DoesNotAddUpAgain(AdversarialSource):
    """A sum keeps the value that it began with."""

    def _sums_of(self, handles, values):
        sums, totals, lost = super()._sums_of(handles, values)
        new = ~self._filters.known[sums]
        return sums[new], totals[new], lost


class AddsUpTooLate(AdversarialSource):
    """A sum has the values that its items had before."""

    def _sums_of(self, handles, values):
        known = self._filters.known[handles]
        return super()._sums_of(handles, np.where(known, self._filters.last[handles], values))
