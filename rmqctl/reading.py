"""Reading on over the calls that one broker pull would need, and writing records out as they are stored."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from rmqctl.exit_codes import FINDINGS, OK

if TYPE_CHECKING:
    from store import GetResult, MessageStore, StoredMessage

# After these answers the next offset lies further on, and reading goes on there.
GO_ON = ("FOUND", "NO_MATCHED_MESSAGE", "MESSAGE_WAS_REMOVING", "OFFSET_FOUND_NULL")


class QueueReader:
    """Messages of one queue from an offset on, until `max_count` or the queue's end; or just one broker call."""

    def __init__(
        self,
        store: MessageStore,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        *,
        message_filter: Any = None,
        one_call: bool = False,
        endless: bool = False,
        warn: Callable[[str], None],
    ) -> None:
        self.store, self.topic, self.queue_id = store, topic, queue_id
        self.next_offset = offset
        self.status = "NO_MESSAGE_IN_QUEUE"
        self.min_offset = self.max_offset = 0
        self.found = 0
        self.damaged = 0
        self._max_count, self._filter, self._warn = max_count, message_filter, warn
        self._one_call, self._endless = one_call, endless

    def messages(self) -> Iterator[StoredMessage]:
        """Yields messages as calls bring them; `status` and the offsets are those of the last call that said more."""
        while self._endless or self.found < self._max_count:
            wanted = self._max_count if self._endless else self._max_count - self.found
            answer = self.store.get(self.topic, self.queue_id, self.next_offset, wanted, self._filter)
            went_on = answer.next_offset > self.next_offset
            self._take_over(answer)
            yield from answer.messages
            if self._one_call or not went_on or answer.status.value not in GO_ON:
                return

    def facts(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "next_offset": self.next_offset,
            "min_offset": self.min_offset,
            "max_offset": self.max_offset,
        }

    def exit_code(self) -> int:
        """Damage, or nothing found, is a finding."""
        return FINDINGS if self.damaged or not self.found else OK

    def _take_over(self, answer: GetResult) -> None:
        if not self.found:
            # Once something was found, the end of the queue is no news.
            self.status = answer.status.value
        self.found += len(answer.messages)
        self.next_offset = answer.next_offset
        self.min_offset, self.max_offset = answer.min_offset, answer.max_offset
        self.damaged += len(answer.damaged)
        for damage in answer.damaged:
            self._warn(str(damage))


class RecordWriter:
    """Copies stored records to a file descriptor inside the kernel, by sendfile where it takes the target."""

    def __init__(self, store: MessageStore, target: int) -> None:
        self._store, self._target = store, target
        self._sources: dict[str, int] = {}

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, *error: object) -> None:
        for descriptor in self._sources.values():
            os.close(descriptor)

    def write(self, log_offset: int, size: int) -> None:
        path, position = self._store.locate(log_offset)
        name = os.fspath(path)
        if name not in self._sources:
            self._sources[name] = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        while size:
            sent = self._send(self._sources[name], position, size)
            position, size = position + sent, size - sent

    def _send(self, source: int, position: int, size: int) -> int:
        try:
            sent = os.sendfile(self._target, source, position, size)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            # A target that sendfile does not take, such as a file opened for appending.
            sent = os.write(self._target, os.pread(source, size, position))
        if not sent:
            raise BrokenPipeError
        return sent
