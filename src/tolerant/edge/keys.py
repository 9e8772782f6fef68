"""Converts items as applications name them into the key texts of the log."""

from __future__ import annotations

import json
from typing import TypeAlias

from tolerant.streams import KeyPart, Stream, fits_key, is_sum, key_parts, key_text

ItemKey: TypeAlias = KeyPart | tuple[KeyPart, ...]
"""An item: the values of its stream's key columns (of a single column the value itself does), or its key text."""


def item_text(item: object, stream: Stream) -> str:
    """Return the key text of an item of `stream`.

    Raises:
        ValueError: the item does not fit the stream's key.
    """
    types = stream.key_types
    if isinstance(item, str):
        if types == ("STRING",):
            return _not_reserved(item)
        try:
            item = key_parts(item, types)
        except ValueError:
            raise ValueError(f"item {item!r} must be {_expected(stream)}") from None
    elif not isinstance(item, tuple) and len(types) == 1:
        item = (item,)
    if not isinstance(item, tuple) or len(item) != len(types):
        raise ValueError(f"item {item!r} must be {_expected(stream)}")
    for part, column, kind in zip(item, stream.key, types, strict=True):
        if not fits_key(part, kind):
            raise ValueError(
                f"column {column!r} of item {item!r} must be {kind}, got {type(part).__name__} {part!r:.40}"
            )
    return _not_reserved(key_text(item))


def _not_reserved(text: str) -> str:
    """Return the text, or raise if it is reserved for sums of items."""
    if is_sum(text):
        raise ValueError(f"item {text!r} must not begin with the character U+001F, which sums of items have")
    return text


def item_of_name(name: str, stream: Stream) -> str:
    """Return the key text of an item named in a file: as a JSON list, or as the columns with '/' between them.

    `web-1/in` and `["web-1","in"]` are the same item of a stream with two key columns.

    Raises:
        ValueError: the name does not fit the stream's key.
    """
    types = stream.key_types
    parts = _listed(name)
    if parts is None:
        words = [name] if len(types) == 1 else name.split("/")
        if len(words) != len(types):
            columns = ", ".join(stream.key)
            raise ValueError(
                f"item {name!r} has {len(words)} parts, expected {len(types)} ({columns}) with '/' between them, "
                f"or a JSON list. Is it an item of another stream than {stream.name!r}?"
            )
        parts = tuple(_read(word, kind, name) for word, kind in zip(words, types, strict=True))
    return item_text(parts, stream)


def _listed(name: str) -> tuple[KeyPart, ...] | None:
    if not name.startswith("["):
        return None
    try:
        parts = json.loads(name)
    except ValueError:
        return None
    return tuple(parts) if isinstance(parts, list) else None


def _read(word: str, kind: str, name: str) -> KeyPart:
    if kind == "STRING":
        return word
    try:
        part: KeyPart = json.loads(word.lower() if kind == "BOOLEAN" else word)
    except ValueError:
        raise ValueError(f"part {word!r} of item {name!r} must be {kind}") from None
    return part


def _expected(stream: Stream) -> str:
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(stream.key, stream.key_types, strict=True))
    return f"a tuple ({columns}) of stream {stream.name!r}, or its key text"
