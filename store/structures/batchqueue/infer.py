"""The size of batch queue files, read off them."""

from __future__ import annotations

from store.files.filesystem import Filesystem
from store.files.numbered import some_queue_files, usual_size
from store.layout import StoreLayout


def infer_settings(layout: StoreLayout, fs: Filesystem) -> dict[str, object]:
    """Return the setting of the size that most files have."""
    size = usual_size(some_queue_files(layout.batchconsumequeue, fs))
    return {"mapperFileSizeBatchConsumeQueue": size} if size else {}
