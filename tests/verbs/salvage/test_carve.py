"""Records carved from an image: shuffled extents of segments with other data between."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from store.errors import BadRequest
from store.files.filesystem import Filesystem
from store.formats.message import BLANK_MAGIC, BLANK_SIZE, MESSAGE_MAGIC_V1, RECORD_MIN_SIZE
from store.verbs.salvage.carve import BLOCK_SIZE, DEFAULT_SEGMENT_SIZE, infer_segment_size, place_blocks, write_segments
from tests.cli.running import rmqctl
from tests.support.golden import golden
from tests.support.salvaging import image_of, records_of


def carved(image: Path, folder: Path) -> dict[int, bytes]:
    write_segments(image, place_blocks(image, Filesystem()), folder, Filesystem())
    return {offset: data for offset, (_, data) in records_of(folder).items()}


@pytest.mark.parametrize("name", ["many", "normal", "batch"])
@pytest.mark.parametrize("seed", range(3))
def test_every_record_comes_back_from_shuffled_extents(name: str, seed: int, tmp_path: Path) -> None:
    image_of(name, tmp_path / "image", random.Random(seed))
    written = {offset: data for offset, (_, data) in records_of(golden(name).store).items()}
    assert carved(tmp_path / "image", tmp_path / "segments") == written


def test_records_of_extents_that_are_there_come_back_without_the_others(tmp_path: Path) -> None:
    image_of("many", tmp_path / "image", random.Random(1), lost=3)
    written = {offset: data for offset, (_, data) in records_of(golden("many").store).items()}
    found = carved(tmp_path / "image", tmp_path / "segments")
    assert 0 < len(found) < len(written)
    assert found.items() <= written.items()


def test_a_damaged_log_offset_of_its_first_record_does_not_misplace_a_block(tmp_path: Path) -> None:
    data = bytearray(golden("many").log[0])
    written = {offset: one for offset, (_, one) in records_of(golden("many").store).items() if offset < len(data)}
    first = min(offset for offset in written if offset > BLOCK_SIZE)
    data[first + 33] ^= 1
    (tmp_path / "image").write_bytes(data)
    assert carved(tmp_path / "image", tmp_path / "segments").items() >= (written.items() - {(first, written[first])})


def test_an_image_without_a_log_gives_nothing(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(random.Random(1).randbytes(100_000))
    assert not place_blocks(tmp_path / "image", Filesystem())


@pytest.mark.parametrize("name", ["many", "normal", "torn"])
def test_the_size_of_segments_is_inferred_from_the_blanks_at_their_ends(name: str, tmp_path: Path) -> None:
    image_of(name, tmp_path / "image", random.Random(5))
    placed = place_blocks(tmp_path / "image", Filesystem())
    sizes = {one.stat().st_size for one in (golden(name).store / "commitlog").iterdir()}
    assert {infer_segment_size(tmp_path / "image", placed, Filesystem())} == sizes


def test_segments_have_the_default_size_where_no_blank_tells() -> None:
    assert infer_segment_size(golden("many").store / "checkpoint", {}, Filesystem()) == DEFAULT_SEGMENT_SIZE == 1 << 30


@pytest.mark.parametrize("settings", [(), ("--set", "mappedFileSizeCommitLog=16384")])
def test_a_whole_log_in_an_image_has_no_gaps(settings: tuple[str, ...], tmp_path: Path) -> None:
    image_of("many", tmp_path / "image", random.Random(7))
    run = rmqctl("--format", "json", *settings, "salvage", "--raw", tmp_path / "image")
    names = [one.name for one in sorted((golden("many").store / "commitlog").iterdir())]
    assert (run.code, run.json["gaps"], run.json["source_files"]) == (0, [], names)


def test_one_segment_of_the_middle_has_nothing_lost_in_front_of_it() -> None:
    segment = golden("many").store / "commitlog" / f"{32768:020d}"
    run = rmqctl("--format", "json", "salvage", "--raw", segment)
    assert (run.code, run.json["gaps"], run.json["source_files"]) == (0, [], [segment.name])


def test_a_segment_size_that_is_not_whole_blocks_is_refused() -> None:
    segment = golden("many").store / "commitlog" / f"{32768:020d}"
    run = rmqctl("--set", "mappedFileSizeCommitLog=1000", "salvage", "--raw", segment)
    assert (run.code, "not whole blocks" in run.err) == (2, True)


def head(log_offset: int, size: int = 200) -> bytes:
    """What is read of a record: its size, magic and log offset."""
    return (size.to_bytes(4, "big") + MESSAGE_MAGIC_V1.to_bytes(4, "big", signed=MESSAGE_MAGIC_V1 < 0)).ljust(
        28, b"\0"
    ) + log_offset.to_bytes(8, "big")


@pytest.mark.parametrize(
    ("at", "log_offset", "size", "placed"),
    [
        (0, 0, 200, {0: BLOCK_SIZE}),
        (0, 8192, 200, {8192: BLOCK_SIZE}),
        (0, 8193, 200, {}),
        (7, 8192 + 7, 200, {8192: BLOCK_SIZE}),
        (7, 6, 200, {}),
        (0, 8192, RECORD_MIN_SIZE - 1, {}),
        (0, 8192, RECORD_MIN_SIZE, {8192: BLOCK_SIZE}),
        (0, 8192, (8 << 20) + 1, {}),
        (0, 8192, BLOCK_SIZE - BLANK_SIZE, {8192: BLOCK_SIZE}),
        (0, 8192, BLOCK_SIZE - BLANK_SIZE + 1, {8192: BLOCK_SIZE, 12288: 2 * BLOCK_SIZE}),
        (0, 8192, 2 * BLOCK_SIZE - BLANK_SIZE, {8192: BLOCK_SIZE, 12288: 2 * BLOCK_SIZE}),
        (0, 8192, 8 << 20, {8192: BLOCK_SIZE, 12288: 2 * BLOCK_SIZE, 16384: 3 * BLOCK_SIZE}),
        (0, (1 << 56) - BLOCK_SIZE, 200, {(1 << 56) - BLOCK_SIZE: BLOCK_SIZE}),
        (0, 1 << 56, 200, {}),
        (BLOCK_SIZE * 3 - 36, 8192 + BLOCK_SIZE * 3 - 36, 200, {8192 + 2 * BLOCK_SIZE: 3 * BLOCK_SIZE}),
    ],
)
def test_a_block_has_the_place_that_a_record_in_it_names(
    at: int, log_offset: int, size: int, placed: dict[int, int], tmp_path: Path
) -> None:
    image = bytearray(4 * BLOCK_SIZE)
    image[BLOCK_SIZE + at : BLOCK_SIZE + at + 36] = head(log_offset, size)
    (tmp_path / "image").write_bytes(image)
    assert place_blocks(tmp_path / "image", Filesystem()) == placed


def test_a_large_record_goes_on_up_to_a_block_that_names_another_place(tmp_path: Path) -> None:
    image = bytearray(5 * BLOCK_SIZE)
    for block, log_offset, size in ((1, 8192, 4 * BLOCK_SIZE), (3, 40960, 200)):
        image[BLOCK_SIZE * block : BLOCK_SIZE * block + 36] = head(log_offset, size)
    (tmp_path / "image").write_bytes(image)
    expected = {8192: BLOCK_SIZE, 12288: 2 * BLOCK_SIZE, 40960: 3 * BLOCK_SIZE}
    assert place_blocks(tmp_path / "image", Filesystem()) == expected


def test_a_head_that_the_image_cuts_places_no_block(tmp_path: Path) -> None:
    for size, placed in ((36, {4096: 0}), (35, {}), (28, {}), (8, {})):
        (tmp_path / "image").write_bytes(head(4096)[:size])
        assert place_blocks(tmp_path / "image", Filesystem()) == placed


@pytest.mark.parametrize(("size", "is_whole"), [(-BLOCK_SIZE, False), (0, False), (4095, False), (4096, True)])
def test_segments_are_of_whole_blocks(size: int, is_whole: bool, tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(head(4096).ljust(BLOCK_SIZE, b"\0"))
    if is_whole:
        write_segments(tmp_path / "image", {4096: 0}, tmp_path / "made", Filesystem(), size)
        assert (tmp_path / "made" / f"{4096:020d}").read_bytes() == (tmp_path / "image").read_bytes()
    else:
        with pytest.raises(BadRequest, match=f"segments of {size} bytes are not whole blocks of 4096"):
            write_segments(tmp_path / "image", {4096: 0}, tmp_path / "made", Filesystem(), size)


def blank(size: int) -> bytes:
    return size.to_bytes(4, "big") + BLANK_MAGIC.to_bytes(4, "big", signed=BLANK_MAGIC < 0)


# The log offset of the first block, what the image has at its first record's log offset, and where a blank ends.
@pytest.mark.parametrize(
    ("first", "stored", "blank_end", "size"),
    [
        (49152, 49152, 65536, 16384),
        (49152, 49153, 65536, 65536),
        (0, 0, 65536, 65536),
        (49152, 49152, 65537, 49152),
        (0, 1, 0, DEFAULT_SEGMENT_SIZE),
    ],
)
def test_the_first_block_begins_a_segment_if_a_record_begins_it(
    first: int, stored: int, blank_end: int, size: int, tmp_path: Path
) -> None:
    image = b"\xff" * 28 + stored.to_bytes(8, "big") + b"\xff" * (BLOCK_SIZE - 36)
    at = BLOCK_SIZE + 100
    image += b"\xff" * 100 + blank(blank_end - first - at if blank_end else BLOCK_SIZE)
    (tmp_path / "image").write_bytes(image.ljust(2 * BLOCK_SIZE, b"\xff"))
    placed = {first: 0, first + BLOCK_SIZE: BLOCK_SIZE}
    assert infer_segment_size(tmp_path / "image", placed, Filesystem()) == size
