"""The folder in which a pipeline keeps its place, and the id by which the log knows it."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path

from tolerant.sql import CreateStream, CreateTable, JoinInput, decode, encode
from tolerant.sql.pipeline_inputs import Views
from tolerant.streams import Stream
from tolerant.transport.files import create_private, make_private_folder

_FORMAT = 2
"""Of what is in the folder: 1 had a state store of Spark, 2 has snapshots and a streaming query per shard."""


def checkpoint_id(folder: Path, relation: Stream | CreateTable | JoinInput | Views, log: str) -> str:
    """The id of a stream's, table's or pair's checkpoint folder: it tells two pipelines of one stream apart.

    A folder that is another stream's, one of the same name that was dropped, is emptied first; so is one that belongs
    to another log than that with the id `log`: what it has read of that one says nothing about this one. A folder of
    another format is emptied as well, and the log is read again.
    """
    file, definition = folder / "tolerant.json", _definition(relation)
    if file.exists():
        stored = json.loads(file.read_text())
        is_usable = stored.get("format") == _FORMAT and stored.get("log") == log
        if is_usable and _same(stored["stream"], definition):
            return str(stored["checkpoint"])
        shutil.rmtree(folder)
    make_private_folder(folder)
    checkpoint = str(uuid.uuid4())
    scratch = folder / f"tolerant.{checkpoint}"
    create_private(scratch)
    fields = {"checkpoint": checkpoint, "stream": definition, "log": log, "format": _FORMAT}
    scratch.write_text(json.dumps(fields))
    scratch.rename(file)
    return checkpoint


def checkpoint_in(folder: Path) -> str | None:
    """The id of the checkpoint that a folder has, whatever it is of."""
    try:
        return str(json.loads((folder / "tolerant.json").read_text())["checkpoint"])
    except (OSError, ValueError, KeyError):
        return None


def _definition(relation: Stream | CreateTable | JoinInput | Views) -> str:
    if isinstance(relation, JoinInput | Views):
        return "\n".join(map(encode, relation.tables))
    return encode(CreateStream(relation) if isinstance(relation, Stream) else relation)


def _same(stored: str, definition: str) -> bool:
    """Whether a definition that was kept, perhaps by a release that knew fewer options, says the same."""
    try:
        return [decode(line) for line in stored.splitlines()] == [decode(line) for line in definition.splitlines()]
    except ValueError:
        return False
