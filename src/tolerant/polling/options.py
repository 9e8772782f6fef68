"""The keywords that `simulate` and `Poller` share, checked and turned into settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tolerant.polling.arrays import HONEST, INTERPOLATED, OFF, Floats, Integers, Settings
from tolerant.polling.calibration import FIRST_DOUBT, PAST
from tolerant.polling.chain import check_smoothing, check_states

MODELS = {
    "every-tick": 0,
    "all": 1,
    "per-item": 2,
    "positive-negative": 3,
    "max": 4,
    "risk": 5,
    "max-over": 6,
    "max-repeated": 7,
}
"""The choosers that decide tick by tick, with their codes. "max-over" counts only queries that are over in equation
12, "max-repeated" goes on until none is: both for comparison.
"""
PUSHES = ("ideal-push", "least-push")
"""What a simulation can compare with, but no poller can do."""

PATIENCE = 2
"""Ticks that an answer may take before its item counts as one that cannot be had."""
SLACK = 5
"""Ticks beyond `max_interval`, after which an item is asked for in any case, that its answer may take."""

ESTIMATES = {"interpolated": INTERPOLATED, "honest": HONEST}


@dataclass(frozen=True)
class Options:
    """See `simulate` for what each means."""

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

    def __post_init__(self) -> None:
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
        known = (*MODELS, *PUSHES)
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
        """How many of its last errors are remembered of each item."""
        return PAST if self.calibrated else 0

    @property
    def first_doubt(self) -> float:
        """How many times its risk is thought to be what the model says, until that has been learned."""
        return FIRST_DOUBT if self.cautious else 1.0

    @property
    def first_safety(self) -> float:
        """The safety factor that every query starts with."""
        return 1.0 / self.first_doubt if self.safety is None or self.chooser == "risk" else float(self.safety)

    @property
    def oldest(self) -> int:
        """Ticks after which a value is too old to answer with, whatever the model says of its item."""
        return self.max_interval + SLACK if self.stale_after is None else int(self.stale_after)

    def settings(self, *, report: bool) -> Settings:
        """The same as numbers for compiled code; report: keep the estimate of fidelity."""
        seeds_own = self.safety is None and self.chooser not in ("every-tick", "risk")
        feedback = ESTIMATES[self.estimate] if seeds_own else HONEST if self.calibrated else OFF
        return Settings(
            chooser=MODELS[self.chooser],
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

    def charges(self, items: Sequence[str]) -> Floats:
        """The cost of a pull of each item, 1 where none is given; float64[items]."""
        costs = self.costs or {}
        return np.array([costs.get(item, 1.0) for item in items], np.float64)

    def hosts(self, items: Sequence[str]) -> tuple[Integers, tuple[Integers, Integers, Integers]]:
        """Each item's server (−1: none), and the servers' items as compressed rows with their limits (0: none)."""
        servers, limits = self.servers or {}, self.server_limits or {}
        names = dict.fromkeys(servers[item] for item in items if item in servers)
        number = {name: k for k, name in enumerate(names)}
        of = np.array([number[servers[item]] if item in servers else -1 for item in items], np.int64)
        order = np.argsort(of, kind="stable")
        with_server = order[of[order] >= 0]
        start = np.concatenate([[0], np.cumsum(np.bincount(of[with_server], minlength=len(number)))]).astype(np.int64)
        some = any(name in limits for name in names)
        allowed = np.array([limits.get(name, 0) for name in names] if some else [], np.int64)
        return of, (start, with_server.astype(np.int64), allowed)


def check_whole(name: str, number: float) -> None:
    """Raise `ValueError` unless it is a whole number of ticks or pulls, at least 1."""
    if not (number >= 1 and number == int(number)):
        raise ValueError(f"{name} must be a whole number, at least 1, got {number}")
