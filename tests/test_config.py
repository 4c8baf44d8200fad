"""Settings: known or refused, in range, with an effect or said to have none."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from pathlib import Path

import pytest

from store.broker_line import LINE_4_9, LINE_5_3, LINE_5_5, BrokerLine, broker_line
from store.config import LOG_PATHS, StoreConfig, _camel, all_settings, check_settings, read_broker_conf
from store.errors import BadRequest, WrongKind
from store.setting_values import (
    MAX_DELAY_MS,
    MAX_INT,
    MAX_LONG,
    check_type,
    check_value,
    convert_value,
    parse_delay_levels,
    parse_hours,
)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("flushDisktype=SYNC_FLUSH", "did you mean flushDiskType?"),
        ("mappedFileSizeComitLog=4096", "did you mean mappedFileSizeCommitLog?"),
        ("xyzzy=1", "has no setting xyzzy$"),
        ("x y=1", "has no setting 'x y'$"),
        (f"{'x' * 60}=1", f"has no setting {'x' * 60}$"),
        (f"{'x' * 61}=1", f"has no setting '{'x' * 60}'…$"),
        ("brokerRole=FOO", "brokerRole is ASYNC_MASTER, SYNC_MASTER or SLAVE, not FOO"),
        ("flushDiskType=async", "flushDiskType is"),
        ("maxIndexNum=99999999999999999999999999", "maxIndexNum lies between 2 and 2147483647"),
        ("maxIndexNum=200000000", "the limit is 2147483647"),
        ("maxIndexNum=0", "maxIndexNum lies between"),
        ("maxHashSlotNum=-1", "maxHashSlotNum lies between"),
        ("mappedFileSizeCommitLog=2147483648", "mappedFileSizeCommitLog lies between"),
        ("mappedFileSizeCommitLog=1.5", "needs a whole number"),
        ("fileReservedTime=-1", "fileReservedTime lies between"),
        ("diskSpaceWarningLevelRatio=101", "lies between 0 and 100"),
        ("messageIndexEnable=yes", "needs true or false"),
        ("haListenPort=abc", "needs a whole number"),
        ("deleteWhen=24", "hours from 00 to 23"),
        ("messageDelayLevel=99999999999999999999d", "the limit is"),
        ("messageDelayLevel=1s  5s", "not a number with s, m, h or d"),
        ("messageDelayLevel=1w", "not a number with s, m, h or d"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_reason(setting: str, said: str) -> None:
    name, _, value = setting.partition("=")
    with pytest.raises(BadRequest, match=said.replace("?", r"\?")):
        StoreConfig().with_settings({name: value})


def test_every_setting_of_a_broker_is_taken_and_those_without_effect_change_nothing() -> None:
    settings = all_settings()
    assert len(settings) > 400
    without = {name: setting.default for name, setting in settings.items() if not setting.effect}
    assert StoreConfig().with_settings(without) == StoreConfig()


@pytest.mark.parametrize(
    "name",
    ["maxMsgsNumBatch", "storePathRootDir", "readOnlyCommitLogStorePaths", "osPageCacheBusyTimeOutMills"],
)
def test_these_have_an_effect(name: str) -> None:
    assert all_settings()[name].effect


@pytest.mark.parametrize(
    "name",
    [
        "duplicationEnable",
        "offsetCheckInSlave",
        "defaultQueryMaxNum",
        "bitMapLengthConsumeQueueExt",
        "destroyMapedFileIntervalForcibly",
        "redeleteHangedFileInterval",
        "brokerName",
        "haMasterAddress",
    ],
)
def test_these_are_known_to_have_none(name: str) -> None:
    assert not all_settings()[name].effect


def test_every_field_of_the_configuration_is_used_outside_of_it() -> None:
    root = Path(__file__).parents[1]
    sources = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("store", "rmqctl")
        for path in (root / folder).rglob("*.py")
        if path.name != "config.py" or folder == "rmqctl"
    )
    names = {setting.name: setting for setting in all_settings().values() if setting.effect}
    derived = {"message_delay_level": "delay_levels_ms", "transient_store_pool_enable": "uses_transient_pool"}
    derived |= {
        "commit_log_recover_max_num": "most_recovered_segments",
        "index_file_write_enable": "writes_index_files",
        "combine_cq_use_rocksdb_for_lmq": "has_named_queues_in_database",
    }
    for field, name in zip(dataclasses.fields(StoreConfig), names, strict=True):
        used = derived.get(field.name, field.name)
        # The places of a log are names of StoreConfig, for the rooms that look there.
        assert f".{used}" in sources or f'"{name}"' in sources or name in LOG_PATHS, f"{name} is not used"


def test_a_broker_conf_is_read_as_a_java_properties_file(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "# brokerRole = SLAVE\n! note\nflushDiskType : SYNC_FLUSH\nbrokerName=broker-a\ndeleteWhen 0\\\n  5\n"
    )
    assert read_broker_conf(conf) == {"flushDiskType": "SYNC_FLUSH", "brokerName": "broker-a", "deleteWhen": "05"}


def test_a_broker_conf_with_an_unknown_name_is_refused_by_file_and_name(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("flushDiskTyp=SYNC_FLUSH\n")
    with pytest.raises(BadRequest, match=r"broker\.conf: RocketMQ has no setting flushDiskTyp; did you mean flushDisk"):
        read_broker_conf(conf)


@pytest.mark.parametrize(("size", "is_read"), [(1 << 20, True), ((1 << 20) + 1, False)])
def test_a_broker_conf_is_read_up_to_a_mebibyte(size: int, is_read: bool, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_bytes(b"brokerName=a\n#".ljust(size, b"x"))
    with nullcontext() if is_read else pytest.raises(BadRequest, match="has no more than 1048576 bytes"):
        assert read_broker_conf(conf) == {"brokerName": "a"}


def test_values_are_converted_to_their_types() -> None:
    given = {"flushCommitLogTimed": " FALSE ", "syncFlushTimeout": "7", "deleteWhen": "04"}
    assert check_settings(given) == {"flushCommitLogTimed": False, "syncFlushTimeout": 7, "deleteWhen": "04"}
    without_default = {"transactionCheckInterval": "7", "indexRocksDBEnable": "true", "dLegerSelfId": "7"}
    assert check_settings(without_default) == {
        "transactionCheckInterval": 7, "indexRocksDBEnable": True, "dLegerSelfId": "7",
    }  # fmt: skip


def test_delay_levels_up_to_the_limit_are_taken() -> None:
    assert parse_delay_levels("1s 2h 1d") == (1000, 7_200_000, 86_400_000)
    assert parse_delay_levels(f"{MAX_DELAY_MS // 1000}s") == (MAX_DELAY_MS // 1000 * 1000,)


# Default, least and most of each number, by MessageStoreConfig and BrokerConfig (4.9.8, 5.3.3); the limits are ours.
NUMBERS = """
mappedFileSizeCommitLog 1073741824 1 int
mappedFileSizeConsumeQueue 6000000 1 int
mapperFileSizeBatchConsumeQueue 13800000 46 int
mappedFileSizeTimerLog 104857600 1 int
timerPrecisionMs 1000 1 int
maxErrorRateOfBloomFilter 20 1 99
expectConsumerNumUseFilter 32 1 int
mappedFileSizeConsumeQueueExt 50331648 1 int
maxHashSlotNum 5000000 1 int
maxIndexNum 20000000 2 int
maxMessageSize 4194304 0 int
listenPort 10911 0 65535
commitLogRecoverMaxNum 10 -2147483647 int
combineCQMaxExtraSearchCommitLogFiles 3 -2147483647 int
slaveTimeout 3000 0 int
haSlaveFallbehindMax 268435456 1 int
haTransferBatchSize 32768 1 int
haSendHeartbeatInterval 5000 0 int
haHousekeepingInterval 20000 1 int
inSyncReplicas 1 0 int
osPageCacheBusyTimeOutMills 1000 0 long
syncFlushTimeout 5000 0 int
flushIntervalCommitLog 500 0 int
flushCommitLogLeastPages 4 0 int
flushCommitLogThoroughInterval 10000 0 int
commitIntervalCommitLog 200 0 int
commitCommitLogLeastPages 4 0 int
commitCommitLogThoroughInterval 200 0 int
flushIntervalConsumeQueue 1000 0 int
flushConsumeQueueLeastPages 2 0 int
flushConsumeQueueThoroughInterval 60000 0 int
transientStorePoolSize 5 1 int
transactionTimeOut 6000 0 long
transactionCheckMax 15 0 int
transactionCheckInterval None 1 long
transactionOpMsgMaxSize 4096 1 int
transactionOpBatchInterval 3000 1 int
transactionMetricFlushInterval 3000 1 int
maxTransferBytesOnMessageInMemory 262144 0 int
maxTransferCountOnMessageInMemory 32 0 int
maxTransferBytesOnMessageInDisk 65536 0 int
maxTransferCountOnMessageInDisk 8 0 int
accessMessageInMemoryMaxRatio 40 0 100
maxMsgsNumBatch 64 0 int
fileReservedTime 72 0 int
diskMaxUsedSpaceRatio 75 int int
diskSpaceWarningLevelRatio 90 0 100
diskSpaceCleanForciblyRatio 85 0 100
deleteFileBatchMax 10 1 int
cleanResourceInterval 10000 1 int
deleteCommitLogFilesInterval 100 0 int
deleteConsumeQueueFilesInterval 100 0 int
correctLogicMinOffsetForceInterval 300000 0 int
"""


def test_numbers_have_the_brokers_defaults_and_their_limits() -> None:
    limits = {str(-MAX_INT - 1): "int", str(MAX_INT): "int", str(MAX_LONG): "long"}
    found = []
    for field in dataclasses.fields(StoreConfig()):
        if str(field.type).startswith("int"):
            least, most = (str(field.metadata[name]) for name in ("least", "most"))
            found.append(f"{_camel(field.name)} {field.default} {limits.get(least, least)} {limits.get(most, most)}")
    assert found == NUMBERS.split("\n")[1:-1]


def test_given_settings_count_as_changed_at_their_default() -> None:
    config = StoreConfig().with_settings({"listenPort": 1})
    assert config.changed_settings() == {"listenPort": 1}
    assert config.changed_settings({"enableLmq": "false", "brokerName": "a"}) == {"enableLmq": False, "listenPort": 1}


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("maxMsgsNumBatch", 0, MAX_INT), ("listenPort", 0, 65535), ("diskMaxUsedSpaceRatio", -MAX_INT - 1, MAX_INT)],
)
def test_a_number_is_taken_from_its_least_to_its_most(name: str, least: int, most: int) -> None:
    for value in (least, most):
        assert StoreConfig().with_settings({name: str(value)}).changed_settings() == {name: value}
    for value in (least - 1, most + 1):
        with pytest.raises(BadRequest, match=f"{name} lies between {least} and {most}, not {value}"):
            StoreConfig().with_settings({name: str(value)})


def test_these_flags_are_on_by_default() -> None:
    flags = {name: setting.default for name, setting in all_settings().items() if setting.type == "bool"}
    ours = [_camel(field.name) for field in dataclasses.fields(StoreConfig()) if field.type == "bool"]
    assert [name for name in ours if flags[name]] == [
        "enableDLegerCommitLog",
        "messageIndexEnable",
        "indexFileWriteEnable",
        "checkCRCOnRecover",
        "flushCommitLogTimed",
        "cleanFileForciblyEnable",
    ]


RULES_OF_5_5 = (
    "indexes_tags",
    "matches_first_record",
    "deletes_by_unique_key",
    "guards_unwritten_file",
    "marks_flushed_record",
    "opens_halves_by_key",
    "drops_real_topic",
)


def test_a_line_differs_from_the_one_before_in_its_own_rules() -> None:
    rules = [name for name in BrokerLine._fields if name not in ("name", *RULES_OF_5_5)]
    # 5.3 writes its tables in place, 4.9 renames them.
    expected = [(name, *((True, False) if name == "renames_config" else (False, True))) for name in rules]
    assert [(name, getattr(LINE_4_9, name), getattr(LINE_5_3, name)) for name in rules] == expected
    both = [(name, getattr(LINE_5_3, name), getattr(LINE_5_5, name)) for name in RULES_OF_5_5]
    assert both == [(name, False, True) for name in RULES_OF_5_5]
    assert LINE_5_5._replace(name="5.3", **dict.fromkeys(RULES_OF_5_5, False)) == LINE_5_3
    assert [broker_line(name) for name in ("4.9", "5.3", "5.5")] == [LINE_4_9, LINE_5_3, LINE_5_5]
    with pytest.raises(BadRequest, match=r"the broker line is 4.9 or 5.3 or 5.5, not 4.8"):
        broker_line("4.8")


@pytest.mark.parametrize(("entries", "size"), [(93_249_366, 2_147_483_647 - 7), (93_249_367, 2_147_483_660)])
def test_an_index_file_has_at_most_the_bytes_that_java_maps(entries: int, size: int) -> None:
    settings = {"maxIndexNum": entries, "maxHashSlotNum": 70_624_070}
    assert 40 + 4 * 70_624_070 + 20 * entries == size
    if size <= MAX_INT:
        assert StoreConfig().with_settings(settings).max_index_num == entries
        return
    with pytest.raises(BadRequest, match=f"make an index file of {size} bytes, the limit is {MAX_INT}"):
        StoreConfig().with_settings(settings)


@pytest.mark.parametrize(("given", "rounded"), [(1, 20), (19, 20), (20, 20), (21, 40), (400, 400)])
def test_a_queue_file_is_rounded_up_to_whole_units(given: int, rounded: int) -> None:
    assert StoreConfig(mapped_file_size_consume_queue=given).mapped_file_size_consume_queue == rounded


@pytest.mark.parametrize(
    ("enabled", "flush", "role", "lends"),
    [
        (True, "ASYNC_FLUSH", "ASYNC_MASTER", True),
        (True, "ASYNC_FLUSH", "SYNC_MASTER", True),
        (False, "ASYNC_FLUSH", "ASYNC_MASTER", False),
        (True, "SYNC_FLUSH", "ASYNC_MASTER", False),
        (True, "ASYNC_FLUSH", "SLAVE", False),
    ],
)
def test_buffers_are_lent_to_an_asynchronously_flushing_master(
    enabled: bool, flush: str, role: str, lends: bool
) -> None:
    config = StoreConfig(transient_store_pool_enable=enabled, flush_disk_type=flush, broker_role=role)
    assert config.uses_transient_pool == lends


@pytest.mark.parametrize(
    ("store_type", "is_in"), [("defaultRocksDB", True), ("DEFAULTROCKSDB", True), ("default", False)]
)
def test_the_store_type_of_a_rocksdb_is_read_in_any_case(store_type: str, is_in: bool) -> None:
    assert StoreConfig(store_type=store_type).queues_in_database == is_in


@pytest.mark.parametrize(
    ("indexes", "writes", "has_files"),
    [(True, True, True), (True, False, False), (False, True, False), (False, False, False)],
)
def test_keys_get_entries_in_files_where_they_are_indexed_and_files_are_written(
    indexes: bool, writes: bool, has_files: bool
) -> None:
    config = StoreConfig(message_index_enable=indexes, index_file_write_enable=writes)
    assert config.writes_index_files == has_files


@pytest.mark.parametrize(
    ("store_type", "writes_twice", "starts"),
    [("default", None, False), ("default", False, False), ("default", True, True), ("defaultRocksDB", None, True)],
)
def test_a_start_creates_a_database_that_has_the_queues_or_a_copy(
    store_type: str, writes_twice: bool | None, starts: bool
) -> None:
    config = StoreConfig(store_type=store_type, rocksdb_cq_double_write_enable=writes_twice)
    assert config.starts_database is starts


@pytest.mark.parametrize(("given", "most"), [(-1, 10), (0, 10), (1, 1), (2, 2), (11, 11)])
def test_a_recovery_goes_back_ten_segments_where_the_setting_gives_no_number_above_0(given: int, most: int) -> None:
    assert StoreConfig(commit_log_recover_max_num=given).most_recovered_segments == most


@pytest.mark.parametrize(("newest", "begins"), [(-1, True), (99, True), (100, False), (101, False)])
def test_a_queue_whose_newest_record_has_expired_begins_at_its_end_since_5_3(newest: int, begins: bool) -> None:
    assert [line.begins_at_end(newest, 100) for line in (LINE_4_9, LINE_5_3, LINE_5_5)] == [False, begins, begins]


@pytest.mark.parametrize(
    ("text", "delays"),
    [("", ()), ("1s", (1000,)), (f"{7:019d}s", (7000,)), ("2m 3h", (120_000, 10_800_000)), ("1d", (86_400_000,)),
     ("0s", (0,))],
)  # fmt: skip
def test_delays_are_read_by_their_units(text: str, delays: tuple[int, ...]) -> None:
    assert parse_delay_levels(text) == delays


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("x" * 21, f"messageDelayLevel holds {'x' * 20!r}, which is not a number with s, m, h or d"),
        ("9" * 41 + "s", f"messageDelayLevel holds {'9' * 40}, the limit is {MAX_DELAY_MS} ms"),
    ],
)
def test_the_first_characters_of_a_wrong_delay_are_repeated(word: str, said: str) -> None:
    with pytest.raises(BadRequest) as refused:
        parse_delay_levels(f"1s {word}")
    assert refused.value.reason == said


@pytest.mark.parametrize("word", ["1", "s", "1 s", " 1s", "-1s", "²s", f"{MAX_DELAY_MS // 1000 + 1}s", "0" * 20 + "1s"])
def test_a_word_that_is_no_delay_is_refused(word: str) -> None:
    with pytest.raises(BadRequest, match="messageDelayLevel holds"):
        parse_delay_levels(word)


@pytest.mark.parametrize(
    ("text", "hours"),
    [("04", (4,)), ("0;23", (0, 23)), (" 4 ; 16 ;", (4, 16)), ("000000004", (4,)), ("19;09", (19, 9))],
)
def test_hours_are_read_with_semicolons(text: str, hours: tuple[int, ...]) -> None:
    assert parse_hours(text) == hours


@pytest.mark.parametrize("text", ["", ";", "24", "-1", "4,16", "4;x", "0000000000004"])
def test_what_is_no_hour_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="deleteWhen needs hours from 00 to 23"):
        parse_hours(text)


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("listenPort", "NettyServerConfig"),
        ("transactionTimeOut", "BrokerConfig"),
        ("filterSupportRetry", "BrokerConfig"),
        ("maxIndexNum", "MessageStoreConfig"),
    ],
)
def test_a_setting_names_the_brokers_class_that_has_it(name: str, owner: str) -> None:
    assert all_settings()[name].owner == owner


@pytest.mark.parametrize("text", ["x" * 39, "x" * 40, "x" * 41])
def test_a_wrong_value_is_shown_by_its_first_40_characters(text: str) -> None:
    shown = text[:40]
    for type_name in ("bool", "int", "float"):
        with pytest.raises(BadRequest, match=f", not {shown!r}$"):
            convert_value("n", type_name, text)
    with pytest.raises(BadRequest, match=f"a or b, not {shown}$"):
        check_value("n", text, ("a", "b"), 0, 0)
    with pytest.raises(BadRequest, match=f"with semicolons, not {shown!r}$"):
        parse_hours(text)


@pytest.mark.parametrize(
    ("zeros", "said"), [(38, "1" + "0" * 38), (39, "a number of 130 bits"), (5000, "a number of 16610 bits")]
)
def test_a_number_out_of_range_is_shown_by_its_size_if_it_is_long(zeros: int, said: str) -> None:
    with pytest.raises(BadRequest, match=f"^n lies between 0 and 7, not {said}$"):
        check_value("n", 10**zeros, (), 0, 7)


NUMBER, TEXT, FLAG = "a whole number", "a text", "true or false"


@pytest.mark.parametrize(("name", "value", "wanted"), [
    *(("mappedFileSizeCommitLog", value, NUMBER) for value in (0.5, True, 65536.0, None, b"1024", [1024])),
    *(("maxMessageSize", value, NUMBER) for value in (1.0, False, None)),
    *(("haListenPort", value, NUMBER) for value in (10912.0, True, b"1")),
    *(("messageDelayLevel", value, TEXT) for value in (5, None, b"1s", ["1s"], True)),
    *(("storePathCommitLog", value, TEXT) for value in (5, b"/data")),
    *(("flushCommitLogTimed", value, FLAG) for value in (None, 1, 0, 0.0, b"true")),
    *(("transRocksDBEnable", value, FLAG) for value in (1, 0)),
    *(("haMaxTimeSlaveNotCatchup", value, NUMBER) for value in (0.5, True)),
    ("diskFallRecorded", None, FLAG),
])  # fmt: skip
def test_a_value_of_a_wrong_kind_is_refused_by_the_settings_name(name: str, value: object, wanted: str) -> None:
    with pytest.raises(WrongKind) as refused:
        StoreConfig().with_settings({name: value})
    assert str(refused.value) == f"setting {name} needs {wanted}, not {value!r}"


@pytest.mark.parametrize("name", [5, None, b"brokerRole"])
def test_the_name_of_a_setting_is_text(name: object) -> None:
    with pytest.raises(WrongKind) as refused:
        StoreConfig().with_settings({name: 1})  # type: ignore[dict-item]
    assert str(refused.value) == f"the name of a setting is not text: {name!r}"


@pytest.mark.parametrize(("field", "value"), [
    ("mapped_file_size_commit_log", "1024"), ("mapped_file_size_commit_log", 0.5), ("store_type", None),
    ("check_crc_on_recover", 1), ("broker_role", 5),
])  # fmt: skip
def test_a_field_of_a_wrong_kind_is_refused(field: str, value: object) -> None:
    with pytest.raises(WrongKind, match=f"^setting {_camel(field)} needs .*, not {value!r}$"):
        StoreConfig(**{field: value})  # type: ignore[arg-type]


class Eight:
    def __index__(self) -> int:
        return 8


@pytest.mark.parametrize(("name", "value", "taken"), [
    ("maxMessageSize", Eight(), 8), ("maxMessageSize", " 8 ", 8), ("maxMessageSize", 0, 0),
    ("storePathCommitLog", Path("/data/log"), "/data/log"), ("transRocksDBEnable", None, None),
    ("transRocksDBEnable", False, False), ("haMaxTimeSlaveNotCatchup", 1, 1),
])  # fmt: skip
def test_a_value_of_the_settings_kind_is_taken(name: str, value: object, taken: object) -> None:
    assert check_settings({name: value}) == {name: taken}


@pytest.mark.parametrize(("value", "is_number"), [
    (0.5, True), (1, True), (1 << 2000, True), (True, False), (float("nan"), False), (float("inf"), False),
    (None, False), (b"1", False),
])  # fmt: skip
def test_a_ratio_is_a_finite_number(value: object, is_number: bool) -> None:
    with nullcontext() if is_number else pytest.raises(WrongKind, match=r"^setting n needs a number, not "):
        assert check_type("n", "float", value) == value


@pytest.mark.parametrize(("text", "reason"), [("a\0b", "holds a zero byte"), ("a\ud800", "holds half of a character")])
def test_a_text_that_no_path_can_hold_is_refused(text: str, reason: str) -> None:
    for wrong in (text, text.ljust(41, "x")):
        with pytest.raises(BadRequest) as refused:
            convert_value("n", "str", wrong)
        assert refused.value.reason == f"setting n {reason}: {wrong[:40]!r}"
    assert convert_value("n", "str", " a\udcff ") == "a\udcff"


@pytest.mark.parametrize(
    ("type_name", "text", "value"),
    [
        ("bool", "True", True), ("bool", " false ", False), ("int", "+7", 7), ("int", "-7", -7),
        ("int", str(MAX_LONG), MAX_LONG), ("int", str(-MAX_LONG - 1), -MAX_LONG - 1), ("int", "9" * 50, 10**50 - 1),
        ("int", "-" + "9" * 50, 1 - 10**50), ("int", "7".zfill(50), 7),
        ("float", "1e3", 1000.0), ("str", " a b ", "a b"),
    ],
)  # fmt: skip
def test_a_text_is_converted_to_its_type(type_name: str, text: str, value: object) -> None:
    assert convert_value("n", type_name, text) == value


@pytest.mark.parametrize(
    ("type_name", "text"), [("float", "inf"), ("float", "nan"), ("int", "1_0"), ("int", "9" * 5000), ("bool", "1")]
)
def test_a_text_of_another_type_is_refused(type_name: str, text: str) -> None:
    with pytest.raises(BadRequest, match="setting n needs "):
        convert_value("n", type_name, text)


@pytest.mark.parametrize(
    ("text", "hours"), [("04", (4,)), ("4;16", (4, 16)), (" 00 ; 23 ;", (0, 23)), ("000000009", (9,))]
)
def test_hours_are_those_of_a_day(text: str, hours: tuple[int, ...]) -> None:
    assert parse_hours(text) == hours
    for wrong in ("", ";", "24", "-1", "4,16", "a", "4;24"):
        with pytest.raises(BadRequest, match="deleteWhen needs hours"):
            parse_hours(wrong)
