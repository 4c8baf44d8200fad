"""The broker's queues in stores of real brokers with both queue files and a RocksDB.

store            both are written
late-database    files, then both
files-behind     both, then the RocksDB alone
database-behind  both, then the files alone
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from store import CheckOptions, check, open_store
from store.errors import UnsupportedFormat
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.checkpoint_page import decode_checkpoint
from store.formats.queue_unit import BatchUnit, QueueUnit
from store.layout import OTHER_QUEUES, StoreLayout
from store.opened.detect import infer_settings, make_layout
from store.structures.batchqueue.queue_types import topics_with_files
from store.structures.queuedb import owner
from store.structures.queuedb.guard import refuse, require_known
from store.structures.queuedb.keys import Place
from store.structures.queuedb.owner import Ends, Owner, find_owner
from store.verbs.info import find_structures, look_at_store
from tests.cli.running import rmqctl
from tests.support.five_stores import five, fivefive
from tests.support.golden import copy_store
from tests.support.snapshots import contents

pytest.importorskip("rocksdict")
FS = Filesystem()
ENDS, LATER = 916_768, 1_834_272
"""The log offsets at which the first and the last of two brokers with different queues stopped."""


def state(name: str) -> Path:
    return fivefive("both-kinds") / name


@pytest.mark.parametrize(
    ("root", "found"),
    [
        pytest.param(state("store"), (Owner.BOTH, ENDS, ENDS), id="both"),
        pytest.param(state("late-database"), (Owner.BOTH, 918_554, 918_554), id="both later"),
        pytest.param(state("files-behind"), (Owner.DATABASE, ENDS, LATER), id="files of an earlier time"),
        pytest.param(state("database-behind"), (Owner.FILES, LATER, ENDS), id="a database of an earlier time"),
        pytest.param(five("rocksdb-double") / "store", (Owner.BOTH, 21_579, 21_579), id="both in 5.3"),
        pytest.param(five("rocksdb") / "store", (Owner.DATABASE, -1, -1), id="a database alone"),
        pytest.param(fivefive("combine-separate") / "store", (Owner.BOTH, 6571, 6571), id="LMQ in the database alone"),
    ],
)
def test_the_ends_of_both_kinds_tell_which_is_the_brokers(root: Path, found: tuple[Owner, int, int]) -> None:
    assert find_owner(StoreLayout(root), FS) == found
    assert list(check(root)) == []


def lose_a_queue(root: Path) -> None:
    shutil.rmtree(root / "consumequeue/TopicA/0")


def lose_a_file(root: Path) -> None:
    max((root / "consumequeue/TopicA/0").iterdir()).unlink()


def note_queue_time(root: Path) -> None:
    """Give the checkpoint file the newest message's time, as queue files of it have it written."""
    data = (root / "checkpoint").read_bytes()
    page = decode_checkpoint(data)
    (root / "checkpoint").write_bytes(page._replace(logics_ms=page.physic_ms).encode().ljust(len(data), b"\0"))


def lose_log(root: Path) -> None:
    """Cut the log at the files' end, as a crash of the disk does."""
    for segment in (root / "commitlog").iterdir():
        if (start := int(segment.name)) < ENDS:
            data = segment.read_bytes()
            segment.write_bytes(data[: ENDS - start].ljust(len(data), b"\0"))
        else:
            segment.unlink()


def crash(root: Path) -> None:
    (root / "abort").touch()


@pytest.mark.parametrize(
    ("name", "change", "found"),
    [
        ("files-behind", crash, Owner.DATABASE),
        ("files-behind", lose_log, Owner.BOTH),
        ("files-behind", lose_a_queue, Owner.UNKNOWN),
        ("files-behind", lose_a_file, Owner.UNKNOWN),
        ("files-behind", note_queue_time, Owner.BOTH),
        ("database-behind", crash, Owner.BOTH),
        ("database-behind", lose_a_queue, Owner.FILES),
        ("store", crash, Owner.BOTH),
    ],
)
def test_damage_and_crashes(name: str, change: Callable[[Path], None], found: Owner, tmp_path: Path) -> None:
    root = copy_store(state(name), tmp_path / "store")
    change(root)
    assert find_owner(StoreLayout(root), FS).owner is found


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("files-behind", {}, {"storeType": "defaultRocksDB", "enableMultiDispatch": True, "enableLmq": True}),
        ("files-behind", {"storeType": "default"}, {}),
        ("files-behind", {"rocksdbCQDoubleWriteEnable": "true"}, {}),
        ("database-behind", {}, {"rocksdbCQDoubleWriteEnable": False}),
        ("database-behind", {"storeType": "default"}, {"rocksdbCQDoubleWriteEnable": False}),
        ("database-behind", {"rocksdbCQDoubleWriteEnable": "true"}, {}),
        ("store", {}, {}),
    ],
)
def test_a_given_setting_decides_first(name: str, given: dict[str, object], told: dict[str, object]) -> None:
    found = infer_settings(StoreLayout(state(name)), given, FS)
    names = ("storeType", "rocksdbCQDoubleWriteEnable", "enableMultiDispatch", "enableLmq")
    assert {setting: found[setting] for setting in names if setting in found} == told


