"""Records that are written as they are stored: by the kernel, or through memory where it refuses."""

from __future__ import annotations

import io
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rmqctl.raw_records import RecordWriter

DATA = bytes(range(100))
RECORDS = [(10, 20), (50, 7), (0, 1)]
WRITTEN = b"".join(DATA[at : at + size] for at, size in RECORDS)


@pytest.fixture
def store(tmp_path: Path) -> Any:
    (tmp_path / "log").write_bytes(DATA)
    return SimpleNamespace(locate=lambda log_offset, size: (tmp_path / "log", log_offset))


def write(store: Any, stream: Any) -> None:
    with RecordWriter(store, stream) as writer:
        for log_offset, size in RECORDS:
            writer.write(log_offset, size)


@pytest.mark.parametrize("mode", ["wb", "ab"])
def test_records_are_written_behind_what_a_file_has(mode: str, store: Any, tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with (tmp_path / "out").open(mode) as file:
        stream = io.TextIOWrapper(file)
        stream.write("head\n")
        write(store, stream)
    assert (tmp_path / "out").read_bytes() == b"head\n" + WRITTEN
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_records_go_to_a_stream_in_memory(store: Any) -> None:
    memory = io.BytesIO()
    stream = io.TextIOWrapper(memory)
    write(store, stream)
    assert memory.getvalue() == WRITTEN


def test_what_the_kernel_leaves_is_written_by_the_next_call(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.sendfile
    monkeypatch.setattr("os.sendfile", lambda out, source, at, size: whole(out, source, at, min(size, 3)))
    with (tmp_path / "out").open("w") as file:
        write(store, file)
    assert (tmp_path / "out").read_bytes() == WRITTEN


@pytest.mark.parametrize("refusal", [BrokenPipeError(), 0])
def test_a_closed_pipe_and_a_file_without_the_bytes_end_it(
    refusal: Any, store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(out: int, source: int, at: int, size: int) -> int:
        if refusal:
            raise refusal
        return 0

    monkeypatch.setattr("os.sendfile", send)
    with (tmp_path / "out").open("w") as file, pytest.raises(BrokenPipeError):
        write(store, file)
    assert (tmp_path / "out").read_bytes() == b""
