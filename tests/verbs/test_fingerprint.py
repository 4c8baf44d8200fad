"""Digests that a copy and a restored backup share, and a changed store does not."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from store.files.store_reader import StoreReader
from store.formats.queue_unit import PRE_BLANK, UNIT_SIZE, QueueUnit
from store.verbs import fingerprint
from store.verbs.fingerprint import Digest, digest_differences, fingerprint_files
from tests.cli.running import rmqctl
from tests.conftest import CopyOf
from tests.support.logs import END_OF_FILE, record
from tests.support.stores import overwrite


def digest(root: Path) -> str:
    return fingerprint_files(StoreReader(str(root)))[1]


def test_stale_bytes_and_index_names_do_not_count(copy_of: CopyOf) -> None:
    _, root = copy_of("normal")
    before = digest(root)
    last = sorted((root / "commitlog").iterdir())[-1]
    overwrite(last, last.stat().st_size - 100, b"stale bytes")
    index = min((root / "index").iterdir())
    index.rename(index.with_name("20200101000000000"))
    assert digest(root) == before


def test_a_flipped_bit_in_a_record_changes_its_segment_alone(copy_of: CopyOf) -> None:
    _, root = copy_of("many")
    before = fingerprint_files(StoreReader(str(root)))[0]
    segment = sorted((root / "commitlog").iterdir())[2]
    overwrite(segment, 40, bytes([segment.read_bytes()[40] ^ 1]))
    (row,) = digest_differences(before, fingerprint_files(StoreReader(str(root)))[0])
    assert (row["kind"], row["name"], row["difference"]) == ("segment", segment.name, "differs")


def test_verify_exits_with_1_where_a_store_differs(copy_of: CopyOf, tmp_path: Path) -> None:
    _, root = copy_of("normal")
    (tmp_path / "before.json").write_text(rmqctl("--format", "json", "fingerprint", store=root).out)
    assert rmqctl("fingerprint", "--verify", tmp_path / "before.json", store=root).code == 0
    queue = min((root / "consumequeue/TopicA/0").iterdir())
    overwrite(queue, 0, b"\0\0\0\0\0\0\0\1")
    found = rmqctl("--format", "json", "fingerprint", "--verify", tmp_path / "before.json", store=root)
    assert (found.code, found.json["differences"][0]["name"]) == (1, "TopicA/0")


def test_a_file_without_a_fingerprint_is_refused(copy_of: CopyOf, tmp_path: Path) -> None:
    _, root = copy_of("normal")
    (tmp_path / "other.json").write_text("{}")
    assert rmqctl("fingerprint", "--verify", tmp_path / "other.json", store=root).code == 2


def test_the_digest_of_a_segment_is_that_of_its_bytes_up_to_its_last_record_or_blank(
    copy_of: CopyOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, root = copy_of("normal")
    monkeypatch.setattr(fingerprint, "CHUNK_BYTES", 5000)
    for one in fingerprint_files(StoreReader(str(root)))[0]:
        if one.kind == "segment":
            data = (root / "commitlog" / one.name).read_bytes()[: one.end - one.start]
            assert (one.sha256, len(data)) == (hashlib.sha256(data).hexdigest(), one.end - one.start)


def test_progress_rises_within_a_segment_up_to_all_segments(copy_of: CopyOf) -> None:
    _, root = copy_of("normal")
    reader, seen = StoreReader(str(root)), list[int]()
    fingerprint_files(reader, seen.append)
    sizes = [segment.size for segment in reader.segments()]
    assert seen == sorted(seen)
    assert seen[-1] == sum(sizes)
    assert min(seen) < min(sizes) // 2


def test_a_pipe_has_digests_whole_and_a_terminal_their_first_digits(copy_of: CopyOf) -> None:
    _, root = copy_of("normal")
    digest = fingerprint_files(StoreReader(str(root)))[0][0].sha256
    assert f"  {digest}\n" in rmqctl("fingerprint", store=root).out
    assert f"  {digest[:16]}…" in rmqctl("--format", "table", "fingerprint", store=root).out


A, B, C = (QueueUnit(100 * number, 50, number) for number in (1, 2, 3))
NONE = QueueUnit(0, 0, 0)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({0: [NONE, NONE]}, None),
        ({0: [PRE_BLANK, PRE_BLANK]}, None),
        ({0: [A, NONE]}, (0, 1, [A])),
        ({0: [A, B], 2: [C, NONE]}, (0, 3, [A, B, C])),
        ({0: [A, NONE], 2: [C, NONE]}, (0, 1, [A])),
        ({2: [A, B], 4: [NONE, NONE]}, (2, 4, [A, B])),
        ({2: [PRE_BLANK, B], 4: [C, NONE]}, (3, 5, [B, C])),
        ({0: [PRE_BLANK, PRE_BLANK], 2: [C, NONE]}, (2, 3, [C])),
    ],
)
def test_a_queue_has_the_digest_of_its_entries_between_the_pre_blank_and_the_unwritten_ones(
    files: dict[int, list[QueueUnit]], expected: tuple[int, int, list[QueueUnit]] | None, tmp_path: Path
) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "consumequeue/T/0").mkdir(parents=True)
    for first, units in files.items():
        path = tmp_path / f"consumequeue/T/0/{first * UNIT_SIZE:020d}"
        path.write_bytes(b"".join(unit.encode() for unit in units))
    rows, _ = fingerprint_files(StoreReader(str(tmp_path)))
    if expected is None:
        assert rows == []
    else:
        start, end, units = expected
        digest = hashlib.sha256(b"".join(unit.encode() for unit in units)).hexdigest()
        assert rows == [Digest("queue", "T/0", start, end, digest, "")]


SIZE = len(record())
SOUND = [record(position=start) for start in (1000, 1000 + SIZE, 1000 + 2 * SIZE)]
BODY_CHANGED = SOUND[1].replace(b"body", b"bodY")


@pytest.mark.parametrize(
    ("parts", "end", "note"),
    [
        ([*SOUND, bytes(SIZE)], 3 * SIZE, ""),
        ([*SOUND], 3 * SIZE, ""),
        ([*SOUND, END_OF_FILE, bytes(SIZE - 8)], 3 * SIZE + 8, ""),
        ([SOUND[0], BODY_CHANGED, SOUND[2], bytes(SIZE)], SIZE, "body"),
        ([bytes(4 * SIZE)], 0, ""),
    ],
)
def test_a_segment_has_the_digest_of_its_records_up_to_the_first_damage_and_of_a_blanks_head(
    parts: list[bytes], end: int, note: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprint, "CHUNK_BYTES", SIZE)
    (tmp_path / "commitlog").mkdir()
    data, seen = b"".join(parts), list[int]()
    (tmp_path / f"commitlog/{1000:020d}").write_bytes(data)
    [row], _ = fingerprint_files(StoreReader(str(tmp_path)), seen.append)
    digest = hashlib.sha256(data[:end]).hexdigest()
    assert replace(row, note="") == Digest("segment", f"{1000:020d}", 1000, 1000 + end, digest)
    assert (note in row.note, bool(row.note)) == (True, bool(note))
    read = [] if not end else [min(end, 3 * SIZE) // 2]
    hashed = [(len(data) + at) // 2 for at in range(0, end, SIZE)]
    assert seen == [*read, *hashed, len(data)]


def index_file(begin: int, count: int, more: bytes = b"") -> bytes:
    return struct.pack(">qqqqii", 1, 2, begin, begin + 9, 5, count) + more


def test_index_files_are_ordered_by_their_first_log_offset_and_the_digest_of_a_store_is_that_of_all_rows(
    tmp_path: Path,
) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "index").mkdir()
    files = [index_file(500, 3), index_file(100, 4), index_file(100, 4, b"x"), index_file(7, 0)[:-1]]
    for number, data in enumerate(files):
        (tmp_path / f"index/2026010100000000{number}").write_bytes(data)
    rows, whole = fingerprint_files(StoreReader(str(tmp_path)))
    first, second = sorted(hashlib.sha256(data).hexdigest() for data in files[1:3])
    assert rows == [
        Digest("index", "100", 100, 4, first),
        Digest("index", "100", 100, 4, second),
        Digest("index", "500", 500, 3, hashlib.sha256(files[0]).hexdigest()),
    ]
    lines = "".join(f"{one.kind} {one.name} {one.start} {one.end} {one.sha256}\n" for one in rows)
    assert whole == hashlib.sha256(lines.encode()).hexdigest()


def test_parts_that_differ_are_listed_by_kind_and_name() -> None:
    same, longer = Digest("index", "7", 7, 3, "x"), Digest("segment", "0", 0, 5, "x")
    changed, gone, new = (Digest("queue", f"{topic}/0", 0, 2, "x") for topic in "TUV")
    after = [replace(longer, end=6), replace(changed, sha256="y"), new, replace(same, note="z")]
    assert [tuple(row.values()) for row in digest_differences([longer, changed, gone, same], after)] == [
        ("queue", "T/0", "differs", 2, 2),
        ("queue", "U/0", "missing", 2, None),
        ("queue", "V/0", "added", None, 2),
        ("segment", "0", "differs", 5, 6),
    ]
