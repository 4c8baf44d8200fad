"""Drop epochs past the end of a new store's log."""

from __future__ import annotations

from pathlib import Path

from store.files.filesystem import Filesystem
from store.layout import EPOCHS
from store.structures.epochs.files import EpochFile, encode_epochs


def end_at(root: Path, log_end: int, fs: Filesystem) -> None:
    """Remove the epochs that begin at or after the log's end from both files."""
    epochs = EpochFile(root, fs)
    epochs.drop_from(log_end)
    for name in (EPOCHS, f"{EPOCHS}.bak"):
        if fs.exists(root / name):
            fs.unlink(root / name)
            file = fs.open_new(root / name)
            fs.write(file, 0, encode_epochs(epochs.entries))
            fs.fdatasync(file)
