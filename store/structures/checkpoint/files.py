"""Reading the checkpoint of any store, local or remote."""

from __future__ import annotations

import errno

from store.errors import StoreIOError
from store.files.store_reader import StoreReader
from store.formats.checkpoint_page import CHECKPOINT_SIZE, CheckpointPage, decode_checkpoint
from store.layout import CONTROLLER_MODE

UNREADABLE = (None, errno.EIO)
"""Error numbers of a failing device, in contrast to missing permissions."""


def confirmed_offset(files: StoreReader) -> int | None:
    """Read the confirm offset of a broker in controller mode; None without one."""
    if files.is_segment or not files.exists(CONTROLLER_MODE):
        return None
    page, _ = read_page(files)
    return page.confirm_log_offset if page.confirm_log_offset > 0 else None


def had_records(files: StoreReader) -> bool:
    """Return whether a log without a record has lost them: its broker did not shut down, or promised one.

    Expired records leave the last segment, and a clean shutdown deletes one that was made ahead.
    """
    return not files.is_segment and (files.exists("abort") or read_page(files)[0].physic_ms > 0)


def read_page(files: StoreReader) -> tuple[CheckpointPage, int | None]:
    """Return the page and the file's size, None for a missing or unreadable file.

    The page of an unreadable file is empty, like that of a missing file.
    """
    try:
        return read_file(files)
    except StoreIOError as error:
        if error.errno not in UNREADABLE:
            raise
        return CheckpointPage(), None


def read_file(files: StoreReader) -> tuple[CheckpointPage, int | None]:
    """Return the page and the file's size, None without a file."""
    if not files.exists("checkpoint"):
        return CheckpointPage(), None
    data = bytes(files.read("checkpoint"))
    return decode_checkpoint(data[:CHECKPOINT_SIZE]), len(data)