def test_a_given_double_write_has_the_missing_entries_found() -> None:
    given = CheckOptions(settings={"rocksdbCQDoubleWriteEnable": "true"})
    assert {one.kind for one in check(state("files-behind"), given)} == {"missing-unit"}
    assert {one.kind for one in check(state("database-behind"), given)} == {"rocksdb-state"}


def test_a_check_compares_the_ends_as_often_with_many_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue files lack 420 entries, and each is a finding of another room first."""
    compared: list[object] = []

    def compare(database: object, *given: Any) -> Ends:
        compared.append(database)
        return real(database, *given)

    real: Any = owner._compare
    monkeypatch.setattr(owner, "_compare", compare)
    for name in ("files-behind", "store"):
        compared.clear()
        assert list(check(state(name))) == []
        assert len(compared) == 3


def test_queues_of_the_database_are_read_beside_files_of_an_earlier_time() -> None:
    with open_store(state("files-behind")) as store:
        assert sum(one.max_offset for one in store.queues()) == 840
    run = rmqctl("--format", "json", "info", store=state("files-behind"))
    assert (run.json["message_count"], run.json["problems"]) == (840, [])


@pytest.mark.parametrize("name", ["files-behind", "database-behind"])
def test_a_recovery_leaves_the_other_kind_as_it_is(name: str, tmp_path: Path) -> None:
    root = copy_store(state(name), tmp_path / "store")
    before = contents(root / "consumequeue")
    run = rmqctl("recover", "--yes", store=root)
    assert run.code == 0, run.err
    assert contents(root / "consumequeue") == before


@pytest.mark.parametrize(("offset", "found"), [(1_000_312, Owner.FILES), (501_952, Owner.BOTH)])
def test_a_database_of_an_earlier_time_is_rebuilt_if_the_log_ends_before_it(
    offset: int, found: Owner, tmp_path: Path
) -> None:
    root = copy_store(state("database-behind"), tmp_path / "store")
    run = rmqctl("truncate-dirty", "--offset", offset, "--yes", store=root)
    assert run.code == 0, run.err
    assert find_owner(StoreLayout(root), FS).owner is found
    assert list(check(root)) == []


def test_no_verb_changes_a_store_whose_queues_are_unknown(tmp_path: Path) -> None:
    root = copy_store(state("files-behind"), tmp_path / "store")
    lose_a_queue(root)
    before = contents(root)
    for words in (("recover",), ("rebuild", "--queues"), ("truncate-dirty", "--offset", 501_952), ("clean-expired",)):
        run = rmqctl(*words, "--yes", store=root)
        assert run.code != 0
        assert "unknown which of them a broker reads" in run.err
        assert "storeType" in run.err
    assert contents(root) == before
    assert "unknown whether a broker reads it" in rmqctl("info", store=root).out
    run = rmqctl("--set", "storeType=defaultRocksDB", "recover", "--yes", store=root)
    assert run.code == 0, run.err


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("files-behind", None, "the consume queues are a RocksDB"),
        ("store", None, "are written twice"),
        ("database-behind", None, "of an earlier time is beside the queue files"),
        ("files-behind", lose_a_queue, "it is unknown which of them a broker reads"),
    ],
)
def test_a_put_is_refused_with_the_use_of_the_database(
    name: str, change: Callable[[Path], None] | None, reason: str, tmp_path: Path
) -> None:
    layout = StoreLayout(copy_store(state(name), tmp_path / "store"))
    if change is not None:
        change(layout.root)
    with pytest.raises(UnsupportedFormat, match=reason):
        refuse(layout, FS)


def test_a_setting_tells_the_queues() -> None:
    for given in ({"storeType": "default"}, {"rocksdbCQDoubleWriteEnable": "true"}, {}):
        require_known(StoreLayout(state("store")), FS, given)


IN_DATABASE, IN_FILES = {"storeType": "defaultRocksDB"}, {"storeType": "default"}
TWICE, ONCE = {"rocksdbCQDoubleWriteEnable": "true"}, {"rocksdbCQDoubleWriteEnable": "false"}


@pytest.mark.parametrize(
    ("root", "given", "found"),
    [
        (state("files-behind"), IN_DATABASE, (Owner.DATABASE, -1, -1)),
        (state("files-behind"), IN_FILES, (Owner.BOTH, ENDS, LATER)),
        (state("files-behind"), TWICE, (Owner.BOTH, -1, -1)),
        (state("files-behind"), ONCE, (Owner.FILES, -1, -1)),
        (state("files-behind"), IN_DATABASE | TWICE, (Owner.DATABASE, -1, -1)),
        (state("database-behind"), IN_DATABASE, (Owner.DATABASE, -1, -1)),
        (state("database-behind"), IN_FILES, (Owner.FILES, LATER, ENDS)),
        (state("database-behind"), TWICE, (Owner.BOTH, -1, -1)),
        (five("rocksdb") / "store", TWICE, (Owner.DATABASE, -1, -1)),
    ],
)
def test_given_settings_tell_the_brokers_queues(
    root: Path, given: dict[str, str], found: tuple[Owner, int, int]
) -> None:
    assert find_owner(make_layout(root, given), FS) == found


@pytest.mark.parametrize(
    ("name", "given", "count", "holds_queues"),
    [
        ("files-behind", IN_FILES, 420, False),
        ("files-behind", TWICE, 420, False),
        ("database-behind", IN_DATABASE, 420, True),
        ("database-behind", TWICE, 840, False),
    ],
)
def test_info_and_dump_show_the_queues_of_the_given_settings(
    name: str, given: dict[str, str], count: int, holds_queues: bool
) -> None:
    root, words = state(name), [word for one in given.items() for word in ("--set", "=".join(one))]
    assert rmqctl("--format", "json", *words, "info", store=root).json["message_count"] == count
    assert look_at_store(make_layout(root, given), given, FS).has_database is holds_queues
    assert rmqctl("--format", "json", *words, "dump", "consumequeue", store=root).json["entry_count"] == count


@pytest.mark.parametrize(
    ("name", "given", "topics"),
    [("files-behind", {}, set()), ("files-behind", IN_FILES, {"B"}), ("database-behind", IN_DATABASE, set())],
)
def test_batch_queues_are_those_of_the_given_settings(
    name: str, given: dict[str, str], topics: set[str], tmp_path: Path
) -> None:
    root = copy_store(state(name), tmp_path / "store")
    file = root / "batchconsumequeue/B/0/00000000000000000000"
    file.parent.mkdir(parents=True)
    file.touch()
    assert topics_with_files(make_layout(root, given), FS) == topics


@pytest.mark.parametrize("given", [IN_DATABASE, TWICE, ONCE])
def test_no_database_is_opened_if_settings_tell_the_queues(
    given: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(owner, "_compare")
    assert list(find_structures(make_layout(state("files-behind"), given), FS))


@pytest.mark.parametrize(
    ("files", "newest", "checkpoint", "aborted", "found"),
    [
        ((100, 90), (50, 60), 70, False, Owner.FILES),
        ((90, 100), (60, 50), 70, False, Owner.FILES),
        ((100, 90), (50, 70), 70, False, Owner.BOTH),
        ((90, 100), (80, 50), 70, False, Owner.BOTH),
        ((70, 60), (50, 60), 70, False, Owner.BOTH),
        ((60, 71), (50, 60), 70, False, Owner.FILES),
        ((100, 90), (50, 60), 70, True, Owner.BOTH),
        ((), (), -1, False, Owner.BOTH),
        ((100,), (), 0, False, Owner.FILES),
        ((100,), (0,), 0, False, Owner.BOTH),
        ((0,), (), 0, False, Owner.BOTH),
    ],
)
def test_files_past_a_flushed_database_are_the_brokers(
    files: tuple[int, ...],
    newest: tuple[int, ...],
    checkpoint: int,
    aborted: bool,
    found: Owner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner, "_end_of", lambda reader, queue: (0, files[queue[1]]))
    places = {("T", number): SimpleNamespace(log_offset=at) for number, at in enumerate(newest)}
    database: Any = SimpleNamespace(newest=places, checkpoint=checkpoint)
    reader: Any = SimpleNamespace(queues=lambda: [("T", number) for number in range(len(files))])
    layout, fs = SimpleNamespace(abort="abort"), SimpleNamespace(exists=lambda path: aborted)
    ends = owner._compare(database, reader, cast(Any, layout), cast(Any, fs))
    assert ends == (found, max(files, default=-1), checkpoint)


@pytest.mark.parametrize(
    ("following", "newest", "records", "logics_ms", "found"),
    [
        ({100: 5, 90: 4}, (), (90,), 0, Owner.BOTH),
        ({100: 5, 120: 7}, (), (100,), 0, Owner.DATABASE),
        ({120: 7, 100: 5}, (), (100,), 0, Owner.DATABASE),
        ({120: 7, 100: 5}, (), (120,), 0, Owner.BOTH),
        ({100: 5, 120: 7}, (300,), (300,), 0, Owner.DATABASE),
        ({100: 5}, (99,), (99,), 0, Owner.BOTH),
        ({100: 5, 99: 1}, (), (100,), 0, Owner.UNKNOWN),
        ({100: 5, 120: 7}, (), (100,), 4, Owner.DATABASE),
        ({100: 5, 120: 7}, (), (100,), 5, Owner.BOTH),
        ({120: 7, 100: 5}, (), (100,), 6, Owner.BOTH),
        ({100: 0, 120: 7}, (), (100,), 9, Owner.DATABASE),
        ({100: 1, 120: 7}, (), (100,), 0, Owner.DATABASE),
        ({100: 1, 120: 7}, (), (100,), 1, Owner.BOTH),
        ({}, (300,), (300,), 9, Owner.DATABASE),
        ({99: 1}, (300,), (300,), 9, Owner.UNKNOWN),
    ],
)
def test_a_database_past_the_files_is_the_brokers_from_the_first_record_that_they_lack(
    following: dict[int, int],
    newest: tuple[int, ...],
    records: tuple[int, ...],
    logics_ms: int,
    found: Owner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The queue files end at 100."""
    monkeypatch.setattr(owner, "_following", lambda *given: following.items())
    monkeypatch.setattr(owner, "_starts_record", lambda reader, at: at in records)
    monkeypatch.setattr(owner, "read_page", lambda reader: (SimpleNamespace(logics_ms=logics_ms), None))
    database: Any = SimpleNamespace(newest={at: SimpleNamespace(log_offset=at) for at in newest})
    nothing = cast(Any, None)
    assert owner._owner_past_files(database, nothing, nothing, nothing, {}, 100) is found


