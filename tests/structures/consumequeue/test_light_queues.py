"""Light queues: a put gives the queue offsets that a broker gives, both directions are checked, poison is named."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from store import CheckOptions, Message, check, open_store, plan_rebuild, plan_recovery, salvage, simulate
from store.config import StoreConfig
from store.errors import UnsupportedFormat
from store.files.store_reader import StoreReader
from store.formats.message import StoredMessage
from store.formats.properties import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET, encode_java_map
from store.formats.run import Run
from store.structures.commitlog.bulk import MessageColumns
from store.structures.commitlog.scan import ScanRules, scan_log
from store.structures.consumequeue.multi_dispatch import refuse_light_parts
from store.verbs.rebuild.local import rebuild_locally
from store.verbs.rebuild.scope import RebuildReport, RebuildScope
from tests.cli.running import rmqctl
from tests.support.answers import mismatches
from tests.support.five_stores import asked, copy_of_five, damage, five, fivefive
from tests.support.golden import copy_store
from tests.support.logs import record
from tests.support.small_log import SmallSegment
from tests.support.snapshots import contents
from tests.support.stores import SMALL, Clock, planning
from tests.verbs.backup.backups import back_up, restore

LIGHT = {**SMALL, "enableLmq": True, "enableMultiDispatch": True}
NAMES = "%LMQ%a,%LMQ%b"


def records_of(root: Path) -> list[StoredMessage]:
    """Every record, in the log's order."""
    with open_store(root) as store:
        queues = [queue for queue in store.queues() if not queue.topic.startswith("%LMQ%")]
        found = [one for queue in queues for one in store.messages(queue.topic, queue.queue_id)]
    return sorted(found, key=lambda one: one.log_offset)


def as_sent(record: StoredMessage) -> Message:
    """The message that the broker was given."""
    values = {name: value for name, value in record.properties.items() if name != INNER_MULTI_QUEUE_OFFSET}
    message = Message(record.topic, record.body, record.queue_id, encode_java_map(values), record.flag, record.sys_flag)
    return replace(
        message, born_timestamp_ms=record.born_timestamp_ms, born_host=record.born_host, store_host=record.store_host
    )


def light(names: str, topic: str = "T") -> Message:
    return Message.of(topic, b"x", properties={INNER_MULTI_DISPATCH: names})


def put(root: Path, *messages: Message, compat: str = "5.3", **settings: Any) -> list[str | None]:
    """What the broker writes as queue offsets in light queues, message by message; the reason of a refused one."""
    with open_store(root, read_only=False, compat=compat, settings={**LIGHT, **settings}) as store:
        results = [store.put(message) for message in messages]
        stored = [store.lookup(one.log_offset) if one.is_ok else None for one in results]
    return [
        record.properties.get(INNER_MULTI_QUEUE_OFFSET) if record is not None else one.reason
        for record, one in zip(stored, results, strict=True)
    ]


def test_every_record_is_the_one_that_the_broker_wrote(tmp_path: Path) -> None:
    records = records_of(five("lmq") / "store")
    settings = {"mappedFileSizeCommitLog": 65536, "enableLmq": True, "enableMultiDispatch": True}
    written = [one for one in records if INNER_MULTI_QUEUE_OFFSET in one.properties]
    assert len(written) > 20
    with open_store(tmp_path, read_only=False, compat="5.3", settings=settings) as store:
        for record in records:
            got = store.lookup(store.put(as_sent(record)).log_offset)
            assert got.properties == record.properties
            assert _without_properties(got) == _without_properties(record)


def _without_properties(record: StoredMessage) -> bytes:
    """The record up to its properties, without its store time: their order is that of the broker's map."""
    end = len(record.raw) - len(record.property_text)
    return record.raw[:56] + record.raw[64:end]


