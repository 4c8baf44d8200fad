"""Settings: known or refused, in range, with an effect or said to have none."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from store.config import MAX_DELAY_MS, StoreConfig, all_settings, check_settings, parse_delay_levels, read_broker_conf
from store.errors import BadRequest


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("flushDisktype=SYNC_FLUSH", "did you mean flushDiskType?"),
        ("mappedFileSizeComitLog=4096", "did you mean mappedFileSizeCommitLog?"),
        ("xyzzy=1", "has no setting xyzzy"),
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
    for field, name in zip(dataclasses.fields(StoreConfig), names, strict=True):
        used = derived.get(field.name, field.name)
        assert f".{used}" in sources or f'"{name}"' in sources, f"{name} is not used"


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


def test_values_are_converted_to_their_types() -> None:
    values = check_settings({"flushCommitLogTimed": " FALSE ", "syncFlushTimeout": "7", "deleteWhen": "04"})
    assert values == {"flushCommitLogTimed": False, "syncFlushTimeout": 7, "deleteWhen": "04"}


def test_delay_levels_up_to_the_limit_are_taken() -> None:
    assert parse_delay_levels("1s 2h 1d") == (1000, 7_200_000, 86_400_000)
    assert parse_delay_levels(f"{MAX_DELAY_MS // 1000}s") == (MAX_DELAY_MS // 1000 * 1000,)
