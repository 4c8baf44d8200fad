"""The messages of `put --input`: read from files, chosen, placed, and put many at a time.

Steps of LinePut:
  1. read a block of lines, or make it from rows of a table   put_files.py
  2. parse simple lines at once, as columns                   MessageLines
  3. parse each other line as a message                       message_input.py
     leave it out if a broker made it as a copy               CopyFilter
     place it: topic, queue and form                          put_form.py
  4. put the block's messages by one call                     put_rows.py
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import typer

from rmqctl.exit_codes import FINDINGS, USAGE
from rmqctl.message_input import parse_stored
from rmqctl.put_files import BLOCK_SIZE, Block, Source, bytes_of, read_blocks
from rmqctl.put_rows import (
    NO_SEGMENT,
    SHOWN,
    PutRow,
    exit_code,
    level_count_of,
    put_columns,
    put_through_socket,
    rows_of_columns,
    say_empty_bodies,
    say_no_segment,
    say_refused_topics,
    say_too_long,
)
from rmqctl.result import Result, Table
from rmqctl.show import count, count_is
from store import PutStatus
from store.formats import INNER_BATCH, port_fault
from store.reading import MessageLines

if TYPE_CHECKING:
    from rmqctl.context import Session
    from rmqctl.put_form import PutForm
    from store import MessageColumns, PutManyResult, WritableStore
    from store.engine.serving import StoreClient
    from store.reading import LineColumns

_OUTER = b'"outer_queue_offset"'
_INNER = re.compile(_OUTER + b": ?[0-9]")
LEFT_OUT = {
    "half": "half messages",
    "op": "marks of ended transactions",
    "discarded": "discarded half messages",
    "delayed": "delayed messages whose delivered copy was put",
    "retried": "retries of messages that were put",
}


class LinePut:
    """One run of `put --input`.

    topic  the topic of lines without one
    """

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
        self._damaged_count = self._recompressed_count = self._inner_count = self._read_bytes = self._empty_count = 0
        self._topics: set[str] = set()
        self._problem: typer.BadParameter | None = None
        self._has_wrong_port = False
        self._said_no_segment = False
        leaves_copies = self._copies is not None
        self._lines = MessageLines(topic, session.environment.clock_ms(), self._is_left, leaves_copies=leaves_copies)

    def result(self) -> Result:
        """Return the result: a row per stored message for programs, the sums for people."""
        if self._session.format.is_for_programs:
            return Result("put", self._facts, [Table("results", self.rows())], self._exit_code)
        try:
            refused = list(self._refused())
        except typer.BadParameter:
            # Programs have got their rows.
            if stored := self._counts["PUT_OK"]:
                done = f"{count_is(stored, 'message')} stored all the same"
                self._session.warn(f"{done}; put only what follows them, or they are stored twice")
            raise
        say_too_long(self._session, refused)
        tables = [Table("refused", refused[:100], (*SHOWN, "reason"))] if refused else []
        counts, left_out = self._counts, self._left_out
        form = "as they were stored" if self._form.as_stored else "as new"
        more = f"; {count(left_out.total(), 'copy').replace('copys', 'copies')} left out" if left_out else ""
        verdict = f"{counts['PUT_OK']:,} of {count(counts.total(), 'message')} stored {form}{more}"
        if reason := next((row["reason"] for row in refused if row.get("reason")), None):
            verdict = f"refused: {reason}; {verdict}"
        totals = {"message_count": counts.total(), **counts, "left_out": dict(left_out) or None}
        return Result("put", totals, tables, self._exit_code(), verdict)

    def _exit_code(self) -> int:
        """Return the code of the counted refusals: USAGE for a port of a line, as for its other wrong values."""
        code = exit_code(self._counts)
        return USAGE if code == FINDINGS and self._has_wrong_port else code

    def rows(self) -> Iterator[PutRow]:
        """Put the messages, and yield a row for each."""
        for found, answer in self._answers():
            yield from self._rows(found.messages, answer, range(len(found)))

    def _refused(self) -> Iterator[PutRow]:
        """Put the messages, and yield the rows of refused ones and of others not stored with PUT_OK."""
        for found, answer in self._answers():
            is_good = answer.status is PutStatus.PUT_OK
            yield from self._rows(found.messages, answer, sorted(answer.refused) if is_good else range(len(found)))

    def _rows(self, messages: MessageColumns, answer: PutManyResult, numbers: Iterable[int]) -> Iterator[PutRow]:
        levels = 0 if self._form.as_stored else level_count_of(self._opened)
        for row in rows_of_columns(answer, messages, levels, numbers):
            if row["status"] == NO_SEGMENT and not self._said_no_segment:
                self._said_no_segment = True
                say_no_segment(self._session, row)
            yield row

    def _answers(self) -> Iterator[tuple[LineColumns, PutManyResult]]:
        """Put block by block, from a pipe as blocks arrive: its writer may be waiting."""
        in_all = bytes_of(self._name)
        with self._session.progress("putting", in_all, "bytes" if in_all else "messages") as bar:
            for found in self._columns():
                if len(found):
                    yield found, self._put(found)
                bar.update(self._read_bytes if in_all else bar.done + len(found))
        self._end()

    @property
    def _left_out(self) -> Counter[str]:
        return Counter() if self._copies is None else self._copies.left_out

    def _facts(self) -> dict[str, Any]:
        return {"counts": dict(self._counts), "left_out": dict(self._left_out)}

    def _is_left(self, topic: str) -> bool:
        """Return whether lines of the topic are parsed singly: their messages may be moved or left out."""
        return self._form.moves or (self._copies is not None and self._copies.chooses(topic))

    def _columns(self) -> Iterator[LineColumns]:
        """Yield the messages block by block, up to a line that is not a message."""
        try:
            for block in read_blocks(self._session, self._name):
                self._read_bytes += len(block.text)
                yield self._read(block)
                if self._problem is not None:
                    break
        except ValueError as error:
            self._problem = typer.BadParameter(str(error), param_hint="--input")
        for text in _joined(self._copies.waiting()) if self._copies is not None else ():
            yield self._read(Block(text, Source()), chooses=False)

    def _read(self, block: Block, *, chooses: bool = True) -> LineColumns:
        """Return the messages of a block, up to a line that is not a message: that is the problem to report."""
        batch = self._lines.read(block.text)
        if self._form.as_stored and _OUTER in block.text:
            self._inner_count += len(_INNER.findall(block.text))
        for row in batch.left:
            line = batch.line(row)
            if line.isspace():
                continue
            try:
                found = parse_stored(line, self._topic, self._lines.now_ms)
            except ValueError as error:
                self._problem = typer.BadParameter(f"{block.source.place(row)}: {error}", param_hint="--input")
                batch.end_before(row)
                break
            self._recompressed_count += found.is_recompressed
            message = self._copies.choose(found.message, line) if self._copies and chooses else found.message
            if message is not None:
                batch.add(row, self._form.place(message), found.store_timestamp_ms, is_damaged=not found.crc_ok)
        block.source.taken += len(batch)
        return self._noted(batch.columns())

    def _noted(self, found: LineColumns) -> LineColumns:
        if not self._form.as_stored and (found.messages.numbers["sys_flag"] & INNER_BATCH).any():
            problem = "records of several messages (export --outer) are no new messages; put them with --as-stored"
            raise typer.BadParameter(problem, param_hint="--input")
        self._damaged_count += found.damaged_count
        ends = found.messages.body_ends
        self._empty_count += int((ends[1:] == ends[:-1]).sum())
        self._topics.update(found.messages.topics)
        if self._copies is not None:
            self._copies.see(found.messages, found.uniq_keys())
            if (store_host := self._form.store_host) is not None:
                found.messages.hosts = [(born_host, store_host) for born_host, _ in found.messages.hosts]
        return found

    def _put(self, found: LineColumns) -> PutManyResult:
        """Store the messages, and count their statuses."""
        from store.engine.serving import StoreClient

        if isinstance(self._opened, StoreClient):
            answer = put_through_socket(self._session, self._opened, self._form, found)
        else:
            answer = put_columns(self._session, self._opened, self._form, found)
        if not self._form.as_stored:
            pairs, pair_of = found.messages.host_pairs()
            wrong = [place for place, pair in enumerate(pairs) if port_fault(*pair)]
            self._has_wrong_port |= any((pair_of == place).any() for place in wrong)
        self._counts.update(one.status.value for one in answer.refused.values())
        if stored := len(found) - len(answer.refused):
            self._counts[answer.status.value] += stored
        return answer

    def _end(self) -> None:
        """Warn of lines left out or damaged; raise a usage error for a line that is not a message."""
        if self._left_out:
            kinds = ", ".join(f"{number} {LEFT_OUT[kind]}" for kind, number in sorted(self._left_out.items()))
            self._session.warn(f"left out as copies that a broker made: {kinds}; --as-stored puts every line")
        if not self._form.as_stored:
            say_refused_topics(self._session, self._topics)
            say_empty_bodies(self._session, self._empty_count)
        if self._problem is not None:
            raise self._problem
        if self._form.as_stored and self._recompressed_count:
            bodies = count(self._recompressed_count, "compressed body").replace("bodys", "bodies")
            self._session.warn(f"{bodies} got other bytes than stored: an export with --stored-body keeps them")
        if self._inner_count:
            lay = f"{count(self._inner_count, 'message')} lay inside records of several"
            self._session.warn(f"{lay} and were put as single messages: export --outer keeps such records")
        if self._damaged_count:
            lines = f"{count(self._damaged_count, 'line')} of --input with crc_ok false"
            put = "the damaged bodies were put unchanged, with a CRC that matches them now"
            self._session.warn(f"{lines}: {put}; remove those lines from the input to leave them out")


def _joined(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines joined to blocks of about BLOCK_SIZE."""
    begun: list[bytes] = []
    size = 0
    for line in lines:
        begun.append(line if line.endswith(b"\n") else line + b"\n")
        size += len(line)
        if size >= BLOCK_SIZE:
            yield b"".join(begun)
            begun, size = [], 0
    if begun:
        yield b"".join(begun)
