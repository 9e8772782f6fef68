"""`tolerant aggregate network.toml NAME`: be one of the aggregators of a network."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tolerant.cli.options import DEFAULT_LOG, ForSeconds, LogUri, OnlyStream, existing_log
from tolerant.cli.reporting import CommandError, wrong_call
from tolerant.cli.text import Screen, shown
from tolerant.client import load_catalogue
from tolerant.transport import Fenced, Log, Replaced

if TYPE_CHECKING:
    from tolerant.planning import Network


def aggregate(
    file: Annotated[Path, typer.Argument(metavar="NETWORK", help="The network's file, network.toml.")],
    name: Annotated[str, typer.Argument(help="Which of its aggregators this is.")],
    log: LogUri = DEFAULT_LOG,
    stream: OnlyStream = None,
    seconds: ForSeconds = None,
) -> None:
    """Hold the items of an aggregator within its bounds and answer the parts that plans ask of it. Ctrl-C ends."""
    from tolerant.edge.aggregators import Aggregator
    from tolerant.edge.background_sender import SourceError

    network = _network(file)
    if name not in network.bounds:
        wrong_call(f"no aggregator of {file.name} is called {name!r}; there are {', '.join(network.aggregators)}")
    with_log = existing_log(log)
    try:
        try:
            aggregator = Aggregator(stream or _only(with_log, network, file), name, with_log)
        except (LookupError, ValueError) as error:
            wrong_call(str(error))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: aggregator.stop())
        count = len(network.bounds[name])
        message = f"{shown(name)} holds {count:,} items of {shown(aggregator.stream.name)}. Ctrl-C ends."
        try:
            aggregator.run(seconds, lambda: Screen(stderr=True).print(message))
        except (Fenced, Replaced, SourceError) as error:
            raise CommandError(str(error)) from error
    finally:
        with_log.close()
    Screen(stderr=True).print(f"{aggregator.sent:,} rows said, {aggregator.core.late:,} heard too late.")


def _network(file: Path) -> Network:
    from tolerant.planning import parse_network

    try:
        return parse_network(file.read_text(), file.name)
    except OSError as error:
        wrong_call(f"{file} cannot be read: {error.strerror or error}")
    except ValueError as error:
        wrong_call(str(error))


def _only(log: Log, network: Network, file: Path) -> str:
    """The one stream that has this network."""
    from tolerant.sql.networks import network_of

    streams = {name: created for name, created in load_catalogue(log).streams.items() if created.networked}
    same = sorted(name for name, created in streams.items() if network_of(created) == network)
    why = f"no stream in the log has a network; CREATE STREAM … FROM '{file.name}' makes one"
    if same:
        why = f"which stream? {', '.join(same)} have this network: name one with --stream"
    elif streams:
        why = (
            f"no stream in the log has the network of {file.name}: it is another than when "
            f"{', '.join(sorted(streams))} was created. DROP and CREATE the stream to change its network"
        )
    if len(same) != 1:
        wrong_call(why)
    return same[0]
