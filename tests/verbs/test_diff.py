"""Two stores held against each other."""

from __future__ import annotations

from pathlib import Path

from rmqctl.commands.diff import _verdict
from store.files.store_reader import StoreReader
from store.formats.queue_unit import PRE_BLANK, QueueUnit
from store.layout import segment_name
from store.verbs.diff import FirstDifference, Range, StoreDiff, _merged, diff_stores
from tests.cli.running import rmqctl
from tests.conftest import CopyOf
from tests.support.logs import record
from tests.support.stores import overwrite


def diff(a: Path, b: Path, *, deep: bool = False) -> StoreDiff:
    return diff_stores(StoreReader(str(a)), StoreReader(str(b)), deep=deep)


def test_copies_are_equal_whatever_lies_behind_the_log(copy_of: CopyOf) -> None:
    source, root = copy_of("normal")
    last = sorted((root / "commitlog").iterdir())[-1]
    overwrite(last, last.stat().st_size - 100, b"stale bytes")
    assert diff(source.store, root, deep=True).is_equal


def test_the_first_differing_record_is_explained(copy_of: CopyOf) -> None:
    source, root = copy_of("many")
    segment = sorted((root / "commitlog").iterdir())[1]
    overwrite(segment, 63, b"\x07")
    found = diff(source.store, root)
    assert found.first is not None
    assert (found.first.log_offset, found.first.field) == (int(segment.name), "store_timestamp_ms")
    assert found.differing_records == 1


def test_bytes_outside_of_the_columns_differ_only_deep(copy_of: CopyOf) -> None:
    source, root = copy_of("many")
    segment = sorted((root / "commitlog").iterdir())[1]
    overwrite(segment, 47, bytes([segment.read_bytes()[47] ^ 1]))
    assert diff(source.store, root).first is None
    deep = diff(source.store, root, deep=True).first
    assert deep is not None
    assert (deep.log_offset, deep.field) == (int(segment.name), "byte 47 of the record")


def test_ranges_that_one_store_lacks_are_named(copy_of: CopyOf) -> None:
    source, root = copy_of("many")
    segment = sorted((root / "commitlog").iterdir())[1]
    segment.unlink()
    (only,) = diff(source.store, root).only_a
    assert only.start == int(segment.name)
    assert diff(root, source.store).only_b == [Range(only.start, only.end)]


def test_a_zeroed_head_hides_no_later_record(copy_of: CopyOf) -> None:
    source, root = copy_of("many")
    segment = sorted((root / "commitlog").iterdir())[1]
    size = int.from_bytes(segment.read_bytes()[:4], "big")
    overwrite(segment, 0, bytes(size))
    found = diff(source.store, root)
    assert (found.only_a, found.only_b) == ([Range(int(segment.name), int(segment.name) + size)], [])
    assert found.differing_records == 0


def test_a_difference_is_exit_code_1(copy_of: CopyOf) -> None:
    source, root = copy_of("normal")
    assert rmqctl("diff", source.store, root).code == 0
    overwrite(min((root / "consumequeue/TopicA/0").iterdir()), 0, b"\0\0\0\0\0\0\0\1")
    assert rmqctl("diff", source.store, root).code == 1


def test_the_verdict_says_that_bodies_were_not_compared_unless_deep(copy_of: CopyOf) -> None:
    source, root = copy_of("normal")
    assert "bodies not compared" in rmqctl("diff", source.store, root).out.splitlines()[0]
    assert rmqctl("diff", "--deep", source.store, root).out.splitlines()[0] == "the stores hold the same"


def test_deep_names_each_differing_record_among_adjacent_ones(copy_of: CopyOf) -> None:
    source, root = copy_of("normal")
    segment = sorted((root / "commitlog").iterdir())[0]
    data = segment.read_bytes()
    first, third = (data.index(b"hello", start) for start in (0, 20_000))
    for at in (first, third):
        overwrite(segment, at, b"HELLO")
    found = diff(source.store, root, deep=True)
    assert (found.differing_records, found.same_records) == (2, 498)
    assert diff(source.store, root).is_equal


def test_ranges_of_adjacent_records_are_one_over_segments_too_and_the_rest_is_counted(tmp_path: Path) -> None:
    size = len(record())
    starts = [number * size for number in range(7)]
    first = b"".join(record(position=start) for start in starts[:2])
    second = [record(position=start) for start in starts[2:]]
    lost = b"\0\0\0\1" + bytes(size - 4)
    later = record(position=starts[4], store_timestamp_ms=1_700_000_000_001)
    for name, files in {
        "a": {0: first, starts[2]: b"".join(second)},
        "b": {starts[2]: b"".join([lost, second[1], later, lost, second[4]])},
    }.items():
        (tmp_path / name / "commitlog").mkdir(parents=True)
        for number, data in files.items():
            (tmp_path / name / "commitlog" / segment_name(number)).write_bytes(data)
    only = [Range(0, starts[3]), Range(starts[5], starts[6])]
    explained = FirstDifference(starts[4], "store_timestamp_ms", 1_700_000_000_000, 1_700_000_000_001)
    assert diff(tmp_path / "a", tmp_path / "b") == StoreDiff(explained, 1, 2, only, [], [])
    reverse = FirstDifference(starts[4], "store_timestamp_ms", 1_700_000_000_001, 1_700_000_000_000)
    assert diff(tmp_path / "b", tmp_path / "a") == StoreDiff(reverse, 1, 2, [], only, [])


def test_ranges_that_touch_are_merged_in_any_order() -> None:
    ranges = [Range(12, 13), Range(4, 6), Range(0, 2), Range(8, 9), Range(2, 4), Range(9, 10), Range(13, 14)]
    assert _merged(ranges) == [Range(0, 6), Range(8, 10), Range(12, 14)]


def test_the_verdict_counts_the_ranges_of_both_stores() -> None:
    found = StoreDiff(None, 1, 7, [Range(0, 90)], [Range(180, 270), Range(360, 450)], [])
    assert _verdict(found) == "different: 1 record, 0 queues; 3 ranges of the log in one store only"


ONE, TWO, THREE = (QueueUnit(100 * number, 50, number) for number in (1, 2, 3))


def test_a_row_has_the_extent_of_a_queue_in_both_stores(tmp_path: Path) -> None:
    queues = {
        "a": {"S/0": [ONE, TWO], "T/0": [ONE, TWO], "T/1": [PRE_BLANK, TWO], "U/-3": [ONE, TWO]},
        "b": {"S/0": [ONE, TWO], "T/0": [ONE, THREE], "T/1": [ONE, TWO, THREE], "V/0": [ONE]},
    }
    for store, units_of in queues.items():
        (tmp_path / store / "commitlog").mkdir(parents=True)
        for name, units in units_of.items():
            (tmp_path / store / "consumequeue" / name).mkdir(parents=True)
            path = tmp_path / store / "consumequeue" / name / segment_name(0)
            path.write_bytes(b"".join(unit.encode() for unit in units))
    found = diff(tmp_path / "a", tmp_path / "b")
    assert [tuple(row.values()) for row in found.queues] == [
        ("T", 0, "entries differ", 0, 2, 0, 2),
        ("T", 1, "offsets differ", 1, 2, 0, 3),
        ("U", -3, "only in A", 0, 2, None, None),
        ("V", 0, "only in B", None, None, 0, 1),
    ]
    assert not found.is_equal
