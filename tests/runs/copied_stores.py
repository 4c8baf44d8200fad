"""Stores made of another's records, each whole once that was said, or taken for none (tests/runs/power_cuts.py).

salvage --to    the source is untouched; a store that was reported done is there with every byte; before that there
                is none, or one without a log, in which nothing is read, and the salvage can be run again
receive         what was reported to the master is there, and the copy goes on to the master's end; of a master in
                controller mode too, with its epochs
slave           the same of a store that is opened as a slave and follows; its queues are the master's afterwards
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest

from store import open_store
from store.engine.ha import receive as receiving
from store.engine.ha.link import Address, MasterLink
from store.engine.ha.log_copy import LogCopy
from store.engine.ha.receive import ReceiveOptions, Receiver
from store.engine.ha.switch_link import AutoSwitchLink
from store.errors import BadRequest, NotAStore
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.layout import StoreLayout
from store.opened.detect import detect_line
from store.structures.epochs.files import Epoch, EpochFile
from store.structures.findings import LOST_INDEX, MISSING_INDEX_ENTRY
from store.verbs.check.check import check_files
from store.verbs.salvage.grade import SalvagedRun
from store.verbs.salvage.new_store import Salvaged, write_new_store
from store.verbs.salvage.salvage import SalvageReport, next_offsets_of, salvage_runs
from store.verbs.salvage.sources import config_of
from tests.support.fake_controller import FakeController
from tests.support.fake_master import FakeMaster, honest, log_of
from tests.support.simulated_disk import Cut, SimulatedDisk
from tests.support.snapshots import contents, differences
from tests.support.stores import SMALL, Clock, make_store, stored_messages
from tests.support.threads import eventually

SETTINGS = {**SMALL, "mappedFileSizeCommitLog": 4096}
OF_THE_BROKER = ("brokerIdentity", "compaction/T/0", "config/plugin", "config/consumerOffset.json")
COUNT = 60
INDEX_KINDS = (LOST_INDEX, MISSING_INDEX_ENTRY)
SALVAGE = "salvage"
RECEIVE, CONTROLLER, SLAVE = "receive", "receive --controller", "slave"
FOLLOWERS = (RECEIVE, CONTROLLER, SLAVE)
COPIES = (SALVAGE, "salvage --keep-offsets", *FOLLOWERS)


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
    write_new_store(Salvaged(walk, ends), target, config, fs, keep_offsets=keeps, clock=Clock(), source=layout)


class Reported:
    """The greatest log offset that a slave has told its master; the first two reports only ask."""

    def __init__(self) -> None:
        self.log_offset = 0

    @contextmanager
    def noting(self) -> Iterator[None]:
        report = MasterLink.report

        def noted(link: MasterLink, log_offset: int) -> None:
            self.log_offset = max(self.log_offset, log_offset if log_offset > 1 else 0)
            report(link, log_offset)

        with mock.patch.object(MasterLink, "report", noted):
            yield


def epochs_of(source: Path) -> list[Epoch]:
    """Epochs of a master: the first begins at 0, and one at every twentieth record."""
    with open_store(source, settings=SETTINGS) as store:
        starts = [one.log_offset for one in store.messages("T", 0)][::20]
    return [Epoch(*one) for one in enumerate(starts, 1)]


def receive(name: str, source: Path, target: Path, fs: Filesystem) -> None:
    """Copies the log; every frame is verified, synced and reported by itself."""
    with open_store(source) as store:
        log_end = store.max_log_offset
    with mock.patch.multiple(receiving, VERIFY_BYTES=1, SYNC_BYTES=1):
        if name == SLAVE:
            with FakeMaster(honest(source, log_end, batch=700)) as master:
                follow(master.address, target, fs, log_end)
            return
        served = (
            FakeMaster(honest(source, log_end, batch=700))
            if name == RECEIVE
            else FakeController(source, log_end, epochs_of(source), batch=700)
        )
        with served as master:
            copy = LogCopy(target, SETTINGS, fs, compat="5.3")
            try:
                epochs = EpochFile(target, fs) if name == CONTROLLER else None
                connect = partial(link_to, copy=copy, epochs=epochs)
                Receiver(Address.parse(master.address), copy, ReceiveOptions(connect=connect)).run()
            finally:
                copy.close()


def link_to(address: Address, stall_s: float, *, copy: LogCopy, epochs: EpochFile | None) -> MasterLink:
    if epochs is None:
        return MasterLink(address, stall_s=stall_s)
    return AutoSwitchLink(address, stall_s=stall_s, epochs=epochs, copy_end=lambda: copy.end, from_last_segment=False)


def follow(address: str, target: Path, fs: Filesystem, log_end: int) -> None:
    """Opens a slave, after a power cut too, until it has the log."""
    settings = {**SETTINGS, "brokerRole": "SLAVE"}
    with open_store(
        target, settings=settings, read_only=False, recover=True, master=address, clock=Clock(), fs=fs
    ) as slave:
        assert eventually(lambda: slave.max_log_offset >= log_end or slave.describe_findings())
        assert slave.describe_findings() == []


class RunCopy(NamedTuple):
    """The cuts of one run, the number of its operations, and the source as it was."""

    cuts: list[Cut]
    operation_count: int
    source: Path


def run_copy(folder: Path, name: str, cuts: range | list[int], chance: random.Random) -> RunCopy:
    """One run; the last cut comes after its end. A cut's witness is whether it had ended, and what was reported."""
    source = make_source(folder, is_sound=name in FOLLOWERS)
    (folder / "disk").mkdir()
    if name not in FOLLOWERS:
        # A master's store is another machine's.
        shutil.copytree(source, folder / "disk/source")
    reported, has_ended = Reported(), False
    disk = SimulatedDisk(
        folder / "disk", folder / "cuts", cuts=cuts, chance=chance, witness=lambda: (has_ended, reported.log_offset)
    )
    try:
        if name in FOLLOWERS:
            with reported.noting():
                receive(name, source, folder / "disk/a/new", disk)
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
    if name in FOLLOWERS:
        _verify_received(name, source, cut.root / "a/new", cut.operation, reported, has_ended=has_ended)
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
            with pytest.raises(BadRequest, match="leaves one without commitlog/"):
                salvage(name, source, target, Filesystem())
            shutil.rmtree(target)
        salvage(name, cut.root / "source", target, Filesystem())
    assert differences(contents(expected), contents(target)) == [], f"{cut.operation}: not as it was salvaged"


def _verify_received(name: str, source: Path, target: Path, operation: str, reported: int, *, has_ended: bool) -> None:
    wanted = log_of(source)[1]
    if reported:
        assert log_of(target)[1][:reported] == wanted[:reported], f"{operation}: {reported} was reported"
    if name != SLAVE and has_ended:
        line = detect_line(StoreLayout(target), Filesystem())
        assert line.name == "5.3", f"{operation}: the master's line is lost"
    receive(name, source, target, Filesystem())
    assert log_of(target)[1] == wanted, f"{operation}: the copy differs from its master"
    assert _messages(target) == _messages(source) != {}
    if name == CONTROLLER:
        assert EpochFile(target, Filesystem()).entries == epochs_of(source), f"{operation}: other epochs"
    if name == SLAVE:
        # A recovery indexes from its starting segment on only, as a broker's does.
        findings = [one for one in check_files(StoreReader(str(target))) if one.kind not in INDEX_KINDS]
        assert findings == [], f"{operation}: {findings}"


def _messages(root: Path) -> dict[tuple[str, int], list[tuple[int, bytes]]]:
    try:
        with open_store(root, settings=SETTINGS) as store:
            return {queue: messages for queue, messages in stored_messages(store).items() if messages}
    except NotAStore:
        return {}
