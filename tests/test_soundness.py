"""The look at every store after its writer: it sees new damage, in a store that was just made too."""

from __future__ import annotations

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
