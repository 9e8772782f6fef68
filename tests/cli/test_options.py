"""An option has one name, one type and one help, whichever command takes it."""

import re
from collections import defaultdict
from importlib import import_module
from typing import Any, get_type_hints

import pytest
from typer.models import OptionInfo

from tolerant.cli import COMMANDS

ALLOWED = {
    "--all", "--apply", "--checkpoint", "--clock", "--for", "--from-start", "--host", "--interval", "--json", "--list",
    "--log", "--master", "--name", "--out", "--part", "--picture", "--quick", "--speed", "--stream", "--take-over",
    "--timeout", "--trigger", "--verbose",
}  # fmt: skip
"""A new name is a decision: is there one that means the same?"""


def options(path: str) -> dict[str, tuple[Any, str | None, str | None]]:
    """Return each option of a command: its type without None, its metavar, its help."""
    function = getattr(import_module(f"tolerant.cli.{path.split()[0]}"), path.split()[-1])
    found = {}
    for name, hint in get_type_hints(function, include_extras=True).items():
        for info in getattr(hint, "__metadata__", ()):
            if isinstance(info, OptionInfo):
                # Typer puts the first declaration of an annotated option where a default stands otherwise.
                given = [text for text in (info.default, *(info.param_decls or ())) if str(text).startswith("--")]
                declared = given[0] if given else f"--{name.replace('_', '-')}"
                kind = re.sub(r"<class '(.*)'>| \| None|typing\.Optional\[(.*)\]", r"\1\2", str(hint.__origin__))
                found[declared] = (kind, info.metavar, info.help)
    return found


def test_an_option_is_the_same_everywhere() -> None:
    meanings: dict[str, dict[tuple[Any, str | None, str | None], list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in COMMANDS:
        for name, meaning in options(path).items():
            meanings[name][meaning].append(path)
    assert {name: found for name, found in meanings.items() if len(found) > 1} == {}
    assert set(meanings) == ALLOWED
    assert len(meanings["--log"]) == 1


@pytest.mark.parametrize("path", COMMANDS)
def test_every_option_has_a_help_and_every_value_a_name(path: str) -> None:
    for name, (kind, metavar, text) in options(path).items():
        assert text, f"{path} {name}"
        assert text.endswith("."), f"{path} {name}: {text}"
        assert metavar or "bool" in kind or "Clock" in kind, f"{path} {name} has no metavar"
