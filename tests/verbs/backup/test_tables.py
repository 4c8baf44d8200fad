"""The tables of a backup: checkpoint and epochs as they are, tables from their newest whole copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.files.backup_files import BackupFiles
from store.verbs.backup import tables
from tests.support.stores import make_store
from tests.verbs.backup.backups import back_up

AS_THEY_ARE = ("checkpoint", "epochFileCheckpoint", "epochFileCheckpoint.bak")
TOPICS = "config/topics.json"
WHOLE, TORN = '{"topicConfigTable":{}}', '{"topic'


def test_what_names_log_offsets_is_copied_as_it_is(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 10)
    for name in AS_THEY_ARE:
        (root / name).write_bytes(name.encode() * 200)
    made = back_up(root, tmp_path / "backups")
    files = BackupFiles(str(tmp_path / "backups"))
    found = {one.path: b"".join(files.chunks(one)) for one in made.files if one.path in AS_THEY_ARE}
    assert found == {name: name.encode() * 200 for name in AS_THEY_ARE}


@pytest.mark.parametrize(
    ("table", "copy", "taken", "notes"),
    [
        (WHOLE, TORN, WHOLE, ()),
        (WHOLE, None, WHOLE, ()),
        (TORN, WHOLE, WHOLE, (f"{TOPICS}: topics.json is damaged",)),
        (TORN, None, None, (f"{TOPICS} is left out: topics.json is damaged",)),
    ],
)
def test_a_table_comes_from_its_newest_whole_copy(
    table: str,
    copy: str | None,
    taken: str | None,
    notes: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tables, "PAUSE_S", 0)
    root = make_store(tmp_path / "store", 10)
    (root / "config").mkdir()
    for name, text in ((TOPICS, table), (f"{TOPICS}.bak", copy)):
        if text is not None:
            (root / name).write_text(text)
    made = back_up(root, tmp_path / "backups")
    files = BackupFiles(str(tmp_path / "backups"))
    found = [b"".join(files.chunks(one)).decode() for one in made.files if one.path.startswith("config/")]
    assert (found, made.notes) == ([taken] if taken is not None else [], notes)
