"""bundle on the command line: the usual way round, what is in one, and what a stranger gets wrong."""

from __future__ import annotations

import io
import json
import socket
import tarfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from rmqctl.exit_codes import DECLINED, FINDINGS, NOT_READABLE, OK, USAGE
from store.files.bundle_files import unpack_bundle
from store.files.filesystem import Filesystem
from store.files.lock import StoreLock
from store.formats.bundle import DOCUMENT, END, UNREADABLE, encode_head, padding
from store.formats.zstd_frames import compress
from tests.cli.running import rmqctl
from tests.support.processes import command_line, run
from tests.support.quickly import one_of
from tests.support.s3 import s3_bucket
from tests.support.stores import make_store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return make_store(tmp_path / "store", 100)


@pytest.fixture
def bundle(store: Path, tmp_path: Path) -> Path:
    run = rmqctl("bundle", tmp_path / "case.tar.zst", "--yes", store=store)
    assert (run.code, run.err) == (OK, "")
    return tmp_path / "case.tar.zst"


def test_a_bundle_of_a_held_store_says_why_its_findings_differ(store: Path, tmp_path: Path) -> None:
    (store / "abort").touch()
    with StoreLock(store / "lock", Filesystem()):
        run = rmqctl("-f", "json", "bundle", tmp_path / "case.tar.zst", "--yes", store=store)
    assert (run.code, run.json["same_findings"]) == (OK, False), run.err
    assert "holds the store: doctor simulates a start in the bundle only" in run.err


def unpack(bundle: Path, target: Path) -> Path:
    """Unpacked as zstd and tar do it."""
    with pa.input_stream(str(bundle), compression="zstd") as stream:
        data = io.BytesIO(stream.read())
    with tarfile.open(fileobj=data) as found:
        # Python 3.11.3 and older know no filters, and ignore the attribute.
        found.extraction_filter = getattr(tarfile, "data_filter", None)
        found.extractall(target)
    return target


def test_what_is_in_it_is_listed_before_it_is_written(store: Path, tmp_path: Path) -> None:
    target = tmp_path / "case.tar.zst"
    run = rmqctl("--format", "json", "bundle", target, "--dry-run", store=store)
    assert (run.code, target.exists(), run.json["applied"]) == (OK, False, False)
    listed = {row["file"]: row["content"] for row in run.json["files"]}
    assert listed["commitlog/00000000000000000000"] == "bodies replaced"
    assert listed["consumequeue/T/0/00000000000000000000"] == listed["checkpoint"] == "whole"
    run = rmqctl("bundle", target, store=store, terminal=True, stdin=b"n\n")
    assert (run.code, target.exists()) == (DECLINED, False)
    assert "bodies replaced: commitlog/00000000000000000000, " in run.err
    run = rmqctl("bundle", target, store=store, terminal=True, stdin=b"y\n")
    assert (run.code, target.exists()) == (OK, True)
    written = rmqctl("--format", "json", "bundle", tmp_path / "other.tar.zst", "--yes", store=store).json
    assert {row["file"]: row["content"] for row in written["files"]} == listed
    assert (written["applied"], written["same_findings"], written["finding_count"]) == (True, True, 0)


READING = (
    "check", "info", "doctor", "find message", "get T", "salvage", "usage", "timeline", "dump commitlog", "simulate",
    "lag", "config show", "checkpoint show", "recover --dry-run", "stale",
)  # fmt: skip


@pytest.mark.parametrize("line", one_of(7, READING))
def test_reading_commands_take_a_bundle_in_place_of_a_store(line: str, bundle: Path, store: Path) -> None:
    code = rmqctl(*line.split(), store=store).code
    run = rmqctl(*line.split(), store=bundle)
    assert (run.code, "Traceback" in run.err) == (FINDINGS if line == "find message" else code, False), run.err


def test_queries_and_keys_are_those_of_the_store_and_bodies_are_digits(bundle: Path, store: Path) -> None:
    query = "select topic, queue_id, queue_offset, size, keys from messages order by log_offset"
    assert rmqctl("-f", "json", "sql", query, store=bundle).json == rmqctl("-f", "json", "sql", query, store=store).json
    rows = rmqctl("-f", "jsonl", "get", "T", "--body", "utf8", "--limit", "100", store=bundle).rows
    assert len(rows) == 100
    assert all(set(row["body"]) <= set("0123456789abcdef") for row in rows)


@pytest.mark.parametrize("line", ["recover --yes", "doctor --fix --yes"])
def test_a_change_of_a_bundle_is_refused(line: str, bundle: Path) -> None:
    run = rmqctl(*line.split(), store=bundle)
    assert (run.code, "this command needs a store in a folder of this machine" in run.err) == (USAGE, True)


