"""messageDelayLevel is not in the store: delayed messages show it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from store import CheckOptions, Message, open_store
from store.config import DEFAULT_DELAY_LEVELS, StoreConfig
from store.errors import BadRequest
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.derived import units_of
from store.formats.queue_unit import PRE_BLANK, QueueUnit
from store.layout import StoreLayout
from store.opened import delays
from store.opened.delays import (
    MAX_DELAY_MS,
    _delay_of,
    _word,
    describe_inferred_delays,
    infer_delay_levels,
    read_delays,
    refuse_mixed_delays,
)
from store.opened.detect import make_layout
from store.verbs.check import Progress, check_files
from tests.cli.running import rmqctl
from tests.support.logs import SCHEDULE, record
from tests.support.snapshots import contents
from tests.support.stores import SMALL, Clock

NONE_DIFFERS = None
QUEUES = "consumequeue"
LEVELS = "messageDelayLevel"
OWN = "1s 5s 10s 5m"
INFERRED = "1s 5s 10s 5m 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


def delayed(root: Path, levels: str, *of_messages: int) -> Path:
    """Puts a message of each of these levels, under a broker's own delays."""
    settings = {**SMALL, "messageDelayLevel": levels}
    with open_store(root, settings=settings, read_only=False, clock=Clock()) as store:
        for level in of_messages:
            assert store.put(Message("T", b"x", properties=f"DELAY\x01{level}".encode())).is_ok
    return root


@pytest.mark.parametrize(
    ("levels", "of_messages", "inferred"),
    [
        ("1s 5s 10s 30s 1m", (1, 4, 5), NONE_DIFFERS),
        (OWN, (1, 2), NONE_DIFFERS),
        (OWN, (4,), INFERRED),
        (OWN, (1, 4, 4), INFERRED),
        ("2s 5s", (1,), INFERRED.replace("1s", "2s", 1).replace("5m", "30s", 1)),
        ("0s", (1,), INFERRED.replace("1s", "0d", 1).replace("5m", "30s", 1)),
        (" ".join(["1s"] * 18 + ["7s"]), (19,), INFERRED.replace("5m", "30s", 1) + " 7s"),
        (" ".join(["1s"] * 20), (20,), INFERRED.replace("5m", "30s", 1) + " 2h 1s"),
    ],
)
def test_entries_that_differ_by_one_amount_tell_the_delay_of_their_level(
    levels: str, of_messages: tuple[int, ...], inferred: str | None, tmp_path: Path
) -> None:
    root = delayed(tmp_path / "store", levels, *of_messages)
    assert infer_delay_levels(make_layout(root, {}), Filesystem()) == inferred


@pytest.mark.parametrize(
    ("levels", "shown"),
    [
        (OWN, "4 (5m)"),
        ("2s 5s 11s", "1 (2s), 3 (11s)"),
        (f"{DEFAULT_DELAY_LEVELS} 2h", "19 (2h)"),
        (f"{DEFAULT_DELAY_LEVELS} 2h 1s", "20 (1s)"),
    ],
)
def test_levels_are_said_whose_entries_show_another_delay_than_the_default(levels: str, shown: str) -> None:
    (said,) = describe_inferred_delays(StoreConfig(message_delay_level=levels), {})
    assert said.startswith(
        f"delayed messages show the delays of the levels {shown}, so that messageDelayLevel is {levels};"
    )
    assert describe_inferred_delays(StoreConfig(message_delay_level=levels), {"messageDelayLevel": levels}) == []


def test_info_says_that_they_are_inferred(tmp_path: Path) -> None:
    root = delayed(tmp_path / "store", OWN, 4)
    settings = rmqctl("info", "--format", "json", store=root).json["settings"]
    assert [(row["value"], row["source"]) for row in settings if row["name"] == "messageDelayLevel"] == [
        (INFERRED, "inferred")
    ]


@pytest.mark.parametrize("words", [["check"], ["doctor"]])
def test_entries_of_a_broker_with_its_own_delays_are_sound(words: list[str], tmp_path: Path) -> None:
    run = rmqctl(*words, store=delayed(tmp_path / "store", OWN, 4))
    assert run.code == 0, run.out


