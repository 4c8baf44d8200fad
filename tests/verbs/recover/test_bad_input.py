"""Whatever lies in the folder: the named exit code, one sentence with file, place and reason, no traceback."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from store.formats.dledger import DLEDGER_HEADER
from tests.cli.running import Run, rmqctl
from tests.support.golden import copy_store, golden
from tests.support.processes import command_line, run, run_as_a_stranger
from tests.support.snapshots import snapshot
from tests.support.stores import make_store, overwrite

OK, FINDINGS, USAGE, NOT_READABLE, IO_ERROR = 0, 1, 2, 4, 5
GET = ("get", "T", "--queue", "0")
RECOVER = ("recover", "--abnormal", "--yes")
DRY_RUN = ("recover", "--abnormal", "--dry-run")
CHECKPOINT = ("checkpoint", "show")
PUT = ("put", "T", "body")


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 messages in three commit-log files."""
    return make_store(tmp_path_factory.mktemp("healthy") / "store", 200)


@pytest.fixture
def store(healthy: Path, tmp_path: Path) -> Path:
    return copy_store(healthy, tmp_path / "store")


def first_segment(store: Path) -> Path:
    return min((store / "commitlog").iterdir())


# What keeps a broker from starting keeps rmqctl from guessing.


def foreign_file(store: Path) -> None:
    (store / "commitlog" / "notes.txt").write_text("mine")


def foreign_file_of_the_right_length(store: Path) -> None:
    (store / "commitlog" / "copy of 0").write_bytes(bytes(16384))


def short_segment(store: Path) -> None:
    with first_segment(store).open("r+b") as file:
        file.truncate(1000)


def long_segment(store: Path) -> None:
    with first_segment(store).open("r+b") as file:
        file.truncate(20000)


def short_queue_file(store: Path) -> None:
    with min((store / "consumequeue" / "T" / "0").iterdir()).open("r+b") as file:
        file.truncate(390)


@pytest.mark.turns(4)
@pytest.mark.parametrize("words", [GET, DRY_RUN, RECOVER, PUT, ("truncate-dirty", "--yes")], ids=" ".join)
@pytest.mark.parametrize(
    ("damage", "file"),
    [
        (foreign_file, "notes.txt"),
        (foreign_file_of_the_right_length, "copy of 0"),
        (short_segment, f"{0:020d}"),
        (long_segment, f"{0:020d}"),
        (short_queue_file, "consumequeue/T/0"),
    ],
)
def test_a_file_on_which_a_broker_refuses_to_start_is_named(
    damage: Callable[[Path], None], file: str, words: tuple[str, ...], store: Path
) -> None:
    damage(store)
    before = snapshot(store)
    done = rmqctl(*words, store=store)
    if damage in (foreign_file, foreign_file_of_the_right_length) and words in (GET, DRY_RUN, RECOVER):
        assert done.code == (OK if words is GET else FINDINGS)
        assert f"commitlog/{file}: not the name of a segment" in done.err
        return
    if words is GET:
        assert done.code == OK
        assert f"left out: {store}" in done.err
        assert file in done.err
    else:
        assert_one_sentence(done, NOT_READABLE, file)
    assert snapshot(store) == before


@pytest.mark.parametrize(
    "words",
    [GET, DRY_RUN, RECOVER, PUT, CHECKPOINT, ("clean-expired", "--yes"), ("undo", "x")],
    ids=" ".join,
)
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "fifo"])
@pytest.mark.parametrize("name", ["lock", "abort", "checkpoint"])
def test_a_folder_or_a_fifo_in_the_place_of_a_file_is_named(
    name: str, make: Callable[[Path], None], words: tuple[str, ...], store: Path
) -> None:
    (store / name).unlink(missing_ok=True)
    make(store / name)
    done = assert_one_sentence(rmqctl(*words, store=store), NOT_READABLE, str(store / name))
    assert "move it out of the store" in done.err


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "fifo"])
def test_a_check_names_a_checkpoint_that_is_no_file(make: Callable[[Path], None], store: Path) -> None:
    (store / "checkpoint").unlink()
    make(store / "checkpoint")
    assert_one_sentence(rmqctl("check", store=store), NOT_READABLE, str(store / "checkpoint"))


