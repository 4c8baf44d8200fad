"""Reports damage that tasks skipped to the driver, as notes in a shared folder.

Each task writes its own file, so a retried task writes the same damage twice. Executors without the folder write no
notes.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from store.errors import StoreIOError
from store.files.filesystem import Filesystem
from store.files.scratch import Scratch
from store.files.store_reader import StoreReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = "rmqctl.damageFolder"


def noting(batches: Iterable[pa.RecordBatch], files: StoreReader, folder: str | None) -> Iterator[pa.RecordBatch]:
    """Yield the batches in a worker; after the last one write a note of the damage."""
    try:
        yield from batches
    finally:
        fs = Filesystem()
        if folder and files.damage and fs.is_folder(Path(folder)):
            # A note that can't be written does not fail the query.
            with suppress(StoreIOError):
                note = pickle.dumps(files.damage)
                fs.write(fs.create_file(Path(folder, uuid.uuid4().hex), len(note)), 0, note)


@contextmanager
def damage_noted(spark: SparkSession, reader: StoreReader) -> Iterator[None]:
    """Add the damage found by tasks inside the block to the reader's damage."""
    with Scratch() as scratch:
        spark.conf.set(FOLDER, str(scratch.folder.absolute()))
        try:
            yield
        finally:
            spark.conf.unset(FOLDER)
        fs = Filesystem()
        for note in fs.list_folder(scratch.folder):
            reader.damage.update(pickle.loads(fs.read_file(note.path)))
