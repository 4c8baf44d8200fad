"""The look at every store after its writer: it sees new damage, in a store that was just made too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from store import open_store
from tests.support.soundness import Soundness
from tests.support.stores import SMALL, Clock, make_store, text_message

TAGS_CODE_AT = 12


@pytest.mark.leaves_damage
@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("spoils", [True, False])
def test_a_writer_that_leaves_damage_is_noticed(
    is_new: bool, spoils: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, soundness = tmp_path / "store", Soundness()
    if not is_new:
        make_store(root, 1)
    soundness.watch(monkeypatch)
    with open_store(root, settings=SMALL, read_only=False, clock=Clock(1_800_000_000_000)) as store:
        store.put(text_message(1))
        store.catch_up()
        if spoils:
            with (root / "consumequeue/T/0" / f"{0:020d}").open("r+b") as file:
                file.seek(TAGS_CODE_AT)
                file.write(b"\1" * 8)
    assert soundness.new_damage == ([f"{root}: unit-differs of T 0"] if spoils else [])


@pytest.mark.leaves_damage
@pytest.mark.parametrize("spoils", ["a file, with its old times", "a folder", "nothing"])
def test_damage_between_two_writers_is_no_writers(spoils: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, soundness = tmp_path / "store", Soundness()
    soundness.watch(monkeypatch)
    with open_store(root, settings=SMALL, read_only=False, compat="5.3") as store:
        store.put(text_message(1))
    unit = root / "consumequeue/T/0" / f"{0:020d}"
    if spoils == "a folder":
        (root / "consumequeue/T/0/sub").mkdir()
    elif spoils != "nothing":
        before = unit.stat()
        with unit.open("r+b") as file:
            file.seek(TAGS_CODE_AT)
            file.write(b"\1" * 8)
        os.utime(unit, ns=(before.st_atime_ns, before.st_mtime_ns))
    with open_store(root, settings=SMALL, read_only=False, compat="5.3") as store:
        store.put(text_message(2))
    assert soundness.new_damage == []