@pytest.mark.parametrize("name", ["consumequeue", "index"])
@pytest.mark.parametrize("words", [GET, DRY_RUN, PUT, ("check",)], ids=" ".join)
def test_a_file_in_the_place_of_a_folder_is_named(name: str, words: tuple[str, ...], store: Path) -> None:
    shutil.rmtree(store / name)
    (store / name).write_bytes(b"x")
    done = assert_one_sentence(rmqctl(*words, store=store), NOT_READABLE, str(store / name))
    assert "move it out of the store" in done.err


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "fifo"])
def test_a_table_of_offsets_that_is_no_file_is_named(make: Callable[[Path], None], store: Path) -> None:
    (store / "config").mkdir()
    make(store / "config" / "consumerOffset.json")
    done = rmqctl("clean-expired", "--dry-run", "--force", "--reserved-hours", "0", "--now", "+1d", store=store)
    assert_one_sentence(done, NOT_READABLE, "consumerOffset.json")


# Not a store.


def test_a_folder_that_does_not_exist_is_no_store(tmp_path: Path) -> None:
    assert_one_sentence(rmqctl(*GET, store=tmp_path / "nowhere"), NOT_READABLE, "nowhere")


def test_a_folder_with_other_things_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    for words in (GET, DRY_RUN, CHECKPOINT, PUT):
        assert_one_sentence(rmqctl(*words, store=tmp_path), NOT_READABLE, str(tmp_path))


def test_a_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"hello")
    for words in (GET, DRY_RUN, CHECKPOINT, PUT):
        assert_one_sentence(rmqctl(*words, store=tmp_path / "store"), NOT_READABLE, "store")


@pytest.mark.parametrize("folder", ["commitlog", "consumequeue", "index"])
def test_a_file_where_a_folder_is_expected_is_named(folder: str, store: Path) -> None:
    shutil.rmtree(store / folder)
    (store / folder).write_bytes(b"hello")
    for words in (GET, DRY_RUN, PUT):
        assert_one_sentence(rmqctl(*words, store=store), NOT_READABLE, folder)


def test_a_folder_where_the_checkpoint_is_expected_is_named(store: Path) -> None:
    (store / "checkpoint").unlink()
    (store / "checkpoint").mkdir()
    for words in (GET, DRY_RUN, CHECKPOINT):
        assert_one_sentence(rmqctl(*words, store=store), NOT_READABLE, "checkpoint")


@pytest.mark.parametrize(("path", "name"), [("consumequeue/CURRENT", "RocksDB")])
def test_a_structure_of_the_5x_line_is_refused_by_its_name(path: str, name: str, store: Path) -> None:
    (store / path).parent.mkdir(parents=True, exist_ok=True)
    (store / path).write_bytes(b"x")
    assert name in assert_one_sentence(rmqctl(*PUT, store=store), NOT_READABLE, "store").err


def test_dledger_entries_in_the_log_are_refused_by_their_name(store: Path) -> None:
    first = first_segment(store)
    record = first.read_bytes()[:RECORD_4]
    size = int.from_bytes(record[:4], "big")
    overwrite(first, 0, DLEDGER_HEADER.pack(1, 48 + size, 0, 0, 0, 0, 0, 0, size) + record[:size])
    assert "DLedger" in assert_one_sentence(rmqctl(*DRY_RUN, store=store), NOT_READABLE, f"{0:020d}").err


@pytest.mark.parametrize("magic", [1, 2, 3])
def test_a_damaged_record_with_the_number_of_an_entry_is_damage(magic: int, store: Path) -> None:
    overwrite(first_segment(store), 0, magic.to_bytes(4, "big") + (300).to_bytes(4, "big"))
    assert (rmqctl(*DRY_RUN, store=store).code, rmqctl("check", store=store).code) == (OK, FINDINGS)