def test_tar_and_zstd_unpack_it_and_its_folder_is_a_store(bundle: Path, store: Path, tmp_path: Path) -> None:
    found = unpack(bundle, tmp_path / "unpacked")
    document = json.loads((found / DOCUMENT).read_text())
    assert (document["format"], document["findings"], document["line"]) == ("rmqctl.bundle/1", [], "4.9")
    assert {one["kind"] for one in document["digests"]} == {"segment", "queue", "index"}
    assert rmqctl("check", store=found / "store").code == OK
    for path in ("checkpoint", "commitlog/00000000000000000000", "consumequeue/T/1/00000000000000000000"):
        was, now = (store / path).stat(), (found / "store" / path).stat()
        # tarfile sets times with the precision of a float.
        assert (now.st_size, now.st_mtime) == (was.st_size, pytest.approx(was.st_mtime, abs=0.01))


def test_settings_that_were_given_come_with_it_and_paths_do_not(store: Path, tmp_path: Path) -> None:
    (store / "commitlog").rename(tmp_path / "log")
    elsewhere = ("--set", f"storePathCommitLog={tmp_path}/log", "--set", "fileReservedTime=7")
    run = rmqctl(*elsewhere, "bundle", tmp_path / "case.tar.zst", "--yes", store=store)
    assert run.code == OK, run.err
    assert rmqctl("check", store=tmp_path / "case.tar.zst").code == OK
    shown = rmqctl("-f", "json", "config", "settings", store=tmp_path / "case.tar.zst").json["settings"]
    assert [row["value"] for row in shown if row["name"] == "fileReservedTime"] == [7]


def test_unknown_files_are_zeros_and_what_is_no_file_is_named(store: Path, tmp_path: Path) -> None:
    (store / "notes.txt").write_text("SECRET")
    (store / "commitlog/copy of it").write_text("SECRET")
    (store / ".rmqctl/quarantine/x").mkdir(parents=True)
    (store / ".rmqctl/quarantine/x/00000000000000000000").write_text("SECRET")
    (store / "empty").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(store / ".rmqctl/socket"))
        run = rmqctl("bundle", tmp_path / "case.tar.zst", "--yes", store=store)
    assert (run.code, run.err) == (OK, "warning: .rmqctl/socket: a socket\n")
    found = unpack(tmp_path / "case.tar.zst", tmp_path / "unpacked") / "store"
    for name in ("notes.txt", "commitlog/copy of it", ".rmqctl/quarantine/x/00000000000000000000"):
        assert (found / name).read_bytes() == bytes(6)
    assert (found / "empty").is_dir()


@pytest.mark.turns(3)
def test_the_same_salt_gives_the_same_bundle(store: Path, tmp_path: Path) -> None:
    names = {"a": ("--salt", "s"), "b": ("--salt", "s"), "c": ("--salt", "t"), "d": ()}
    for name, salt in names.items():
        assert rmqctl("bundle", tmp_path / f"{name}.tar.zst", "--yes", *salt, store=store).code == OK
    data = {name: (tmp_path / f"{name}.tar.zst").read_bytes() for name in names}
    assert data["a"] == data["b"]
    assert len(set(data.values())) == 3


def test_a_bundle_in_an_object_store_is_read_there(bundle: Path) -> None:
    with s3_bucket("cases") as files:
        with files.open_output_stream("cases/a/case.tar.zst", compression=None) as stream:
            stream.write(bundle.read_bytes())
        assert rmqctl("--store", "s3://cases/a/case.tar.zst", "doctor").code == OK
        run = rmqctl("--store", "s3://cases/a/none.tar.zst", "doctor")
        assert (run.code, "there is no such file" in run.err) == (NOT_READABLE, True)


def test_a_bundle_is_unpacked_into_the_scratch_folder_that_is_given(bundle: Path, tmp_path: Path) -> None:
    found = run(command_line(bundle, "--scratch", tmp_path / "none", "info"))
    assert (found.code, str(tmp_path / "none") in found.err) == (NOT_READABLE, True), found.err


