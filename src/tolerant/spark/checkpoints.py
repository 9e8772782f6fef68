"""The folder in which a pipeline keeps its place, and the id by which the log knows it."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path

from tolerant.sql import CreateStream, CreateTable, encode
from tolerant.streams import Stream


def checkpoint_id(folder: Path, relation: Stream | CreateTable) -> str:
    """The id of a stream's or table's checkpoint folder: it tells two pipelines of one stream apart.

    A folder that is another stream's, one of the same name that was dropped, is emptied first.
    """
    statement = CreateStream(relation) if isinstance(relation, Stream) else relation
    file, definition = folder / "tolerant.json", encode(statement)
    if file.exists():
        held = json.loads(file.read_text())
        if held["stream"] == definition:
            return str(held["checkpoint"])
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = str(uuid.uuid4())
    scratch = folder / f"tolerant.{checkpoint}"
    scratch.write_text(json.dumps({"checkpoint": checkpoint, "stream": definition}))
    scratch.rename(file)
    return checkpoint
