"""receive --controller: the handshake of AutoSwitchHA, epochs compared and kept."""

from __future__ import annotations

import socket
import zlib
from contextlib import nullcontext
from pathlib import Path

import pytest

from store import open_store
from store.engine.ha import switch_link
from store.engine.ha.link import Address
from store.engine.ha.switch_link import AutoSwitchLink
from store.errors import LinkLost, ReplicationError
from store.files.filesystem import Filesystem
from store.structures.epochs.files import Epoch, EpochFile, consistent_end, decode_epochs, encode_epochs
from tests.cli.running import Run, rmqctl
from tests.support.fake_controller import FakeController
from tests.support.fake_master import FakeMaster, honest
from tests.support.stores import make_store
from tests.support.threads import PATIENCE_S

pytestmark = pytest.mark.leaves_damage


@pytest.fixture(autouse=True)
def patient_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switch_link, "HANDSHAKE_TIMEOUT_S", PATIENCE_S)


@pytest.fixture(scope="module")
def master_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("master") / "store", 400)


@pytest.fixture(scope="module")
def log_end(master_store: Path) -> int:
    with open_store(master_store) as store:
        return store.max_log_offset


@pytest.fixture(scope="module")
def starts(master_store: Path) -> list[int]:
    """Log offsets of some records, at which epochs begin."""
    with open_store(master_store) as store:
        return [one.log_offset for one in store.messages("T", 0)][::20]


def receive(master: FakeMaster, to: Path, *options: object) -> Run:
    with master:
        return rmqctl(
            "--format", "json", "--set", "mappedFileSizeCommitLog=16384",
            "receive", master.address, "--to", to, "--controller", *options,
        )  # fmt: skip


def log_bytes(store: Path, log_end: int) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((store / "commitlog").iterdir()))[:log_end]


def epochs_of(to: Path) -> list[tuple[int, int]]:
    return [tuple(one) for one in decode_epochs((to / "epochFileCheckpoint").read_bytes())]


def test_the_copy_is_byte_identical_and_has_the_masters_epochs(
    master_store: Path, log_end: int, starts: list[int], tmp_path: Path
) -> None:
    epochs = [(1, 0), (2, starts[1]), (5, starts[3])]
    master = FakeController(master_store, log_end, epochs)
    run = receive(master, tmp_path / "copy")
    assert run.code == 0, run.err
    assert log_bytes(tmp_path / "copy", log_end) == log_bytes(master_store, log_end)
    assert epochs_of(tmp_path / "copy") == epochs
    assert master.handshakes == [(0, 1, -1)]


def test_a_copy_can_begin_at_the_last_segment(
    master_store: Path, log_end: int, starts: list[int], tmp_path: Path
) -> None:
    master = FakeController(master_store, log_end, [(1, 0), (2, starts[1])])
    run = receive(master, tmp_path / "copy", "--from-offset", "last-segment")
    assert (run.code, run.json["log_start"]) == (0, log_end - log_end % 16384), run.err
    assert master.handshakes == [(1, 1, -1)]
    assert epochs_of(tmp_path / "copy") == [(2, starts[1])]


def test_a_copy_that_was_cut_goes_on_in_the_same_epochs(
    master_store: Path, log_end: int, starts: list[int], tmp_path: Path
) -> None:
    epochs = [(1, 0), (2, starts[1]), (5, starts[5])]
    cut = FakeController(master_store, log_end, epochs)
    cut.cut_after = log_end // 2
    assert receive(cut, tmp_path / "copy").code == 5
    run = receive(FakeController(master_store, log_end, epochs), tmp_path / "copy")
    assert run.code == 0, run.err
    assert run.json["resumed_at"] > 0
    assert log_bytes(tmp_path / "copy", log_end) == log_bytes(master_store, log_end)
    assert epochs_of(tmp_path / "copy") == epochs


@pytest.mark.parametrize("other", [[(7, 0)], [(1, 0), (2, 1000)], [(1, 5)]])
def test_another_history_is_found_before_a_byte_is_copied(
    other: list[tuple[int, int]], master_store: Path, log_end: int, tmp_path: Path
) -> None:
    """The copy has one epoch up to its end; the master has another, or the same one shorter."""
    to = tmp_path / "copy"
    assert receive(FakeController(master_store, log_end, [(1, 0)]), to).code == 0
    before = {path: path.read_bytes() for path in to.rglob("*") if path.is_file()}
    run = receive(FakeController(master_store, log_end, other), to)
    assert run.code == 4, run.err
    assert "epoch" in run.err
    assert {path: path.read_bytes() for path in to.rglob("*") if path.is_file()} == before


def test_a_copy_made_without_a_controller_takes_up_epochs(master_store: Path, log_end: int, tmp_path: Path) -> None:
    to = tmp_path / "copy"
    with FakeMaster(honest(master_store, log_end)) as master:
        words = ("--set", "mappedFileSizeCommitLog=16384", "receive", master.address, "--to", to)
        assert rmqctl(*words).code == 0
    assert receive(FakeController(master_store, log_end, [(3, 0)]), to).code == 0
    assert epochs_of(to) == [(3, 0)]


@pytest.mark.parametrize("state", ["answer_state", "frame_state"])
def test_a_master_in_another_state_is_refused(state: str, master_store: Path, log_end: int, tmp_path: Path) -> None:
    master = FakeController(master_store, log_end, [(1, 0)])
    setattr(master, state, 3)
    run = receive(master, tmp_path / "copy")
    assert run.code == 4, run.err
    assert "state 3" in run.err


