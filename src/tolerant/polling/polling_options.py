"""The keywords that `simulate` and `Poller` share: listed once, checked, and turned into settings for compiled code."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tolerant.polling.choice.risk_calibration import CAUTION, PAST
from tolerant.polling.model.chain import check_smoothing, check_states
from tolerant.polling.poller_arrays import HONEST, INTERPOLATED, OFF, Floats, Integers, Servers, Settings

CHOOSERS = {
    "every-tick": 0,
    "all": 1,
    "per-item": 2,
    "positive-negative": 3,
    "max": 4,
    "risk": 5,
    "max-over": 6,
    "max-repeated": 7,
}
"""The choosers that decide tick by tick, with their codes. For comparison only: "max-over" sums equation 12 over the
queries that exceed their bound, "max-repeated" repeats "max" until none does.
"""
PUSHES = ("ideal-push", "least-push")
"""What a simulation can compare with, but no poller can do."""

PATIENCE = 2
"""Ticks that a reply may take before its item counts as unreachable."""
SLACK = 5
"""Ticks that a reply may take after `max_interval`, when the item is pulled in any case."""

ESTIMATES = {"interpolated": INTERPOLATED, "honest": HONEST}

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class PollingOptions:
    """How a poller decides; `simulate` and `Poller` take these fields as keywords.

    chooser: "every-tick", "all", "per-item", "positive-negative", "max" of [GPR05], or "risk"; in a simulation also
        "ideal-push", and for comparison "least-push", "max-over", "max-repeated".
    pull_ratio: for "max", the fraction of the best score from which on an item is pulled.
    max_interval: ticks after which an item is pulled in any case.
    smoothing: how fast the model corrects itself, from 0 to 1.
    window: ticks from one feedback to the next.
    states: number of states of each item's chain, odd.
    safety: a fixed factor on every tolerance; None: feedback sets it.
    intermediates: a pull brings every value since the last one.
    seed: of the chains' random draws.
    gamma, learning_rate: of the feedback (equations 13 and 14).
    estimate: how feedback sees values between pulls: "interpolated", or "honest" with their uncertainty.
    execution: of the chain: "drawn" at random, or "expected" for its mean.
    forecast: for "risk", answer with a prediction instead of the value pulled last.
    correlated: for "risk", learn which items move together.
    calibrated: for "risk", learn how far the model is right, for items whose changes are no random walk.
    forgetting: fraction of the chain's counts that is lost per tick.
    costs: cost of a pull by item, 1 where missing.
    servers: the server of an item; the pulls of one server and tick share a request.
    request_cost: cost of each request, in addition to its pulls.
    limit, server_limits: most pulls per tick, in all and by server.
    stale_after: for a live poller, ticks after which a value is too old to answer with, whatever the model says of its
        item; None: a little more than `max_interval`.
    patience: for a live poller, ticks that a reply may take before its item counts as unreachable.
    cautious: for calibrated "risk", distrust the model from the start, and always a little.
    """

    chooser: str = "max"
    pull_ratio: float = 0.8
    max_interval: int = 60
    smoothing: float = 0.8
    window: int = 200
    states: int = 21
    safety: float | None = None
    intermediates: bool = False
    seed: int = 0
    gamma: float = 0.1
    learning_rate: float = 0.98
    estimate: str = "interpolated"
    execution: str = "drawn"
    forecast: bool = False
    correlated: bool = False
    calibrated: bool = False
    forgetting: float = 0.0
    costs: Mapping[str, float] | None = None
    servers: Mapping[str, str] | None = None
    request_cost: float = 0.0
    limit: int | None = None
    server_limits: Mapping[str, int] | None = None
    stale_after: int | None = None
    patience: int = PATIENCE
    cautious: bool = False

    def __post_init__(self) -> None:  # noqa: C901
        check_states(self.states)
        check_smoothing(self.smoothing)
        if not 0 < self.pull_ratio <= 1:
            raise ValueError(f"pull_ratio must be in (0, 1], got {self.pull_ratio}")
        for name in ("max_interval", "window"):
            check_whole(name, getattr(self, name))
        for name in ("limit", "stale_after"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name))
        if self.patience < 0:
            raise ValueError(f"patience must be a whole number of ticks, not negative, got {self.patience}")
        if self.safety is not None and not 0 < self.safety < np.inf:
            raise ValueError(f"safety must be None (feedback) or a positive number, got {self.safety}")
        for name, choices in (("estimate", tuple(ESTIMATES)), ("execution", ("drawn", "expected"))):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}")
        if not 0 <= self.gamma < np.inf:
            raise ValueError(f"gamma must be finite and not negative, got {self.gamma}")
        if not 0 < self.learning_rate <= 1:
            raise ValueError(f"learning_rate must be in (0, 1], got {self.learning_rate}")
        if not 0 <= self.forgetting < 1:
            raise ValueError(f"forgetting must be in [0, 1), got {self.forgetting}")
        if not 0 <= self.request_cost < np.inf:
            raise ValueError(f"request_cost must be finite and not negative, got {self.request_cost}")
        for item, cost in (self.costs or {}).items():
            if not 0 < cost < np.inf:
                raise ValueError(f"costs must be finite and positive, got {cost} for item {item!r}")
        for server, limit in (self.server_limits or {}).items():
            check_whole(f"server_limits of {server!r}", limit)
        self._check_chooser()

    def _check_chooser(self) -> None:
        known = (*CHOOSERS, *PUSHES)
        if self.chooser not in known:
            raise ValueError(f"chooser must be one of {', '.join(known)}, got {self.chooser!r}")
        for name in ("forecast", "correlated", "calibrated"):
            if getattr(self, name) and self.chooser != "risk":
                raise ValueError(f'{name} needs chooser="risk", got {self.chooser!r}')
        if self.cautious and not self.calibrated:
            raise ValueError("cautious needs calibrated=True, got False")
        if self.chooser in ("every-tick", *PUSHES) and (self.limit is not None or self.server_limits):
            raise ValueError(f"limit is not for chooser {self.chooser!r}, which pulls what it must")

    @property
    def past(self) -> int:
        """How many of its last errors are kept for each item."""
        return PAST if self.calibrated else 0

    @property
    def first_doubt(self) -> float:
        """The factor on the model's risk until it has been learned."""
        return CAUTION if self.cautious else 1.0

    @property
    def first_safety(self) -> float:
        """The safety factor that every query starts with."""
        return 1.0 / self.first_doubt if self.safety is None or self.chooser == "risk" else float(self.safety)

    @property
    def oldest(self) -> int:
        """Ticks after which a value is too old to answer with, whatever the model says of its item."""
        return self.max_interval + SLACK if self.stale_after is None else int(self.stale_after)

    def settings(self, *, report: bool) -> Settings:
        """Return the numbers that compiled code needs; report: keep the estimate of fidelity."""
        has_feedback = self.safety is None and self.chooser not in ("every-tick", "risk")
        feedback = ESTIMATES[self.estimate] if has_feedback else HONEST if self.calibrated else OFF
        return Settings(
            chooser=CHOOSERS[self.chooser],
            pull_ratio=float(self.pull_ratio),
            max_interval=int(self.max_interval),
            smoothing=float(self.smoothing),
            window=int(self.window),
            feedback=feedback,
            report=bool(report),
            learning_rate=float(self.learning_rate),
            intermediates=bool(self.intermediates),
            forecast=bool(self.forecast),
            calibrated=bool(self.calibrated),
            cautious=bool(self.cautious),
            forgetting=float(self.forgetting),
            limit=int(self.limit or 0),
            patience=int(self.patience),
        )

    def pull_costs(self, items: Sequence[str]) -> Floats:
        """Return the cost of a pull of each item, 1 where none is given; float64[items]."""
        costs = self.costs or {}
        return np.array([costs.get(item, 1.0) for item in items], np.float64)

    def servers_of(self, items: Sequence[str]) -> tuple[Integers, Servers]:
        """Return each item's server (int64[items]; −1: none), and the servers with their items and limits."""
        servers, limits = self.servers or {}, self.server_limits or {}
        names = dict.fromkeys(servers[item] for item in items if item in servers)
        number = {name: k for k, name in enumerate(names)}
        server = np.array([number[servers[item]] if item in servers else -1 for item in items], np.int64)
        order = np.argsort(server, kind="stable")
        members = order[server[order] >= 0]
        start = np.concatenate([[0], np.cumsum(np.bincount(server[members], minlength=len(number)))]).astype(np.int64)
        limited = any(name in limits for name in names)
        allowed = np.array([limits.get(name, 0) for name in names] if limited else [], np.int64)
        return server, Servers(start, members.astype(np.int64), allowed)


def takes_polling_options(function: _Function) -> _Function:
    """Show the fields of `PollingOptions` in the signature of a function that collects them as `**keywords`."""
    signature = inspect.signature(function)
    own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    options = inspect.signature(PollingOptions).parameters.values()
    more = [each.replace(kind=each.KEYWORD_ONLY) for each in options if each.name not in signature.parameters]
    function.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
    return function


def check_whole(name: str, number: float) -> None:
    """Raise `ValueError` unless `number` is a whole number of ticks or pulls, at least 1."""
    if not (number >= 1 and number == int(number)):
        raise ValueError(f"{name} must be a whole number, at least 1, got {number}")
