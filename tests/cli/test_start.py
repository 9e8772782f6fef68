"""The command line starts at once: it lists its commands without importing them."""

import inspect
import json
import subprocess
import sys
from importlib import import_module

import pytest
from typer.testing import CliRunner

from tolerant import __version__
from tolerant.cli import COMMANDS, app

_PROGRAM = """
import json, sys
from typer.testing import CliRunner
from tolerant.cli import app
result = CliRunner().invoke(app, sys.argv[1:])
print(json.dumps([result.exit_code, sorted(name for name in sys.modules if name.startswith("tolerant"))]))
"""


@pytest.mark.parametrize("path", COMMANDS)
def test_a_command_is_listed_as_its_docstring_begins(path: str) -> None:
    module, function = path.split()[0], path.split()[-1]
    text = inspect.getdoc(getattr(import_module(f"tolerant.cli.{module}"), function))
    assert text is not None
    assert text.startswith(COMMANDS[path])


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["log", "--help"], ["--show-completion", "--help"]])
def test_no_command_is_imported_to_list_it(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(done.stdout) == [0, ["tolerant", "tolerant.cli"]]


def test_names_are_completed_without_importing_their_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_TOLERANT_COMPLETE": "complete_bash", "COMP_WORDS": "tolerant re", "COMP_CWORD": "1"}.items():
        monkeypatch.setenv(name, value)
    program = (
        "import atexit, sys; from tolerant.cli import app; "
        "atexit.register(lambda: print('tolerant.cli.run' in sys.modules)); app(prog_name='tolerant')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["refresh", "replay", "reproduce", "False"]


def test_the_version() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"tolerant {__version__}\n"


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_has_help_of_its_own(path: str) -> None:
    result = CliRunner().invoke(app, [*path.split(), "--help"])
    assert result.exit_code == 0, result.output
    assert COMMANDS[path].split(",")[0] in " ".join(result.output.split())