def changed(root: Path, number: int, by_ms: int) -> Path:
    """Changes the deliver time of an entry of level 4."""
    path = sorted((root / QUEUES / "SCHEDULE_TOPIC_XXXX/3").iterdir())[number // 20]
    data, at = bytearray(path.read_bytes()), number % 20 * 20 + 12
    data[at : at + 8] = (int.from_bytes(data[at : at + 8], "big") + by_ms).to_bytes(8, "big")
    path.write_bytes(data)
    return root


CHANGED = (
    "the entries of delay level 4 show delays of {}: the broker's messageDelayLevel was changed, or entries are "
    "damaged; the queue of this level is rewritten only with the broker's own as a setting"
)
SHOWN = (
    f"delayed messages show the delays of the levels 4 (5m), so that messageDelayLevel is {INFERRED}; "
    "give it as a setting if the broker has another"
)


@pytest.mark.turns(4)
@pytest.mark.parametrize(
    ("levels", "by_ms", "given", "differing", "remarks"),
    [
        pytest.param(DEFAULT_DELAY_LEVELS, 7000, None, None, (CHANGED.format("30s and 37s"),), id="whole seconds"),
        pytest.param(OWN, 7000, None, None, (CHANGED.format("5m and 307s"),), id="whole seconds, an own level"),
        # No broker has such a delay, so the others of the level tell it.
        pytest.param(DEFAULT_DELAY_LEVELS, 1, None, (30_001, 30_000), (), id="a flipped bit"),
        pytest.param(OWN, 1 << 20, None, (1_348_576, 300_000), (SHOWN,), id="a flipped bit, an own level"),
        pytest.param(OWN, 7000, OWN, (307_000, 300_000), (), id="whole seconds, and the level is given"),
        pytest.param(OWN, 1, OWN, (300_001, 300_000), (), id="a flipped bit, and the level is given"),
        pytest.param(OWN, 0, OWN, None, (), id="as given"),
    ],
)
def test_an_entry_of_another_delay_is_a_finding_where_the_level_is_known_else_a_remark(
    levels: str, by_ms: int, given: str | None, differing: tuple[int, int] | None, remarks: tuple[str, ...],
    tmp_path: Path,
) -> None:  # fmt: skip
    root = changed(delayed(tmp_path / "store", levels, *[4] * 30), 7, by_ms)
    options = CheckOptions(settings={LEVELS: given} if given else {})
    progress = Progress()
    findings = [(one.kind, one.offset, one.queue_id, one.count, one.detail)
                for one in check_files(StoreReader(str(root)), options, progress)]  # fmt: skip
    found, right = (1_700_000_000_000 + delay_ms for delay_ms in differing or (0, 0))
    detail = f"size 142 tags {found}, the record has 142 and {right}"
    assert findings == ([("unit-differs", 7, 3, 1, detail)] if differing else [])
    assert progress.remarks == remarks
    for words in ("check", "doctor"):
        run = rmqctl(*(("--set", f"{LEVELS}={given}") if given else ()), words, store=root)
        said = [line for line in run.err.splitlines() if not line.startswith("step ")]
        assert (run.code, said) == (bool(differing), [*remarks])


def test_the_check_of_a_part_reads_no_delays(tmp_path: Path) -> None:
    root = changed(delayed(tmp_path / "store", OWN, *[4] * 30), 7, 7000)
    for options in (CheckOptions(sample_percent=99), CheckOptions(from_offset=1)):
        progress = Progress()
        assert (list(check_files(StoreReader(str(root)), options, progress)), progress.remarks) == ([], ())


@pytest.mark.parametrize("words", [["recover", "--abnormal"], ["rebuild"]])
@pytest.mark.parametrize("is_last_lost", [False, True])
def test_delayed_messages_keep_their_times(words: list[str], is_last_lost: bool, tmp_path: Path) -> None:
    root = delayed(tmp_path / "store", OWN, *[4] * 30)
    before = contents(root / QUEUES)
    if is_last_lost:
        (root / QUEUES / "SCHEDULE_TOPIC_XXXX/3" / f"{400:020d}").unlink()
    run = rmqctl(*words, "--yes", store=root)
    assert run.code == 0, run.err
    assert f"delayed messages show the delays of the levels 4 (5m), so that messageDelayLevel is {INFERRED};" in (
        run.out + run.err
    )
    assert contents(root / QUEUES) == before


BUILDING = [["recover", "--abnormal", "--yes"], ["rebuild", "--yes"], ["salvage", "--to", "{new}"]]
ASSUMED = "no entry shows the delays of these levels, and messageDelayLevel's default is assumed: "


@pytest.mark.turns(2)
@pytest.mark.parametrize("words", BUILDING)
@pytest.mark.parametrize(
    ("lost", "options", "assumed"),
    [
        ("", [], None),
        ("2", [], "3 (10s)"),
        ("*", [], "3 (10s), 4 (30s)"),
        ("*", ["--set", f"messageDelayLevel={OWN}"], None),
    ],
)
def test_delays_that_no_entry_tells_are_said_to_be_assumed(
    lost: str, words: list[str], options: list[str], assumed: str | None, tmp_path: Path
) -> None:
    root = delayed(tmp_path / "store", OWN, 3, 4)
    for queue in (root / QUEUES / "SCHEDULE_TOPIC_XXXX").glob(lost) if lost else ():
        shutil.rmtree(queue)
    run = rmqctl(*(word.format(new=tmp_path / "new") for word in words), *options, store=root)
    assert run.code == 0, run.err
    said = [line.split(ASSUMED)[1].split(";")[0] for line in (run.out + run.err).splitlines() if ASSUMED in line]
    assert said == ([assumed] if assumed else [])


def delivered(root: Path, level: int, *after_ms: int) -> Path:
    """Puts delayed messages of a level and their delivered copies, and loses the queue of the level."""
    clock = Clock()
    with open_store(root, settings=SMALL, read_only=False, clock=clock) as store:
        for number, wait_ms in enumerate(after_ms):
            key = f"UNIQ_KEY\x01K{number}\x02".encode()
            assert store.put(Message("T", b"x", properties=key + b"DELAY\x01%d" % level)).is_ok
            clock.now_ms += wait_ms
            assert store.put(Message("T", b"x", properties=key + b"REAL_TOPIC\x01T\x02REAL_QID\x010\x02")).is_ok
    shutil.rmtree(root / QUEUES / "SCHEDULE_TOPIC_XXXX")
    return root


@pytest.mark.turns(3)
@pytest.mark.parametrize("words", BUILDING)
@pytest.mark.parametrize(
    ("after_ms", "earliest"),
    [
        ((9_999,), "9.999s"),
        ((10_000,), None),
        ((14_999, 300_000), None),
        ((15_000, 300_000), "15s"),
        ((300_004, 300_090), "300.004s"),
        ((20_000, 10_100, 40_000), None),
    ],
)
def test_delivered_copies_tell_whether_the_default_delay_is_the_brokers(
    after_ms: tuple[int, ...], earliest: str | None, words: list[str], tmp_path: Path
) -> None:
    root = delivered(tmp_path / "store", 3, *after_ms)
    words = [word.format(new=tmp_path / "new") for word in words]
    run = rmqctl(*words, store=root)
    if earliest is None:
        assert (run.code, ASSUMED in run.out + run.err) == (0, False)
        return
    fault = f"messages of delay level 3 were delivered after {earliest} at the earliest, and {LEVELS}'s default is 10s"
    is_refused = words[0] != "salvage"
    assert (run.code, fault in run.out + run.err) == (2 if is_refused else 0, True)
    assert ("give the broker's messageDelayLevel by --broker-conf or --set" in run.err) is is_refused
    shutil.rmtree(tmp_path / "new", ignore_errors=True)
    run = rmqctl(*words, "--set", f"messageDelayLevel={OWN}", store=root)
    assert (run.code, "at the earliest" in run.out + run.err) == (0, False)


@pytest.mark.turns(2)
@pytest.mark.parametrize("words", BUILDING)
@pytest.mark.parametrize(("level", "is_lacking"), [(18, False), (19, True)])
def test_a_level_that_the_default_lacks_is_not_built_without_an_entry(
    level: int, is_lacking: bool, words: list[str], tmp_path: Path
) -> None:
    root = delayed(tmp_path / "store", " ".join(["1s"] * 19), level)
    shutil.rmtree(root / QUEUES / "SCHEDULE_TOPIC_XXXX")
    run = rmqctl(*(word.format(new=tmp_path / "new") for word in words), store=root)
    fault = f"the log has messages of delay level 19, and {LEVELS}'s default has 18 levels"
    assert (run.code, fault in run.out + run.err) == (2 if is_lacking and words[0] != "salvage" else 0, is_lacking)


@pytest.mark.turns(4)
@pytest.mark.parametrize(
    ("levels", "by_ms", "given", "in_manifest", "assumed"),
    [
        pytest.param(DEFAULT_DELAY_LEVELS, 0, None, DEFAULT_DELAY_LEVELS, [], id="the default's"),
        pytest.param(OWN, 0, None, INFERRED, [], id="the broker's own"),
        pytest.param(OWN, 7000, None, None, [f"{ASSUMED}4 (30s)"], id="entries disagree"),
        pytest.param(OWN, 7000, OWN, None, [], id="entries disagree, and a restore is told"),
    ],
)
def test_a_backup_knows_the_delays_that_entries_show_and_a_restore_says_which_it_assumes(
    levels: str, by_ms: int, given: str | None, in_manifest: str | None, assumed: list[str], tmp_path: Path
) -> None:
    root = changed(delayed(tmp_path / "store", levels, *[4] * 30), 7, by_ms)
    run = rmqctl("backup", "create", tmp_path / "backups", store=root)
    said = [CHANGED.format("5m and 307s")] if by_ms else []
    assert (run.code, [line for line in run.err.splitlines() if "entries of delay level" in line]) == (0, said)
    [manifest] = (json.loads(path.read_text()) for path in (tmp_path / "backups/backups").iterdir())
    assert manifest["settings"].get(LEVELS) == in_manifest
    options = ("--set", f"{LEVELS}={given}") if given else ()
    run = rmqctl(*options, "backup", "restore", tmp_path / "backups", "--to", tmp_path / "new")
    said = [line.partition(";")[0] for line in run.err.splitlines() if "delay" in line]
    assert (run.code, said) == (0, assumed)


def test_a_broker_that_got_other_delays_has_sound_entries(tmp_path: Path) -> None:
    root = delayed(delayed(tmp_path / "store", OWN, 4), "1s 5s 10s 10m", 4)
    assert [rmqctl(verb, store=root).code for verb in ("check", "doctor")] == [0, 0]
    before = contents(root / QUEUES)
    (root / "abort").touch()
    assert rmqctl("recover", "--yes", store=root).code == 0
    assert contents(root / QUEUES) == before


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["rebuild"], 2),
        (["rebuild", "--topic", "SCHEDULE_TOPIC_XXXX"], 2),
        (["rebuild", "--topic", "T"], 0),
        (["rebuild", "--index"], 0),
        (["rebuild", "--set", "messageDelayLevel=1s 5s 10s 10m"], 0),
        (["recover", "--abnormal"], 2),
        (["recover", "--abnormal", "--set", "messageDelayLevel=1s 5s 10s 10m"], 0),
        (["recover", "--abnormal", "--as-broker"], 0),
        (["salvage", "--to", "{new}"], 2),
        (["salvage", "--to", "{new}", "--set", "messageDelayLevel=1s 5s 10s 10m"], 0),
        (["salvage"], 0),
    ],
)
def test_delayed_queues_are_not_built_where_entries_of_a_level_tell_several_delays(
    words: list[str], code: int, tmp_path: Path
) -> None:
    root = delayed(delayed(tmp_path / "store", OWN, *[4] * 20), "1s 5s 10s 10m", *[4] * 30)
    with open_store(root, settings=SMALL, read_only=False, clock=Clock()) as store:
        assert store.put(Message("T", b"x")).is_ok
    (root / QUEUES / "SCHEDULE_TOPIC_XXXX/3" / f"{800:020d}").unlink()
    words = [word.format(new=tmp_path / "new") for word in words]
    run = rmqctl(*words, *(["--yes"] if words[0] != "salvage" else []), store=root)
    assert run.code == code, run.err
    assert ("the entries of delay level 4 show delays of 5m and 10m" in run.err) is (code == 2)