def test_properties_are_in_the_order_of_a_map_that_decoding_makes(tmp_path: Path) -> None:
    [record] = [one for one in records_of(five("lmq") / "store") if one.log_offset == 0]
    # The writer of the archive made its map without a size.
    assert encode_java_map(record.properties, capacity=16) == record.property_text


def test_counters_go_on_from_the_queues_on_the_disk(tmp_path: Path) -> None:
    assert put(tmp_path, light(NAMES), light("%LMQ%b"), Message("T", b"x")) == ["0,0", "1", None]
    assert put(tmp_path, light("%LMQ%b,%LMQ%c,%LMQ%a")) == ["2,0,1"]
    assert list(check(tmp_path)) == []
    with open_store(tmp_path) as store:
        assert [one.queue_offset for one in store.messages("T", 0)] == [0, 1, 2, 3]
        assert [store.max_offset(f"%LMQ%{name}", 0) for name in "abc"] == [2, 3, 1]


def test_many_messages_at_once_get_theirs_too(tmp_path: Path) -> None:
    with open_store(tmp_path, read_only=False, compat="5.3", settings=LIGHT) as store:
        result = store.put_many(MessageColumns.of([light(NAMES), Message("T", b"x"), light("%LMQ%a")]))
        found = [store.lookup(int(at)).properties.get(INNER_MULTI_QUEUE_OFFSET) for at in result.log_offsets]
    assert found == ["0,0", None, "1"]


