"""The entries of the checkpoint and of an extension file, and what a broker in controller mode has confirmed."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.errors import StoreIOError
from store.files.store_reader import StoreReader
from store.formats.checkpoint_page import FIELD_NAMES, CheckpointPage
from store.formats.queue_unit import EXT_UNIT_NAMES, ExtUnit, encode_ext_address
from store.structures.checkpoint import files as checkpoint_files
from store.structures.checkpoint import rows as checkpoint
from store.structures.entry import Asked, Entry
from store.structures.extension import rows as extension

Row = tuple[object, ...]


def row(one: Entry) -> Row:
    return one.kind, one.path, one.number, one.start, one.data, one.extra, one.is_fault


def spans(one: Entry) -> list[tuple[str, int, int, object]]:
    return [(field.name, field.start, field.size, field.value) for field in one.fields]


def entries(room: Any, root: Path) -> list[Entry]:
    reader = StoreReader(str(root))
    return [one for file in room.files(reader, Asked()) for one in room.rows(reader, file, Asked())]


@pytest.mark.parametrize(
    ("page", "count", "rest"),
    [
        (CheckpointPage(1, 2, 3, 4, 5, 0), 5, b""),
        (CheckpointPage(1, 2, 3, 4, 5, 6), 6, b""),
        (CheckpointPage(1, 2, 3, 4, 5, 0, b"\0\7"), 5, b"\0\7"),
        (CheckpointPage(1, 2, 3, 4, 5, 6, b"\7"), 6, b"\7"),
    ],
)
def test_a_checkpoint_has_the_fields_that_its_broker_knows_and_the_unknown_bytes_behind(
    page: CheckpointPage, count: int, rest: bytes, tmp_path: Path
) -> None:
    (tmp_path / "checkpoint").write_bytes(page.encode())
    first, *others = entries(checkpoint, tmp_path)
    assert row(first) == ("checkpoint", "checkpoint", 0, 0, page.encode()[: 8 * count], {}, False)
    assert spans(first) == [(name, 8 * at, 8, page[at]) for at, name in enumerate(FIELD_NAMES[:count])]
    unknown = {"detail": "a field that 5.5 does not know"}
    assert [row(one) for one in others] == ([("unknown", "checkpoint", 0, 48, rest, unknown, False)] if rest else [])
    assert [spans(one) for one in others] == ([[("rest", 0, len(rest), rest)]] if rest else [])


@pytest.mark.parametrize(
    ("size", "count", "detail"),
    [
        (0, 0, "the file is empty"),
        (1, 0, "the file has 1 byte of 4096"),
        (8, 1, "the file has 8 bytes of 4096"),
        (23, 2, "the file has 23 bytes of 4096"),
        (24, 5, ""),
        (25, 5, ""),
    ],
)
def test_a_short_checkpoint_is_a_fault_unless_it_holds_what_every_broker_reads(
    size: int, count: int, detail: str, tmp_path: Path
) -> None:
    data = CheckpointPage(1, 2, 3).encode()[:size]
    (tmp_path / "checkpoint").write_bytes(data)
    [found] = entries(checkpoint, tmp_path)
    extra = {"detail": detail} if detail else {}
    assert row(found) == (
        "checkpoint",
        "checkpoint",
        0,
        0,
        data if detail else data.ljust(40, b"\0")[:40],
        extra,
        bool(detail),
    )
    assert [one[:3] for one in spans(found)] == [(name, 8 * at, 8) for at, name in enumerate(FIELD_NAMES[:count])]


def test_a_store_without_a_checkpoint_has_no_entry_of_one(tmp_path: Path) -> None:
    assert entries(checkpoint, tmp_path) == []


ONE, TWO = ExtUnit(7, 8, b"abc"), ExtUnit(9, 10, b"")
DAMAGE, END = "neither an entry nor the end mark", "end mark: the rest is unused"


@pytest.mark.parametrize(
    ("behind", "last"),
    [
        (b"", None),
        (b"\0\0\0\0\1", None),
        (b"\xff\xff\0\0\1", ("end", b"\xff\xff\0\0", END, False)),
        (b"\xff\xfe\0\0\1", ("damage", b"\xff\xfe\0\0", DAMAGE, True)),
        (b"\0\0\0\1\1", ("damage", b"\0\0\0\1", DAMAGE, True)),
    ],
)
def test_an_extension_file_has_its_units_and_what_is_behind_them(
    behind: bytes, last: tuple[str, bytes, str, bool] | None, tmp_path: Path
) -> None:
    path = "consumequeue_ext/T/0/00000000000000001000"
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / "consumequeue/T/0").mkdir(parents=True)
    (tmp_path / "consumequeue/T/0" / ("0" * 20)).write_bytes(bytes(20))
    (tmp_path / path).write_bytes(ONE.encode() + TWO.encode() + behind)
    found = entries(extension, tmp_path)
    wanted: list[Row] = [
        ("unit", path, 1000 + at, at, unit.encode(), {"ext_address": encode_ext_address(1000 + at)}, False)
        for at, unit in ((0, ONE), (23, TWO))
    ]
    if last is not None:
        kind, data, detail, is_fault = last
        wanted.append((kind, path, 1043, 43, data, {"detail": detail}, is_fault))
    assert [row(one) for one in found] == wanted
    assert spans(found[0]) == [
        *zip(EXT_UNIT_NAMES, (0, 2, 10, 18), (2, 8, 8, 2), (23, 7, 8, 3), strict=True),
        ("bit_map", 20, 3, b"abc"),
    ]


@pytest.mark.parametrize(
    ("confirmed", "epochs", "given"), [(-1, True, None), (0, True, None), (1, True, 1), (5, True, 5), (5, False, None)]
)
def test_an_offset_is_confirmed_in_controller_mode_alone(
    confirmed: int, epochs: bool, given: int | None, tmp_path: Path
) -> None:
    (tmp_path / "checkpoint").write_bytes(CheckpointPage(confirm_log_offset=confirmed).encode())
    if epochs:
        (tmp_path / "epochFileCheckpoint").touch()
    assert checkpoint_files.confirmed_offset(StoreReader(str(tmp_path))) == given


@pytest.mark.parametrize(("number", "promises"), [(None, False), (errno.EIO, False), (errno.EACCES, True)])
def test_a_checkpoint_that_the_device_does_not_give_promises_nothing(number: int | None, promises: bool) -> None:
    def refuse(name: str) -> bytes:
        error = StoreIOError("refused")
        error.errno = number
        raise error

    files = cast(Any, SimpleNamespace(exists=lambda name: True, read=refuse))
    if promises:
        with pytest.raises(StoreIOError, match="refused"):
            checkpoint_files.read_page(files)
    else:
        assert checkpoint_files.read_page(files) == (CheckpointPage(), None)
