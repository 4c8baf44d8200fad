"""Queues and index built from a broker's log are, byte for byte, those that the broker built."""

from __future__ import annotations

import hashlib
from contextlib import nullcontext
from pathlib import Path

import pytest

from store.broker_line import broker_line
from store.files.filesystem import Filesystem
from store.files.mapped_file_queue import MappedFileQueue
from store.files.overlay import Overlay, StagedFile
from store.formats.run import Run
from store.structures.commitlog.scan import ScanRules, scan_log
from tests.support.golden import Golden, golden
from tests.support.small_log import open_index, open_queues
from tests.support.twice import KINDS

CLOSED = ("normal", "batch", "ipv6", "many", "normal5")


def build(source: Golden, root: Path, overlay: Overlay | None = None, *, recovering: bool = False) -> list[StagedFile]:
    """Queues and index of a golden store's whole log, in `root` or in the overlay, whose files it gives."""
    config = source.config
    log = MappedFileQueue(source.store / "commitlog", config.mapped_file_size_commit_log, Filesystem(), writable=False)
    log.load(broker_line(source.compat))
    queues, index = open_queues(root, config, overlay=overlay), open_index(root, config, overlay=overlay)
    rules = ScanRules(check_crc=True, accept_v2=broker_line(source.compat).accepts_v2)
    with queues.without_delay_levels() if recovering else nullcontext():
        for step in scan_log(log.files, rules=rules):
            if isinstance(step, Run):
                queues.dispatch(step)
                index.dispatch(step)
    staged = [*queues.staged_files(), *index.staged_files()] if overlay is not None else []
    index.close()
    return staged


def built(root: Path, folder: str) -> list[tuple[str, str]]:
    """Name and SHA-256 of the files of a folder; index files, whose names are times, by their order."""
    files = sorted(path for path in (root / folder).rglob("*") if path.is_file())
    names = [str(path.relative_to(root)) if folder == "consumequeue" else str(n) for n, path in enumerate(files)]
    return [(name, hashlib.sha256(path.read_bytes()).hexdigest()) for name, path in zip(names, files, strict=True)]


def wanted(source: Golden, stage: str, folder: str) -> list[tuple[str, str]]:
    files = sorted((path, digest) for path, (_, digest) in source.files(stage).items() if path.startswith(f"{folder}/"))
    if folder == "consumequeue":
        return files
    return [(str(number), digest) for number, (_, digest) in enumerate(files)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CLOSED)
def test_a_whole_log_gives_the_files_its_broker_left(name: str, kind: str, tmp_path: Path) -> None:
    source = golden(name)
    with KINDS[kind]():
        build(source, tmp_path)
    for folder in ("consumequeue", "index"):
        assert built(tmp_path, folder) == wanted(source, "pristine", folder)


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_without_queues_and_index_gives_what_its_broker_rebuilt(kind: str, tmp_path: Path) -> None:
    source = golden("no-derived")
    with KINDS[kind]():
        build(source, tmp_path, recovering=True)
    for folder in ("consumequeue", "index"):
        assert built(tmp_path, folder) == wanted(source, "after-load-only", folder)


@pytest.mark.parametrize("name", CLOSED)
def test_staged_files_are_the_same_as_those_built_in_place(name: str, tmp_path: Path) -> None:
    source = golden(name)
    staged = build(source, tmp_path / "store", Overlay(tmp_path / "staged"))
    assert not (tmp_path / "store").exists()
    for path, file in staged:
        path.parent.mkdir(parents=True, exist_ok=True)
        file.rename(path)
    for folder in ("consumequeue", "index"):
        assert built(tmp_path / "store", folder) == wanted(source, "pristine", folder)