# Damage in records: recovery ends the log there, whatever the bytes say.


RECORD_4 = 740  # where the fifth record of the healthy store begins, see test_the_place_of_the_damage


def test_the_place_of_the_damage_is_a_records_beginning(healthy: Path) -> None:
    data = first_segment(healthy).read_bytes()
    position = 0
    for _ in range(4):
        position += int.from_bytes(data[position : position + 4], "big")
    assert position == RECORD_4
    assert data[position + 4 : position + 8] == b"\xda\xa3\x20\xa7"


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("place", "data", "reason"),
    [
        (0, b"\x7f\xff\xff\xff", "beyond"),
        (0, b"\xff\xff\xff\xff", "size"),
        (0, b"\x00\x00\x00\x05", "beyond"),
        (4, b"\x12\x34\x56\x78", "unknown magic"),
        (84, b"\x7f\xff\xff\xff", "beyond"),
        (88 + 60, b"\x80", "topic length is negative"),
        (88 + 60, b"\x7f", "beyond|differs"),
        (88 + 62, b"\x7f\xff", "beyond"),
        (88, b"?", "CRC"),
    ],
)
def test_damage_ends_the_log_and_is_named_with_file_and_place(
    place: int, data: bytes, reason: str, store: Path
) -> None:
    (store / "checkpoint").write_bytes(bytes(4096))
    overwrite(first_segment(store), RECORD_4 + place, data)
    done = rmqctl("--format", "json", *DRY_RUN, store=store)
    assert (done.code, done.err.count("Traceback")) == (OK, 0)
    facts = done.json
    assert facts["log_end"] == RECORD_4
    assert f"{0:020d}, offset {RECORD_4}" in facts["stopped_by"]
    assert any(word in facts["stopped_by"] for word in reason.split("|")), facts["stopped_by"]
    assert rmqctl(*RECOVER, store=store).code == OK
    assert len(rmqctl("--format", "json", *GET, store=store).json["messages"]) == 2


def test_a_total_size_of_two_gigabytes_allocates_nothing(store: Path) -> None:
    (store / "checkpoint").write_bytes(bytes(4096))
    overwrite(first_segment(store), 0, b"\x7f\xff\xff\xff")
    for words, code in ((DRY_RUN, OK), (("get", "--log-offset", "0"), FINDINGS)):
        # Each thread takes 8 MiB for its stack, and there may be as many as processors.
        done = run(command_line(store, *words), memory_bytes=1900 << 20)
        assert done.code == code, done.err
        assert "Traceback" not in done.err


def test_damage_that_hides_a_message_is_named_when_it_is_asked_for(store: Path) -> None:
    overwrite(first_segment(store), RECORD_4 + 4, b"\x12\x34\x56\x78")
    done = rmqctl("get", "--log-offset", RECORD_4, store=store)
    assert done.code == FINDINGS
    assert f"{0:020d}, offset {RECORD_4}: unknown magic" in done.err


