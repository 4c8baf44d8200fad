"""Refuses changes to DLedger entries: only the group's leader may write or truncate them."""

from __future__ import annotations

from collections.abc import Mapping

from store.errors import BadRequest, UnsupportedFormat
from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.commitlog.guard import RULE


def refuse(layout: StoreLayout, fs: Filesystem) -> None:
    """Raise UnsupportedFormat for a log of DLedger entries."""
    if layout.dledger is not None:
        raise UnsupportedFormat(f"a DLedger commit log: {RULE}", file=layout.dledger)


def refuse_backup(layout: StoreLayout) -> None:
    """Raise UnsupportedFormat: the log of a member belongs to its group."""
    hint = "stop one member and copy its folder"
    reason = "a DLedger commit log is not backed up"
    raise UnsupportedFormat(reason, file=layout.dledger, hint=hint, code="dledger-backup")


def refuse_settings(settings: Mapping[str, object]) -> None:
    """Raise BadRequest for a put if the settings are those of a DLedger member."""
    if str(settings.get("enableDLegerCommitLog", "false")).strip().lower() == "true":
        raise BadRequest("with enableDLegerCommitLog=true only the leader of the DLedger group may write to the log")
