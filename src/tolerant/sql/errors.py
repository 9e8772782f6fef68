"""What goes wrong with a statement.

StatementError          the statement cannot be used: what was found, what was expected, where, what to do
├── NotAvailable        the statement is right, but what it asks for is not built yet
└── SecretShown         the statement holds what should be secret: its text is not repeated
"""

from __future__ import annotations

from typing import TypeVar

_MARGIN = 80
"""Characters of a long line that are shown on either side of the caret."""

_Error = TypeVar("_Error", bound="StatementError")


class StatementError(ValueError):
    """A statement that cannot be used.

    `reason` says what is wrong in a sentence. `line` and `column` count from 1 (None: the error is not about a place
    in the text), `found` and `expected` are what stands there and what should; `hint` says what to do. `str()` shows
    all of it, with the line and a caret.
    """

    def __init__(  # noqa: PLR0913
        self,
        reason: str,
        *,
        found: str = "",
        expected: str = "",
        hint: str = "",
        span: tuple[int, int] | None = None,
        about: tuple[str, ...] = (),
        line: int | None = None,
        column: int | None = None,
        excerpt: str = "",
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.found = found
        self.expected = expected
        self.hint = hint
        self.span = span
        """Where the trouble is: offsets into the text, first and one past the last."""
        self.about = about
        """Words that lead to the trouble: each is looked for behind the one before; used when there is no span."""
        self.line = line
        self.column = column
        self.excerpt = excerpt
        """The line with a caret under the trouble."""
        self.over_table: tuple[str, str, str] | None = None
        """A relation that was taken for a stream; what is expected and the hint if it is a table."""

    def located(self: _Error, text: str, span: tuple[int, int]) -> _Error:
        """The same error, at these offsets of the text that holds the statement."""
        start, end = max(0, min(span[0], len(text))), min(span[1], len(text))
        line, column = position(text, start)
        return type(self)(
            self.reason,
            found=self.found,
            expected=self.expected,
            hint=self.hint,
            span=(start, end),
            about=self.about,
            line=line,
            column=column,
            excerpt=_excerpt(text, line, start, end),
        )

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}: " if self.line is not None else ""
        parts = [place + self.reason]
        if self.excerpt:
            parts.append(self.excerpt)
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions are pickled by their positional arguments alone, and these travel between processes.
        return (
            _rebuilt,
            (type(self), self.reason, {name: value for name, value in vars(self).items() if name != "reason"}),
        )


class NotAvailable(StatementError):
    """The statement is understood, but the kind of query (or stream) that it asks for is not built yet."""


class SecretShown(StatementError):
    """A statement that holds a password, say: the error says where, and does not repeat it."""

    def located(self, text: str, span: tuple[int, int]) -> SecretShown:
        """The same error with its place, without the text."""
        located = super().located(text, span)
        located.excerpt = ""
        return located


def expected(what: str, found: str, *, span: tuple[int, int] | None = None, hint: str = "") -> StatementError:
    """The error "expected `what`, found `found`".

    >>> print(expected("a number", "'five'"))
    expected a number, found 'five'
    """
    return StatementError(f"expected {what}, found {found}", expected=what, found=found, span=span, hint=hint)


def position(text: str, offset: int) -> tuple[int, int]:
    """Line and column, both from 1, of an offset into a text.

    >>> position("ab\\ncd", 4)
    (2, 2)
    """
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _rebuilt(kind: type[StatementError], reason: str, fields: dict[str, object]) -> StatementError:
    error = kind(reason)
    vars(error).update(fields)
    return error


def _excerpt(text: str, line: int, start: int, end: int) -> str:
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", start)
    last = len(text) if last < 0 else last
    left, right = (
        (first, last) if last - first <= 2 * _MARGIN else (max(first, start - _MARGIN), min(last, start + _MARGIN))
    )
    shown = ("…" if left > first else "") + _printable(text[left:right]) + ("…" if right < last else "")
    caret = " " * (start - left + (left > first)) + "^" * max(1, min(end, right) - start)
    number = str(line)
    return f"  {number} | {shown.rstrip()}\n  {' ' * len(number)} | {caret}"


def _printable(text: str) -> str:
    # One cell a character, so that the caret stands under the right one and a terminal obeys nothing hidden in a
    # statement.
    return "".join(character if character.isprintable() else " " for character in text)
