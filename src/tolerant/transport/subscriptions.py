"""The rows of `subscriptions.<table>`: parameters by the column, 65,536 subscriptions a batch at most.

A subscription's id is made from its parameters (`subscription_ids`), so nobody has to give ids out: a statement sent
again subscribes to nothing twice, whoever unsubscribes needs to know the parameters only, and those who subscribe to
the same share one subscription.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.kernels.random import absorbed_arrays
from tolerant.transport.changes import ARROW

SUBSCRIBE, UNSUBSCRIBE = "subscribe", "unsubscribe"

CHUNK = 65_536
"""Subscriptions in a batch, at most."""

_WORD = pa.dictionary(pa.int32(), pa.string())


def template_of(batch: pa.RecordBatch) -> str:
    """The template that a batch of subscriptions is for.

    Raises:
        ValueError: it does not say, or names several.
    """
    if "template" not in batch.schema.names or batch.schema.field("template").type != _WORD:
        raise ValueError(f"columns must be those of subscriptions, got {batch.schema.names}")
    names = set(batch.column("template").cast(pa.string()).to_pylist())
    if len(names) != 1 or None in names:
        raise ValueError(f"a batch of subscriptions must be for one template, got {sorted(map(str, names))}")
    return str(names.pop())


def subscriptions_schema(parameters: Mapping[str, str]) -> pa.Schema:
    """The columns of `subscriptions.<table>`; `parameters`: name → SQL type, in the template's order.

    >>> subscriptions_schema({"low": "DOUBLE"}).names
    ['kind', 'template', 'id', 'parameter.low']
    """
    own = ((f"parameter.{name}", ARROW[type_name]) for name, type_name in parameters.items())
    return pa.schema([("kind", _WORD), ("template", _WORD), ("id", pa.int64()), *own])


def subscription_ids(columns: Mapping[str, pa.Array]) -> NDArray[np.int64]:
    """The ids of subscriptions with these parameters, int64[n] ≥ 0; the order of the columns matters.

    Equal parameters have one id, others different ones, but for one chance in 10^7 among a million subscriptions.

    >>> ids = subscription_ids({"low": pa.array([20.0, 0.0, -0.0]), "high": pa.array([60.0, 1.0, 1.0])})
    >>> bool(ids[1] == ids[2]), bool(ids[0] == ids[1])
    (True, False)
    """
    size = len(next(iter(columns.values()))) if columns else 1
    ids = np.zeros(size, np.uint64)
    for array in columns.values():
        ids = absorbed_arrays(ids, _bits(array))
    return (ids >> np.uint64(1)).astype(np.int64)


def subscription_batches(
    template: str, parameters: Mapping[str, str], columns: Mapping[str, pa.Array], kind: str = SUBSCRIBE
) -> Iterator[pa.RecordBatch]:
    """Rows that subscribe to a template (or unsubscribe) with these parameters; a template without any has one row."""
    arrays = {name: columns[name].cast(ARROW[type_name]) for name, type_name in parameters.items()}
    ids = subscription_ids(arrays)
    schema = subscriptions_schema(parameters)
    for start in range(0, len(ids), CHUNK):
        chunk = pa.array(ids[start : start + CHUNK])
        words = [_same(word, len(chunk)) for word in (kind, template)]
        yield pa.record_batch([*words, chunk, *(array.slice(start, CHUNK) for array in arrays.values())], schema=schema)


def read_subscription_rows(
    batch: pa.RecordBatch, parameters: Mapping[str, str]
) -> tuple[NDArray[np.bool_], NDArray[np.int64], dict[str, NDArray[np.generic]]]:
    """The rows of a batch: which subscribe (or else unsubscribe) bool[n], ids int64[n], and an array a parameter.

    Raises:
        ValueError: its columns are not those of the template's subscriptions, or something is missing in them.
    """
    schema = subscriptions_schema(parameters)
    if not batch.schema.equals(schema):
        raise ValueError(f"columns must be those of subscriptions, {schema.names}, got {batch.schema.names}")
    for name, column in zip(schema.names, batch.columns, strict=True):
        if column.null_count:
            raise ValueError(f"column {name} must have no nulls, got {column.null_count}")
    kinds = batch.column("kind").cast(pa.string()).to_numpy(zero_copy_only=False)
    other = (kinds != SUBSCRIBE) & (kinds != UNSUBSCRIBE)
    if other.any():
        raise ValueError(f"kind must be subscribe or unsubscribe, got {kinds[other][0]!r}")
    columns = {name: batch.column(f"parameter.{name}").to_numpy(zero_copy_only=False) for name in parameters}
    return kinds == SUBSCRIBE, batch.column("id").to_numpy(), columns


def _same(word: str, size: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(size, np.int32)), pa.array([word], pa.string()))


def _bits(array: pa.Array) -> NDArray[np.uint64]:
    """A 64-bit word for each value: equal ones have equal words."""
    if pa.types.is_string(array.type):
        encoded = array.dictionary_encode()
        texts = encoded.dictionary.cast(pa.binary()).to_pylist()
        words = b"".join(blake2b(text, digest_size=8).digest() for text in texts)
        return np.frombuffer(words, "<u8").astype(np.uint64)[encoded.indices.to_numpy()]
    values = array.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "f":
        return (values.astype(np.float64) + 0.0).view(np.uint64)  # both zeros are one
    return values.astype(np.int64).view(np.uint64)
