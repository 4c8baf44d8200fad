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
    ("newest", "checkpoint", "queue_end", "reaches"),
    [
        ([10, 90], 95, 95, True),
        ([90, 10], 91, 91, True),
        ([10, 90], 90, 90, False),
        ([10, 90], 50, 50, False),
        ([10, 90], 95, 96, False),
        ([10, 90], 95, 94, False),
        ([], 0, 0, True),
        ([], -1, -1, False),
        (None, 95, 95, False),
    ],
)
def test_a_database_reaches_the_files_end_with_its_checkpoint_past_all_its_records(
    newest: list[int] | None, checkpoint: int, queue_end: int, reaches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*given: object) -> Any:
        if newest is None:
            raise DamagedFile("x")
        places = {("T", number): Place(log_offset, 0) for number, log_offset in enumerate(newest)}
        return SimpleNamespace(newest=places, checkpoint=checkpoint)

    monkeypatch.setattr(recover, "open_database", opened)
    store = cast(Any, SimpleNamespace(layout=StoreLayout(Path("store")), fs=Filesystem()))
    assert _reaches(store, queue_end) is reaches


@pytest.mark.parametrize(
    ("mode", "in_database", "has_database", "built_to", "asked", "rebuilds"),
    [
        ("normal", False, True, 70, 70, False),
        ("normal", False, True, 71, 71, True),
        ("normal", False, True, -1, 0, False),
        ("normal", True, True, 71, None, False),
        ("normal", False, False, 71, None, False),
        ("truncate", True, True, 71, 90, True),
        ("truncate", False, False, 71, None, False),
        ("abnormal", False, True, 70, None, True),
        ("abnormal", True, True, 70, None, False),
    ],
)
def test_a_database_is_built_again_unless_it_reaches_the_queues_or_after_a_cut_the_log(
    mode: str,
    in_database: bool,
    has_database: bool,
    built_to: int,
    asked: int | None,
    rebuilds: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The database reaches 70, the log ends at 90."""
    ends: list[int] = []

    def reaches(opened: object, end: int) -> bool:
        ends.append(end)
        return end <= 70

    monkeypatch.setattr(recover, "has_queue_database", lambda layout, fs: has_database)
    monkeypatch.setattr(recover, "_reaches", reaches)
    config, queues = SimpleNamespace(queues_in_database=in_database), SimpleNamespace(built_to=built_to)
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
        config=SimpleNamespace(queues_in_database=False, check_crc_on_recover=True), scan_rules=lambda check_crc: rules,
    )  # fmt: skip
    found: Any = SimpleNamespace(mode="abnormal", log_end=90, findings=[])
    assert follow(opened, found, cast(Any, None)) == []
    assert (begins, found.findings) == ([start, start], ["of the queues"])