@pytest.mark.parametrize("before", [0, 1, 19, 57, 60])
def test_one_entry_of_another_delay_among_many_files_is_seen(before: int, tmp_path: Path) -> None:
    root = delayed(tmp_path / "store", OWN, *[4] * before)
    delayed(delayed(root, "1s 5s 10s 10m", 4), OWN, *[4] * (60 - before))
    with pytest.raises(BadRequest, match="the entries of delay level 4 show delays of 5m and 10m"):
        refuse_mixed_delays(make_layout(root, {}), Filesystem())


def test_entries_in_a_rocksdb_tell_the_delays_too(tmp_path: Path) -> None:
    pytest.importorskip("rocksdict", reason="rocksdict is not installed: it writes RocksDBs")
    root = delayed(delayed(tmp_path / "store", OWN, *[4] * 3), "1s 5s 10s 10m", *[4] * 3)
    words = ("--set", "storeType=defaultRocksDB", "rebuild", "--queues", "--yes")
    assert rmqctl("--set", f"messageDelayLevel={OWN}", *words, store=root).code == 0
    for level in (root / QUEUES).iterdir():
        if level.is_dir():
            shutil.rmtree(level)
    assert infer_delay_levels(make_layout(root, {}), Filesystem()) == INFERRED


@pytest.mark.parametrize(
    ("lost", "options", "assumed"),
    [
        ("", [], []),
        ("2", [], ["3 (10s)"]),
        ("*", [], ["3 (10s), 4 (30s)"]),
        ("*", ["--set", f"messageDelayLevel={OWN}"], []),
    ],
)
def test_delays_that_a_new_rocksdb_gets_by_default_are_said(
    lost: str, options: list[str], assumed: list[str], tmp_path: Path
) -> None:
    pytest.importorskip("rocksdict", reason="rocksdict is not installed: it writes RocksDBs")
    root = delayed(tmp_path / "store", OWN, 3, 4)
    for queue in (root / QUEUES / "SCHEDULE_TOPIC_XXXX").glob(lost) if lost else ():
        shutil.rmtree(queue)
    run = rmqctl(*options, "--set", "storeType=defaultRocksDB", "rebuild", "--queues", "--yes", store=root)
    assert run.code == 0, run.err
    assert (root / QUEUES / "CURRENT").exists()
    said = [line.split(ASSUMED)[1].split(";")[0] for line in (run.out + run.err).splitlines() if ASSUMED in line]
    assert said == assumed


