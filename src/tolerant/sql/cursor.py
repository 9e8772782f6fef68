"""A place in a statement's tokens, and what may be taken there."""

from __future__ import annotations

import math
import re

from sqlglot import Token, TokenType

from tolerant.sql.errors import StatementError, expected
from tolerant.sql.names import is_topic_name
from tolerant.sql.tokens import source, span

_WORD = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_SHOWN = 40

INFINITY = "INFINITY"
"""How an end of a range that has no limit is written, with a minus or without."""


class Cursor:
    """Reads tokens one after the other.

    Every `take` moves on, or raises a StatementError that says what was expected.
    """

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.index = 0

    @property
    def done(self) -> bool:
        """Whether all tokens are taken."""
        return self.index >= len(self.tokens)

    @property
    def token(self) -> Token | None:
        """The token that comes next."""
        return None if self.done else self.tokens[self.index]

    def rest(self) -> list[Token]:
        """The tokens that are left."""
        return self.tokens[self.index :]

    def here(self) -> tuple[int, int]:
        """Where the next token stands; behind the last one if all are taken."""
        if self.token is not None:
            return span(self.token)
        end = self.tokens[-1].end + 1 if self.tokens else 0
        return end, end + 1

    def word(self) -> str:
        """The next token if it is a word and not in quotes, in capitals; else nothing."""
        written = source(self.text, self.token) if self.token else ""
        return written.upper() if _WORD.fullmatch(written) else ""

    def fail(self, what: str, hint: str = "") -> StatementError:
        """The error that something else was expected here."""
        return expected(what, self._found(), span=self.here(), hint=hint)

    def take_word(self, *words: str) -> str:
        """One of these words, in any case; in capitals."""
        word = self.word()
        if word not in words:
            raise self.fail(_either(words))
        self.index += 1
        return word

    def skip_word(self, word: str) -> bool:
        """Whether the word came next; if so it is taken."""
        if self.word() != word:
            return False
        self.index += 1
        return True

    def take_symbol(self, *symbols: str) -> str:
        """One of these symbols."""
        written = source(self.text, self.token) if self.token else ""
        if written not in symbols:
            raise self.fail(_either(tuple(repr(symbol) for symbol in symbols)))
        self.index += 1
        return written

    def at_symbol(self, symbol: str) -> bool:
        """Whether the symbol comes next."""
        return self.token is not None and source(self.text, self.token) == symbol

    def take_name(self, what: str) -> str:
        """A name: a word, or anything in backticks."""
        name = self.word() and source(self.text, self.tokens[self.index])
        if not name and self.token is not None and source(self.text, self.token).startswith("`"):
            name = self.token.text
        if not name:
            raise self.fail(what)
        self.index += 1
        return name

    def take_relation(self, what: str) -> str:
        """A name for a stream, table or query."""
        place = self.here()
        name = self.take_name(what)
        if not is_topic_name(name):
            raise StatementError(
                f"expected {what} of letters, digits, _ and -, that begins with a letter or _; found {name!r:.60}",
                expected=f"{what} of letters, digits, _ and -",
                found=name,
                span=place,
            )
        return name

    def take_string(self, what: str, hint: str = "") -> str:
        """A text in quotes."""
        if self.token is None or self.token.token_type != TokenType.STRING:
            raise self.fail(what, hint)
        self.index += 1
        return self.tokens[self.index - 1].text

    def take_number(self, what: str) -> int | float:
        """A finite number, with a sign or without: an integer if it is written as one."""
        start = self.index
        negative = self.at_symbol("-")
        self.index += negative
        written = source(self.text, self.token) if self.token else ""
        if written == "." and self.index + 1 < len(self.tokens):  # .5 comes in two tokens
            self.index += 1
            written = self.text[self.tokens[self.index - 1].start : self.tokens[self.index].end + 1]
        value = number(written)
        if value is None:
            self.index = start
            raise self.fail(what)
        self.index += 1
        return -value if negative else value

    def take_constant(self) -> str | int | float | bool:
        """A number, an infinity, a text in quotes, TRUE or FALSE."""
        what = "a number, a text in quotes, TRUE or FALSE"
        if self.word() in ("TRUE", "FALSE"):
            return self.take_word("TRUE", "FALSE") == "TRUE"
        if self.token is not None and source(self.text, self.token)[0] in "'\"":
            return self.take_string(what)
        infinity = self.skip_infinity()
        return self.take_number(what) if infinity is None else infinity

    def skip_infinity(self) -> float | None:
        """±infinity if `INFINITY`, with a minus or without, comes next, and it is taken; else None."""
        negative = self.at_symbol("-")
        following = self.tokens[self.index + negative] if self.index + negative < len(self.tokens) else None
        if following is None or source(self.text, following).upper() != INFINITY:
            return None
        self.index += 1 + negative
        return -math.inf if negative else math.inf

    def take_list(self, what: str) -> list[tuple[str, tuple[int, int]]]:
        """Names in parentheses, at least one, with their places."""
        self.take_symbol("(")
        names = [self._named(what)]
        while self.take_symbol(",", ")") == ",":
            names.append(self._named(what))
        return names

    def end(self, what: str) -> None:
        """Nothing may be left."""
        if not self.done:
            raise self.fail(what)

    def _named(self, what: str) -> tuple[str, tuple[int, int]]:
        place = self.here()
        return self.take_name(what), place

    def _found(self) -> str:
        if self.token is None:
            return "the end of the statement"
        written = source(self.text, self.token)
        return written if len(written) <= _SHOWN else written[:_SHOWN] + "…"


def number(written: str) -> int | float | None:
    """The number that is written; None: it is no finite number. An integer is exact if it has at most 19 digits: these
    hold every integer of 64 bits, and the first ones beyond them, which must not be rounded into the range.

    >>> number("5"), number("2.5e3"), number("1e999"), number("5L"), number("9223372036854775809")
    (5, 2500.0, None, None, 9223372036854775809)
    """
    if not _NUMBER.fullmatch(written):
        return None
    if written.isdecimal() and len(digits := written.lstrip("0")) < 20:
        return int(digits or "0")
    value = float(written)
    return value if math.isfinite(value) else None


def _either(choices: tuple[str, ...]) -> str:
    return choices[0] if len(choices) == 1 else f"{', '.join(choices[:-1])} or {choices[-1]}"
