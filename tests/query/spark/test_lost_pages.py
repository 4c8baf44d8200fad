"""A segment that is shortened under a task of Spark is damage, or an error that names it; it kills no worker."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.processes import run
from tests.support.shortened import needs_handler
from tests.support.stores import make_store

pytestmark = needs_handler
LOG = f"{0:020d}"

# The functions that Spark's workers call, in a process of their own.
_TASK = """
import sys, pickle
from pathlib import Path
import pyarrow as pa
from store import StoreIOError
from store.files.store_reader import StoreReader
from store.query.spark.tasks import SHARE_ARROW, run_task, whole
from store.query.tables.request import Request
from store.query.tables.row_filter import Conditions
from store.query.tables.schema import MESSAGES, arrow_schema
from store.query.tables.shares import plan, read
from tests.support.shortened import shortened_after_look

root = Path(sys.argv[1])
log = root / "commitlog" / f"{0:020d}"

def first_bytes(path):
    import os
    from store.files import Filesystem
    fs, size = Filesystem(), path.stat().st_size
    view = fs.map(fs.open_read(path), size, writable=False)
    fs.populate(path, view, 0, size)
    os.truncate(path, 0)
    return bytes(view[:8])

def tables(path):
    files, request, all_rows = StoreReader(str(root)), Request(str(root), "messages"), Conditions(())
    with shortened_after_look(path, 0, 1):
        for share in plan(files, request, all_rows):
            yield from whole(read(files, request, all_rows, share, arrow_schema(MESSAGES)))

def share(path):
    batch = pa.RecordBatch.from_pydict({"number": [7], "share": [pickle.dumps(path)]}, SHARE_ARROW)
    yield from run_task(first_bytes, [batch])

try:
    print(len(list({"tables": tables, "share": share}[sys.argv[2]](log))))
except StoreIOError as error:
    print(error.file.name, error.offset, "lost while they were in use" in str(error))
"""


# What a walk loses is a row of the table `anomalies`.
@pytest.mark.turns(2)
@pytest.mark.parametrize(("kind", "said"), [("tables", "0"), ("share", f"{LOG} 0 True")])
def test_a_task_over_a_shortened_segment_kills_no_worker(kind: str, said: str, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 20)
    done = run([sys.executable, "-c", _TASK, str(root), kind])
    assert (done.code, done.out) == (0, f"{said}\n"), done.err
