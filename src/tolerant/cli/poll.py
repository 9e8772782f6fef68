"""`tolerant poll STREAM`: ask web servers for the items of a polled stream, as its queries need."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Annotated

import typer

from tolerant.cli.extras import need_extra
from tolerant.cli.options import DEFAULT_LOG, ForSeconds, LogUri, SenderName, existing_log
from tolerant.cli.reporting import wrong_call
from tolerant.cli.text import Screen, shown
from tolerant.client import load_catalogue
from tolerant.transport import Log

if TYPE_CHECKING:
    from tolerant.edge.polling import StreamPoller


def poll(
    stream: Annotated[str | None, typer.Argument(help="The stream; may be left out where only one is polled.")] = None,
    log: LogUri = DEFAULT_LOG,
    name: SenderName = None,
    part: Annotated[
        str, typer.Option(metavar="K/N", help="This is the K-th of N pollers that share the stream.")
    ] = "1/1",
    seconds: ForSeconds = None,
) -> None:
    """Pull the items that the queries over a polled stream need, tick by tick. Ctrl-C ends it; a restart continues."""
    share = _part(part)
    need_extra("http", "polling")
    from tolerant.edge.polling import StreamPoller

    with_log = existing_log(log)
    try:
        try:
            poller = StreamPoller(stream or _only(with_log), with_log, name, part=share)
        except (LookupError, ValueError) as error:
            wrong_call(str(error))
        asyncio.run(_run(poller, seconds))
    finally:
        with_log.close()
    counts = poller.counts
    Screen(stderr=True).print(f"{counts.requests:,} requests, {counts.pulls:,} values, {counts.failed:,} failed.")


async def _run(poller: StreamPoller, seconds: float | None) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, poller.stop)
    console = Screen(stderr=True)
    await poller.run(
        seconds, lambda items: console.print(f"Polling {items:,} items of {shown(poller.stream.name)}. Ctrl-C ends.")
    )


def _only(log: Log) -> str:
    """The one stream that is polled."""
    names = sorted(name for name, stream in load_catalogue(log).streams.items() if stream.polled)
    if len(names) != 1:
        wrong_call(f"which stream? Polled ones are: {', '.join(names) or 'none'}")
    return names[0]


def _part(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        wrong_call(f"--part takes K/N with 1 <= K <= N, such as 1/2, got {text!r}")
    return int(number), int(count)