@pytest.mark.turns(3)
def test_what_a_reader_unpacked_is_removed_when_the_process_ends(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    assert run(command_line(bundle, "--scratch", tmp_path / "scratch", "info")).code == OK
    assert list((tmp_path / "scratch").iterdir()) == []


def test_what_is_unpacked_is_removed_at_the_latest_when_the_process_ends(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_exit: list[Callable[[], None]] = []
    monkeypatch.setattr("store.files.bundle_files.atexit.register", at_exit.append)
    monkeypatch.setattr("store.files.bundle_files._unpacked", {})
    root, _ = unpack_bundle(str(bundle), tmp_path)
    assert (root.exists(), len(at_exit)) == (True, 1)
    at_exit[0]()
    assert not root.exists()
    # It is unpacked again.
    root, _ = unpack_bundle(str(bundle), tmp_path)
    assert (root.exists(), len(at_exit)) == (True, 2)
    at_exit[1]()


def archive(*entries: tuple[str, bytes]) -> bytes:
    parts: list[bytes] = []
    for name, data in entries:
        parts += [encode_head(name, len(data), 0), data, padding(len(data))]
    return b"".join(compress([*parts, END]))


def link(name: str) -> bytes:
    head = tarfile.TarInfo(name)
    head.type, head.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return b"".join(compress([encode_head(DOCUMENT, 2, 0), b"{}", padding(2), head.tobuf(tarfile.PAX_FORMAT), END]))


BROKEN = {
    "no archive": (b"x" * 100, "no table of frames at its end"),
    "an empty file": (b"", "too short for a table of frames"),
    "no bundle": (archive(("other", b"x")), f"it does not begin with {DOCUMENT}"),
    "no document": (archive((DOCUMENT, b"{}"), ("store/checkpoint", b"x")), "its format is None"),
    "a name that leads out": (
        archive((DOCUMENT, b'{"format": "rmqctl.bundle/1"}'), ("store/../../x", b"x")),
        "is no file of a store",
    ),
    "a link": (link("store/checkpoint"), "its format is None"),
    **{
        f"unreadable bytes {ranges}": (
            archive(
                (DOCUMENT, b'{"format": "rmqctl.bundle/1"}'),
                ("store/checkpoint", bytes(4096)),
                (UNREADABLE, ranges.encode()),
            ),
            reason,
        )
        for ranges, reason in {
            '{"checkpoint": [[0, 4097]]}': "it has no such unreadable bytes: checkpoint",
            '{"other": [[0, 1]]}': "it has no such unreadable bytes: other",
            '{"../x": [[0, 1]]}': "it has no such unreadable bytes: ../x",
            '{"checkpoint": [[2, 1]]}': "unreadable.json has no ascending ranges of checkpoint",
            '{"checkpoint": [[-1, 1]]}': "unreadable.json has no ascending ranges of checkpoint",
            '{"checkpoint": []}': "unreadable.json has no ascending ranges of checkpoint",
            '{"checkpoint": 7}': "no bundle: ",
            "[": "no bundle: ",
        }.items()
    },
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_file_that_is_no_bundle_is_refused_with_one_sentence(what: str, tmp_path: Path) -> None:
    data, reason = BROKEN[what]
    (tmp_path / "case.tar.zst").write_bytes(data)
    run = rmqctl("doctor", store=tmp_path / "case.tar.zst")
    assert (run.code, run.out, run.err.count("\n"), reason in run.err) == (NOT_READABLE, "", 1, True), run.err


def test_a_bundle_that_is_cut_or_changed_is_refused(bundle: Path) -> None:
    data = bundle.read_bytes()
    for damaged in (data[:-1], data[: len(data) // 2], data[:200] + b"\0" * 50 + data[250:]):
        bundle.write_bytes(damaged)
        run = rmqctl("check", store=bundle)
        assert (run.code, run.err.count("\n"), str(bundle) in run.err) == (NOT_READABLE, 1, True), run.err


WRONG = {
    "bundle": (USAGE, "Missing argument 'TO'"),
    "bundle NEW.tar.gz --yes": (USAGE, "the name of a bundle ends in .tar.zst"),
    "bundle s3://cases/x.tar.zst --yes": (USAGE, "a bundle is written into a file of this machine"),
    "bundle NEW.tar.zst": (USAGE, "give --yes, or look first with --dry-run"),
    "bundle STORE/x.tar.zst --yes": (USAGE, "is inside of"),
    "bundle THERE.tar.zst --yes": (USAGE, "the file is there already"),
    "bundle NONE/x.tar.zst --yes": (NOT_READABLE, "no such file or directory"),
}


@pytest.mark.turns(3)
@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_line_is_refused_with_one_sentence(line: str, store: Path, tmp_path: Path) -> None:
    (tmp_path / "there.tar.zst").write_text("mine")
    words = line
    for name, path in {"STORE": "store", "THERE": "there", "NEW": "new", "NONE": "none"}.items():
        words = words.replace(name, str(tmp_path / path))
    run = rmqctl(*words.split(), store=store)
    code, reason = WRONG[line]
    assert (run.code, run.out, run.err.count("\n"), reason in run.err) == (code, "", 1, True), run.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store", "there.tar.zst"]
    assert (tmp_path / "there.tar.zst").read_text() == "mine"


def test_a_store_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    run = rmqctl("bundle", tmp_path / "x.tar.zst", "--yes", store=tmp_path / "other")
    assert (run.code, "not a store" in run.err) == (NOT_READABLE, True)