@pytest.mark.parametrize(
    ("message", "compat", "settings"),
    [
        (light(NAMES), "5.3", {"enableLmq": False}),
        (light(NAMES), "4.9", {"enableMultiDispatch": False}),
        (light(NAMES, "%RETRY%g"), "5.3", {}),
        (light(NAMES, "rmq_sys_x"), "5.3", {}),
        (light(" "), "5.3", {}),
    ],
)
def test_none_are_written_where_the_broker_writes_none(
    message: Message, compat: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    assert put(tmp_path, message, compat=compat, **settings) == [None]


def test_4_9_gives_any_name_an_offset(tmp_path: Path) -> None:
    assert put(tmp_path, light("%LMQ%a,other"), light("other"), compat="4.9") == ["0,0", "1"]
    assert list(check(tmp_path)) == []


@pytest.mark.parametrize("names", ["%LMQ%a,plain", "plain,%LMQ%a", "%LMQ%a,plain,%LMQ%b"])
def test_a_name_with_which_5_3_writes_poison_is_refused(names: str, tmp_path: Path) -> None:
    [reason] = put(tmp_path, light(names))
    assert "'plain', which does not begin with %LMQ%" in (reason or "")


def test_a_property_crc_covers_the_queue_offsets(tmp_path: Path) -> None:
    assert put(tmp_path, light(NAMES), light(NAMES), enabledAppendPropCRC=True) == ["0,0", "1,1"]
    assert list(check(tmp_path)) == []


def test_a_record_larger_than_a_message_may_be_is_refused(tmp_path: Path) -> None:
    [reason] = put(tmp_path, replace(light(NAMES), body=bytes(900)), maxMessageSize=1000)
    assert "with light queues the limit is 1000" in (reason or "")


@pytest.mark.parametrize("name", ["lmq", "lmq-poison1"])
def test_answers_are_those_of_the_broker(name: str) -> None:
    with open_store(five(name) / "store") as store:
        assert [one for kind in ("minmax", "get") for one in mismatches(store, asked(name, kind))] == []


# Both directions, and poison.


@pytest.mark.leaves_damage
@pytest.mark.parametrize(("topic", "queue"), [("LmqT", 0), ("LmqT", 1), ("%LMQ%a", 0), ("%LMQ%b", 0)])
def test_a_rebuild_of_one_queue_gives_its_bytes_again_and_leaves_the_others(
    topic: str, queue: int, tmp_path: Path
) -> None:
    root = copy_of_five("lmq", tmp_path)
    before = contents(root / "consumequeue")
    damage(root, {"zero": [[f"consumequeue/{topic}/{queue}/00000000000000000400", 0, 400]]})
    run = rmqctl("rebuild", "--queues", "--topic", topic, "--queue", queue, "--yes", store=root)
    assert run.code == 0, run.err
    assert contents(root / "consumequeue") == before
    assert list(check(root)) == []


def test_light_queues_are_not_rebuilt_on_spark_which_would_leave_them_out(tmp_path: Path) -> None:
    root = copy_of_five("lmq", tmp_path)
    before = contents(root)
    run = rmqctl("rebuild", "--queues", "--engine", "spark", "--yes", store=root)
    assert run.code == 4
    assert "light queues (INNER_MULTI_DISPATCH) are not built on Spark" in run.err
    assert contents(root) == before


def test_units_without_a_message_and_messages_without_a_unit_are_found(tmp_path: Path) -> None:
    root = copy_of_five("lmq", tmp_path)
    damage(root, {"zero": [["consumequeue/%LMQ%a/0/00000000000000000000", 40, 20]]})
    assert {one.kind for one in check(root)} == {"queue-gap", "missing-unit"}
    damage(root, {"bytes": [["consumequeue/%LMQ%b/0/00000000000000000000", 47, "07"]]})
    assert "unit-nowhere" in {one.kind for one in check(root) if one.topic == "%LMQ%b"}


@pytest.mark.leaves_damage
def test_a_queue_offset_that_java_does_not_read_is_poison(tmp_path: Path) -> None:
    root = copy_of_five("lmq", tmp_path)
    path = root / "commitlog/00000000000000000000"
    data = bytearray(path.read_bytes())
    [two_digits, *_] = re.finditer(rb"INNER_MULTI_QUEUE_OFFSET\x01[0-9]{2}", data)
    data[two_digits.end() - 2] = ord(" ")
    path.write_bytes(data)
    assert "light-queue-poison" in {one.kind for one in check(root)}


@pytest.mark.parametrize(("name", "starts"), [("lmq-poison1", True), ("lmq-poison2", False)])
def test_poison_is_named_by_check_with_its_remedy(name: str, starts: bool) -> None:
    root = five(name) / "store"
    found = {one.kind: one.detail for one in check(root)}
    assert "put it again" in found["light-queue-unmatched"]
    assert ("enableMultiDispatch=false" in found.get("light-queue-poison", "")) == (not starts)
    [start] = rmqctl("--format", "json", "simulate", store=root).json["outcomes"]
    assert start["starts"] == starts
    assert ("start once with enableMultiDispatch=false" in (start["reason"] or "")) == (not starts)
    doctor = rmqctl("--format", "json", "doctor", store=root).json
    assert doctor["worst_rank"] == (2 if starts else 1)
    assert "light-queue-unmatched" in {one["what"] for one in doctor["diagnoses"]}


def lose_queues(root: Path) -> None:
    """Remove every file that tells of light queues, but for the log."""
    shutil.rmtree(root / "consumequeue")
    (root / "config/lmqConsumerOffset.json").unlink(missing_ok=True)


def lose_light_queues(root: Path) -> None:
    """Remove every file that tells of light queues, but for the log; plain queues stay."""
    for folder in (root / "consumequeue").glob("%LMQ%*"):
        shutil.rmtree(folder)
    (root / "config/lmqConsumerOffset.json").unlink(missing_ok=True)


@pytest.mark.parametrize("words", [("recover",), ("rebuild",), ("rebuild", "--queues")], ids=" ".join)
@pytest.mark.parametrize("lose", [lose_queues, lose_light_queues])
@pytest.mark.parametrize("crashed", [False, True])
def test_lost_light_queues_are_built_as_the_records_list_them(
    words: tuple[str, ...], lose: Callable[[Path], None], crashed: bool, tmp_path: Path
) -> None:
    root = copy_of_five("lmq", tmp_path)
    lose(root)
    if crashed:
        (root / "abort").touch()
    run = rmqctl("--set", "mappedFileSizeConsumeQueue=400", *words, "--yes", store=root)
    assert run.code == 0, run.err
    assert contents(root / "consumequeue") == contents(five("lmq") / "store/consumequeue")
    assert list(check(root)) == []


def test_a_salvage_builds_lost_light_queues(tmp_path: Path) -> None:
    root = copy_of_five("lmq", tmp_path)
    lose_queues(root)
    salvage(root, tmp_path / "new")
    with open_store(tmp_path / "new") as store:
        assert mismatches(store, asked("lmq", "minmax")) == []


UNLESS_OFF = pytest.mark.parametrize(("given", "is_built"), [({}, True), ({"enableMultiDispatch": "false"}, False)])


@UNLESS_OFF
def test_a_rebuild_builds_light_queues_unless_the_setting_is_off(
    given: dict[str, str], is_built: bool, tmp_path: Path
) -> None:
    root = copy_of_five("lmq", tmp_path)
    lose_queues(root)
    with plan_rebuild(root, settings=given) as change:
        change.apply()
    assert any(path.name.startswith("%LMQ%") for path in (root / "consumequeue").iterdir()) == is_built


@UNLESS_OFF
@pytest.mark.parametrize("by_rebuild", [True, False])
def test_a_recovery_builds_light_queues_unless_the_setting_is_off(
    given: dict[str, str], is_built: bool, by_rebuild: bool, tmp_path: Path
) -> None:
    root = copy_of_five("lmq", tmp_path)
    lose_queues(root)

    def build(staged: Path, config: StoreConfig, scope: RebuildScope, rules: ScanRules) -> RebuildReport:
        return rebuild_locally(StoreReader(str(root)), staged, config, scope, clock=Clock(), rules=rules)

    with planning(root, settings=given) as opened:
        plan_recovery(opened, mode="abnormal", rebuild=build if by_rebuild else None).apply()
    assert any(path.name.startswith("%LMQ%") for path in (root / "consumequeue").iterdir()) == is_built


def test_a_rebuild_builds_no_files_of_light_queues_that_are_in_a_database(tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    root = copy_store(fivefive("combine-separate") / "store", tmp_path / "store")
    run = rmqctl("rebuild", "--queues", "--yes", store=root)
    assert run.code == 0, run.err
    assert list((root / "consumequeue").glob("%LMQ%*")) == []
    assert list(check(root)) == []


@UNLESS_OFF
def test_a_salvage_and_a_restore_build_light_queues_unless_the_setting_is_off(
    given: dict[str, object], is_built: bool, tmp_path: Path
) -> None:
    root = copy_of_five("lmq", tmp_path)
    back_up(root, tmp_path / "backups")
    restore(tmp_path / "backups", tmp_path / "restored", settings=given)
    salvage(root, tmp_path / "salvaged", settings=given)
    built = {one.parents[1].name for one in tmp_path.glob("*/consumequeue/%LMQ%*")}
    assert built - {"store"} == ({"restored", "salvaged"} if is_built else set())


def test_a_record_in_light_queues_is_refused_by_its_log_offset_where_none_are_built() -> None:
    plain = record(b"T")
    properties = encode_java_map({INNER_MULTI_QUEUE_OFFSET: "3"})
    light = record(b"T", position=len(plain), properties=properties)
    sound, refused = (next(scan_log([SmallSegment(memoryview(data))])) for data in (plain, plain + light))
    assert isinstance(sound, Run)
    assert isinstance(refused, Run)
    refuse_light_parts(sound)
    with pytest.raises(UnsupportedFormat, match="not built on Spark") as raised:
        refuse_light_parts(refused)
    assert raised.value.offset == len(plain)


@pytest.mark.spark
def test_lost_light_queues_stop_a_rebuild_on_spark(tmp_path: Path) -> None:
    root = copy_of_five("lmq", tmp_path)
    lose_queues(root)
    run = rmqctl("rebuild", "--queues", "--engine", "spark", "--yes", store=root)
    assert run.code == 4
    assert "light queues (INNER_MULTI_DISPATCH) are not built on Spark" in run.err
    assert not (root / "consumequeue").exists()


@pytest.mark.parametrize("lose", [lose_queues, lose_light_queues])
@pytest.mark.parametrize("settings", [{}, {"enableMultiDispatch": "false"}], ids=["unknown", "off"])
def test_lost_light_queues_are_reported_unless_the_setting_is_off(
    lose: Callable[[Path], None], settings: dict[str, str], tmp_path: Path
) -> None:
    root = copy_of_five("lmq", tmp_path)
    light = {path.name for path in (root / "consumequeue").glob("%LMQ%*")}
    lose(root)
    expected = set() if settings else light
    assert {topic for topic, _ in simulate(root, compat="5.3", settings=settings).unseen} == expected
    given = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    diagnoses = rmqctl("--format", "json", *given, "doctor", store=root).json["diagnoses"]
    found = list(check(root, CheckOptions(settings=settings)))
    if lose is lose_light_queues:
        assert ["light-queues-without-files"] * bool(expected) == [one["what"] for one in diagnoses]
        assert [one.kind for one in found] == ["light-queues-without-files"] * bool(expected)
    else:
        assert any("%LMQ%" in one["detail"] for one in diagnoses if one["area"] == "simulate") == bool(expected)
        assert {one.topic for one in found if one.topic.startswith("%")} == expected


@pytest.mark.leaves_damage
@pytest.mark.parametrize(
    ("line", "given", "kinds"),
    [
        ("5.3", {}, {"light-queues-without-files"}),
        ("5.3", {"enableMultiDispatch": "false"}, set()),
        ("5.3", {"enableMultiDispatch": "true"}, {"missing-unit", "queue-duplicate"}),
        ("4.9", {}, {"missing-unit"}),
    ],
)
def test_light_queues_that_5_3_may_never_have_written_are_one_finding(
    line: str, given: dict[str, str], kinds: set[str], tmp_path: Path
) -> None:
    """With enableLmq alone 5.3 counts from 0 again after each start; 4.9 gives no queue offsets without entries."""
    writes = {} if line == "4.9" else {"enableMultiDispatch": False}
    for _ in range(2):
        assert put(tmp_path, light(NAMES), light("%LMQ%a"), compat=line, **writes)[1] is not None
    if line == "4.9":
        lose_light_queues(tmp_path)
    else:
        (tmp_path / "abort.bak").touch()
    found = list(check(tmp_path, CheckOptions(settings=given)))
    assert {one.kind for one in found} == kinds
    if "light-queues-without-files" in kinds:
        assert [(one.count, one.topic) for one in found] == [(6, None)]
        assert found[0].detail == "2 light queues: lost, or never written by a broker without enableMultiDispatch"
        examined = rmqctl("--format", "json", "doctor", store=tmp_path).json
        assert [(row["rank"], row["what"]) for row in examined["diagnoses"]] == [(3, "light-queues-without-files")]
        traps = rmqctl("--format", "json", "simulate", store=tmp_path).json["traps"]
        assert [row["name"] for row in traps] == ["light-queues-without-files"]
        problems = rmqctl("--format", "json", "info", store=tmp_path).json["problems"]
        assert [(row["what"], row["detail"]) for row in problems] == [("no light queue", found[0].detail)]


def test_a_start_as_a_broker_builds_light_queues_by_the_setting_alone(tmp_path: Path) -> None:
    root = copy_of_five("lmq", tmp_path)
    lose_queues(root)
    run = rmqctl("recover", "--as-broker", "--yes", store=root)
    assert run.code == 0, run.err
    assert {path.name for path in (root / "consumequeue").iterdir()} <= {"LmqT", "LmqU"}
