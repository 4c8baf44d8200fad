"""What a broker loads of a table under config/, for every state of the file and its .bak."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from store.broker_line import LINE_4_9, LINE_5_3
from store.errors import ForeignFile
from store.files.filesystem import Filesystem
from store.structures.tables import config_file
from store.structures.tables.config_file import ConfigCopy, Load, State, _read_database, read_config_file
from store.structures.tables.consumer_offsets import read_consumer_offsets

GOOD, EMPTY, DAMAGED, MISSING = '{"offsetTable":{"T@G":{0:7}}}', "", '{"offsetTable":{"T@G"', None
NAME = "consumerOffset.json"


def write(folder: Path, name: str, text: str | None) -> None:
    if text is not None:
        (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("main", "backup", "load"),
    [
        (GOOD, MISSING, Load.MAIN),
        (GOOD, DAMAGED, Load.MAIN),
        (MISSING, GOOD, Load.BACKUP),
        (EMPTY, GOOD, Load.BACKUP),
        (DAMAGED, GOOD, Load.BACKUP),
        (MISSING, EMPTY, Load.DEFAULT),
        (EMPTY, MISSING, Load.DEFAULT),
        (DAMAGED, MISSING, Load.LOST),
        (DAMAGED, EMPTY, Load.LOST),
        (DAMAGED, DAMAGED, Load.REFUSED),
        ("[]", DAMAGED, Load.MAIN),
        ("null", GOOD, Load.MAIN),
        ("\0\0\0", GOOD, Load.BACKUP),
    ],
)
def test_a_broker_loads(tmp_path: Path, main: str | None, backup: str | None, load: Load) -> None:
    write(tmp_path, NAME, main)
    write(tmp_path, NAME + ".bak", backup)
    assert read_config_file(tmp_path, NAME, Filesystem()).load is load


def test_the_newest_copy_is_the_temporary_file_of_a_4x_broker_and_the_backup_of_a_5x_broker(tmp_path: Path) -> None:
    for end in (".tmp", ".bak"):
        write(tmp_path, NAME + end, GOOD)
    found = read_config_file(tmp_path, NAME, Filesystem())
    assert found.best(LINE_4_9) is found.temporary
    assert found.best(LINE_5_3) is found.backup


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
@pytest.mark.parametrize("end", ["", ".bak", ".tmp"])
def test_a_folder_or_pipe_in_place_of_a_table_is_refused(
    make: Callable[[Path], None], end: str, tmp_path: Path
) -> None:
    make(tmp_path / f"{NAME}{end}")
    with pytest.raises(ForeignFile) as refused:
        read_config_file(tmp_path, NAME, Filesystem())
    assert refused.value.file == tmp_path / f"{NAME}{end}"


def test_a_file_says_why_it_is_damaged(tmp_path: Path) -> None:
    write(tmp_path, NAME, '["a"]')
    main = read_config_file(tmp_path, NAME, Filesystem()).main
    assert (main.state, main.reason) == (State.DAMAGED, "not an object")


def test_offsets_come_from_the_copy_a_broker_loads(tmp_path: Path) -> None:
    write(tmp_path, NAME, DAMAGED)
    write(tmp_path, NAME + ".bak", GOOD)
    assert read_consumer_offsets(tmp_path, Filesystem()) == {("T", "G"): {0: 7}}


def test_keys_without_exactly_one_at_sign_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, NAME, '{"offsetTable":{"T":{0:1},"a@b@c":{0:1},"T@G":{0:"x",1:2}}}')
    assert read_consumer_offsets(tmp_path, Filesystem()) == {("T", "G"): {1: 2}}


def test_light_queues_have_offsets_in_a_file_of_their_own(tmp_path: Path) -> None:
    write(tmp_path, "lmqConsumerOffset.json", '{"lmqOffsetTable":{"%LMQ%x@G":12},"offsetTable":{"T@G":{0:7}}}')
    assert read_consumer_offsets(tmp_path, Filesystem()) == {("%LMQ%x", "G"): {0: 12}, ("T", "G"): {0: 7}}


@pytest.mark.parametrize(("mtime_ns", "mtime_ms"), [(0, 0), (5_999_999, 5), (6_000_000, 6)])
def test_a_table_in_a_database_is_as_old_as_its_list_of_files(
    mtime_ns: int, mtime_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Aged(Filesystem):
        def mtime_ns(self, path: Path) -> int:
            assert path == Path("db/CURRENT")
            return mtime_ns

    monkeypatch.setattr(config_file, "read_table", lambda folder, name, fs: {"a": 1} if name == "t" else None)
    assert _read_database(Path("db"), "t", Aged()) == ConfigCopy(Path("db"), State.PARSES, {"a": 1}, "", mtime_ms)
    assert _read_database(Path("db"), "u", Aged()) is None
