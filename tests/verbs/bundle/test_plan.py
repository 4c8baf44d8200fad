"""What a bundle holds of each file: its bytes, its records with other bodies, or its length alone."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from store.errors import BadRequest, StoreIOError
from store.files.bundle_files import Archive
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.bundle import ABSENT, BODILESS, DOCUMENT, EMPTIED, RENAMED, WHOLE, BundledFile, padding
from store.layout import StoreLayout, segment_name
from store.opened import make_layout
from store.verbs.bundle.bodies import CHUNK_BYTES
from store.verbs.bundle.plan import BundlePlan, _is_text, content_of, file_start, names_of_bundle, plan_bundle
from store.verbs.bundle.write import BundleOptions, write_bundle
from store.verbs.doctor import Examination, examine

FIRST = segment_name(0)
SECOND_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("path", "content", "start"),
    [
        (f"commitlog/{segment_name(4096)}", BODILESS, 4096),
        ("commitlog/other", EMPTIED, None),
        (f"dledger-n0/data/{FIRST}", BODILESS, 0),
        (f"dledger-n0/index/{FIRST}", WHOLE, 0),
        (f"compaction/compactionLog/T/0/{FIRST}", BODILESS, 0),
        (f"compaction/compactionLog/T/0/{FIRST}.tmp", BODILESS, 0),
        (f"consumequeue/T/0/{FIRST}", WHOLE, 0),
        ("config/topics.json", WHOLE, None),
        ("checkpoint", WHOLE, None),
        ("unknown/file", EMPTIED, None),
        ("unknown", EMPTIED, None),
        (".rmqctl/changes/1/manifest.json", WHOLE, None),
        (".rmqctl/log.jsonl", WHOLE, None),
        (".rmqctl/changes/1/elsewhere", WHOLE, None),
        (".rmqctl/changes/1/files/checkpoint", EMPTIED, None),
    ],
)
def test_a_file_is_whole_or_without_bodies_or_empty_by_its_place(path: str, content: str, start: int | None) -> None:
    assert (content_of(path), file_start(path)) == (content, start)


@pytest.mark.parametrize(
    ("log_offset", "left_out"),
    [(-1, []), (0, []), (199, []), (200, [0]), (299, [0]), (300, [0, 100]), (9999, [0, 100])],
)
def test_segments_up_to_the_second_one_before_an_offset_are_left_out(log_offset: int, left_out: list[int]) -> None:
    def file(path: str, content: str = BODILESS) -> BundledFile:
        return BundledFile(path, 10, 0, content)

    others = [file(f"dledger-n0/data/{FIRST}"), file("commitlog/other", EMPTIED), file("checkpoint", WHOLE)]
    plan = BundlePlan(files=[*others, *(file(f"commitlog/{segment_name(at)}") for at in (200, 0, 300, 100))])
    plan.leave_out_before(log_offset)
    assert plan.files == [
        *others,
        *(file(f"commitlog/{segment_name(at)}", ABSENT if at in left_out else BODILESS) for at in (200, 0, 300, 100)),
    ]
    assert plan.size == 10 * (len(plan.files) - len(left_out))
    empty = BundlePlan(files=[*others])
    empty.leave_out_before(log_offset)
    assert empty.files == others


@pytest.mark.parametrize(
    ("path", "data", "is_text"),
    [
        ("config/topics.json", b"", True),
        ("config/topics.json", b"{}", True),
        ("config/topics.json", b"\0{}", False),
        ("config/topics.json", b"x" * 4095 + b"\0", False),
        ("config/topics.json", b"x" * 4096 + b"\0", True),
        (f"consumequeue/T/0/{FIRST}", b"x", False),
        (f"consumequeue/T/0/{FIRST}", b"\0", False),
    ],
)
def test_a_text_has_no_number_as_its_name_and_no_zero_in_its_first_block(
    path: str, data: bytes, is_text: bool, tmp_path: Path
) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_bytes(data)
    assert _is_text(path, StoreReader(str(tmp_path))) is is_text


def store_with(root: Path, *names: str) -> StoreLayout:
    for number, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(bytes([1]) * number)
        os.utime(root / name, ns=(0, (SECOND_MS + number) * 1_000_000))
    return StoreLayout(root)


def plan_of(layout: StoreLayout) -> BundlePlan:
    return plan_bundle(layout, StoreReader(str(layout.root)), Filesystem())


def examined(layout: StoreLayout) -> Examination:
    return examine(layout, {}, lambda: SECOND_MS)


def test_a_plan_has_each_folder_and_file_and_names_what_is_neither(tmp_path: Path) -> None:
    layout = store_with(tmp_path, "unknown/file", f"commitlog/{FIRST}", "config/topics.json", "checkpoint")
    os.mkfifo(tmp_path / "config" / "fifo")
    found = plan_of(layout)
    assert sorted(found.folders) == ["commitlog", "config", "unknown"]
    assert sorted(found.files, key=lambda file: file.path) == [
        BundledFile("checkpoint", 3, SECOND_MS + 3, WHOLE),
        BundledFile(f"commitlog/{FIRST}", 1, SECOND_MS + 1, BODILESS),
        BundledFile("config/topics.json", 2, SECOND_MS + 2, WHOLE),
        BundledFile("unknown/file", 0, SECOND_MS, EMPTIED),
    ]
    assert (found.left_out, found.size) == (["config/fifo: a FIFO"], 6)


@pytest.mark.parametrize("has_folder", [True, False])
def test_segments_in_other_folders_are_planned_as_those_of_the_log(has_folder: bool, tmp_path: Path) -> None:
    store_with(tmp_path / "elsewhere", "zero", segment_name(0), segment_name(4096))
    root = tmp_path / "store"
    store_with(root, "checkpoint", *(["commitlog/stale"] if has_folder else []))
    layout, fs = make_layout(root, {"storePathCommitLog": str(tmp_path / "elsewhere")}, Filesystem()), Filesystem()
    found = plan_bundle(layout, StoreReader(str(root), fs, layout.commitlogs_elsewhere), fs)
    assert found.folders == ["commitlog"]
    assert found.files == [
        BundledFile("checkpoint", 0, SECOND_MS, WHOLE),
        BundledFile(f"commitlog/{segment_name(0)}", 1, SECOND_MS + 1, BODILESS),
        BundledFile(f"commitlog/{segment_name(4096)}", 2, SECOND_MS + 2, BODILESS),
    ]


@pytest.mark.parametrize("is_inside", [True, False])
def test_the_entries_of_a_member_are_planned_where_a_folder_of_the_store_has_them(
    is_inside: bool, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    entries = root / "entries" if is_inside else tmp_path / "entries"
    store_with(root, "checkpoint", "dledger-n0/config")
    store_with(entries, segment_name(0))
    layout = make_layout(root, {"storePathDLedgerCommitLog": str(entries), "dLegerSelfId": "n0"}, Filesystem())
    if is_inside:
        paths = sorted(file.path for file in plan_of(layout).files)
        assert paths == ["checkpoint", "dledger-n0/config", f"entries/{segment_name(0)}"]
    else:
        with pytest.raises(BadRequest, match="the member's entries are in a folder outside of the store"):
            plan_of(layout)


@pytest.mark.parametrize(("size", "zeros"), [(0, 0), (1, 511), (511, 1), (512, 0), (513, 511)])
def test_a_file_is_filled_up_to_a_block(size: int, zeros: int) -> None:
    assert padding(size) == bytes(zeros)


@pytest.mark.parametrize(
    ("length", "then"),
    [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 2),
        (CHUNK_BYTES, 0),
        (CHUNK_BYTES + 1, 0),
        (CHUNK_BYTES + 1, CHUNK_BYTES),
        (CHUNK_BYTES + 1, CHUNK_BYTES + 2),
        (2 * CHUNK_BYTES + 1, 1),
    ],
)
def test_a_file_has_the_planned_length_though_a_broker_writes_to_it_meanwhile(
    length: int, then: int, tmp_path: Path
) -> None:
    layout = store_with(tmp_path / "store", f"consumequeue/T/0/{FIRST}", f"commitlog/{FIRST}")
    path, data = layout.root / "consumequeue" / "T" / "0" / FIRST, bytes([7]) * length
    path.write_bytes(data)
    plan, done = plan_of(layout), list[tuple[int, int]]()
    path.write_bytes(bytes([7]) * then)
    reader = StoreReader(str(layout.root))
    options = BundleOptions("1", SECOND_MS, b"salt", progress=lambda *bytes_of: done.append(bytes_of))
    write_bundle(plan, reader, examined(layout), tmp_path / "bundle", options, Filesystem())
    with tarfile.open(fileobj=io.BytesIO(Archive(str(tmp_path / "bundle")).read()), mode="r:") as archive:
        held = archive.extractfile(f"store/consumequeue/T/0/{FIRST}")
        assert archive.getnames()[0] == DOCUMENT
        assert held is not None
        assert held.read() == data[:then].ljust(length, b"\0")
    assert done[-1] == (plan.size, plan.size)


def test_a_bundle_does_not_replace_a_file_but_one_that_was_not_finished(tmp_path: Path) -> None:
    layout = store_with(tmp_path / "store", f"commitlog/{FIRST}")
    target, options = tmp_path / "bundle", BundleOptions("1", SECOND_MS, b"salt")
    (tmp_path / "bundle.unfinished").write_bytes(b"before")
    reader, found, fs = StoreReader(str(layout.root)), examined(layout), Filesystem()
    assert write_bundle(plan_of(layout), reader, found, target, options, fs).size == target.stat().st_size
    with pytest.raises(BadRequest, match="the file is there already"):
        write_bundle(plan_of(layout), reader, found, target, options, fs)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle", "store"]


def test_a_bundle_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = store_with(tmp_path / "store", f"commitlog/{FIRST}")

    def full(descriptor: int, position: int, data: bytes) -> None:
        raise StoreIOError("no space")

    fs = Filesystem()
    monkeypatch.setattr(fs, "write", full)
    options = BundleOptions("1", SECOND_MS, b"salt")
    with pytest.raises(StoreIOError, match="no space"):
        write_bundle(plan_of(layout), StoreReader(str(layout.root)), examined(layout), tmp_path / "bundle", options, fs)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_where_names_are_hidden_a_database_is_left_out_with_its_folder(tmp_path: Path) -> None:
    for name in ("config/metadata/CURRENT", "config/metadata/000007.sst", "config/topics.json", "checkpoint"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"\0x" if name == "checkpoint" else b"x")
    (tmp_path / "commitlog").mkdir()
    layout, fs = make_layout(tmp_path, {}), Filesystem()
    plan = plan_bundle(layout, StoreReader(str(tmp_path)), fs, hides_names=True)
    assert {one.path: one.content for one in plan.files} == {
        "config/metadata/CURRENT": ABSENT, "config/metadata/000007.sst": ABSENT, "config/topics.json": RENAMED,
        "checkpoint": WHOLE,
    }  # fmt: skip
    assert sorted(plan.folders) == ["commitlog", "config"]
    assert plan.left_out == ["config/metadata: left out, because names and keys in a database cannot be hidden"]


def test_the_names_of_a_plan_are_those_of_topics_folders_and_texts(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config/one.json").write_text('{"groupG":{"7":1}}')
    (tmp_path / "config/two.json").write_text('{"unread":1}')
    plan = BundlePlan(
        folders=["consumequeue", "consumequeue/TopicA", "consumequeue/TopicA/0", "consumequeue/TopicB", "other/x"],
        files=[BundledFile("config/one.json", 1, 0, RENAMED), BundledFile("config/two.json", 1, 0, WHOLE)],
    )
    found = names_of_bundle(plan, StoreReader(str(tmp_path)))
    assert {"TopicA", "TopicB"} <= found
    assert not {"unread", "x", "7", "0"} & found
    plan.files[0] = BundledFile("config/one.json", 1, 0, WHOLE)
    assert names_of_bundle(plan, StoreReader(str(tmp_path))) == {"TopicA", "TopicB"}
    assert "groupG" in found
