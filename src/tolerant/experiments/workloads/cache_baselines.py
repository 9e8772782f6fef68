"""Plain implementations of caches in common use, the baselines of the learned cache."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


def arc_hits(references: Iterable[int], memory: int) -> int:
    """Count the hits of ARC (Megiddo and Modha 2003)."""
    once: OrderedDict[int, None] = OrderedDict()
    twice: OrderedDict[int, None] = OrderedDict()
    once_gone: OrderedDict[int, None] = OrderedDict()
    twice_gone: OrderedDict[int, None] = OrderedDict()
    target, hits = 0.0, 0

    def replace(value: int) -> None:
        if once and (len(once) > target or (value in twice_gone and len(once) == target)):
            once_gone[once.popitem(last=False)[0]] = None
        elif twice:
            twice_gone[twice.popitem(last=False)[0]] = None

    for value in references:
        if value in once or value in twice:
            hits += 1
            once.pop(value, None)
            twice.pop(value, None)
            twice[value] = None
        elif value in once_gone:
            target = min(float(memory), target + max(len(twice_gone) / len(once_gone), 1.0))
            replace(value)
            del once_gone[value]
            twice[value] = None
        elif value in twice_gone:
            target = max(0.0, target - max(len(once_gone) / len(twice_gone), 1.0))
            replace(value)
            del twice_gone[value]
            twice[value] = None
        else:
            if len(once) + len(once_gone) == memory:
                if len(once) < memory:
                    once_gone.popitem(last=False)
                    replace(value)
                else:
                    once.popitem(last=False)
            elif len(once) + len(twice) + len(once_gone) + len(twice_gone) >= memory:
                if len(once) + len(twice) + len(once_gone) + len(twice_gone) >= 2 * memory:
                    twice_gone.popitem(last=False)
                replace(value)
            once[value] = None
    return hits


def s3_fifo_hits(references: Iterable[int], memory: int) -> int:  # noqa: C901
    """Count the hits of S3-FIFO (Yang et al. 2023): a small queue of a tenth, a main one, and the names of what was
    dropped early.
    """
    small_size = max(1, memory // 10)
    small: deque[int] = deque()
    main: deque[int] = deque()
    gone: OrderedDict[int, None] = OrderedDict()
    uses: dict[int, int] = {}
    hits = 0

    def drop_from_main() -> None:
        while main:
            value = main.popleft()
            if uses[value] > 0:
                uses[value] -= 1
                main.append(value)
            else:
                del uses[value]
                return

    def drop_from_small() -> None:
        while small:
            value = small.popleft()
            if uses[value] > 0:
                uses[value] = 0
                main.append(value)
                if len(main) > memory - small_size:
                    drop_from_main()
                    return
            else:
                del uses[value]
                gone[value] = None
                if len(gone) > memory:
                    gone.popitem(last=False)
                return

    for value in references:
        if value in uses:
            hits += 1
            uses[value] = min(uses[value] + 1, 3)
            continue
        while len(small) + len(main) >= memory:
            if len(small) > small_size or not main:
                drop_from_small()
            else:
                drop_from_main()
        uses[value] = 0
        if value in gone:
            del gone[value]
            main.append(value)
        else:
            small.append(value)
    return hits


def shifting_zipf(skew: float, values: int, references: int, every: int, seed: int, by: int = 5) -> NDArray[np.int64]:
    """Draw Zipf-distributed references; the hot values move on by `by` every `every` references (0: never)."""
    weights = 1.0 / np.arange(1, values + 1) ** skew
    drawn = np.random.default_rng(seed).choice(values, references, p=weights / weights.sum())
    shift = by * (np.arange(references) // every) if every else 0
    return (drawn + shift) % values
