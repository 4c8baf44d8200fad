"""A start on a DLedger log: files that end the process, where the log and the queues end, and what that loses."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.broker_line import LINE_4_9, LINE_5_3
from store.files.filesystem import Filesystem
from store.formats.dledger import DLEDGER_HEADER
from store.opened.opened_store import OpenedStore
from store.opened.staged import staged_store
from store.structures.commitlog.end import END_OF_LOG
from store.structures.dledger.files import HEADER_SIZE, INDEX_FILE_SIZE
from store.structures.dledger.start import _accepted_end, _cut_queues, _entry_size, blockers, foretell, is_log
from store.structures.trap import Trap
from store.verbs.recover.outcome import FileOutcome, SimulatedStart
from tests.structures.dledger.small_member import DATA, ENTRY, INDEX, NO, SIZE, Changes, Member, unit
from tests.structures.dledger.small_member import entry as entry_of

START = 1000


def entry(pos: int, body: int = 52, *, magic: int = 1, size: int | None = None) -> bytes:
    size = 48 + body if size is None else size
    return DLEDGER_HEADER.pack(magic, size, 0, 0, pos, 0, 0, 0, body) + bytes(max(0, body))


def segment(data: bytes, size: int = 500) -> Any:
    return SimpleNamespace(file_start=START, size=size, buffer=data.ljust(size, b"\0"))


@pytest.mark.parametrize(
    ("data", "log_offset", "size"),
    [
        (entry(START), START, 100),
        (entry(START), START - 1, 0),
        (entry(START), START + 1, 0),
        (entry(START, magic=2), START, 0),
        (entry(START, magic=0), START, 0),
        (entry(START + 1), START, 0),
        (entry(START, size=101), START, 0),
        (entry(START, size=99), START, 0),
        (entry(START, 0), START, 0),
        (entry(START, 1), START, 49),
        (entry(START, 452), START, 500),
        (entry(START, 453), START, 0),
        (bytes(452) + entry(START + 452, 1)[:48], START + 452, 0),
        (bytes(451) + entry(START + 451, 1), START + 451, 49),
    ],
)
def test_an_entry_has_a_header_that_fits_its_place(data: bytes, log_offset: int, size: int) -> None:
    assert _entry_size(cast(Any, segment(data[:500])), log_offset) == size


@pytest.mark.parametrize(
    ("log_end", "end"),
    [
        (START, START + 300), (START + 48, START + 300), (START + 100, START + 300), (START + 148, START + 300),
        (START + 200, START + 300), (START + 300, START + 300), (START + 150, START + 150), (START - 1, START - 1),
        (START + 500, START + 500),
    ],
)  # fmt: skip
def test_entries_go_on_past_a_damaged_record(log_end: int, end: int) -> None:
    data = b"".join(entry(START + 100 * number) for number in range(3))
    assert _accepted_end([cast(Any, segment(data))], log_end) == end


@pytest.mark.parametrize(
    ("log_end", "end"), [(START + 400, START + 500), (START + 500, START + 600), (START + 600, START + 600)]
)
def test_entries_are_looked_for_in_the_file_that_holds_the_end(log_end: int, end: int) -> None:
    files = [segment(entry(START)), segment(entry(START + 500))]
    files[0].buffer = bytes(400) + entry(START + 400)
    files[1].file_start = START + 500
    assert _accepted_end(files, log_end) == end


@pytest.mark.parametrize(
    ("index", "data", "foreign", "traps"),
    [
        ([], [(0, 100), (100, 100)], [], []),
        ([(0, INDEX_FILE_SIZE)], [(0, 100), (100, 100), (200, 99)], [], []),
        ([(0, 320)], [(0, 100)], [], [("dledger-index-files", f"320 bytes instead of {INDEX_FILE_SIZE}")]),
        ([], [(0, 100), (200, 100)], [], [("dledger-data-files", "the data files between 0 and 200 are missing")]),
        ([], [(100, 100)], [(0, 50)], []),
        ([], [(100, 100), (201, 100)], [(0, 50), (60, 40)],
         [("dledger-data-files", "the data files between 100 and 201 are missing")]),
    ],
)  # fmt: skip
def test_files_that_end_the_process_are_those_of_the_index_and_of_the_folders_that_it_writes(
    index: list[tuple[int, int]],
    data: list[tuple[int, int]],
    foreign: list[tuple[int, int]],
    traps: list[tuple[str, str]],
    tmp_path: Path,
) -> None:
    own, other, member = tmp_path / "dledger-n0/data", tmp_path / "other", tmp_path / "dledger-n0"
    (member / "index").mkdir(parents=True)
    for number, size in index:
        with (member / "index" / f"{number:020d}").open("wb") as file:
            file.truncate(size)
    segments = [
        SimpleNamespace(path=folder / f"{number:020d}", file_start=number, size=size)
        for folder, places in ((other, foreign), (own, data))
        for number, size in places
    ]
    layout = SimpleNamespace(dledger=member, writable_commitlogs=[own])
    log = SimpleNamespace(segments=SimpleNamespace(files=segments))
    found = blockers(cast(Any, SimpleNamespace(layout=layout, log=log, fs=Filesystem())))
    assert [(one.code, one.detail.rpartition(": ")[2]) for one in found] == traps
    assert is_log(cast(Any, SimpleNamespace(layout=layout)))
    layout.dledger = None
    assert not is_log(cast(Any, SimpleNamespace(layout=layout)))
    assert list(blockers(cast(Any, SimpleNamespace(layout=layout, log=log, fs=Filesystem())))) == []


FILE = 3 * ENTRY + 10
BLANK = struct.pack(">ii", -1, 10).ljust(10, b"\0")


def at(number: int) -> int:
    """The log offset of an entry: three are in a file, and a blank ends it."""
    return number // 3 * FILE + number % 3 * ENTRY


def write(root: Path, changes: Changes = NO, checkpoint: str = "committedIndex=4\n") -> None:
    """Write five entries in two files, with some fields of entries and of their units changed."""
    member = Member(root)
    entries = [entry_of(one, changes.get(one, {}), place=at(one), index=one) for one in range(5)]
    member.put(DATA.format(0), b"".join(entries[:3]) + BLANK)
    member.put(DATA.format(FILE), b"".join(entries[3:]).ljust(FILE, b"\0"))
    member.put(INDEX, b"".join(unit(one, {"pos": at(one), **changes.get(one, {})}) for one in range(5)))
    member.put("checkpoint", checkpoint)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenedStore]:
    """A store of five entries in two files of three."""
    root = tmp_path_factory.mktemp("member")
    write(root)
    with staged_store(root, verb=None, dry_run=True, compat="5.3") as found:
        yield found


class Told:
    """Notes in order what is counted and cut."""

    def __init__(self, opened: OpenedStore) -> None:
        self.calls: list[tuple[Any, ...]] = []
        queues = SimpleNamespace(truncate_dirty=lambda end: self.calls.append(("truncate", end)))
        self.opened: Any = SimpleNamespace(
            log=opened.log, layout=opened.layout, fs=opened.fs, line=LINE_5_3, queues=queues,
            scan_rules=opened.scan_rules,
        )  # fmt: skip

    def read_behind(self, segments: Any, end: Any) -> None:
        self.calls.append(("behind", [one.file_start for one in segments], end.log_end))

    def read_between(self, segments: Any, low: int, high: int) -> None:
        self.calls.append(("between", [one.file_start for one in segments], low, high))

    def read_units(self, low: int, high: int) -> None:
        self.calls.append(("units", low, high))

    def report(self) -> Any:
        return "lost"

    def foretell(self, mode: str, queue_end: int) -> SimulatedStart:
        outcome = SimulatedStart("5.3", starts=True, mode=mode, start_segment=0)
        files = [FileOutcome("a", "remove", 1), FileOutcome("b", "write", 2), FileOutcome("c", "truncate", 3)]
        foretell(self.opened, outcome, queue_end, lambda: cast(Any, self), lambda: files)
        assert [one.action for one in outcome.files] == ["truncate", "write", "truncate"]
        return outcome


END = at(5)
WRONG_END = FILE + 2 * SIZE
RECORD = at(4) + HEADER_SIZE
"""The first record behind the sum of two without their headers."""
CUT = [("between", [0, FILE], RECORD, END), ("units", WRONG_END, END_OF_LOG), ("truncate", WRONG_END)]
TAILS = Trap("dledger-queue-tails", f"the queues are cut at log offset {WRONG_END}, the entries go on to {END}")


def undispatched(start: int) -> Trap:
    detail = f"the entries from log offset {start} to {END} have no queue entries and get none"
    return Trap("dledger-no-dispatch", detail)


@pytest.mark.parametrize(
    ("mode", "queue_end", "traps", "calls"),
    [
        ("abnormal", WRONG_END - 1, [], []),
        ("abnormal", WRONG_END, [TAILS], CUT),
        ("abnormal", END, [TAILS], CUT),
        ("normal", -1, [undispatched(0)], []),
        ("normal", 0, [undispatched(0)], []),
        ("normal", END - 1, [undispatched(END - 1)], []),
        ("normal", END, [], []),
        ("normal", END + 1, [], [("behind", [FILE], END), ("units", END, END_OF_LOG), ("truncate", END)]),
    ],
)
def test_a_start_of_5_3_loses_units_by_where_the_queues_end(
    mode: str, queue_end: int, traps: list[Trap], calls: list[tuple[Any, ...]], opened: OpenedStore
) -> None:
    told = Told(opened)
    outcome = told.foretell(mode, queue_end)
    assert (outcome.log_end, outcome.traps, told.calls) == (END, traps, calls)
    assert outcome.lost == ("lost" if calls else SimulatedStart("", starts=True).lost)
    told = Told(opened)
    told.opened.line = LINE_4_9
    outcome = told.foretell(mode, queue_end)
    assert (outcome.log_end, outcome.traps, told.calls) == (END, [], [])


@pytest.mark.parametrize(
    ("wrong_end", "record"),
    [
        (0, HEADER_SIZE), (HEADER_SIZE, HEADER_SIZE), (HEADER_SIZE + 1, ENTRY + HEADER_SIZE),
        (at(2) + HEADER_SIZE + 1, None), (FILE - 1, None), (FILE, FILE + HEADER_SIZE), (RECORD, RECORD),
        (RECORD + 1, None), (2 * FILE, None),
    ],
)  # fmt: skip
def test_the_records_behind_the_sum_are_counted_from_the_first_in_its_file(
    wrong_end: int, record: int | None, opened: OpenedStore
) -> None:
    told = Told(opened)
    outcome = SimulatedStart("5.3", starts=True, log_end=END)
    _cut_queues(told.opened, outcome, wrong_end, cast(Any, told))
    between = [("between", [0, FILE], record, END)] if record is not None else []
    assert told.calls == [*between, ("units", wrong_end, END_OF_LOG), ("truncate", wrong_end)]


SCANNED = f"the end of what was written ({FILE:020d}, offset {2 * ENTRY})"
NEWER = "an entry of a newer DLedger, which 0.3.1.2 takes for the end"
LOST = "no checkpoint of the member says what is committed; readers wait for the next put"


def committed(number: int) -> str:
    return f"entry {number}, the last that is known to be committed; later entries wait"


@pytest.mark.parametrize(
    ("checkpoint", "log_end", "reason"),
    [
        ("committedIndex=-1\n", END, None),
        ("committedIndex=0\n", at(1), committed(0)),
        ("committedIndex=3\n", at(4), committed(3)),
        ("committedIndex=4\n", END, None),
        ("committedIndex=5\n", END, None),
        ("committedIndex=100\n", END, None),
        ("endIndex=4\n", 0, LOST),
    ],
)
def test_readers_see_the_log_up_to_the_committed_entry(
    checkpoint: str, log_end: int, reason: str | None, tmp_path: Path
) -> None:
    write(tmp_path, checkpoint=checkpoint)
    with staged_store(tmp_path, verb=None, dry_run=True, compat="5.3") as opened:
        outcome = Told(opened).foretell("normal", END)
    assert (outcome.log_end, outcome.cut_reason) == (log_end, reason or SCANNED)
    assert [one.code for one in outcome.traps] == (["dledger-uncommitted"] if reason == LOST else [])


@pytest.mark.parametrize("number", [1, 3, 4])
@pytest.mark.parametrize("magic", [2, 3])
def test_the_log_ends_at_the_first_entry_of_a_newer_dledger(number: int, magic: int, tmp_path: Path) -> None:
    write(tmp_path, {number: {"magic": magic}})
    with staged_store(tmp_path, verb=None, dry_run=True, compat="5.3") as opened:
        told = Told(opened)
        outcome = told.foretell("normal", at(number))
    kept = [0, FILE] if number < 3 else [FILE]
    assert (outcome.log_end, outcome.cut_reason) == (at(number), NEWER)
    assert told.calls == [("behind", kept, at(number)), ("units", at(number), END_OF_LOG), ("truncate", at(number))]
