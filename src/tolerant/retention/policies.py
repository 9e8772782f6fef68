"""What `join` and `Store` have in common: their arguments, and how each policy ranks rows."""

from __future__ import annotations

from collections.abc import Sequence

from tolerant.retention.models import Model
from tolerant.retention.sides import Ranking, at_random, by_benefit, by_key
from tolerant.retention.survival import Survival


def check_policy(policy: str, known: Sequence[str]) -> None:
    """Raises ValueError if it is none of the known ones."""
    if policy not in known:
        raise ValueError(f"policy must be one of {', '.join(known)}, got {policy!r}")


def check_models(models: tuple[Model, Model] | None) -> None:
    """Raises ValueError if they are not a pair of models."""
    if models is None:
        return
    if not isinstance(models, Sequence) or len(models) != 2 or not all(isinstance(m, Model) for m in models):
        raise ValueError(f"models must be a pair, (of r, of s), got {models!r}")


def ranking(
    policy: str,
    partner: Model | None,
    survival: Survival | None,
    window: int | None,
    span: tuple[int, int] | None = None,
) -> Ranking:
    """How a policy ranks rows that are matched with a stream of model `partner`."""
    if policy == "rand":
        return at_random()
    if policy == "heeb":
        assert partner is not None
        assert survival is not None
        return by_benefit(partner, survival, window, span)
    return by_key(window, growing=policy == "life")
