"""Checks the arguments that `join` and `Store` share, and maps each policy to its ranking."""

from __future__ import annotations

from collections.abc import Sequence

from tolerant.retention.models import StreamModel
from tolerant.retention.ranking import Ranking, at_random, by_benefit, by_key
from tolerant.retention.survival import Survival


def check_policy(policy: str, known: Sequence[str]) -> None:
    """Raise ValueError for an unknown policy."""
    if policy not in known:
        raise ValueError(f"policy must be one of {', '.join(known)}, got {policy!r}")


def check_models(models: tuple[StreamModel, StreamModel] | None) -> None:
    """Raise ValueError if these are not a pair of models."""
    if models is None:
        return
    if not isinstance(models, Sequence) or len(models) != 2 or not all(isinstance(m, StreamModel) for m in models):
        raise ValueError(f"models must be a pair, (of r, of s), got {models!r}")


def ranking(
    policy: str,
    partner: StreamModel | None,
    survival: Survival | None,
    window: int | None,
    span: tuple[int, int] | None = None,
) -> Ranking:
    """Return how a policy ranks rows that are matched with a stream of model `partner`."""
    if policy == "rand":
        return at_random()
    if policy == "heeb":
        assert partner is not None
        assert survival is not None
        return by_benefit(partner, survival, window, span)
    return by_key(window, growing=policy == "life")
