"""The tables of a backup: checkpoint and epochs as they are, tables from their newest whole copy."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store.files.backup_files import BackupFiles
from store.files.filesystem import Filesystem
from store.verbs.backup import tables
from store.verbs.backup.queue_ends import BackedEnd, encode_ends
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


def test_a_queue_without_a_known_end_is_noted_and_those_of_others_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(topic: str, at: int, fault: str = "") -> Any:
        return SimpleNamespace(topic=topic, queue_id=3, min_offset=1, max_offset=9, newest=at - 10, end=at, fault=fault)

    asked: list[tuple[Any, ...]] = []
    ends = [end("A", 500), end("B", 900, "torn"), end("Other", 800), end("C", 400)]
    monkeypatch.setattr(tables, "queue_ends", lambda *given: asked.append(given) or ends)
    monkeypatch.setattr(tables, "gather_tables", lambda *given: ([], ["a note"]))
    found: Any = SimpleNamespace(layout=None, line="line", config=None, others=SimpleNamespace(topics={"Other"}))
    target: Any = SimpleNamespace(add=lambda path, data: (path, b"".join(data())))
    for starts, first in (([200, 100], 100), ([], 0)):
        reader: Any = SimpleNamespace(segments=lambda starts=starts: [SimpleNamespace(number=one) for one in starts])
        backed = tables.back_up_tables(found, reader, target, Path("scratch"), Filesystem())
        rows = [BackedEnd(topic, 3, 1, 9, end - 10, end) for topic, end in (("A", 500), ("C", 400))]
        assert backed.files == [("queue-ends.json", encode_ends(rows))]
        assert (backed.needed, backed.notes) == (500, ["a note", "B/3: its end is not known: torn"])
        assert asked[-1] == (reader, first, "line")
