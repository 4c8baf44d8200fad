"""A slave whose log a power cut tore in a record's head: cut there at the next opening, and fetched again."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from store import WritableStore, open_store
from store.change.quarantine import list_quarantine
from store.engine.ha.link import Address
from store.engine.ha.slave_log import SlaveLog, find_torn_record
from store.engine.ha.unwritten import SECTOR
from store.errors import Diverged
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.verbs.check.check import check_files
from tests.support.fake_master import FakeMaster, honest, log_of
from tests.support.stores import SMALL, Clock, stored_messages, text_message
from tests.support.threads import eventually

SLAVE = {**SMALL, "brokerRole": "SLAVE"}
NOBODY = "127.0.0.1:1"
BODY_SIZE_AT = 84
RECORD_OVERHEAD = 91
"""Of a record without topic and properties."""
SEEN_BY_RECOVERY = {"size": 0, "magic": 4, "body CRC": 8}
UNSEEN = {
    "queue id": 12, "flag": 16, "queue offset": 20, "queue offset, torn": 27, "log offset": 28, "flags": 36,
    "born time": 40, "store time": 56, "reconsumed": 72, "prepared offset": 76,
}  # fmt: skip
"""Where fields begin that no CRC covers."""


@pytest.fixture(autouse=True)
def prompt_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask a slave every 20 ms whether it is to stop, not every 500."""
    monkeypatch.setattr("store.engine.ha.receive._POLL_S", 0.02)


class Torn(NamedTuple):
    """A master's store, the end of its log, and a record of it whose body size begins where a sector does."""

    master: Path
    log_end: int
    record: int


@pytest.fixture(scope="module")
def torn(tmp_path_factory: pytest.TempPathFactory) -> Torn:
    root = tmp_path_factory.mktemp("master") / "store"
    clock = Clock()
    with open_store(root, settings=SMALL, read_only=False, clock=clock) as store:
        for number in range(60):
            clock.now_ms += 1000
            end = store.max_log_offset
            message = text_message(number, queue_id=number % 2)
            if number == 40:
                # The next record begins BODY_SIZE_AT bytes before a sector.
                size = RECORD_OVERHEAD + len("T") + len(message.properties)
                message = text_message(number, body_size=100 + -(end + size + 100 + BODY_SIZE_AT) % SECTOR)
            if number == 41:
                message = dataclasses.replace(message, reconsume_times=3, prepared_transaction_offset=7)
                record = end
            assert store.put(message).is_ok
        assert (record + BODY_SIZE_AT) % SECTOR == 0
        return Torn(root, store.max_log_offset, record)


def torn_copy(torn: Torn, to: Path, starts: Sequence[int], *, is_closed: bool) -> Path:
    """The master's store with zeros in the record from each of `starts` to its sector's end."""
    shutil.copytree(torn.master, to)
    size = SMALL["mappedFileSizeCommitLog"]
    position = torn.record % size
    with (to / "commitlog" / f"{torn.record - position:020d}").open("r+b") as file:
        for start in starts:
            file.seek(position + start)
            file.write(bytes(BODY_SIZE_AT - start))
    if not is_closed:
        (to / "abort").touch()
    return to


def open_slave(root: Path, address: str) -> WritableStore:
    return open_store(root, settings=SLAVE, read_only=False, recover=True, master=address, clock=Clock())


def follow(torn: Torn, root: Path) -> list[str]:
    """Opens the slave until it has its master's log; gives what the opening noted."""
    with FakeMaster(honest(torn.master, torn.log_end)) as master, open_slave(root, master.address) as slave:
        assert eventually(lambda: slave.max_log_offset == torn.log_end or slave.describe_findings())
        slave.catch_up()
        assert slave.describe_findings() == []
        return [note.replace(master.address, "MASTER") for note in slave.notes]


def assert_whole(torn: Torn, root: Path) -> None:
    """Asserts that log and queues are the master's, and that nothing is wrong."""
    assert log_of(root) == log_of(torn.master)
    with open_store(root, settings=SMALL) as slave, open_store(torn.master, settings=SMALL) as master:
        assert stored_messages(slave) == stored_messages(master)
    assert list(check_files(StoreReader(str(root)))) == []


@pytest.mark.turns(6)
@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("start", UNSEEN.values(), ids=UNSEEN)
def test_a_torn_head_is_cut_and_fetched_again(start: int, is_closed: bool, torn: Torn, tmp_path: Path) -> None:
    root = torn_copy(torn, tmp_path / "slave", [start], is_closed=is_closed)
    notes = follow(torn, root)
    kept = list_quarantine(root, fs=Filesystem())[-1]
    said = f"it was cut there, is kept in the quarantine as {kept.id}, and is fetched again from MASTER"
    assert [note for note in notes if "tore" in note] == [f"a power cut tore the log at {torn.record}: {said}"]
    assert_whole(torn, root)


@pytest.mark.parametrize("start", SEEN_BY_RECOVERY.values(), ids=SEEN_BY_RECOVERY)
def test_a_head_that_recovery_cuts_is_fetched_again_too(start: int, torn: Torn, tmp_path: Path) -> None:
    root = torn_copy(torn, tmp_path / "slave", [start], is_closed=False)
    assert [note for note in follow(torn, root) if "tore" in note] == []
    assert_whole(torn, root)


@pytest.mark.turns(3)
def test_a_slave_that_was_opened_without_its_master_says_what_mends_it(torn: Torn, tmp_path: Path) -> None:
    root = torn_copy(torn, tmp_path / "slave", [UNSEEN["log offset"]], is_closed=True)
    with open_store(root, settings=SMALL) as store:
        log = SlaveLog(store.opened.log)
        segment_start = torn.record - torn.record % SMALL["mappedFileSizeCommitLog"]
        whole = log_of(torn.master)[1]
        with pytest.raises(Diverged) as error:
            log.require_same(segment_start, memoryview(whole)[segment_start : torn.log_end])
        assert (error.value.code, error.value.offset) == ("torn", torn.record)
        assert find_torn_record(store.opened.log, Address.parse(NOBODY)) is None
    with open_slave(root, NOBODY) as slave:
        assert [note for note in slave.notes if "tore" in note] == []
    follow(torn, root)
    assert_whole(torn, root)


def test_a_slave_with_other_bytes_is_not_cut(torn: Torn, tmp_path: Path) -> None:
    root = torn_copy(torn, tmp_path / "slave", [], is_closed=True)
    size = SMALL["mappedFileSizeCommitLog"]
    with (root / "commitlog" / f"{torn.record - torn.record % size:020d}").open("r+b") as file:
        file.seek(torn.record % size + UNSEEN["queue offset"])
        file.write(b"\7" * 8)
    before = log_of(root)
    with (
        FakeMaster(honest(torn.master, torn.log_end)) as master,
        open_slave(root, master.address) as slave,
    ):
        assert [note for note in slave.notes if "tore" in note] == []
        assert eventually(slave.describe_findings)
        (finding,) = slave.describe_findings()
        assert "other bytes than the master" in finding
    assert log_of(root) == before
