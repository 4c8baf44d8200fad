"""The end of epochs where the log of a new store ends earlier."""

from __future__ import annotations

from pathlib import Path

from store.files.filesystem import Filesystem
from store.layout import EPOCHS
from store.structures.epochs.files import EpochFile, encode_epochs


def end_at(root: Path, log_end: int, fs: Filesystem) -> None:
    """Forget the epochs that begin at the log's end or after it, in both files."""
    epochs = EpochFile(root, fs)
    epochs.drop_from(log_end)
    for name in (EPOCHS, f"{EPOCHS}.bak"):
        if fs.exists(root / name):
            fs.unlink(root / name)
            file = fs.open_new(root / name)
            fs.write(file, 0, encode_epochs(epochs.entries))
            fs.fdatasync(file)
