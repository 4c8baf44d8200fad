"""Queues that are followed: each message is a line at once, and what is waited for between them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from rmqctl import queue_reading
from rmqctl.options import Format
from rmqctl.queue_reading import QueueReading, _line, _waiter
from tests.support.sessions import Terminal, give, said, session


class Reader(SimpleNamespace):
    """A reader of one message the first time, and of none later."""

    def __iter__(self) -> Any:
        messages, self.left = self.left, []
        return iter(messages)


def reader(*offsets: int) -> Reader:
    messages = [SimpleNamespace(log_offset=10 * at, size=at) for at in offsets]
    return Reader(left=messages, next_offset=7, is_unsound=False, read_count=1, damaged=[])


def followed(raw: bool, queues: dict[int, Reader], monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[Any]]:
    """Follow until the second wait; give the session and what was done, in its order."""
    one, done = session(stdout=True, stderr=True), list[Any]()
    give(one, format="json")
    one.hold_notes()
    rows = SimpleNamespace(row=lambda message: {"at": message.log_offset}, columns=("at",))
    rows.warn_of_undecoded = lambda: done.append("undecoded")
    stdout = cast(Terminal, one.environment.stdout)
    monkeypatch.setattr(stdout, "flush", lambda: done.append(stdout.getvalue()))
    monkeypatch.setattr(one, "release_notes", lambda: done.append("released"))

    def wait(offset: int) -> None:
        done.append(f"wait at {offset}")
        if done.count(f"wait at {offset}") == 2:
            raise KeyboardInterrupt

    class Writer(SimpleNamespace):
        def __enter__(self) -> Writer:
            return self

        def __exit__(self, *error: object) -> None:
            pass

        def write(self, log_offset: int, size: int) -> None:
            done.append((log_offset, size))

    def make_waiter(*given: Any, is_only: bool) -> Any:
        done.append((given[2], is_only))
        return wait

    monkeypatch.setattr(queue_reading, "RecordWriter", lambda opened, stdout: Writer())
    monkeypatch.setattr(queue_reading, "_waiter", make_waiter)
    monkeypatch.setattr(QueueReading, "_exit_code", lambda reading: 0)
    with pytest.raises(KeyboardInterrupt):
        QueueReading(one, cast(Any, rows), "T", cast(Any, "opened"), cast(Any, queues)).follow(raw, None)
    return one, done


def test_each_message_is_a_line_that_is_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    _, done = followed(False, {2: reader(5, 6)}, monkeypatch)
    lines = '{"at": 50}\n', '{"at": 50}\n{"at": 60}\n'
    assert done == [(("T", 2), True), "released", *lines, *["undecoded", "wait at 7"] * 2]


def test_records_are_written_raw_and_of_several_queues_the_first_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, done = followed(True, {2: reader(5), 3: reader()}, monkeypatch)
    assert done == [(("T", 2), False), "released", (50, 5), *["wait at 7"] * 2]
    assert (said(one), cast(Terminal, one.environment.stdout).getvalue()) == ("", "")


def test_files_are_read_again_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    done = list[Any]()
    watcher = SimpleNamespace(wait=lambda: done.append("change"))
    monkeypatch.setattr(queue_reading, "FileWatcher", lambda *given: done.append(given[1:]) or watcher)
    opened: Any = SimpleNamespace(layout="layout", refresh=lambda: done.append("refresh"))
    wait = _waiter(session(), opened, ("T", 2), None, is_only=True)
    wait(5)
    assert done == [("layout", "T", 2), "change", "refresh"]


@pytest.mark.parametrize(
    ("form", "line"),
    [(Format.JSON, '{"a_ms": 1000, "log_offset": 5, "z": 1}\n'), (Format.PLAIN, "1970-01-01T00:00:01.000Z  -\n")],
)
def test_a_line_for_people_has_the_columns_without_the_log_offset(form: Format, line: str) -> None:
    rows: Any = SimpleNamespace(columns=("a_ms", "log_offset", "b"))
    assert _line({"a_ms": 1000, "log_offset": 5, "z": 1}, rows, form, Terminal(False)) == line
