"""Statements as JSON text, as they travel in the log: `decode(encode(statement)) == statement`.

What a statement means travels, not how it was written: text and position are left behind (the log's row has the text
beside). Every field is written out, so that a default that changes in a later release changes no statement that is in
a log.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import types
import typing
from collections.abc import Iterator
from functools import cache
from typing import Any

from tolerant.sql import statements
from tolerant.sql.limits import DEEPEST_BODY, LONGEST_BODY
from tolerant.sql.query_kind import select_classes
from tolerant.sql.select import Select
from tolerant.sql.statements import Statement

_TAG = "is"
_INFINITIES = {"Infinity": math.inf, "-Infinity": -math.inf}
"""Ends of ranges that have no limit, by their tags: JSON has no such numbers."""

_STATEMENTS = {
    cls.__name__: cls
    for cls in (
        statements.CreateStream,
        statements.CreateTable,
        statements.CreateQuery,
        statements.AlterQuery,
        statements.Drop,
        statements.Subscribe,
        statements.Unsubscribe,
        statements.Show,
    )
}


def encode(statement: Statement) -> str:
    """The statement as one line of JSON.

    >>> encode(statements.AlterQuery("inbound", 3.0))
    '{"is":"AlterQuery","name":"inbound","within":3.0}'
    """
    return json.dumps(_plain(statement), separators=(",", ":"), allow_nan=False)


def decode(text: str) -> Statement:
    """The statement that `encode` wrote.

    Whether it can be used is for `Catalogue.apply` to say.

    Raises:
        ValueError: the text is not an encoded statement; says where in it.
    """
    try:
        if len(text) > LONGEST_BODY:
            raise ValueError(f"expected at most {LONGEST_BODY:,} characters, found {len(text):,}")
        value = json.loads(text, parse_constant=_refuse_constant)
        _check_depth(value)
        _check_texts(text, value)
        if not isinstance(value, dict) or str(value.get(_TAG)) not in _STATEMENTS:
            raise ValueError(f"expected an object with {_TAG!r} one of {', '.join(_STATEMENTS)}")
        statement = _record(_STATEMENTS[str(value[_TAG])], value, "statement")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not an encoded statement: {error}") from error
    return typing.cast(Statement, statement)


def statements_in(payload: bytes) -> Iterator[Statement]:
    """The statements in an entry of the topic `queries`, for readers who leave it to the pipelines to say what else
    there is in it.
    """
    from tolerant.transport.statements import read_statement_rows  # it needs Arrow, which encoding does not

    try:
        rows, _ = read_statement_rows(payload)
    except ValueError:
        return
    for _, body in rows:
        with contextlib.suppress(ValueError):
            yield decode(body)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _check_depth(value: object) -> None:
    """Refuse what is nested too deeply: statements are read, judged and written by recursion."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEEPEST_BODY:
            raise ValueError(f"nested deeper than {DEEPEST_BODY}")
        inner = (part for part in level if isinstance(part, dict | list))
        level = [part for element in inner for part in (element.values() if isinstance(element, dict) else element)]


def _check_texts(text: str, value: object) -> None:
    """Refuse halves of characters, which JSON can say and no log or terminal can hold."""
    if "\\ud" in text.lower():
        json.dumps(value, ensure_ascii=False).encode()


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value):
        fields = (f.name for f in dataclasses.fields(value) if f.compare or (_travels(f) and getattr(value, f.name)))
        return {_TAG: type(value).__name__} | {name: _plain(getattr(value, name)) for name in fields}
    if isinstance(value, float) and math.isinf(value):
        return {_TAG: "Infinity" if value > 0 else "-Infinity"}
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


@cache
def _hints(cls: type) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls) if f.compare or _travels(f)}


def _travels(field: dataclasses.Field[Any]) -> bool:
    """Whether a field that does not count for equality is written out, where it is not the default."""
    return bool(field.metadata.get("travels"))


def _record(cls: type, value: object, path: str) -> object:
    if not isinstance(value, dict) or value.get(_TAG) != cls.__name__:
        raise ValueError(f"{path}: expected {cls.__name__}")
    hints = _hints(cls)
    unknown = [name for name in value if name not in hints and name != _TAG]
    if unknown:
        raise ValueError(f"{path}: {cls.__name__} has no field {unknown[0]!r}")
    try:
        return cls(**{name: _typed(hints[name], value[name], f"{path}.{name}") for name in hints if name in value})
    except TypeError as error:  # a field without default is missing
        raise ValueError(f"{path}: {error}") from error


def _typed(hint: Any, value: object, path: str) -> object:
    """The value as the hint wants it."""
    origin = typing.get_origin(hint)
    if hint is Select:
        return _alternative(select_classes(), value, path)
    if origin in (typing.Union, types.UnionType):
        return _alternative(typing.get_args(hint), value, path)
    if origin is tuple:
        return _tuple(typing.get_args(hint), value, path)
    if origin is typing.Literal:
        if value in typing.get_args(hint):
            return value
    elif dataclasses.is_dataclass(hint):
        return _record(typing.cast(type, hint), value, path)
    elif hint is float and type(value) in (int, float):
        return _finite(typing.cast(float, value), path)
    elif type(value) is hint:  # exactly: a truth value is no integer here
        return value
    raise ValueError(f"{path}: expected {getattr(hint, '__name__', hint)}, found {value!r:.80}")


def _finite(value: float, path: str) -> float:
    try:
        if math.isfinite(value):
            return float(value)
    except OverflowError:
        pass
    raise ValueError(f"{path}: expected a finite number")


def _alternative(choices: tuple[Any, ...], value: object, path: str) -> object:
    if isinstance(value, dict):
        named: dict[object, type] = {
            c.__name__: c for c in choices if isinstance(c, type) and dataclasses.is_dataclass(c)
        }
        tag = value.get(_TAG)
        if isinstance(tag, str) and tag in named:
            return _record(named[tag], value, path)
        if isinstance(tag, str) and tag in _INFINITIES and float in choices and len(value) == 1:
            return _INFINITIES[tag]
    elif value is None and type(None) in choices:
        return None
    elif isinstance(value, list):
        return _tuple(next((typing.get_args(c) for c in choices if typing.get_origin(c) is tuple), ()), value, path)
    elif type(value) in choices:
        return _finite(value, path) if isinstance(value, float) else value
    elif float in choices and type(value) is int:
        return _finite(value, path)
    raise ValueError(f"{path}: unexpected {value!r:.80}")


def _tuple(hints: tuple[Any, ...], value: object, path: str) -> object:
    if not isinstance(value, list) or not hints:
        raise ValueError(f"{path}: expected a list, found {value!r:.80}")
    if hints[-1] is Ellipsis:
        return tuple(_typed(hints[0], part, f"{path}[{i}]") for i, part in enumerate(value))
    if len(value) != len(hints):
        raise ValueError(f"{path}: expected {len(hints)} parts, found {len(value)}")
    return tuple(_typed(hint, part, f"{path}[{i}]") for i, (hint, part) in enumerate(zip(hints, value, strict=True)))
