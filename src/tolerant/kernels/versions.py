"""Versions and sequences: (epoch, counter) pairs encoded as one integer, so that arrays of them compare and sort.

A source numbers its rows and a pipeline its grants with such pairs (`docs/design/pipeline.md` §2, §4). The integer 0
means "none": epochs start at 1.
"""

COUNTER_BITS = 40
NONE = 0
LAST_EPOCH = (1 << (63 - COUNTER_BITS)) - 1
"""Epochs are numbered from 1 up to here."""


def version(epoch: int, counter: int) -> int:
    """The pair as one integer; greater epoch first, then greater counter.

    >>> version(2, 0) > version(1, 999)
    True
    """
    if not 0 <= epoch <= LAST_EPOCH:
        raise ValueError(f"epoch must be in [0, 2^{63 - COUNTER_BITS}), got {epoch}")
    if not 0 <= counter < 1 << COUNTER_BITS:
        raise ValueError(f"counter must be in [0, 2^{COUNTER_BITS}), got {counter}")
    return (epoch << COUNTER_BITS) | counter


def epoch_of(value: int) -> int:
    """The epoch of a version made by `version`; works on integer arrays too."""
    return value >> COUNTER_BITS


def counter_of(value: int) -> int:
    """The counter of a version made by `version`; works on integer arrays too."""
    return value & ((1 << COUNTER_BITS) - 1)
