"""Learns a stream's model from its rows (`docs/design/retention.md` §5).

Decayed frequencies with several lengths of memory, a trend, a walk and an AR(1) stream predict every row before it is
seen; the one with the best recent predictions is chosen. The choice changes only for a clear lead.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tolerant.kernels.snapshots import Fields, Restorable, State
from tolerant.retention.fit import fit_reverting, fit_trend, fit_walk, log_chances
from tolerant.retention.frequencies import DecayedFrequencies
from tolerant.retention.models import AR1, Stationary, StreamModel, Trend, Walk
from tolerant.retention.noise import NormalNoise, UniformNoise
from tolerant.retention.value_arrays import Floats, Integers

PERIOD = 50
"""Ticks between two reviews."""

MEMORIES = (1, 4, 16, 64)
"""Lengths of memory of the frequencies, as multiples of the rows kept."""

_SHORTEST = 25
_HISTORY = (400, 4000)  # rows that models are fitted to, at least and at most; in between four times the memory
_FORGETS = 1.0 / 300.0
_REFIT = 4  # reviews
_FEWEST = 30  # rows for a first fit
_LEAD = 6.0  # nats
_FAMILIES = 3


def _together(came: list[tuple[Integers, Integers]]) -> tuple[Integers, Integers]:
    """Return the ticks and values of all these rows."""
    none = np.zeros(0, np.int64)
    ticks, values = zip((none, none), *came, strict=True)
    return np.concatenate(ticks), np.concatenate(values)


class Learner(Restorable):
    """The model of one stream, as learned so far. `choice` < 4: frequencies of that memory; else `model()`.

    `limit`: how many values frequencies are kept of.
    """

    FIELDS = Fields(
        "choice",
        "_scores",
        "_history",
        "_ticks",
        "_values",
        "_likelihood",
        "_reviews",
        parts=["frequencies"],
        _models=(lambda models: [*map(described, models)], lambda models: [*map(restored, models)]),
        _came=(
            lambda came: State(zip(("ticks", "values"), _together(came), strict=True)),
            lambda state: [state.exactly("ticks", "values")],
        ),
    )

    def __init__(self, memory: int, limit: int | None = None) -> None:
        self.frequencies = DecayedFrequencies([max(memory, _SHORTEST) * factor for factor in MEMORIES], limit)
        self.choice = 1
        self._models: list[StreamModel | None] = [None] * _FAMILIES
        self._scores = np.concatenate([np.zeros(len(MEMORIES)), np.full(_FAMILIES, -np.inf)])
        self._history = min(max(_HISTORY[0], 4 * memory), _HISTORY[1])
        self._ticks, self._values = np.zeros(0, np.int64), np.zeros(0, np.int64)
        # Rows since the last review: predictions of many rows are judged at once.
        self._came: list[tuple[Integers, Integers]] = []
        self._likelihood = np.zeros(len(MEMORIES))
        self._reviews = 0

    @property
    def model(self) -> StreamModel | None:
        """Return the trend, walk or AR(1) stream that is chosen; None: frequencies."""
        return self._models[self.choice - len(MEMORIES)] if self.choice >= len(MEMORIES) else None

    @property
    def memory(self) -> int:
        """Return which memory of the frequencies is chosen."""
        return min(self.choice, len(MEMORIES) - 1)

    def observe(self, ticks: Integers, values: Integers, asked: Integers | None = None) -> tuple[Floats, Floats]:
        """Count rows in order; see `DecayedFrequencies.observe`."""
        touched, fresh = self.frequencies.observe(values, asked, self._likelihood)
        if len(values):
            self._came.append((ticks, values))
        return touched, fresh

    def review(self) -> bool:
        """Fit again when due, and choose; return whether the choice changed."""
        believed = (self.choice, self.model)
        self._settle()
        if self._reviews % _REFIT == 0 or self._models[0] is None:
            self._fit()
        self._reviews += 1
        best = int(np.argmax(self._scores))
        if self._scores[best] > self._scores[self.choice] + _LEAD:
            self.choice = best
        return (self.choice, self.model) != believed

    def _settle(self) -> None:
        """Judge the predictions of the rows since the last review."""
        ticks, values = _together(self._came)
        if not len(values):
            return
        self._scores *= (1.0 - _FORGETS) ** len(values)
        self._scores[: len(MEMORIES)] += self._likelihood
        self._judge(ticks, values)
        self._ticks = np.concatenate([self._ticks, ticks])[-self._history :]
        self._values = np.concatenate([self._values, values])[-self._history :]
        self._came, self._likelihood = [], np.zeros(len(MEMORIES))

    def _judge(self, ticks: Integers, values: Integers) -> None:
        """Add each fitted model's log-likelihood of the new rows."""
        ticks, values = np.append(self._ticks[-1:], ticks), np.append(self._values[-1:], values)
        for k, model in enumerate(self._models):
            if model is not None:
                likelihood = log_chances(model, ticks, values).sum()
                self._scores[len(MEMORIES) + k] += likelihood if len(self._ticks) else 0.0

    def _fit(self) -> None:
        """Fit each family to the recent rows; a new fit replaces the old one if it is clearly better there."""
        n = len(self._values)
        if n < _FEWEST:
            return
        age = np.arange(n - 2, -1, -1)
        weights = (1.0 - _FORGETS) ** age
        fits = [fit_trend(self._ticks, self._values), fit_walk(self._values), fit_reverting(self._values)[0]]
        for k, new in enumerate(fits):
            if new is None or (isinstance(new, Trend) and new.slope == 0.0):
                continue  # frequencies describe a stationary stream better
            likelihoods = log_chances(new, self._ticks, self._values)
            old = self._models[k]
            if old is None:
                self._models[k] = new
                self._scores[len(MEMORIES) + k] = weights @ likelihoods - _LEAD
            elif likelihoods.sum() > log_chances(old, self._ticks, self._values).sum() + _LEAD:
                self._models[k] = new


def described(model: StreamModel | None) -> list[Any] | None:
    """Return a learned model as plain values."""
    if isinstance(model, Trend):
        noise = model.noise
        if isinstance(noise, UniformNoise):
            return ["trend", model.slope, model.offset, "uniform", noise.bound]
        assert isinstance(noise, NormalNoise)
        return ["trend", model.slope, model.offset, "normal", noise.sigma, noise.bound]
    if isinstance(model, Walk):
        return ["walk", model.drift, model.sigma]
    if isinstance(model, AR1):
        return ["reverting", model.constant, model.phi, model.sigma]
    return None


def restored(values: list[Any] | None) -> StreamModel | None:
    """Return the model whose `described` values these are."""
    if values is None:
        return None
    match values:
        case ["trend", slope, offset, "uniform", bound]:
            return Trend(slope, offset, UniformNoise(bound))
        case ["trend", slope, offset, "normal", sigma, bound]:
            return Trend(slope, offset, NormalNoise(sigma, bound))
        case ["walk", drift, sigma]:
            return Walk(drift, sigma)
        case ["reverting", constant, phi, sigma]:
            return AR1(constant, phi, sigma)
    raise ValueError(f"not a model: {values!r}")


def believed(learner: Learner) -> StreamModel:
    """Return the chosen model; an empty stationary one stands for frequencies."""
    return learner.model or Stationary({})
