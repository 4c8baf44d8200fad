"""The epochs of a log: their file, what it refuses, and where two logs have the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.errors import DamagedFile
from store.files.filesystem import Filesystem
from store.formats.java import crc32
from store.structures.epochs.files import Epoch, EpochFile, consistent_end, decode_epochs, encode_epochs

ENTRIES = [Epoch(1, 0), Epoch(2, 4096)]
LINES = b"1-0\n2-4096\n"
NAME = "epochFileCheckpoint"


def test_entries_are_lines_after_their_count_and_crc() -> None:
    data = encode_epochs(ENTRIES)
    assert data == b"2\n%d\n" % crc32(LINES) + LINES
    assert decode_epochs(data) == decode_epochs(b"2\n0\n" + LINES) == ENTRIES
    assert decode_epochs(encode_epochs([])) == []


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "no count and CRC in the first two lines"),
        (b"0\n0", "no count and CRC in the first two lines"),
        (b"x\n0\n", "no count and CRC in the first two lines"),
        (b"0\nx\n", "no count and CRC in the first two lines"),
        (b"2\n1\n" + LINES, f"the lines have the CRC {crc32(LINES)}, the second line says 1"),
        (b"1\n0\n" + LINES, "2 of 2 lines are epochs, the first line says 1"),
        (b"3\n0\n" + LINES, "2 of 2 lines are epochs, the first line says 3"),
        (b"2\n0\n" + LINES + b"x\n", "2 of 3 lines are epochs, the first line says 2"),
        (b"1\n0\n-1-0\n", "0 of 1 lines are epochs, the first line says 1"),
        (b"1\n0\n12345678901-0\n", "0 of 1 lines are epochs, the first line says 1"),
    ],
)
def test_another_file_is_refused_with_its_fault(data: bytes, fault: str) -> None:
    with pytest.raises(ValueError, match=f"^{fault}$"):
        decode_epochs(data)


@pytest.mark.parametrize(
    ("epoch", "is_noted"),
    [(Epoch(3, 4097), True), (Epoch(2, 4097), False), (Epoch(3, 4096), False), (Epoch(1, 9999), False)],
)
def test_an_epoch_is_noted_if_both_its_numbers_are_higher(epoch: Epoch, is_noted: bool, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(encode_epochs(ENTRIES))
    file = EpochFile(tmp_path, Filesystem())
    file.note(epoch)
    wanted = [*ENTRIES, epoch] if is_noted else ENTRIES
    assert file.entries == EpochFile(tmp_path, Filesystem()).entries == wanted
    names = {NAME, f"{NAME}.bak"} if is_noted else {NAME}
    assert {one.name for one in tmp_path.iterdir()} == names
    if is_noted:
        assert (tmp_path / f"{NAME}.bak").read_bytes() == encode_epochs(ENTRIES)


def test_the_first_epoch_may_begin_at_0(tmp_path: Path) -> None:
    file = EpochFile(tmp_path, Filesystem())
    file.note(Epoch(0, 0))
    assert EpochFile(tmp_path, Filesystem()).entries == [Epoch(0, 0)]


@pytest.mark.parametrize(
    ("own", "bak", "entries"),
    [
        (None, None, []),
        (None, encode_epochs(ENTRIES), ENTRIES),
        (b"x", encode_epochs(ENTRIES), ENTRIES),
        (encode_epochs(ENTRIES[:1]), encode_epochs(ENTRIES), ENTRIES[:1]),
        (b"x", None, None),
        (b"x", b"y", None),
    ],
)
def test_a_lost_or_damaged_file_is_read_from_its_bak(
    own: bytes | None, bak: bytes | None, entries: list[Epoch] | None, tmp_path: Path
) -> None:
    for name, data in ((NAME, own), (f"{NAME}.bak", bak)):
        if data is not None:
            (tmp_path / name).write_bytes(data)
    if entries is not None:
        assert EpochFile(tmp_path, Filesystem()).entries == entries
        return
    with pytest.raises(DamagedFile) as caught:
        EpochFile(tmp_path, Filesystem())
    assert Path(str(caught.value.file)).name == (NAME if bak is None else f"{NAME}.bak")


@pytest.mark.parametrize(
    ("log_offset", "left"), [(0, []), (1, ENTRIES[:1]), (4096, ENTRIES[:1]), (4097, ENTRIES), (9999, ENTRIES)]
)
def test_epochs_from_a_cut_on_are_dropped(log_offset: int, left: list[Epoch], tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(encode_epochs(ENTRIES))
    file = EpochFile(tmp_path, Filesystem())
    file.drop_from(log_offset)
    assert file.entries == left


@pytest.mark.parametrize(
    ("own", "own_end", "others", "others_end", "end"),
    [
        ([(1, 0), (2, 40)], 90, [(1, 0), (2, 40)], 70, 70),
        ([(1, 0), (2, 40)], 60, [(1, 0), (2, 40)], 70, 60),
        ([(1, 0), (2, 40)], 90, [(1, 0), (3, 50)], 70, 40),
        ([(1, 0), (2, 40)], 90, [(1, 0), (3, 30)], 70, 30),
        ([(1, 0)], 90, [(1, 0), (3, 30)], 70, 30),
        ([(1, 0), (2, 40), (4, 60)], 90, [(1, 0), (2, 40), (3, 50)], 70, 50),
        ([(1, 0)], 90, [(2, 0)], 70, None),
        ([], 90, [(2, 0)], 70, None),
        ([(1, 0)], 90, [], 70, None),
    ],
)
def test_two_logs_agree_up_to_the_end_of_their_newest_common_epoch(
    own: list[tuple[int, int]], own_end: int, others: list[tuple[int, int]], others_end: int, end: int | None
) -> None:
    given = [Epoch(*one) for one in own], own_end, [Epoch(*one) for one in others], others_end
    assert consistent_end(*given) == end
