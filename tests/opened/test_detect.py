"""A folder before it is opened: which broker wrote it, where its parts lie, and whether it is a store at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from store.config import StoreConfig
from store.errors import BadRequest, ForeignFile, NotAStore, StoreError, UnsupportedFormat
from store.files.filesystem import Filesystem
from store.formats.checkpoint_page import YEAR_10000_MS, CheckpointPage
from store.layout import StoreLayout
from store.opened.detect import (
    detect_line,
    infer_settings,
    is_absent_or_empty,
    make_layout,
    newer_structures,
    refuse_links,
    refuse_unchangeable,
    require_log,
    require_store,
    traces_of_5,
    traces_of_5_5,
)
from store.opened.sizes import assumed_sizes
from store.structures.registry import settings_told

FS = Filesystem()
OF_5 = "the checkpoint has 5.x's offsets"
OF_5_5 = "the checkpoint has 5.5's offset"
NEWER = "fields in the checkpoint that 5.5 does not know"


def make(root: Path, *names: str) -> StoreLayout:
    """A file of each name, with what follows a colon; a name that ends with a stroke is a folder."""
    for name in names:
        path, _, text = name.partition(":")
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).mkdir(exist_ok=True) if path.endswith("/") else (root / path).write_text(text)
    return StoreLayout(root)


@pytest.mark.parametrize(
    ("page", "line", "traces", "newer"),
    [
        (CheckpointPage(1, 2, 3), "4.9", [], []),
        (CheckpointPage(logics_log_offset=1), "4.9", [], []),
        (CheckpointPage(rest=b"x"), "4.9", [], []),
        (CheckpointPage(master_flushed_offset=1), "5.3", [OF_5], []),
        (CheckpointPage(confirm_log_offset=1), "5.3", [OF_5], []),
        (CheckpointPage(confirm_log_offset=-1), "5.3", [OF_5], []),
        (CheckpointPage(confirm_log_offset=1, logics_log_offset=1), "5.5", [OF_5_5, OF_5], []),
        (CheckpointPage(confirm_log_offset=1, logics_log_offset=-1), "5.3", [OF_5], []),
        (CheckpointPage(YEAR_10000_MS, confirm_log_offset=1, logics_log_offset=1), "5.3", [OF_5], []),
        (CheckpointPage(YEAR_10000_MS - 1, confirm_log_offset=1, logics_log_offset=1), "5.5", [OF_5_5, OF_5], []),
        (CheckpointPage(confirm_log_offset=1, logics_log_offset=1, rest=b"x"), "5.3", [OF_5], [NEWER]),
        (CheckpointPage(confirm_log_offset=1, rest=b"x"), "5.3", [OF_5], [NEWER]),
        (CheckpointPage(YEAR_10000_MS, confirm_log_offset=1, rest=b"x"), "5.3", [OF_5], []),
    ],
)
def test_the_checkpoints_fields_tell_the_broker(
    page: CheckpointPage, line: str, traces: list[str], newer: list[str], tmp_path: Path
) -> None:
    layout = make(tmp_path, "commitlog/")
    layout.checkpoint.write_bytes(page.encode())
    assert [*traces_of_5_5(layout, FS), *traces_of_5(layout, FS)] == traces
    assert detect_line(layout, FS).name == line
    assert list(newer_structures(layout, FS)) == [(layout.checkpoint, text) for text in newer]
    if newer:
        with pytest.raises(UnsupportedFormat, match=f"{NEWER}: the store is read, checked and salvaged"):
            refuse_unchangeable(layout, FS, "recover")
    else:
        refuse_unchangeable(layout, FS, "recover")


@pytest.mark.parametrize(
    ("page", "line"),
    [
        (CheckpointPage(1, 1, 1), "4.9"),
        (CheckpointPage(1, 1, confirm_log_offset=1), "5.3"),
        (CheckpointPage(1, 0, confirm_log_offset=1), "5.5"),
        (CheckpointPage(1, -1), "5.5"),
        (CheckpointPage(1, 1, logics_log_offset=1), "5.5"),
        (CheckpointPage(), "5.5"),
        (None, "5.5"),
    ],
)
def test_a_topic_of_5_5_is_no_trace_of_it_beside_a_checkpoint_of_another_broker(
    page: CheckpointPage | None, line: str, tmp_path: Path
) -> None:
    topic = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
    for number, name in enumerate((f"consumequeue/{topic}/", f"config/topics.json:{topic}")):
        layout = make(tmp_path / str(number), "commitlog/", name)
        if page is not None:
            layout.checkpoint.write_bytes(page.encode())
        assert detect_line(layout, FS).name == line
    make(tmp_path / "0", "rocksdbstore/")
    assert detect_line(StoreLayout(tmp_path / "0"), FS).name == "5.5"


@pytest.mark.parametrize(
    ("names", "line", "traces"),
    [
        (("abort",), "4.9", []),
        (("abort:1",), "5.3", ["abort holds a process id"]),
        (("abort.bak",), "5.3", ["abort.bak is there"]),
        (("timerwheel",), "5.3", ["timerwheel is there"]),
        (("compaction/",), "5.3", ["compaction is there"]),
        (("timerwheel", "abort:1"), "5.3", ["abort holds a process id", "timerwheel is there"]),
        (("rocksdbstore/CURRENT", "abort:1"), "5.5", ["rocksdbstore is there", "abort holds a process id"]),
    ],
)
def test_files_that_older_brokers_do_not_make_tell_the_broker(
    names: tuple[str, ...], line: str, traces: list[str], tmp_path: Path
) -> None:
    layout = make(tmp_path, "commitlog/", *names)
    assert [*traces_of_5_5(layout, FS), *traces_of_5(layout, FS)] == traces
    assert detect_line(layout, FS).name == line


@pytest.mark.parametrize(
    ("names", "error"),
    [
        ((), NotAStore),
        (("config/", "index/", "abort", "lock"), NotAStore),
        (("commitlog/",), None),
        (("consumequeue/",), None),
        (("checkpoint",), None),
        (("commitlog",), ForeignFile),
        (("consumequeue",), ForeignFile),
        (("commitlog/", "index"), ForeignFile),
        (("commitlog/", "lock/"), ForeignFile),
        (("commitlog/", "checkpoint/"), ForeignFile),
        (("commitlog/", "abort/"), ForeignFile),
    ],
)
def test_a_store_has_a_log_queues_or_a_checkpoint_each_in_its_kind(
    names: tuple[str, ...], error: type[StoreError] | None, tmp_path: Path
) -> None:
    layout = make(tmp_path, *names)
    if error is None:
        require_store(layout, FS)
    else:
        with pytest.raises(error):
            require_store(layout, FS)


def test_no_folder_and_a_file_are_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotAStore, match="no such folder"):
        require_store(StoreLayout(tmp_path / "none"), FS)
    with pytest.raises(NotAStore):
        require_store(StoreLayout(tmp_path / "file"), FS)
    assert [is_absent_or_empty(StoreLayout(tmp_path / name), FS) for name in ("none", "file", "")] == [
        True, False, False
    ]  # fmt: skip
    (tmp_path / "empty").mkdir()
    assert is_absent_or_empty(StoreLayout(tmp_path / "empty"), FS)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), None),
        (("consumequeue/T/0/",), None),
        (("consumequeue/T/0/foreign",), None),
        (("consumequeue/T/0",), None),
        (("consumequeue/T/0/00000000000000000000",), "1 queue"),
        (("consumequeue/T/0/00000000000000000000", "consumequeue/T/0/00000000000000006000"), "1 queue"),
        (("consumequeue/T/0/00000000000000000000", "consumequeue/S/1/00000000000000006000"), "2 queues"),
        (("consumequeue/T/0/00000000000000000000", "commitlog/00000000000000000000"), None),
    ],
)
def test_an_empty_log_beside_queues_is_no_store(names: tuple[str, ...], said: str | None, tmp_path: Path) -> None:
    layout = make(tmp_path, "commitlog/", *names)
    if said is None:
        require_log(layout, FS)
    else:
        with pytest.raises(NotAStore, match=f"the commit log is empty, but consumequeue/ holds files of {said}$"):
            require_log(layout, FS)


@pytest.mark.parametrize(
    ("link", "settings", "hint"),
    [
        ("commitlog", {}, "in its place, or name it by storePathCommitLog"),
        ("commitlog", {"storePathCommitLog": "commitlog"}, None),
        ("consumequeue", {}, "in its place"),
        ("index", {}, "in its place"),
        ("index", {"storePathCommitLog": "commitlog"}, "in its place"),
        ("config", {}, None),
    ],
)
def test_a_folder_that_is_a_link_is_not_changed(
    link: str, settings: Mapping[str, str], hint: str | None, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    make(root, "commitlog/", "elsewhere/")
    if link == "commitlog":
        (root / link).rmdir()
    (root / link).symlink_to("elsewhere")
    layout = make_layout(root, {name: str(root / value) for name, value in settings.items()}, FS)
    if hint is None:
        refuse_links(layout, FS)
        return
    with pytest.raises(ForeignFile, match="a link, where a folder of the store is expected") as caught:
        refuse_links(layout, FS)
    assert caught.value.hint is not None
    assert caught.value.hint.endswith(hint)


@pytest.mark.parametrize(
    ("name", "is_refused"),
    [("00000000000000000000", True), ("foreign", False)],
)
def test_a_segment_that_leads_to_nothing_is_refused(name: str, is_refused: bool, tmp_path: Path) -> None:
    layout = make(tmp_path, "commitlog/00000000000000004096")
    (tmp_path / "commitlog" / name).symlink_to("gone")
    if not is_refused:
        refuse_links(layout, FS)
        return
    with pytest.raises(ForeignFile, match="where a segment is expected"):
        refuse_links(layout, FS)


@pytest.mark.parametrize(
    ("settings", "writable", "read_only"),
    [
        ({}, (), ()),
        ({"storePathCommitLog": ""}, (), ()),
        ({"storePathCommitLog": " /a "}, ("/a",), ()),
        ({"storePathCommitLog": "/a", "readOnlyCommitLogStorePaths": "/b"}, ("/a",), ()),
        ({"storePathCommitLog": "/a,/b"}, ("/a", "/b"), ()),
        ({"storePathCommitLog": "/a,/b,,", "readOnlyCommitLogStorePaths": "/c,"}, ("/a", "/b"), ("/c",)),
        ({"storePathCommitLog": "/x/../a"}, ("/a",), ()),
        ({"storePathDLedgerCommitLog": "/a,/b", "enableDLegerCommitLog": "true"}, ("/a", "/b"), ("{root}/commitlog",)),
        ({"storePathDLedgerCommitLog": "/a"}, (), ()),
        (
            {
                "storePathDLedgerCommitLog": "/a",
                "enableDLegerCommitLog": "true",
                "storePathCommitLog": "/b,/c",
                "readOnlyCommitLogStorePaths": "/d",
            },
            ("/a",),
            ("/d",),
        ),
    ],
)
def test_the_log_lies_where_the_settings_say(
    settings: Mapping[str, str], writable: tuple[str, ...], read_only: tuple[str, ...], tmp_path: Path
) -> None:
    make(tmp_path, "commitlog/")
    layout = make_layout(tmp_path, settings, FS)
    assert layout.commitlog_paths == tuple(Path(path.format(root=tmp_path)) for path in writable)
    assert layout.read_only_paths == tuple(Path(path.format(root=tmp_path)) for path in read_only)


@pytest.mark.parametrize("text", ["/a,,/b", ",/a"])
def test_an_empty_name_among_the_logs_folders_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="an empty name among the folders of the commit log"):
        make_layout(tmp_path, {"storePathCommitLog": text}, FS)


SEGMENT, QUEUE = "commitlog/00000000000000000000:" + "x" * 64, "consumequeue/T/0/00000000000000000000:" + "x" * 40
INDEX, EXTENSION = "index/20240101000000000:" + "x" * 100, "consumequeue_ext/T/0/00000000000000000000:" + "x" * 48
SLOTS = {"maxHashSlotNum": 1, "maxIndexNum": 2}
ASSUMED_QUEUE = "no queue file shows their size: mappedFileSizeConsumeQueue=6000000 is assumed"
ASSUMED_INDEX = "no index file shows their size: maxHashSlotNum=5000000, maxIndexNum=20000000 is assumed"
ASSUMED_EXTENSION = "no extension file shows their size: mappedFileSizeConsumeQueueExt=50331648 is assumed"


@pytest.mark.parametrize(
    ("names", "settings", "assumed"),
    [
        ((), {}, []),
        ((QUEUE,), {}, []),
        ((SEGMENT,), {}, [ASSUMED_QUEUE, ASSUMED_INDEX]),
        ((SEGMENT, QUEUE), {}, [ASSUMED_INDEX]),
        ((SEGMENT, INDEX), {}, [ASSUMED_QUEUE]),
        ((SEGMENT, QUEUE, INDEX), {}, []),
        ((SEGMENT,), {"mappedFileSizeConsumeQueue": 6_000_000}, [ASSUMED_INDEX]),
        ((SEGMENT, QUEUE), {"maxIndexNum": 20_000_000}, [ASSUMED_INDEX]),
        ((SEGMENT, QUEUE), {"maxIndexNum": 20_000_000, "maxHashSlotNum": 5_000_000}, []),
        ((SEGMENT, QUEUE, INDEX), {"enableConsumeQueueExt": True}, [ASSUMED_EXTENSION]),
        ((SEGMENT, QUEUE, INDEX, EXTENSION), {"enableConsumeQueueExt": True}, []),
        (
            (SEGMENT, QUEUE, INDEX),
            {"enableConsumeQueueExt": True, "mappedFileSizeConsumeQueueExt": 50_331_648},
            [],
        ),
    ],
)
def test_a_size_that_no_file_shows_is_said_to_be_assumed(
    names: tuple[str, ...], settings: Mapping[str, object], assumed: list[str], tmp_path: Path
) -> None:
    layout, config = make(tmp_path, *names), StoreConfig().with_settings(settings)
    hint = "; give it as a setting if the broker uses another"
    assert list(assumed_sizes(layout, config, settings, FS)) == [text + hint for text in assumed]


@pytest.mark.parametrize(
    ("names", "settings", "inferred"),
    [
        ((), {}, {}),
        ((SEGMENT,), {}, {"mappedFileSizeCommitLog": 64}),
        ((SEGMENT,), {"mappedFileSizeCommitLog": 1}, {}),
        ((SEGMENT, QUEUE), {}, {"mappedFileSizeCommitLog": 64, "mappedFileSizeConsumeQueue": 40}),
        ((EXTENSION,), {}, {"enableConsumeQueueExt": True, "mappedFileSizeConsumeQueueExt": 48}),
        (("consumequeue_ext/",), {}, {"enableConsumeQueueExt": True}),
        ((EXTENSION,), {"enableConsumeQueueExt": False}, {}),
    ],
)
def test_sizes_are_read_off_the_files_where_they_are_not_given(
    names: tuple[str, ...], settings: Mapping[str, object], inferred: Mapping[str, object], tmp_path: Path
) -> None:
    layout = make(tmp_path, *names)
    assert settings_told(layout, FS) == {}
    assert infer_settings(layout, settings, FS) == inferred
