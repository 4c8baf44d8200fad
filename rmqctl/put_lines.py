"""The messages of `put --input`: read from files, chosen, placed, and put many at a time.

Steps of LinePut.rows:
  1. read a line, or make one of a row of a table          put_files.py
  2. parse it as a message                                 message_input.py
  3. leave out the copies that a broker made (--as-new)    CopyFilter
  4. place it: topic, queue and form                       put_form.py
  5. put what waits, in one call where all have the same hosts
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import typer

from rmqctl.message_input import StoredLine, parse_stored
from rmqctl.put_files import Line, bytes_of, read_lines
from rmqctl.put_rows import (
    NO_SEGMENT,
    SHOWN,
    PutRow,
    exit_code,
    level_count_of,
    put_columns,
    put_through_socket,
    row_of,
    say_no_segment,
    say_refused_topics,
    say_too_long,
)
from rmqctl.result import Result, Table
from rmqctl.show import count

if TYPE_CHECKING:
    from rmqctl.context import Session
    from rmqctl.put_form import PutForm
    from store import Message, WritableStore
    from store.engine.serving import StoreClient

    Timed = tuple[Message, int | None]

BULK_SIZE = 2000
LEFT_OUT = {
    "half": "half messages",
    "op": "marks of ended transactions",
    "discarded": "discarded half messages",
    "delayed": "waiting for a delay, of which the delivered copy was put",
    "retried": "for consumers that failed, of which the message was put",
}


class LinePut:
    """One run of `put --input`. `topic` is of the lines that name none."""

    def __init__(
        self, session: Session, opened: WritableStore | StoreClient, form: PutForm, name: str, topic: str | None
    ) -> None:
        self._session = session
        self._opened = opened
        self._form = form
        self._name = name
        self._topic = topic
        from store.verbs import CopyFilter

        self._copies = None if form.as_stored else CopyFilter()
        self._counts: Counter[str] = Counter()
        self._damaged_count = self._read_bytes = 0
        self._topics: set[str] = set()
        self._problem: typer.BadParameter | None = None

    def result(self) -> Result:
        """The result: programs get a row per message as it is stored; people get the sums."""
        if self._session.format.is_for_programs:
            return Result("put", self._facts, [Table("results", self.rows())], lambda: exit_code(self._counts))
        refused = [row for row in self.rows() if row["status"] != "PUT_OK"]
        say_too_long(self._session, refused)
        tables = [Table("refused", refused[:100], (*SHOWN, "reason"))] if refused else []
        counts, left_out = self._counts, self._left_out
        form = "as they were stored" if self._form.as_stored else "as new"
        more = f"; {count(left_out.total(), 'copy').replace('copys', 'copies')} left out" if left_out else ""
        verdict = f"{counts['PUT_OK']:,} of {count(counts.total(), 'message')} stored {form}{more}"
        if reason := next((row["reason"] for row in refused if row.get("reason")), None):
            verdict = f"refused: {reason}; {verdict}"
        totals = {"message_count": counts.total(), **counts, "left_out": dict(left_out) or None}
        return Result("put", totals, tables, exit_code(counts), verdict)

    def rows(self) -> Iterator[PutRow]:
        """Puts the messages many at a time; from a pipe each at once, as its writer may be waiting."""
        size = 1 if self._name == "-" else BULK_SIZE
        in_all = bytes_of(self._name)
        with self._session.progress("put", in_all, "bytes" if in_all else "messages") as bar:
            messages = self._messages()
            while timed := list(islice(messages, size)):
                yield from self._put(timed)
                bar.update(self._read_bytes if in_all else bar.done + len(timed))
        self._end()

    @property
    def _left_out(self) -> Counter[str]:
        return Counter() if self._copies is None else self._copies.left_out

    def _facts(self) -> dict[str, Any]:
        return {"counts": dict(self._counts), "left_out": dict(self._left_out)}

    def _messages(self) -> Iterator[Timed]:
        """Yields placed messages with the store times of their lines, up to a line that is no message."""
        now_ms = self._session.environment.clock_ms()
        for line, found in self._found(now_ms):
            message = found.message if self._copies is None else self._copies.choose(found.message, line)
            if message is not None:
                yield self._placed(found._replace(message=message))
        for line in self._copies.waiting() if self._copies is not None else ():
            yield self._placed(parse_stored(line, self._topic, now_ms))

    def _found(self, now_ms: int) -> Iterator[tuple[bytes, StoredLine]]:
        """The lines and their messages, up to a line that is no message."""
        try:
            for line in read_lines(self._session, self._name):
                self._read_bytes += len(line.text)
                if not line.text.isspace():
                    yield line.text, self._parse(line, now_ms)
        except ValueError as error:
            self._problem = typer.BadParameter(str(error), param_hint="--input")

    def _parse(self, line: Line, now_ms: int) -> StoredLine:
        try:
            return parse_stored(line.text, self._topic, now_ms)
        except ValueError as error:
            raise ValueError(f"{line.place}: {error}") from None

    def _placed(self, found: StoredLine) -> Timed:
        self._damaged_count += not found.crc_ok
        message = self._form.place(found.message)
        self._topics.add(message.topic)
        return message, found.store_timestamp_ms

    def _put(self, timed: list[Timed]) -> Iterator[PutRow]:
        """Stores the messages: in one go where all have the same hosts."""
        from store.engine.serving import StoreClient

        opened, messages = self._opened, [message for message, _ in timed]
        hosts = {(message.born_host, message.store_host) for message in messages}
        if self._form.is_plain and isinstance(opened, StoreClient):
            rows = put_through_socket(self._session, opened, messages)
        elif self._form.is_plain and not isinstance(opened, StoreClient) and len(hosts) == 1 and len(timed) > 1:
            rows = put_columns(self._session, opened, messages)
        else:
            rows = [self._put_one(message, time_ms) for message, time_ms in timed]
        for row in rows:
            if NO_SEGMENT not in self._counts:
                say_no_segment(self._session, row)
            self._counts[row["status"]] += 1
            yield row

    def _put_one(self, message: Message, time_ms: int | None) -> PutRow:
        with self._session.interrupts.deferred():
            answer = self._form.put(self._opened, message, time_ms)
            return row_of(message, answer, 0 if self._form.as_stored else level_count_of(self._opened))

    def _end(self) -> None:
        """Warns of lines left out or damaged; a usage error after a line that is no message."""
        if self._left_out:
            kinds = ", ".join(f"{number} {LEFT_OUT[kind]}" for kind, number in sorted(self._left_out.items()))
            self._session.warn(f"left out as copies that a broker made: {kinds}; --as-stored puts every line")
        if not self._form.as_stored:
            say_refused_topics(self._session, self._topics)
        if self._problem is not None:
            raise self._problem
        if self._damaged_count:
            lines = f"{count(self._damaged_count, 'line')} of --input with crc_ok false"
            put = "the damaged bodies were put as they are, and have the CRC of what they hold"
            self._session.warn(f"{lines}: {put}; take those lines out to leave them out")
