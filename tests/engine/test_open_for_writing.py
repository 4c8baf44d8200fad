"""What opening for writing refuses, and what it finds past the end of the log."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store import open_store
from store.engine import open_for_writing
from store.engine.open_for_writing import _refuse_other_kinds, _set_positions
from store.errors import BadRequest
from store.opened import verified
from store.structures.registry import PUT, STRUCTURES
from tests.support.stores import SMALL, make_store


@pytest.mark.parametrize("chosen", [0, 1])
def test_settings_of_what_puts_do_not_write_are_refused_by_its_own_rule(
    chosen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = [one for one in STRUCTURES if PUT in one.refuses and one.settings][:2]
    given: dict[str, object] = {next(iter(refusing[chosen].settings)): True}
    asked: list[object] = []
    furniture = SimpleNamespace(refuse_settings=asked.append)
    rooms = [
        SimpleNamespace(refuses=one.refuses, settings=one.settings, furniture=lambda name: furniture)
        for one in refusing
    ]
    monkeypatch.setattr(open_for_writing, "STRUCTURES", rooms)
    _refuse_other_kinds(given)
    _refuse_other_kinds({"flushDiskType": "SYNC_FLUSH"})
    assert asked == [given]


def test_a_store_with_settings_of_what_puts_do_not_write_is_not_made(tmp_path: Path) -> None:
    settings = {"enableDLegerCommitLog": "true"}
    with pytest.raises(BadRequest, match="only the leader of the DLedger group"):
        open_store(tmp_path / "store", settings=settings, read_only=False)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(("has_bytes", "stale"), [(True, 100), (False, None)])
def test_bytes_past_the_end_are_looked_for_in_the_last_segment_from_there_on(
    has_bytes: bool, stale: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def has_bytes_behind(file: Any, position: int, fs: object) -> bool:
        asked.append((file.file_start, position, fs))
        return has_bytes

    cut: list[int] = []
    last = SimpleNamespace(file_start=100)
    files = SimpleNamespace(truncate_dirty_files=cut.append, last=last, files=[])
    log = SimpleNamespace(segments=files, stale_segment=None, min_offset=0)
    queues = SimpleNamespace(recover=lambda: None, correct_min_offsets=lambda least: None, next_offsets=list)
    monkeypatch.setattr(open_for_writing, "has_bytes_behind", has_bytes_behind)
    _set_positions(cast(Any, SimpleNamespace(log=log, commit_log=log, queues=queues, fs="fs")), 140)
    assert (cut, files.flushed_where, files.committed_where) == ([140], 140, 140)
    assert (asked, log.stale_segment) == ([(100, 40, "fs")], stale)


def test_a_writer_notes_what_it_has_verified_when_it_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_store(tmp_path / "store", 3)
    monkeypatch.setattr(verified, "WORTH_REMEMBERING_BYTES", 0)
    (root / ".rmqctl" / verified.FILE_NAME).unlink(missing_ok=True)
    with open_store(root, settings=SMALL, read_only=False) as opened:
        assert (
            json.loads((root / ".rmqctl" / verified.FILE_NAME).read_text())["log_end"] == opened.opened.log.max_offset
        )
