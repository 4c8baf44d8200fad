"""Writes stored records unchanged to a stream, inside the kernel."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from store import MessageStore


class RecordWriter:
    """Copies stored records to a stream: by sendfile if the stream has a descriptor, else through memory."""

    def __init__(self, store: MessageStore, stream: TextIO) -> None:
        stream.flush()
        self._store, self._stream = store, stream
        self._sources: dict[str, int] = {}
        try:
            self._target: int | None = stream.fileno()
        except io.UnsupportedOperation:
            # A stream in memory.
            self._target = None

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, *error: object) -> None:
        for descriptor in self._sources.values():
            os.close(descriptor)

    def write(self, log_offset: int, size: int) -> None:
        path, position = self._store.locate(log_offset, size)
        name = os.fspath(path)
        if name not in self._sources:
            self._sources[name] = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        while size:
            sent = self._send(self._sources[name], position, size)
            position, size = position + sent, size - sent

    def _send(self, source: int, position: int, size: int) -> int:
        if self._target is None:
            return self._stream.buffer.write(os.pread(source, size, position))
        try:
            sent = os.sendfile(self._target, source, position, size)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            # sendfile refuses some targets, such as a file opened for appending.
            sent = os.write(self._target, os.pread(source, size, position))
        if not sent:
            raise BrokenPipeError
        return sent
