"""Whether a database has all that the files of its queues have."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.errors import DamagedFile
from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.commitlog.scan import ScanRules
from store.structures.queuedb import recover
from store.structures.queuedb.keys import Place
from store.structures.queuedb.recover import _reaches, follow


@pytest.mark.parametrize(
    ("newest", "checkpoint", "queue_end", "reaches", "suffices"),
    [
        ([10, 90], 95, 95, True, True),
        ([90, 10], 91, 91, True, True),
        ([10, 90], 90, 90, False, False),
        ([10, 90], 50, 50, False, False),
        ([10, 90], 95, 96, False, True),
        ([10, 90], 95, 94, False, False),
        ([], 0, 0, True, True),
        ([], -1, -1, False, False),
        (None, 95, 95, False, False),
    ],
)
def test_a_database_reaches_the_files_end_with_its_checkpoint_past_all_its_records(
    newest: list[int] | None,
    checkpoint: int,
    queue_end: int,
    reaches: bool,
    suffices: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that a broker does not write any more may end before the files."""

    def opened(*given: object) -> Any:
        if newest is None:
            raise DamagedFile("x")
        places = {("T", number): Place(log_offset, 0) for number, log_offset in enumerate(newest)}
        return SimpleNamespace(newest=places, checkpoint=checkpoint)

    monkeypatch.setattr(recover, "open_database", opened)
    store = cast(Any, SimpleNamespace(layout=StoreLayout(Path("store")), fs=Filesystem()))
    found = [_reaches(store, queue_end, is_left=is_left) for is_left in (False, True)]
    assert found == [reaches, suffices]


@pytest.mark.parametrize(
    ("mode", "in_database", "has_database", "is_written", "built_to", "asked", "rebuilds"),
    [
        ("normal", False, True, None, 70, 70, False),
        ("normal", False, True, None, 71, 71, True),
        ("normal", False, True, None, -1, 0, False),
        ("normal", True, True, None, 71, None, False),
        ("normal", False, False, None, 71, None, False),
        ("truncate", True, True, None, 71, 90, True),
        ("truncate", False, False, None, 71, None, False),
        ("abnormal", False, True, None, 70, None, True),
        ("abnormal", False, True, True, 70, None, True),
        ("abnormal", False, True, False, 70, 70, False),
        ("abnormal", True, True, None, 70, None, False),
    ],
)
def test_a_database_is_built_again_unless_it_reaches_the_queues_or_after_a_cut_the_log(
    mode: str,
    in_database: bool,
    has_database: bool,
    is_written: bool | None,
    built_to: int,
    asked: int | None,
    rebuilds: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The database reaches 70, the log ends at 90."""
    ends: list[int] = []

    def reaches(opened: object, end: int, *, is_left: bool) -> bool:
        assert is_left is (is_written is False)
        ends.append(end)
        return end <= 70

    monkeypatch.setattr(recover, "has_queue_database", lambda layout, fs: has_database)
    monkeypatch.setattr(recover, "_reaches", reaches)
    config = SimpleNamespace(
        queues_in_database=in_database, rocksdb_cq_double_write_enable=is_written, has_named_queues_in_database=False
    )
    queues = SimpleNamespace(built_to=built_to)
    opened: Any = SimpleNamespace(config=config, queues=queues, layout=None, fs=None, overlay=None)
    found: Any = SimpleNamespace(mode=mode, log_end=90)
    # To build, a plan needs its overlay.
    with pytest.raises(AssertionError) if rebuilds else nullcontext():
        assert follow(opened, found, cast(Any, None)) == []
    assert ends == ([] if asked is None else [asked])


@pytest.mark.parametrize(("starts", "start"), [([], 0), ([0, 100], 0), ([50, 100], 50)])
def test_a_database_is_built_again_from_the_logs_first_byte(
    starts: list[int], start: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins: list[int] = []
    queues = SimpleNamespace(dispatch=None, finish=begins.append, findings=["of the queues"])
    rules = ScanRules()

    def find_end(segments: object, at: int, given: ScanRules, dispatch: object, *, stop: int) -> Any:
        begins.append(at)
        assert (given, stop) == (replace(rules, by_place=True), 90)
        return SimpleNamespace(log_end=90)

    monkeypatch.setattr(recover, "RocksdbQueues", lambda *given: queues)
    monkeypatch.setattr(recover, "find_end", find_end)
    monkeypatch.setattr(recover, "has_queue_database", lambda layout, fs: True)
    monkeypatch.setattr(recover, "files_of", lambda layout, fs: [])
    log = SimpleNamespace(segments=SimpleNamespace(files=[SimpleNamespace(file_start=one) for one in starts]))
    opened: Any = SimpleNamespace(
        layout=StoreLayout(tmp_path), fs=Filesystem(), overlay=SimpleNamespace(folder=tmp_path / "staged"), log=log,
        config=SimpleNamespace(
            queues_in_database=False, rocksdb_cq_double_write_enable=None, check_crc_on_recover=True
        ),
        scan_rules=lambda check_crc: rules,
    )  # fmt: skip
    found: Any = SimpleNamespace(mode="abnormal", log_end=90, findings=[])
    assert follow(opened, found, cast(Any, None)) == []
    assert (begins, found.findings) == ([start, start], ["of the queues"])
