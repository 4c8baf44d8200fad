"""Stores made of another's records, each whole once that was said, or taken for none (tests/runs/power_cuts.py).

salvage --to    the source is untouched; a store that was reported done is there with every byte; before that there
                is none, or one without a log, in which nothing is read, and the salvage can be run again
receive         what was reported to the master is there, and the copy goes on to the master's end
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest

from store import open_store
from store.engine.ha import receive as receiving
from store.engine.ha.link import Address, MasterLink
from store.engine.ha.log_copy import LogCopy
from store.engine.ha.receive import ReceiveOptions, Receiver
from store.errors import BadRequest, NotAStore
from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.verbs.salvage.grade import SalvagedRun
from store.verbs.salvage.new_store import write_new_store
from store.verbs.salvage.salvage import SalvageReport, next_offsets_of, salvage_runs
from store.verbs.salvage.sources import config_of
from tests.support.fake_master import FakeMaster, honest, log_of
from tests.support.simulated_disk import Cut, SimulatedDisk
from tests.support.snapshots import contents, differences
from tests.support.stores import SMALL, Clock, make_store, stored_messages

SETTINGS = {**SMALL, "mappedFileSizeCommitLog": 4096}
OF_THE_BROKER = ("brokerIdentity", "compaction/T/0", "config/plugin", "config/consumerOffset.json")
COUNT = 60
SALVAGE = "salvage"
COPIES = (SALVAGE, "salvage --keep-offsets", "receive")


def make_source(folder: Path, *, is_sound: bool) -> Path:
    """A store; unless it is sound one with damaged records, tables, and files of other kinds."""
    root = make_store(folder / "source", COUNT, **SETTINGS)
    if is_sound:
        return root
    for name in OF_THE_BROKER:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("{}")
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(1000)
        file.write(bytes(200))
    return root


def salvage(name: str, source: Path, target: Path, fs: Filesystem) -> None:
    """What `salvage --to` does, with --keep-offsets where the name says so."""
    config = config_of(source, SETTINGS, fs)

    def walk() -> Iterator[SalvagedRun]:
        return salvage_runs(source, fs, SalvageReport(), delay_levels_ms=config.delay_levels_ms)

    ends, layout, keeps = next_offsets_of(source, fs, (), pytest.fail), StoreLayout(source), name != SALVAGE
    write_new_store(walk, target, config, fs, keep_offsets=keeps, clock=Clock(), next_offsets=ends, source=layout)


class Reported:
    """The greatest log offset that a slave has told its master; the first two reports only ask."""

    def __init__(self) -> None:
        self.log_offset = 0

    def link(self, address: Address, stall_s: float) -> MasterLink:
        link = MasterLink(address, stall_s=stall_s)
        report = link.report

        def noted(log_offset: int) -> None:
            self.log_offset = max(self.log_offset, log_offset if log_offset > 1 else 0)
            report(log_offset)

        link.report = noted  # type: ignore[method-assign]
        return link


def receive(source: Path, target: Path, fs: Filesystem, reported: Reported | None = None) -> None:
    """Copies the log; every frame is verified, synced and reported by itself."""
    with open_store(source) as store:
        log_end = store.max_log_offset
    each = mock.patch.multiple(receiving, VERIFY_BYTES=1, SYNC_BYTES=1)
    with each, FakeMaster(honest(source, log_end, batch=700)) as master:
        copy = LogCopy(target, SETTINGS, fs, compat="5.3")
        try:
            Receiver(Address.parse(master.address), copy, ReceiveOptions(connect=(reported or Reported()).link)).run()
        finally:
            copy.close()


class RunCopy(NamedTuple):
    """The cuts of one run, the number of its operations, and the source as it was."""

    cuts: list[Cut]
    operation_count: int
    source: Path


def run_copy(folder: Path, name: str, cuts: range | list[int], chance: random.Random) -> RunCopy:
    """One run; the last cut comes after its end. A cut's witness is whether it had ended, and what was reported."""
    source = make_source(folder, is_sound=name == "receive")
    (folder / "disk").mkdir()
    if name != "receive":
        # A master's store is another machine's.
        shutil.copytree(source, folder / "disk/source")
    reported, has_ended = Reported(), False
    disk = SimulatedDisk(
        folder / "disk", folder / "cuts", cuts=cuts, chance=chance, witness=lambda: (has_ended, reported.log_offset)
    )
    try:
        if name == "receive":
            receive(source, folder / "disk/a/new", disk, reported)
        else:
            salvage(name, folder / "disk/source", folder / "disk/a/new", disk)
        has_ended = True
        disk.cut_now()
    finally:
        disk.close()
    return RunCopy(disk.taken, len(disk.operations), source)


def verify_copy(name: str, source: Path, cut: Cut) -> None:
    """AssertionError where a cut broke a promise."""
    has_ended, reported = cut.witness
    if name == "receive":
        _verify_received(source, cut.root / "a/new", cut.operation, reported, has_ended=has_ended)
    else:
        _verify_salvaged(name, source, cut, has_ended=has_ended)


def _verify_salvaged(name: str, source: Path, cut: Cut, *, has_ended: bool) -> None:
    assert differences(contents(source), contents(cut.root / "source")) == [], f"{cut.operation}: the source"
    expected, target = source.parent / "expected", cut.root / "a/new"
    if not expected.exists():
        salvage(name, source, expected, Filesystem())
    if not (target / "commitlog").exists():
        assert not has_ended, f"{cut.operation}: the salvaged store is lost"
        if target.exists() and any(target.iterdir()):
            assert _messages(target) == {}, f"{cut.operation}: half a store is read"
            with pytest.raises(BadRequest, match="has no commitlog/"):
                salvage(name, source, target, Filesystem())
            shutil.rmtree(target)
        salvage(name, cut.root / "source", target, Filesystem())
    assert differences(contents(expected), contents(target)) == [], f"{cut.operation}: not as it was salvaged"


def _verify_received(source: Path, target: Path, operation: str, reported: int, *, has_ended: bool) -> None:
    wanted = log_of(source)[1]
    if reported:
        assert log_of(target)[1][:reported] == wanted[:reported], f"{operation}: {reported} was reported"
    assert (target / "checkpoint").exists() >= has_ended, f"{operation}: the master's line is lost"
    receive(source, target, Filesystem())
    assert log_of(target)[1] == wanted, f"{operation}: the copy differs from its master"
    assert _messages(target) == _messages(source) != {}


def _messages(root: Path) -> dict[tuple[str, int], list[tuple[int, bytes]]]:
    try:
        with open_store(root, settings=SETTINGS) as store:
            return {queue: messages for queue, messages in stored_messages(store).items() if messages}
    except NotAStore:
        return {}
