"""Takes the damage that tasks pass over back to the driver, as notes in a shared folder.

A task writes its findings to a file of its own, so a retried task writes the same twice. Executors without the folder
note nothing.
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
    """Pass the batches on, in a worker, and note the damage after the last one that was asked for."""
    try:
        yield from batches
    finally:
        fs = Filesystem()
        if folder and files.damage and fs.is_folder(Path(folder)):
            # A note that can't be written is no reason to fail the query.
            with suppress(StoreIOError):
                note = pickle.dumps(files.damage)
                fs.write(fs.create_file(Path(folder, uuid.uuid4().hex), len(note)), 0, note)


@contextmanager
def damage_noted(spark: SparkSession, reader: StoreReader) -> Iterator[None]:
    """Take the damage that tasks meet into the reader's."""
    with Scratch() as scratch:
        spark.conf.set(FOLDER, str(scratch.folder.absolute()))
        try:
            yield
        finally:
            spark.conf.unset(FOLDER)
        fs = Filesystem()
        for note in fs.list_folder(scratch.folder):
            reader.damage.update(pickle.loads(fs.read_file(note.path)))
