"""A bundle has the findings of its store, and no body: of every store that a broker wrote, and of damaged ones."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from store.files.bundle_files import Archive
from store.files.filesystem import Filesystem
from store.files.store_reader import StoredFile, StoreReader
from store.files.stored_segment import StoredSegment
from store.formats.inner_batch import inner_parts
from store.formats.message import INNER_BATCH
from store.formats.run import Run
from store.structures.commitlog.resync import readable_behind
from store.verbs.bundle.plan import content_of, file_start
from tests.cli.running import rmqctl
from tests.support.bundled_stores import NEEDS_MESSAGE_DATABASE, SEEDS, STORES, TOLD, doctor, store_of
from tests.support.five_stores import copy_of_five
from tests.support.five_stores import damage as do_as_told
from tests.support.golden import ALL, copy_store, golden
from tests.support.quickly import one_of
from tests.support.random_damage import MORE_KINDS, damage

_WINDOW = 8


def bundled(root: Path, target: Path) -> Path:
    run = rmqctl("--format", "json", "bundle", target, "--yes", store=root)
    assert (run.code, run.json["same_findings"]) == (0, True), run.err
    return target


def check_findings(root: Path, target: Path) -> None:
    assert doctor(bundled(root, target), root) == doctor(root, root)


@pytest.mark.parametrize("name", one_of(13, STORES))
def test_doctor_gives_the_findings_of_the_store_and_no_eight_bytes_of_a_body_are_inside(
    name: str, tmp_path: Path
) -> None:
    root, target = store_of(name), tmp_path / "case.tar.zst"
    check_findings(root, target)
    archive = Archive(str(target))
    data = re.sub(rb"\0{64,}", bytes(64), b"".join(archive.pieces(0, archive.size)))
    bodies = [body for path in files_of(root) for body in bodies_of(root, path)]
    assert len(bodies) > 10
    assert {*np.intersect1d(windows_of(*bodies), windows_of(data))} <= {0}


def windows_of(*texts: bytes) -> Any:
    """Return every eight bytes of each text as a number."""
    bytes_of = [np.frombuffer(text, np.uint8) for text in texts if len(text) >= _WINDOW]
    numbers = [np.unique(sliding_window_view(one, _WINDOW).copy().view(np.uint64)) for one in bytes_of]
    return np.concatenate([np.zeros(0, np.uint64), *numbers])


def test_eight_bytes_of_a_body_are_found_wherever_they_are() -> None:
    for at in range(20):
        data = bytes(range(100, 100 + at)) + b"12345678" + bytes(range(200, 220 - at))
        assert [*np.intersect1d(windows_of(b"short", b"0123456789"), windows_of(data))] == [
            int.from_bytes(b"12345678", sys.byteorder)
        ]


@pytest.mark.parametrize("name", one_of(13, (name for name in STORES if name not in NEEDS_MESSAGE_DATABASE)))
def test_doctor_gives_the_same_findings_where_properties_are_hidden(name: str, tmp_path: Path) -> None:
    root, target = store_of(name), tmp_path / "case.tar.zst"
    run = rmqctl("--format", "json", "bundle", target, "--yes", "--hide-properties", store=root)
    assert (run.code, run.json["same_findings"]) == (0, True), run.err


@pytest.mark.parametrize("name", one_of(5, [*NEEDS_MESSAGE_DATABASE, "fivefive/index"]))
def test_a_database_with_keys_is_left_out_where_properties_are_hidden(name: str, tmp_path: Path) -> None:
    target = tmp_path / "case.tar.zst"
    run = rmqctl("--format", "json", "bundle", target, "--yes", "--hide-properties", store=store_of(name))
    assert "warning: rocksdbstore: left out, because names and keys in a database cannot be hidden\n" in run.err
    left_out = {row["file"] for row in run.json["files"] if row["content"] == "left out"}
    assert left_out == {row["file"] for row in run.json["files"] if row["file"].startswith("rocksdbstore/")} != set()
    is_missed = "in the bundle than in the store: they need files that are left out" in run.err
    assert (run.code, run.json["same_findings"]) == ((1, False) if is_missed else (0, True))
    assert is_missed == (name in NEEDS_MESSAGE_DATABASE)


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", ["corrupt-mid", "aborted", "fivefive/plain"])
def test_doctor_gives_the_findings_of_a_backup(name: str, tmp_path: Path) -> None:
    assert rmqctl("backup", "create", tmp_path / "backups", store=store_of(name)).code == 0
    backup, target = Path(f"backup:{tmp_path}/backups"), tmp_path / "case.tar.zst"
    run = rmqctl("--format", "json", "bundle", target, "--yes", store=backup)
    assert (run.code, run.json["same_findings"]) == (0, True), run.err
    assert doctor(target, target) == doctor(backup, target)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "how"), TOLD, ids=[f"{name}: {how['name']}" for name, how in TOLD])
def test_doctor_gives_the_findings_of_a_damaged_structure(name: str, how: dict[str, Any], tmp_path: Path) -> None:
    root = copy_of_five(name, tmp_path)
    do_as_told(root, how)
    check_findings(root, tmp_path / "case.tar.zst")


@pytest.mark.parametrize("seed", one_of(6, SEEDS))
def test_doctor_gives_the_findings_of_damage_by_chance(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    root = copy_store(golden(chance.choice(ALL)).store, tmp_path / "store")
    damage(root, chance, MORE_KINDS)
    check_findings(root, tmp_path / "case.tar.zst")


def files_of(root: Path) -> list[str]:
    below = [one.path.lstrip("/") for one in Filesystem().list_below(str(root), "") if not one.is_folder]
    return [path for path in below if content_of(path) == "bodies replaced"]


def bodies_of(root: Path, path: str) -> Iterator[bytes]:
    """Every body in a file, whole; of a record of several messages each of theirs."""
    reader = StoreReader(str(root), commitlogs=[root / "commitlog"])
    file = StoredFile(path, file_start(path) or 0, (root / path).stat().st_size, 0)
    for step in readable_behind([StoredSegment(reader, file)], file.number):
        columns = step.columns if isinstance(step, Run) else None
        if columns is None:
            continue
        for at, size, sys_flag in zip(columns.body_position, columns.body_size, columns.sys_flag, strict=True):
            body = bytes(step.buffer[at : at + size])
            inner = inner_parts(body) if sys_flag & INNER_BATCH else ((0, len(body), 0, 0),)
            yield from (body[start:stop] for start, stop, *_ in inner)
