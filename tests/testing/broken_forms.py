"""Exchanges of items and sums with one mistake each, which the fault simulator has to catch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tolerant.testing import Faults
from tolerant.testing.bold import BoldShard, BoldSource

# -- the pipeline's side ----------------------------------------------------------------------------------------------


class _Careless(BoldShard):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.spoil(self._engine)


class SwapsBeforeItIsConfirmed(_Careless):
    """A sum takes its items' places as soon as it is there, whatever its width is known to be."""

    weather = Faults(statement=0.1, source_crash=0.0, lost_grant=0.3)

    def spoil(self, engine):
        engine.forms._fits = lambda one: True


class CountsSumsAsItems(_Careless):
    """An average divides by its sums too."""

    def spoil(self, engine):
        engine.coordinator.mark_compound = lambda items: None
        engine.coordinator.compounds = lambda: np.zeros(engine.coordinator._book.size, np.bool_)
        items = engine.items

        def without_sums():
            names = engine.coordinator.item_names()
            return np.array([item for item in items() if not str(names[item]).startswith("\x1f")], np.int64)

        engine.items = without_sums


class LetsSumsOutliveTheirItems(_Careless):
    """When an item goes, its sum stays in its place."""

    weather = replace(Faults.none(), statement=0.1, churn=0.02)

    def spoil(self, engine):
        engine.forms.departing = lambda items: None


# -- the source's side ------------------------------------------------------------------------------------------------


class DoesNotAddUpAgain(BoldSource):
    """A sum keeps the value that it began with."""

    def _sums_of(self, handles, values):
        sums, totals, lost = super()._sums_of(handles, values)
        new = ~self._bank.known[sums]
        return sums[new], totals[new], lost


class AddsUpTooLate(BoldSource):
    """A sum has the values that its items had before."""

    def _sums_of(self, handles, values):
        known = self._bank.known[handles]
        return super()._sums_of(handles, np.where(known, self._bank.last[handles], values))