def test_a_missing_segment_in_the_middle_is_passed_over_as_a_broker_does(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", 300)
    names = sorted((store / "commitlog").iterdir())
    names[1].unlink()
    cases = ((GET, FINDINGS), (DRY_RUN, OK), (CHECKPOINT, OK), (("truncate-dirty", "--dry-run"), OK))
    for words, code in cases:
        done = rmqctl(*words, store=store)
        assert done.code == code, done.err
        assert "Traceback" not in done.err


@pytest.mark.turns(2)
@pytest.mark.parametrize("size", [0, 1, 8, 23, 4095])
def test_a_truncated_checkpoint_reads_as_if_zeros_followed(size: int, store: Path) -> None:
    data = (store / "checkpoint").read_bytes()
    (store / "checkpoint").write_bytes(data[:size])
    for words, code in ((CHECKPOINT, FINDINGS), (GET, OK), (DRY_RUN, OK), (RECOVER, OK), (CHECKPOINT, OK)):
        done = rmqctl(*words, store=store)
        assert done.code == code, done.err
    assert (store / "checkpoint").stat().st_size == 4096


def test_a_missing_checkpoint_index_and_queues_are_rebuilt(store: Path) -> None:
    shutil.rmtree(store / "index")
    shutil.rmtree(store / "consumequeue")
    (store / "checkpoint").unlink()
    settings = (
        "--set",
        "mappedFileSizeConsumeQueue=400",
        "--set",
        "maxHashSlotNum=50",
        "--set",
        "maxIndexNum=100",
    )
    before = snapshot(store)
    assert len(rmqctl("--format", "json", *settings, *GET, store=store).json["messages"]) == 32
    assert snapshot(store) == before
    assert rmqctl(*settings, *RECOVER, store=store).code == OK
    assert len(rmqctl("--format", "json", *settings, *GET, store=store).json["messages"]) == 32


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("part", "seed", "codes"),
    [
        ("commitlog", 0, "1110001"),
        ("consumequeue", 0, "1000000"),
        ("index", 0, "0000000"),
        # Random headers that seem to cover the log.
        ("index", 1, "0010000"),
        ("checkpoint", 0, "0100000"),
        # Random units that do not point past the log's end stay, and are named.
        ("everything", 0, "1111111"),
        ("everything", 2, "1111111"),
    ],
)
def test_random_bytes_end_in_a_sentence_or_a_result(part: str, seed: int, codes: str, store: Path) -> None:
    chance = random.Random(seed)
    for path in sorted(store.rglob("*")):
        if path.is_file() and (part == "everything" or part in path.parts):
            path.write_bytes(chance.randbytes(path.stat().st_size))
    query, truncate = ("index-query", "T", "all"), ("truncate-dirty", "--dry-run")
    for words, code in zip((GET, CHECKPOINT, query, truncate, DRY_RUN, RECOVER, GET), codes, strict=True):
        done = rmqctl(*words, store=store)
        assert (done.code, "Traceback" in done.err) == (int(code), False), f"{words}: {done.err}"


def test_no_permission_is_an_io_error_that_names_the_file(tmp_path: Path) -> None:
    store = copy_store(golden("normal").store, tmp_path / "store")
    segment = first_segment(store)
    segment.chmod(0)
    [done] = run_as_a_stranger(store, [("get", "TopicA", "--queue", "0")])
    assert done.code == IO_ERROR
    assert f"{segment}: " in done.err
    assert "permission denied" in done.err
    assert len(done.err.strip().splitlines()) == 1


def assert_one_sentence(done: Run, code: int, file: str) -> Run:
    assert done.code == code, done.err
    assert len(done.err.strip().splitlines()) == 1, done.err
    assert file in done.err
    assert done.out == ""
    return done


ODD: dict[str, tuple[list[str], str]] = {
    "a number of 90,000 digits": (["get", "T", "--sql", f"a > {'1' * 90_000}"], "does not fit in 64 bits"),
    "brackets without end": (["find", "--body", "(" * 5_000], "no regular expression"),
    "a key that is not UTF-8": (["find", "\udcff"], "lone surrogate"),
    "a body that is not UTF-8": (["find", "--body", "\udcff"], "lone surrogate"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_words_are_a_usage_error_in_one_short_sentence(name: str, store: Path) -> None:
    words, reason = ODD[name]
    done = rmqctl(*words, store=store)
    assert (done.code, reason in done.err, len(done.err) < 200) == (2, True, True)


def test_a_path_with_a_zero_byte_in_a_broker_conf_is_refused(store: Path, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("storePathCommitLog=\\u0000a\n")
    done = rmqctl("info", "--broker-conf", conf, store=store)
    assert (done.code, "zero byte" in done.err) == (2, True)
