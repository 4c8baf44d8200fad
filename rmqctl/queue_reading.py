"""Messages of some queues of a topic, on their way to stdout."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TextIO, TypedDict, Unpack, cast

from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.hints import describe
from rmqctl.messages import MessageRows
from rmqctl.output import Format
from rmqctl.programs import json_for
from rmqctl.raw_records import RecordWriter
from rmqctl.result import Result, Table
from rmqctl.show import count, show_value
from rmqctl.watching import FileWatcher

if TYPE_CHECKING:
    from store import MessageFilter, MessageIterator, MessageStore, ReadableStore, StoredMessage
    from store.reading import MergedMessages

HOLD_MS = 30_000
"""Time that the serving process waits for a message before it answers; then it is asked again."""
LOOK_MS = 500
"""The same if several queues are followed."""
MOST_IN_RUNS = 1 << 12
"""Messages of all queues that are known beside those that were shown."""


class Span(NamedTuple):
    """Limits of a reading: a number of messages, or of the last messages, and store times."""

    max_count: int | None
    last: int | None
    since_ms: int | None
    until_ms: int | None


class Chosen(TypedDict):
    """Options of reading that the engine takes."""

    end: int | None
    one_call: bool
    only_sound: bool
    outer: bool
    message_filter: MessageFilter | None


class QueueReading:
    """Messages of some queues of a topic on their way to stdout."""

    def __init__(
        self,
        session: Session,
        rows: MessageRows,
        topic: str,
        opened: ReadableStore,
        readers: dict[int, MessageIterator],
    ) -> None:
        self.session, self.store, self.rows, self.topic, self.readers = session, opened, rows, topic, readers
        self.reader: MessageIterator | MergedMessages = next(iter(readers.values()))
        self.columns: tuple[str, ...] = ()
        """Columns before those of the message itself."""

    @classmethod
    def begin(
        cls,
        session: Session,
        rows: MessageRows,
        topic: str,
        span: Span,
        opened: ReadableStore,
        places: Mapping[int, int],
        *,
        is_single: bool,
        **chosen: Unpack[Chosen],
    ) -> Self:
        """Open a reader of each queue.

        places     the first queue offset by queue id
        is_single  whether one queue was asked for, so that rows need no queue id
        """
        alone = is_single and span.last is None and span.until_ms is None
        most = span.max_count if alone else None
        readers = {
            queue: opened.messages(topic, queue, start, must_exist=False, max_count=most, **chosen)
            for queue, start in places.items()
        }
        run = cls(session, rows, topic, opened, readers)
        if not alone:
            from store.reading import MergedMessages

            run.reader = MergedMessages(list(readers.values()), **span._asdict(), only_sound=chosen["only_sound"])
            run.columns = () if is_single else ("queue_id",)
        return run

    @property
    def places(self) -> dict[int, int]:
        """The queue offset to go on from in each queue."""
        return {queue: reader.next_offset for queue, reader in self.readers.items()}

    def result(self) -> Result:
        """Return the result: messages as they are read, and facts that are known after the last one."""
        blocks = self._lines() if self.rows.are_lines else None
        table = Table(
            "messages", self._rows(), lambda: (*self.columns, *self.rows.columns), blocks, names=self.rows.names
        )
        return Result("get", self._facts, [table], self._exit_code, self._verdict)

    def _lines(self) -> Iterator[str]:
        """Yield the messages as lines of JSON, many per text."""
        from store.formats import decode_record
        from store.reading import RecordLines

        def line(message: StoredMessage) -> str:
            return json_for(self.session.environment.stdout, self.rows.row(message))

        lines = RecordLines(lambda record: line(decode_record(record)), with_body="body" in self.rows.names)
        yield from lines.of_runs(self.reader.runs(MOST_IN_RUNS), line)
        self._warn_of_damage()

    def _rows(self) -> Iterator[dict[str, Any]]:
        for message in self.reader:
            yield self.rows.row(message)
        self._warn_of_damage()

    def _warn_of_damage(self) -> None:
        self.rows.warn_of_damage()
        for damage in self.reader.damaged:
            self.session.warn(describe(damage))

    def write_raw(self) -> int:
        """Copy the records from file to stdout inside the kernel; return the exit code."""
        opened = cast("MessageStore", self.store)
        with RecordWriter(opened, self.session.environment.stdout) as writer:
            for message in self.reader:
                writer.write(message.log_offset, message.size)
        return self._exit_code()

    def follow(self, raw: bool, message_filter: MessageFilter | None) -> int:
        """Print messages as they arrive, one a line, until a signal ends it."""
        # The wait is for one queue; with several queues it is short, so that the others are read soon.
        queue = next(iter(self.readers))
        wait = _waiter(self.session, self.store, (self.topic, queue), message_filter, is_only=len(self.readers) == 1)
        self.session.release_notes()
        stdout, form = self.session.environment.stdout, self.session.format
        while True:
            if raw:
                self.write_raw()
            else:
                for message in self.reader:
                    stdout.write(_line(self.rows.row(message), self.rows, form, stdout))
                    stdout.flush()
                self.rows.warn_of_undecoded()
            wait(self.readers[queue].next_offset)

    def _facts(self) -> dict[str, Any]:
        reader = self.reader
        return {
            "status": reader.status.value,
            "next_offset": reader.next_offset,
            "min_offset": reader.min_offset,
            "max_offset": reader.max_offset,
            "unsound_count": reader.unsound_count,
            "damaged_count": reader.damaged_count,
        }

    def _exit_code(self) -> int:
        reader = self.reader
        return FINDINGS if reader.damaged or reader.unsound_count or not reader.found_count else OK

    def _verdict(self) -> str:
        reader = self.reader
        found = f"{count(reader.found_count, 'message')} found" if reader.found_count else "no message found"
        unsound = "left out for its body" if reader.only_sound else "with a body that is not what was put"
        wrong = [
            *([f"{reader.unsound_count} {unsound}"] if reader.unsound_count else []),
            *([f"{count(reader.damaged_count, 'record')} unreadable"] if reader.damaged else []),
        ]
        return ", ".join([found, *wrong])


def _waiter(
    session: Session,
    opened: ReadableStore,
    queue: tuple[str, int],
    message_filter: MessageFilter | None,
    *,
    is_only: bool,
) -> Callable[[int], object]:
    """Return a function that waits for a message: by the serving process, else by watching the files."""
    from store.engine.serving import StoreClient

    if isinstance(opened, StoreClient):
        served, hold_ms = opened, HOLD_MS if is_only else LOOK_MS
        return lambda offset: served.wait_for_message(*queue, offset, hold_ms, message_filter)
    files = cast("MessageStore", opened)
    watcher = FileWatcher(session, files.layout, *queue)

    def look_again(offset: int) -> None:
        watcher.wait()
        files.refresh()

    return look_again


def _line(row: dict[str, Any], rows: MessageRows, form: Format, stream: TextIO) -> str:
    if form.is_for_programs:
        return json_for(stream, row) + "\n"
    return "  ".join(show_value(name, row.get(name)) for name in rows.columns if name != "log_offset") + "\n"
