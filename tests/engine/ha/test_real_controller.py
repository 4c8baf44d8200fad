"""receive --controller from the real AutoSwitchHAService of 5.3.3, whose role a test sets instead of a controller."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from store.structures.epochs.files import decode_epochs
from tests.cli.running import Run, rmqctl
from tests.support.processes import next_line, running
from tests.support.refstore import COMMAND, free_port, needs_refstore, segments

pytestmark = [
    needs_refstore,
    pytest.mark.slow,
    pytest.mark.leaves_damage,
    pytest.mark.skipif(shutil.which("javac") is None, reason="there is no javac"),
]

OPENED = ("java.base/java.nio", "java.base/sun.nio.ch", "java.base/jdk.internal.ref", "java.base/java.lang")


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The reference's classes and the compiled driver."""
    folder, library = tmp_path_factory.mktemp("classes"), Path(COMMAND).resolve().parent / "lib"
    found = f"{library}/53/*:{library}/*"
    source = Path(__file__).with_name("SwitchMaster.java")
    subprocess.run(["javac", "-d", folder, "-cp", found, source], check=True, timeout=120)
    return f"{found}:{folder}"


@contextmanager
def switch_master(class_path: str, root: Path, *epochs: int) -> Iterator[str]:
    """A master with 300 messages in each epoch; gives its address."""
    port = free_port()
    exports = [
        word for name in OPENED for word in (f"--add-opens={name}=ALL-UNNAMED", f"--add-exports={name}=ALL-UNNAMED")
    ]
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    words = ["java", "-Xmx512m", *exports, quiet, "-cp", class_path, "SwitchMaster", root, port, 65536, 300, *epochs]
    with running([str(word) for word in words]) as process:
        assert next_line(process) == "ready\n"
        yield f"127.0.0.1:{port}"


def receive(address: str, to: Path, *options: object) -> Run:
    size = ("--set", "mappedFileSizeCommitLog=65536")
    return rmqctl("--format", "json", *size, "receive", address, "--to", to, "--controller", *options)


def epochs_of(root: Path) -> list[int]:
    return [one.epoch for one in decode_epochs((root / "epochFileCheckpoint").read_bytes())]


def test_a_real_master_in_controller_mode_is_copied_with_its_epochs(class_path: str, tmp_path: Path) -> None:
    master, copy, last = tmp_path / "master", tmp_path / "copy", tmp_path / "last"
    with switch_master(class_path, master, 1, 3, 7) as address:
        run = receive(address, copy)
        assert (run.code, run.json["received_records"]) == (0, 900), run.err
        again = receive(address, copy)
        assert (again.code, again.json["received_records"]) == (0, 0), again.err
        assert receive(address, last, "--from-offset", "last-segment").code == 0
        assert segments(copy) == segments(master)
        epoch_file = "epochFileCheckpoint"
        assert (copy / epoch_file).read_bytes() == (master / epoch_file).read_bytes()
        assert epochs_of(last) == [7]


def test_a_real_master_of_another_history_is_refused_before_a_byte_is_copied(class_path: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    with switch_master(class_path, tmp_path / "first", 1) as address:
        assert receive(address, copy).code == 0
    before = segments(copy)
    with switch_master(class_path, tmp_path / "second", 2) as address:
        run = receive(address, copy)
    assert (run.code, "epoch" in run.err) == (4, True), run.err
    assert segments(copy) == before
