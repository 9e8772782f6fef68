"""Text → tokens, by sqlglot's tokenizer for Spark, cut into statements.

Tokens keep their offsets into the whole text, so that an error anywhere can say its line and column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import Token, Tokenizer, TokenType
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError

from tolerant.sql.errors import StatementError

DEEPEST = 64
"""How deep parentheses may be nested: the select is parsed by recursion."""

_QUOTED = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|[^'\"`/-]+|/(?!\*)|-", re.DOTALL
)
_OPENERS = {"'": "'…'", '"': '"…"', "`": "`…`", "/": "/* … */"}
_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
_BEGINNINGS = {
    "CREATE": ("STREAM", "TABLE", "QUERY"),
    "DROP": ("STREAM", "TABLE", "QUERY"),
    "ALTER": ("QUERY",),
    "SHOW": ("STREAMS", "TABLES", "QUERIES", "SUBSCRIPTIONS"),
}


def source(text: str, token: Token) -> str:
    """The token as it is written."""
    return text[token.start : token.end + 1]


def span(token: Token) -> tuple[int, int]:
    """Where the token stands: offsets, first and one past the last."""
    return token.start, token.end + 1


def tokenise(text: str) -> list[Token]:
    """The tokens of a text; comments are left out.

    Raises:
        StatementError: a quote or comment is not closed, or the text is not Unicode.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise StatementError("the text is not valid Unicode here", span=(error.start, error.end)) from None
    # A byte order mark at the start of a file is no part of the first word.
    text = " " + text[1:] if text.startswith("\ufeff") else text
    tokens = _scan(text)
    while commands := [token for i, token in enumerate(tokens) if _swallows(tokens, i)]:
        # sqlglot takes what follows SHOW, EXPLAIN and the like as one lump of text. It takes no offence at other
        # words: hide them.
        for command in commands:
            text = text[: command.start] + "x" * (command.end + 1 - command.start) + text[command.end + 1 :]
        tokens = _scan(text)
    return _joined(text, tokens)


def statements(text: str, tokens: list[Token]) -> Iterator[list[Token]]:
    """The tokens of each statement, without the semicolons; empty statements are left out.

    Raises:
        StatementError: parentheses do not match, or a semicolon is missing.
    """
    run: list[Token] = []
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            if run:
                yield _balanced(text, run)
            run = []
        else:
            run.append(token)
    if run:
        yield _balanced(text, run)


def depths(tokens: list[Token]) -> Iterator[tuple[int, Token]]:
    """Each token with the number of parentheses that it stands in; those of a pair stand outside it."""
    depth = 0
    for token in tokens:
        if token.token_type in _CLOSING:
            depth -= 1
        yield depth, token
        if token.token_type in _OPENING:
            depth += 1


def _scan(text: str) -> list[Token]:
    try:
        return list(Dialect.get_or_raise("spark").tokenize(text))
    except TokenError:
        offset = 0
        while match := _QUOTED.match(text, offset):
            offset = match.end()
        closed = _OPENERS.get(text[offset : offset + 1])
        if closed is None:
            raise StatementError("the text cannot be cut into words and numbers", span=(0, 1)) from None
        raise StatementError(
            f"expected the end of {closed}, found the end of the text",
            expected=f"the end of {closed}",
            found="the end of the text",
            span=(offset, offset + 1),
        ) from None


def _swallows(tokens: list[Token], i: int) -> bool:
    before = tokens[i - 1].token_type if i else TokenType.SEMICOLON
    return tokens[i].token_type in Tokenizer.COMMANDS and before in Tokenizer.COMMAND_PREFIX_TOKENS


def _joined(text: str, tokens: list[Token]) -> list[Token]:
    """Two strings that touch are one with a quote in it: 'it''s', as Spark 4 reads it."""
    out: list[Token] = []
    for token in tokens:
        last = out[-1] if out else None
        if (
            last is not None
            and token.token_type == last.token_type == TokenType.STRING
            and token.start == last.end + 1
            and text[token.start] == text[last.end]
        ):
            out[-1] = Token(
                TokenType.STRING,
                last.text + text[token.start] + token.text,
                token.line,
                token.col,
                last.start,
                token.end,
            )
        else:
            out.append(token)
    return out


def _balanced(text: str, run: list[Token]) -> list[Token]:
    opened: list[Token] = []
    for i, token in enumerate(run):
        if token.token_type in _OPENING:
            opened.append(token)
            if len(opened) > DEEPEST:
                raise StatementError(f"parentheses are nested deeper than {DEEPEST}", span=span(token))
        elif token.token_type in _CLOSING:
            if not opened or _OPENING.index(opened[-1].token_type) != _CLOSING.index(token.token_type):
                raise StatementError(f"this {token.text} closes nothing", found=token.text, span=span(token))
            opened.pop()
        elif i and not opened and _begins(text, run, i):
            word = source(text, token).upper()
            raise StatementError(
                f"expected ';' before {word}",
                expected="';'",
                found=word,
                span=span(token),
                hint="a statement ends with ';'",
            )
    if opened:
        raise StatementError(f"this {opened[-1].text} is never closed", found=opened[-1].text, span=span(opened[-1]))
    return run


def _begins(text: str, run: list[Token], i: int) -> bool:
    following = source(text, run[i + 1]).upper() if i + 1 < len(run) else ""
    return following in _BEGINNINGS.get(source(text, run[i]).upper(), ())
