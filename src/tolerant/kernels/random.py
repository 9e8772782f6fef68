"""Counter-based random numbers: a pure function of (key, counter), so that repeated work draws the same numbers.

The numbers are those of SplitMix64 (Steele, Lea, Flood 2014): `mixed` over a Weyl sequence that starts at the key.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.compiled import compiled

_WEYL = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)
_MASK = (1 << 64) - 1


@compiled
def mixed(x: np.uint64) -> np.uint64:
    """A bijection of 64-bit words in which every bit of `x` flips about half of the result's bits."""
    x = (x ^ (x >> _S30)) * _FIRST
    x = (x ^ (x >> _S27)) * _SECOND
    return x ^ (x >> _S31)


@compiled
def absorbed(key: np.uint64, part: np.uint64) -> np.uint64:
    """The key of the pair (`key`, `part`); for compiled code (elsewhere use `key_of`)."""
    return mixed(mixed(key + _WEYL) ^ part)


def absorbed_arrays(keys: NDArray[np.uint64], parts: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """`absorbed` of each pair, by NumPy: for processes that have no other need of the compiler."""
    mix: Callable[[NDArray[np.uint64]], NDArray[np.uint64]] = mixed.__wrapped__  # type: ignore[attr-defined]
    return mix(mix(keys + _WEYL) ^ parts)


@compiled
def bits_at(key: np.uint64, counter: np.uint64) -> np.uint64:
    """The random word number `counter` of `key`; for compiled code (elsewhere use `bits`)."""
    return mixed(key + (counter + np.uint64(1)) * _WEYL)


@compiled
def _fill(key: np.uint64, counters: NDArray[np.uint64], out: NDArray[np.uint64]) -> None:
    for k in range(counters.size):
        out[k] = bits_at(key, counters[k])


def key_of(*parts: int) -> np.uint64:
    """The key of a tuple of integers, for instance (seed, shard, period); the order matters.

    >>> bool(key_of(1, 2) == key_of(1, 2)), bool(key_of(1, 2) == key_of(2, 1))
    (True, False)
    """
    key = np.uint64(0)
    for part in parts:
        key = np.uint64(absorbed(key, np.uint64(part & _MASK)))
    return key


def bits(key: np.uint64, counters: NDArray[np.integer]) -> NDArray[np.uint64]:
    """One random 64-bit word per counter, uint64[n]."""
    words = np.ascontiguousarray(counters, np.uint64)
    out = np.empty_like(words)
    _fill(key, words, out)
    return out


def uniforms(key: np.uint64, counters: NDArray[np.integer]) -> NDArray[np.float64]:
    """One random number in [0, 1) per counter, float64[n].

    >>> bool(abs(uniforms(key_of(7), np.arange(10_000)).mean() - 0.5) < 0.01)
    True
    """
    return (bits(key, counters) >> np.uint64(11)).astype(np.float64) * 2.0**-53
