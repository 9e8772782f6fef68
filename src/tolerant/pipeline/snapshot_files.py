"""Snapshots of shards as files: named by checkpoint, shard and position, checked when they are read, never overwritten.

A snapshot is of a committed position, so it stays valid whatever becomes of the batch that was under way.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import re
import uuid
from hashlib import blake2b
from importlib import metadata
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from tolerant.transport.files import create_private, make_private_folder, place

_LOGGER = logging.getLogger(__name__)
_MAGIC = b"tolerant snapshot 1\n"
_CHECKSUM = 16
_KEPT = 2  # of those that a restart can use
_NAME = re.compile(r"(\d{20})\.snapshot")


class Snapshot(NamedTuple):
    """The state of a shard that has applied all entries up to `position`; `digest`: of its outputs up to there."""

    position: int
    digest: bytes
    state: bytes


class SnapshotStore(Protocol):
    """Where the snapshots of one shard are."""

    def save(self, snapshot: Snapshot) -> None:
        """Keep a snapshot; one of this position that is there already stays as it is."""
        ...

    def newest(self, until: int) -> Snapshot | None:
        """The newest snapshot that can be read and is not behind `until`; None: there is none."""
        ...

    def prune(self, until: int) -> int:
        """Delete all but the two newest that are not behind `until`; the older one's position."""
        ...


class SnapshotFiles:
    """The snapshots of a shard in `folder`, which is the shard's own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, snapshot: Snapshot) -> None:
        """See `SnapshotStore.save`; on the disk when it returns."""
        make_private_folder(self._folder)
        file = self._file(snapshot.position)
        scratch = file.with_name(f"{uuid.uuid4()}.writing")
        create_private(scratch)
        with open(scratch, "wb") as opened:
            opened.write(_packed(snapshot))
            opened.flush()
            os.fsync(opened.fileno())
        place(scratch, file)

    def newest(self, until: int) -> Snapshot | None:
        """See `SnapshotStore.newest`; a damaged file is passed over, with a warning."""
        for position in reversed(self._positions(until)):
            file = self._file(position)
            try:
                return _unpacked(file.read_bytes(), position)
            except (OSError, ValueError) as error:
                _LOGGER.warning("The snapshot %s was passed over: %s", file, error)
        return None

    def prune(self, until: int) -> int:
        """See `SnapshotStore.prune`."""
        positions = self._positions(until)
        for position in positions[:-_KEPT]:
            self._file(position).unlink(missing_ok=True)
        return positions[-_KEPT:][0]

    def _positions(self, until: int) -> list[int]:
        names = os.listdir(self._folder) if self._folder.is_dir() else []
        positions = (int(match[1]) for name in names if (match := _NAME.fullmatch(name)))
        return sorted(position for position in positions if position <= until)

    def _file(self, position: int) -> Path:
        return self._folder / f"{position:020d}.snapshot"


def runtime() -> dict[str, str]:
    """What the bits of floating-point results may depend on: releases of libraries, and the processor."""
    libraries = ("tolerant", "numpy", "numba", "pyarrow")
    return {name: _release(name) for name in libraries} | {"processor": platform.machine()}


def _release(library: str) -> str:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return np.__version__ if library == "numpy" else "none"


def _packed(snapshot: Snapshot) -> bytes:
    head = {"position": snapshot.position, "digest": snapshot.digest.hex(), "runtime": runtime()}
    body = json.dumps(head).encode() + b"\n" + snapshot.state
    return _MAGIC + _checksum(body) + body


def _unpacked(data: bytes, position: int) -> Snapshot:
    """The snapshot that `_packed` made the bytes from.

    Raises:
        ValueError: they are not what was written.
    """
    begin = len(_MAGIC) + _CHECKSUM
    body = data[begin:]
    if not data.startswith(_MAGIC):
        raise ValueError("it is no snapshot, or one of another version of Tolerant")
    if data[len(_MAGIC) : begin] != _checksum(body):
        raise ValueError("its checksum is wrong")
    line, _, state = body.partition(b"\n")
    head = json.loads(line)
    if head["position"] != position:
        raise ValueError(f"it is of position {head['position']}")
    return Snapshot(position, bytes.fromhex(head["digest"]), state)


def _checksum(body: bytes) -> bytes:
    return blake2b(body, digest_size=_CHECKSUM).digest()
