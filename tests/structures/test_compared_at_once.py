"""Findings of check where kernels compare many records at once are those of comparing one by one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from store import check, kernels
from store.formats.properties import decode_properties
from tests.support.five_stores import copy_of_five

STRUCTURES = {
    "compaction": ("compaction/compactionLog/*/*/*", "commitlog/*"),
    "compaction-aborted": ("compaction/compactionLog/*/*/*",),
    "timer": ("timerlog/*", "commitlog/*"),
    "timer-rolled": ("timerlog/*", "commitlog/*"),
    "bcq": ("commitlog/*", "batchconsumequeue/*/*/*"),
}
"""Files to damage of each store."""
ROUNDS = 2


def differences_one_by_one(
    copies: memoryview, originals: memoryview, columns: Any, rows: Any, places: Any, found: Any
) -> None:
    for number, (row, place) in enumerate(zip(rows.tolist(), places.tolist(), strict=True)):
        at, size = int(columns[0, row]), int(columns[1, row])
        copy, original = (bytearray(data[start : start + size]) for data, start in ((copies, at), (originals, place)))
        copy[28:36] = original[28:36]
        found[number] = next((n for n in range(size) if copy[n] != original[n]), -1)


def rows_one_by_one(buffer: memoryview, columns: Any, count: int, name: bytes, rows: Any) -> int:
    places = zip(columns[6, :count].tolist(), columns[7, :count].tolist(), strict=True)
    found = [row for row, (at, size) in enumerate(places) if name.decode() in decode_properties(buffer[at : at + size])]
    rows[: len(found)] = found
    return len(found)


def confirm_none(run: Any, units: Any) -> Any:
    return np.zeros(len(units.log_offset), np.bool_)


@contextmanager
def one_by_one() -> Iterator[None]:
    slow = {"first_differences": differences_one_by_one, "rows_with_property": rows_one_by_one}
    with mock.patch.multiple(kernels, **slow), mock.patch("store.structures.timer.check_log.confirmed", confirm_none):
        yield


def findings_of(root: Path) -> list[str]:
    return [str(finding) for finding in check(root)]


def damage_at_random(root: Path, patterns: tuple[str, ...], draw: random.Random) -> None:
    """Flip up to three bytes of each of some files, among those that are not zero."""
    for pattern in patterns:
        path = draw.choice(sorted(path for path in root.glob(pattern) if path.is_file()))
        data = bytearray(path.read_bytes())
        written = [at for at, byte in enumerate(data) if byte]
        for at in draw.choices(written, k=draw.randint(0, 3)):
            data[at] ^= draw.randint(1, 255)
        path.write_bytes(data)


@pytest.mark.turns(2)
@pytest.mark.leaves_damage
@pytest.mark.parametrize("store", STRUCTURES)
def test_random_damage_has_the_same_findings_at_once_and_one_by_one(store: str, tmp_path: Path) -> None:
    draw, found = random.Random(store), 0
    for number in range(ROUNDS):
        root = copy_of_five(store, tmp_path / str(number))
        damage_at_random(root, STRUCTURES[store], draw)
        at_once = findings_of(root)
        with one_by_one():
            assert findings_of(root) == at_once, f"round {number}"
        found += len(at_once)
    assert found