WRITTEN, PRE_BLANK, ZEROS = QueueUnit(500, 40, 7), QueueUnit(0, (1 << 31) - 1, 0), bytes(20)


@pytest.mark.parametrize(
    ("files", "end"),
    [
        ([], (0, -1)),
        ([[ZEROS]], (0, -1)),
        ([[PRE_BLANK, ZEROS]], (0, -1)),
        ([[WRITTEN]], (1, 540)),
        ([[QueueUnit(0, 1, 7), ZEROS]], (1, 1)),
        ([[PRE_BLANK, WRITTEN]], (2, 540)),
        ([[WRITTEN, WRITTEN], [ZEROS, ZEROS]], (2, 540)),
        ([[WRITTEN, WRITTEN], [QueueUnit(540, 60, 7), ZEROS]], (3, 600)),
    ],
)
def test_a_queues_files_end_after_their_last_written_entry(
    files: list[list[QueueUnit | bytes]], end: tuple[int, int], tmp_path: Path
) -> None:
    folder = tmp_path / "consumequeue" / "T" / "0"
    folder.mkdir(parents=True)
    for number, units in enumerate(files):
        data = b"".join(one if isinstance(one, bytes) else one.encode() for one in units)
        (folder / f"{40 * number:020d}").write_bytes(data)
    assert owner._end_of(StoreReader(str(tmp_path)), ("T", 0)) == end


