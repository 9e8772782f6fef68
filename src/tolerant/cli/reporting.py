"""How commands end when something is wrong: one message on the error output, no traceback, the right exit code."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NoReturn, ParamSpec, TypeVar

import typer

from tolerant.cli.text import visible
from tolerant.sql import StatementError
from tolerant.transport import LogError

FAILED, WRONG_CALL, INTERRUPTED = 1, 2, 130
"""Exit codes: the work failed; the call was wrong; somebody pressed Ctrl-C where there was nothing to finish."""

P = ParamSpec("P")
R = TypeVar("R")


class CommandError(Exception):
    """The command ends here, with this message and exit code."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


def wrong_call(message: str) -> NoReturn:
    """End the command: what it was given cannot be right."""
    raise CommandError(message, WRONG_CALL)


def reported(command: Callable[P, R]) -> Callable[P, R]:
    """The command, with the errors that a person can do something about told without a traceback."""

    @functools.wraps(command)
    def reporting(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except CommandError as error:
            _leave(str(error), error.code)
        except StatementError as error:
            _leave(str(error), WRONG_CALL)
        except ModuleNotFoundError as error:
            _leave(_missing_extra(error), FAILED)
        except (LogError, OSError) as error:
            _leave(str(error), FAILED)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None

    return reporting


def _missing_extra(error: ModuleNotFoundError) -> str:
    """What to install, if an extra brings the module; anything else that is missing is a fault of ours."""
    from tolerant.cli.extras import extra_of, install_command

    extra = extra_of(error.name or "")
    if extra is None:
        raise error
    return f"this needs the extra {extra}: {install_command(extra)}"


def _leave(message: str, code: int) -> NoReturn:
    typer.echo(visible(f"tolerant: {message}"), err=True)
    raise typer.Exit(code) from None
