"""How commands end when something is wrong: one message on the error output, no traceback, the right exit code."""

from __future__ import annotations

import functools
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, ParamSpec, TypeVar

import typer

from tolerant.cli.text import visible
from tolerant.sql import StatementError
from tolerant.transport import LogError

FAILED, WRONG_CALL, INTERRUPTED, TERMINATED = 1, 2, 130, 143
"""Exit codes: the work failed; the call was wrong; somebody pressed Ctrl-C, or sent SIGTERM, where there was nothing to
finish.
"""

P = ParamSpec("P")
R = TypeVar("R")


class Terminated(KeyboardInterrupt):
    """SIGTERM has come: the command ends as at Ctrl-C."""


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
            with _sigterm_like_ctrl_c():
                return command(*args, **kwargs)
        except CommandError as error:
            _leave(str(error), error.code)
        except StatementError as error:
            _leave(str(error), WRONG_CALL)
        except ModuleNotFoundError as error:
            _leave(_missing_extra(error), FAILED)
        except (LogError, OSError) as error:
            _leave(str(error), FAILED)
        except Terminated:
            raise typer.Exit(TERMINATED) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None

    return reporting


@contextmanager
def _sigterm_like_ctrl_c() -> Iterator[None]:
    """Lets SIGTERM raise `Terminated`, so that sources are flushed and processes that were started are ended. A second
    one ends the process at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def terminate(number: int, frame: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
