"""The folder in which a pipeline keeps its place, and the id by which the log knows it."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path

from tolerant.sql import CreateStream, CreateTable, Pair, decode, encode
from tolerant.sql.homes import Views
from tolerant.streams import Stream


def checkpoint_id(folder: Path, relation: Stream | CreateTable | Pair | Views) -> str:
    """The id of a stream's, table's or pair's checkpoint folder: it tells two pipelines of one stream apart.

    A folder that is another stream's, one of the same name that was dropped, is emptied first.
    """
    file, definition = folder / "tolerant.json", _definition(relation)
    if file.exists():
        held = json.loads(file.read_text())
        if _same(held["stream"], definition):
            return str(held["checkpoint"])
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = str(uuid.uuid4())
    scratch = folder / f"tolerant.{checkpoint}"
    scratch.write_text(json.dumps({"checkpoint": checkpoint, "stream": definition}))
    scratch.rename(file)
    return checkpoint


def _definition(relation: Stream | CreateTable | Pair | Views) -> str:
    if isinstance(relation, Pair | Views):
        return "\n".join(map(encode, relation.tables))
    return encode(CreateStream(relation) if isinstance(relation, Stream) else relation)


def _same(held: str, definition: str) -> bool:
    """Whether a definition that was kept, perhaps by a release that knew fewer options, says the same."""
    try:
        return [decode(line) for line in held.splitlines()] == [decode(line) for line in definition.splitlines()]
    except ValueError:
        return False