@pytest.mark.parametrize("most", [1, 2, 59, 60])
def test_no_more_entries_are_read_than_are_affordable(
    most: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    root = delayed(tmp_path / "store", OWN, *[4] * 30, *[3] * 30)
    read: list[object] = []
    decode = delays.decode_record
    monkeypatch.setattr(delays, "MOST_ENTRIES", most)
    monkeypatch.setattr(delays, "decode_record", lambda data: read.append(data) or decode(data))
    delays.read_delays(make_layout(root, {}), Filesystem())
    assert len(read) == most // 2 * 2


@pytest.mark.parametrize(
    ("delay_ms", "word"),
    [
        (1000, "1s"), (59_000, "59s"), (60_000, "1m"), (61_000, "61s"), (3_540_000, "59m"), (3_600_000, "1h"),
        (3_660_000, "61m"), (82_800_000, "23h"), (86_400_000, "1d"), (90_000_000, "25h"), (172_800_000, "2d"),
    ],
)  # fmt: skip
def test_a_delay_is_written_in_the_largest_unit_that_it_is_a_multiple_of(delay_ms: int, word: str) -> None:
    assert _word(delay_ms) == word


def test_entries_of_records_in_later_segments_tell_their_delay(tmp_path: Path) -> None:
    root, fs = tmp_path / "store", Filesystem()
    settings = {**SMALL, "messageDelayLevel": "7s 1d"}
    with open_store(root, settings=settings, read_only=False, clock=Clock()) as store:
        for number in range(60):
            store.put(Message.of("T", b"x" * 500, delay_level=1 + number % 2))
    layout = make_layout(root, {}, fs)
    assert read_delays(layout, fs) == {1: {7000}, 2: {86_400_000}}
    first, *others = sorted((root / "commitlog").iterdir())
    assert others
    first.unlink()
    assert read_delays(layout, fs) == {1: {7000}, 2: {86_400_000}}
    for segment in others:
        segment.unlink()
    assert read_delays(layout, fs) == {}


STORED_MS = 1_700_000_000_000
LONGEST_MS = MAX_DELAY_MS // 1000 * 1000


@pytest.mark.parametrize(
    ("delay_ms", "expected"),
    [
        (-1000, None), (-1, None), (0, 0), (1, None), (999, None), (1000, 1000), (1001, None),
        (LONGEST_MS, LONGEST_MS), (LONGEST_MS + 1000, None),
    ],
)  # fmt: skip
def test_an_entry_tells_a_delay_of_whole_seconds_up_to_the_longest(
    delay_ms: int, expected: int | None, tmp_path: Path
) -> None:
    assert delay_told(tmp_path, tags_code=STORED_MS + delay_ms) == expected


@pytest.mark.parametrize(
    "changed",
    [
        {"topic": b"T"},
        {"properties": b"DELAY\x015"},
        {"properties": b""},
        {"position": 201},
        {"lacks": 1},
        {"log_offset": 199},
        {"starts": (None,)},
        {"starts": (201,)},
    ],
)
def test_an_entry_of_another_record_tells_no_delay(changed: dict[str, object], tmp_path: Path) -> None:
    assert delay_told(tmp_path, **{"starts": (None, 0, 300), **changed}) is None  # type: ignore[arg-type]
    assert delay_told(tmp_path, starts=(None, 0, 300)) == 1000


def test_an_entry_is_looked_up_in_the_last_segment_that_begins_before_its_record(tmp_path: Path) -> None:
    assert delay_told(tmp_path, position=700, log_offset=700, starts=(0, 500, 900)) == 1000


def delay_told(
    folder: Path,
    *,
    tags_code: int = STORED_MS + 1000,
    topic: bytes = SCHEDULE,
    properties: bytes = b"DELAY\x014",
    position: int = 200,
    lacks: int = 0,
    log_offset: int = 200,
    starts: tuple[int | None, ...] = (0,),
) -> int | None:
    """The delay that an entry of level 4 tells, whose record is at log offset 200 of a segment."""
    data = record(topic, properties=properties, position=position)
    (folder / "segment").write_bytes(bytes(200) + data)
    (unit,) = units_of(QueueUnit(log_offset, len(data), tags_code).encode())
    file = SimpleNamespace(path=folder / "segment", size=200 + len(data) - lacks)
    return _delay_of(unit, 4, dict.fromkeys(starts, file), Filesystem())  # type: ignore[arg-type]


def test_a_plans_files_tell_the_levels_that_get_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout, unit = StoreLayout(tmp_path), QueueUnit(0, 91, 0).encode()
    schedule, name = layout.consumequeue / "SCHEDULE_TOPIC_XXXX", "0" * 20
    database = SimpleNamespace(units_in=lambda folder, _: [(7, folder.name), (8, "")])
    structure = SimpleNamespace(
        has_furniture="delays".__eq__,
        furniture=lambda _: database,
        traces=[SimpleNamespace(path="db/CURRENT"), SimpleNamespace(path="db/OTHER")],
    )
    monkeypatch.setattr(delays, "STRUCTURES", [structure, SimpleNamespace(has_furniture=lambda _: False)])
    staged = {"one": unit, "zeros": bytes(40), "pre-blank": PRE_BLANK.encode(), "torn": unit[:19]}
    for file, data in staged.items():
        (tmp_path / file).write_bytes(data)
    published = {
        schedule / "0" / name: "one",
        schedule / "1" / name: "zeros",
        schedule / "2" / name: "pre-blank",
        schedule / "3" / name: "torn",
        schedule / "other" / name: "one",
        layout.consumequeue / "T/4" / name: "one",
        tmp_path / "db/CURRENT": "one",
        tmp_path / "db/OTHER": "one",
    }
    found = delays.built_levels({path: tmp_path / file for path, file in published.items()}, layout, Filesystem())
    assert found == {1, 7}


def test_stored_levels_are_those_of_queues_with_entries(tmp_path: Path) -> None:
    root = delayed(tmp_path / "store", OWN, 1, 3)
    for path in (root / QUEUES / "SCHEDULE_TOPIC_XXXX/2").iterdir():
        path.write_bytes(bytes(400))
    assert delays.stored_levels(make_layout(root, {}), Filesystem()) == {1}


@pytest.mark.parametrize(
    ("path", "data", "levels"),
    [
        ("rocks", b"", {3, 5}),
        ("rocks.old", b"", set()),
        (f"{QUEUES}/SCHEDULE_TOPIC_XXXX/0/{0:020d}", QueueUnit(0, 100, 5).encode(), {1}),
        (f"{QUEUES}/SCHEDULE_TOPIC_XXXX/17/{0:020d}", QueueUnit(0, 100, 5).encode(), {18}),
        (f"{QUEUES}/SCHEDULE_TOPIC_XXXX/17/{0:020d}", bytes(20), set()),
        (f"{QUEUES}/T/17/{0:020d}", QueueUnit(0, 100, 5).encode(), set()),
    ],
)
def test_the_levels_are_those_of_the_queues_that_a_plan_builds(
    path: str, data: bytes, levels: set[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = SimpleNamespace(units_in=lambda folder, fs: [(3, [1]), (4, []), (5, [1, 2])] if folder == tmp_path else [])
    traces = [SimpleNamespace(path=name) for name in ("rocks", "rocks.old")]
    database = SimpleNamespace(has_furniture=lambda kind: kind == "delays", furniture=lambda kind: room, traces=traces)
    monkeypatch.setattr(delays, "STRUCTURES", [database])
    (tmp_path / "staged").write_bytes(data)
    layout = StoreLayout(tmp_path / "store")
    assert delays.built_levels({layout.root / path: tmp_path / "staged"}, layout, Filesystem()) == levels


def test_the_first_level_of_several_delays_is_refused_with_its_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delays, "read_delays", lambda layout, fs: {4: {1000, 5000}, 2: {1000, 3000}, 1: {1}})
    with pytest.raises(BadRequest, match="delay level 2 show delays of 1s and 3s") as refused:
        refuse_mixed_delays(StoreLayout(tmp_path), Filesystem())
    assert str(refused.value.file) == str(tmp_path / QUEUES / "SCHEDULE_TOPIC_XXXX/1")


@pytest.mark.parametrize(
    ("count", "rows"), [(0, []), (1, [0]), (3, [0, 1, 2]), (4, [0, 1, 2, 3]), (7, [0, 2, 4, 6]), (10, [0, 3, 6, 9])]
)
def test_entries_are_read_from_the_first_to_the_last(
    count: int, rows: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    units = [*range(count)]
    for name, value in {
        "MOST_ENTRIES": 4,
        "_units_in_databases": lambda layout, fs: [],
        "_units_in_files": lambda layout, fs: [(1, units)],
        "_delay_of": lambda unit, level, segments, fs: seen.append(unit),
    }.items():
        monkeypatch.setattr(delays, name, value)
    assert (read_delays(StoreLayout(tmp_path), Filesystem()), seen) == ({}, rows)
