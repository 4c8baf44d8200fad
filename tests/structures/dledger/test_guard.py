"""The refusals of a DLedger log: changes, backups, and puts with the settings of a member."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.errors import BadRequest, UnsupportedFormat
from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.opened.detect import make_layout
from store.structures.dledger.guard import refuse, refuse_backup, refuse_settings


def test_a_log_of_entries_is_neither_changed_nor_backed_up(tmp_path: Path) -> None:
    refuse(StoreLayout(tmp_path), Filesystem())
    (tmp_path / "dledger-n0/data").mkdir(parents=True)
    layout = make_layout(tmp_path, {})
    with pytest.raises(UnsupportedFormat, match="a DLedger commit log: ") as refused:
        refuse(layout, Filesystem())
    assert refused.value.file == tmp_path / "dledger-n0"
    with pytest.raises(UnsupportedFormat, match="a DLedger commit log is not backed up") as refused:
        refuse_backup(layout)
    assert (refused.value.file, refused.value.hint, refused.value.code) == (
        tmp_path / "dledger-n0", "stop one member and copy its folder", "dledger-backup"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("value", "is_refused"), [(None, False), (False, False), ("false", False), (True, True), (" TRUE", True)]
)
def test_the_settings_of_a_member_allow_no_put(value: object, is_refused: bool) -> None:
    settings = {} if value is None else {"enableDLegerCommitLog": value}
    if is_refused:
        with pytest.raises(BadRequest, match="with enableDLegerCommitLog=true only the leader"):
            refuse_settings(settings)
    else:
        refuse_settings(settings)
