"""The setting for the size of batch queue files, from the files."""

from __future__ import annotations

from store.files.filesystem import Filesystem
from store.files.numbered import some_queue_files, usual_size
from store.layout import StoreLayout


def infer_settings(layout: StoreLayout, fs: Filesystem) -> dict[str, object]:
    """Return the size setting that matches most files."""
    size = usual_size(some_queue_files(layout.batchconsumequeue, fs))
    return {"mapperFileSizeBatchConsumeQueue": size} if size else {}