def test_a_damaged_epoch_file_is_an_error_that_names_it(master_store: Path, log_end: int, tmp_path: Path) -> None:
    to = tmp_path / "copy"
    (to / "commitlog").mkdir(parents=True)
    (to / "epochFileCheckpoint").write_text("1\n5\n1-0\n")
    run = receive(FakeController(master_store, log_end, [(1, 0)]), to)
    assert (run.code, "epochFileCheckpoint" in run.err) == (4, True), run.err


def test_the_file_has_a_count_a_crc_and_a_line_for_each_epoch() -> None:
    data = encode_epochs([Epoch(1, 0), Epoch(2, 4096)])
    lines = b"1-0\n2-4096\n"
    assert data == b"2\n%d\n" % (zlib.crc32(lines) & 0x7FFFFFFF) + lines
    assert decode_epochs(data) == [(1, 0), (2, 4096)]
    assert decode_epochs(b"1\n0\n1-0\n") == [(1, 0)]


@pytest.mark.parametrize("data", [b"0\nx\n", b"x\n0\n", b"0\n0"])
def test_a_count_and_a_crc_come_first(data: bytes) -> None:
    with pytest.raises(ValueError, match="no count and CRC in the first two lines"):
        decode_epochs(data)


def test_the_file_before_is_kept_and_a_leftover_is_in_no_ones_way(tmp_path: Path) -> None:
    (tmp_path / "epochFileCheckpoint.tmp").write_bytes(b"from a run that was killed, and longer than an epoch file")
    noted = [Epoch(1, 0), Epoch(2, 10), Epoch(3, 20)]
    for epoch in noted:
        EpochFile(tmp_path, Filesystem()).note(epoch)
    files = {path.name: decode_epochs(path.read_bytes()) for path in tmp_path.iterdir()}
    assert files == {"epochFileCheckpoint": noted, "epochFileCheckpoint.bak": noted[:2]}


@pytest.mark.parametrize("epoch", [Epoch(1, 20), Epoch(2, 10), Epoch(1, 10), Epoch(0, 30), Epoch(3, 5)])
def test_an_epoch_is_noted_once_and_in_order_alone(epoch: Epoch, tmp_path: Path) -> None:
    file = EpochFile(tmp_path, Filesystem())
    file.note(Epoch(1, 10))
    file.note(epoch)
    assert file.entries == [(1, 10)]


@pytest.mark.parametrize(("count", "is_taken"), [(0, True), (1000, True), (1001, False)])
def test_a_master_may_have_a_thousand_epochs(
    count: int, is_taken: bool, master_store: Path, log_end: int, tmp_path: Path
) -> None:
    epochs = [(number, number) for number in range(count)]
    with FakeController(master_store, log_end, epochs) as master:
        table, refused = (
            EpochFile(tmp_path, Filesystem()),
            pytest.raises(ReplicationError, match="answers the handshake"),
        )
        with nullcontext() if is_taken else refused:
            AutoSwitchLink(
                Address.parse(master.address), stall_s=60, epochs=table, copy_end=lambda: 0, from_last_segment=False
            ).close()


@pytest.mark.parametrize(("copy_end", "kept"), [(99, 1), (100, 1), (101, 2)])
def test_epochs_behind_the_copys_end_are_dropped(
    copy_end: int, kept: int, master_store: Path, log_end: int, tmp_path: Path
) -> None:
    table, epochs = EpochFile(tmp_path, Filesystem()), [Epoch(1, 0), Epoch(2, 100)]
    table.entries = [*epochs]
    with FakeController(master_store, log_end, epochs) as master:
        AutoSwitchLink(
            Address.parse(master.address), stall_s=60, epochs=table, copy_end=lambda: copy_end, from_last_segment=False
        ).close()
    assert table.entries == epochs[:kept]


def test_a_master_that_does_not_shake_hands_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switch_link, "HANDSHAKE_TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = Address(*server.getsockname())
        with pytest.raises(LinkLost, match=r"did not answer the handshake in 0\.1 s"):
            AutoSwitchLink(
                address, stall_s=60, epochs=EpochFile(tmp_path, Filesystem()), copy_end=lambda: 0,
                from_last_segment=False,
            )  # fmt: skip


@pytest.mark.parametrize(
    "data", [b"", b"1\n0\n", b"2\n0\n1-0\n", b"1\n7\n1-0\n", b"1\n0\n1:0\n", b"x\n0\n", b"1\n0", b"1"]
)
def test_a_damaged_file_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        decode_epochs(data)


@pytest.mark.parametrize(
    ("own", "own_end", "others", "others_end", "end"),
    [
        ([(1, 0)], 100, [(1, 0)], 100, 100),
        ([(1, 0)], 100, [(1, 0)], 80, 80),
        ([(1, 0)], 80, [(1, 0)], 100, 80),
        ([(1, 0)], 100, [(1, 0), (2, 60)], 200, 60),
        ([(1, 0), (2, 60)], 100, [(1, 0), (3, 70)], 200, 60),
        ([(1, 0), (2, 60)], 100, [(2, 60)], 200, 100),
        ([(1, 0), (2, 60)], 100, [(2, 50)], 200, None),
        ([(1, 0)], 100, [(2, 0)], 100, None),
        ([(1, 0)], 100, [], 0, None),
    ],
)
def test_logs_are_the_same_up_to_the_end_of_their_newest_common_epoch(
    own: list[tuple[int, int]], own_end: int, others: list[tuple[int, int]], others_end: int, end: int | None
) -> None:
    assert consistent_end([Epoch(*one) for one in own], own_end, [Epoch(*one) for one in others], others_end) == end
