"""Records carved from an image: shuffled extents of segments with other data between."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from store.files.filesystem import Filesystem
from store.verbs.salvage.carve import (
    BLOCK_SIZE,
    DEFAULT_SEGMENT_SIZE,
    infer_segment_size,
    place_blocks,
    write_segments,
)
from tests.cli.running import rmqctl
from tests.support.golden import golden
from tests.verbs.salvage.test_salvage import records_of


def image_of(name: str, path: Path, rng: random.Random, *, lost: int = 0) -> None:
    """An image of a store's segments in shuffled extents of whole blocks; `lost` of the extents are not in it."""
    extents = []
    for segment in sorted((golden(name).store / "commitlog").iterdir()):
        data, at = segment.read_bytes(), 0
        while at < len(data):
            size = rng.randrange(1, 5) * BLOCK_SIZE
            extents.append(data[at : at + size])
            at += size
    rng.shuffle(extents)
    noise = [rng.randbytes(rng.randrange(0, 3) * BLOCK_SIZE) for _ in extents]
    path.write_bytes(b"".join(part for pair in zip(extents[lost:], noise, strict=False) for part in pair))


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
    assert infer_segment_size(golden("many").store / "checkpoint", {}, Filesystem()) == DEFAULT_SEGMENT_SIZE


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
