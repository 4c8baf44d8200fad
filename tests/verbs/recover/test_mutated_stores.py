"""Stores with bytes flipped, cut out, zeroed and put in are read, recovered and undone, and never made worse."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from store import open_store
from store.change.quarantine import undo
from store.errors import DamagedFile, UnsupportedFormat
from store.files.filesystem import Filesystem
from tests.support.boundaries import boundaries
from tests.support.golden import copy_store
from tests.support.snapshots import snapshot
from tests.support.stores import make_store, recover, stored_messages, text_message

COUNT = 90
FILES = ("commitlog", "consumequeue", "index", "checkpoint")


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_store(tmp_path_factory.mktemp("healthy") / "store", COUNT)
    (root / "abort").touch()
    (root / "checkpoint").write_bytes(bytes(4096))
    return root


positions = st.integers(0, 16383)
mutations = st.lists(
    st.one_of(
        st.tuples(st.just("flip"), positions, st.integers(0, 7)),
        st.tuples(st.just("zero"), positions, st.integers(1, 600)),
        st.tuples(st.just("insert"), positions, st.binary(min_size=1, max_size=40)),
        st.tuples(st.just("cut"), positions, st.integers(1, 40)),
        st.tuples(st.just("set"), positions, st.binary(min_size=1, max_size=8)),
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.slow
@given(st.data(), st.sampled_from(FILES), mutations)
def test_a_mutated_store_is_read_recovered_and_undone(
    healthy: Path, data: st.DataObject, part: str, changes: list[tuple[str, int, object]]
) -> None:
    with copied(healthy) as root:
        path = data.draw(st.sampled_from(files_of(root, part)))
        path.write_bytes(mutated(path.read_bytes(), changes))
        before = snapshot(root)
        read_everything(root)
        assert snapshot(root) == before
        try:
            _, change_id = recover(root)
        except UnsupportedFormat:
            # A checkpoint can come to look like one of a newer broker.
            assert part == "checkpoint"
            return
        after = read_everything(root)
        assert all(body in ORIGINAL for body in after)
        if part != "consumequeue":
            # A queue that damage shifted never reaches the log's end; then every start indexes the last message again.
            assert recover(root)[0].rows() == []
        if change_id is not None:
            undo(root, change_id, fs=Filesystem())
        assert snapshot(root) == before


@pytest.mark.slow
@given(st.integers(0, 16384 - 9), st.integers(0, 7))
@example(213, 0)
def test_one_flipped_bit_costs_only_what_lies_behind_it(healthy: Path, position: int, bit: int) -> None:
    """Records before the one with the bit stay; that one goes with all that follows, or is the only one hurt."""
    with copied(healthy) as root:
        segment = min((root / "commitlog").iterdir())
        whole = segment.read_bytes()
        segment.write_bytes(mutated(whole, [("flip", position, bit)]))
        change, _ = recover(root)
        kept = COUNT
        if change.report.log_end < len(whole):
            kept = boundaries(whole).index(change.report.log_end)
            assert boundaries(whole)[kept] <= position
        # A flipped queue id makes one message show in two queues, as it would in a broker.
        found = set(read_everything(root))
        assert len(found) in (kept - 1, kept)
        assert found <= {text_message(number).body for number in range(kept)}


ORIGINAL = {text_message(number).body for number in range(COUNT)}


def read_everything(root: Path) -> list[bytes]:
    """All bodies that can be read, through queues, index and log; damage may be named, anything else is a failure."""
    with open_store(root) as store:
        for number in range(0, COUNT, 30):
            store.query("T", f"k{number}")
        store.offset_by_time("T", 0, 1_700_000_030_000)
        try:
            store.lookup(0)
            return [body for messages in stored_messages(store).values() for _, body in messages]
        except DamagedFile:
            return []


def files_of(root: Path, part: str) -> list[Path]:
    top = root / part
    return [top] if top.is_file() else sorted(path for path in top.rglob("*") if path.is_file())


def mutated(data: bytes, changes: list[tuple[str, int, object]]) -> bytes:
    """The same length with some bytes changed: what is put in pushes the rest out, what is cut out lets zeros in."""
    buffer = bytearray(data)
    for kind, position, how in changes:
        at = position % len(buffer)
        if kind == "flip":
            assert isinstance(how, int)
            buffer[at] ^= 1 << how
        elif kind == "zero":
            assert isinstance(how, int)
            buffer[at : at + how] = bytes(len(buffer[at : at + how]))
        elif kind == "insert":
            assert isinstance(how, bytes)
            buffer[at:at] = how
        elif kind == "cut":
            assert isinstance(how, int)
            del buffer[at : at + how]
        else:
            assert isinstance(how, bytes)
            buffer[at : at + len(how)] = how
    return bytes(buffer[: len(data)]).ljust(len(data), b"\0")


@contextmanager
def copied(source: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mutated-") as folder:
        yield copy_store(source, Path(folder) / "store")