@pytest.mark.parametrize(
    ("topic", "of_files", "following"),
    [
        ("T", None, [(100, 1000)]),
        ("T", (1, 0), [(200, 2000)]),
        ("T", (2, 0), []),
        ("Batch", None, []),
        ("Batch", (1, 0), [(200, 2000)]),
        ("commitlog", None, [(100, 1000)]),
        ("%LMQ%a", None, []),
    ],
)
def test_a_queue_without_files_lacks_all_entries_unless_they_are_elsewhere(
    topic: str, of_files: tuple[int, int] | None, following: list[tuple[int, int]], tmp_path: Path
) -> None:
    """The database has two entries, and one past the newest."""
    for folder in ("commitlog", f"{OTHER_QUEUES}/Batch"):
        (tmp_path / folder).mkdir(parents=True)
    units = [BatchUnit(100 * (at + 1), 40, 7, 1000 * (at + 1), at, 1) for at in range(3)]
    database: Any = SimpleNamespace(
        newest={(topic, 0): Place(200, 1)},
        unit=lambda queue, at: units[at],
        units=lambda queue: np.array([(0,), (1,)], [("queue_offset", np.int64)]),
    )
    known = {} if of_files is None else {(topic, 0): of_files}
    assert list(owner._following(database, StoreLayout(tmp_path), FS, known)) == following
