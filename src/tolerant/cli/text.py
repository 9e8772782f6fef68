"""Text of others on the terminal: names, keys and reasons come from sources and statements, and may hold anything.

`visible` shows control characters instead of sending them; `shown` also escapes the markup of rich, for what is printed
by a `Console`. `Screen` is a console that cannot be broken by what was forgotten.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from rich.console import Console
from rich.errors import MarkupError
from rich.text import Text

_BRACKET = re.compile(r"(\\*)\[([a-z#/@][^[]*?\])?")
_PLAIN = re.compile(r"[ -~]*")
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Categories of Unicode that no terminal draws: control, format (which turns text around), surrogates, line ends."""


def visible(text: object, keep: str = "\n") -> str:
    r"""The text with every character that is not drawn written as its escape, but for those of `keep`.

    >>> print(visible("web\x1b[2J-1\u202e"))
    web\x1b[2J-1\u202e
    """
    whole = str(text)
    if _PLAIN.fullmatch(whole):
        return whole
    return "".join(c if c in keep or unicodedata.category(c) not in _HIDDEN else ascii(c)[1:-1] for c in whole)


def shown(text: object) -> str:
    r"""A name as a `Console` prints it: on one line, and no markup.

    >>> print(shown("[bold]a\nb"))
    \[bold]a\nb
    """
    escaped = _BRACKET.sub(_escape, visible(text, keep=""))
    return escaped + "\\" if escaped.endswith("\\") and not escaped.endswith("\\\\") else escaped


def _escape(bracket: re.Match[str]) -> str:
    """A bracket behind backslashes, for rich: it halves those before a tag, and takes one before any other bracket."""
    backslashes, tag = bracket[1], bracket[2]
    return (2 * backslashes if tag else backslashes) + "\\[" + (tag or "")


class Screen(Console):
    """A console that shows control characters instead of sending them, and prints markup that is none as it stands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(emoji=False, **options)  # a key may be called :warning:

    def render_str(self, text: str, **options: Any) -> Text:
        """See `Console.render_str`; all strings come through it."""
        plain = visible(text)
        try:
            return super().render_str(plain, **options)
        except MarkupError:
            return super().render_str(plain, **{**options, "markup": False})
