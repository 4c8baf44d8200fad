"""With --hide-names a bundle has the findings of its store, and none of its topics, groups, hosts and clients."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from rmqctl.exit_codes import FINDINGS, OK, USAGE
from store import open_store
from store.errors import BadRequest
from store.files.bundle_files import Archive, unpack_bundle
from store.files.store_reader import StoreReader
from store.formats.java import string_hash
from store.layout import TIERED
from store.verbs.bundle.names import NameMask, names_in
from tests.cli.running import rmqctl
from tests.support.bundled_stores import NEEDS_MESSAGE_DATABASE, SEEDS, STORES, TOLD, store_of
from tests.support.five_stores import copy_of_five
from tests.support.five_stores import damage as do_as_told
from tests.support.golden import ALL, copy_store, golden
from tests.support.quickly import one_of
from tests.support.random_damage import MORE_KINDS, damage
from tests.support.stores import SMALL, make_store, text_message

NEEDS_DATABASE = (
    "five/rocksdb",
    "five/rocksdb-aborted",
    "fivefive/combine-separate",
    "fivefive/rocksdbcq-separate",
    *NEEDS_MESSAGE_DATABASE,
)
HIDDEN = [name for name in STORES if name not in NEEDS_DATABASE]


def rows(store: Path) -> list[tuple[Any, ...]]:
    """The diagnoses of doctor without their texts."""
    found = rmqctl("--format", "json", "doctor", store=store).json["diagnoses"]
    return [(one["rank"], one["area"], one["what"], one["count"]) for one in found]


def hidden(root: Path, target: Path) -> Path:
    run = rmqctl("--format", "json", "bundle", target, "--yes", "--hide-names", "--salt", "s", store=root)
    assert (run.code, run.json["same_findings"]) == (OK, True), run.err
    assert rows(target) == rows(root)
    return target


@pytest.mark.parametrize("name", one_of(13, HIDDEN))
def test_doctor_gives_the_findings_of_the_store_and_no_topic_is_inside(name: str, tmp_path: Path) -> None:
    root = store_of(name)
    archive = Archive(str(hidden(root, tmp_path / "case.tar.zst")))
    data = b"".join(archive.pieces(0, archive.size))
    topics = {topic for topic, _ in StoreReader(str(root)).queues()}
    own = {one for one in topics if one.startswith(("SCHEDULE_TOPIC", "RMQ_SYS", "rmq_sys"))}
    assert topics - own or name == "no-derived"
    kept = set(NameMask(b"s", topics).kept)
    assert all(len(one.removeprefix("%LMQ%")) < 7 for one in kept)
    assert [one for one in topics - own - kept if one.encode() in data] == []
    assert all(one.encode() in data for one in own)


@pytest.mark.parametrize("name", one_of(9, NEEDS_DATABASE))
def test_a_database_with_names_is_left_out_and_named(name: str, tmp_path: Path) -> None:
    run = rmqctl("bundle", tmp_path / "case.tar.zst", "--yes", "--hide-names", store=store_of(name))
    assert run.code == FINDINGS
    assert "left out, because names and keys in a database cannot be hidden" in run.err
    assert "doctor has other findings in the bundle than in the store: they need files that are left out" in run.err
    root, _ = unpack_bundle(str(tmp_path / "case.tar.zst"))
    assert [path for path in root.rglob("*") if path.name == "CURRENT" or path.suffix in (".sst", ".log")] == []


def test_names_are_not_hidden_where_tiered_storage_holds_them(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 3)
    (root / TIERED).parent.mkdir(exist_ok=True)
    (root / TIERED).write_text("{}")
    run = rmqctl("bundle", tmp_path / "case.tar.zst", "--yes", "--hide-names", store=root)
    assert (run.code, "names cannot be hidden: the tiered storage has them too" in run.err) == (USAGE, True), run.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "how"),
    [one for one in TOLD if one[0] != "rocksdb"],
    ids=[f"{name}: {how['name']}" for name, how in TOLD if name != "rocksdb"],
)
def test_doctor_gives_the_findings_of_a_damaged_structure(name: str, how: dict[str, Any], tmp_path: Path) -> None:
    root = copy_of_five(name, tmp_path)
    do_as_told(root, how)
    hidden(root, tmp_path / "case.tar.zst")


@pytest.mark.parametrize("seed", one_of(6, SEEDS))
def test_doctor_gives_the_findings_of_damage_by_chance(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    root = copy_store(golden(chance.choice(ALL)).store, tmp_path / "store")
    damage(root, chance, MORE_KINDS)
    hidden(root, tmp_path / "case.tar.zst")


def test_tables_folders_and_settings_have_the_same_new_names(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with open_store(root, settings=SMALL, read_only=False) as store:
        assert store.put(text_message(1, "OrdersOfEurope")).is_ok
    (root / "config").mkdir(exist_ok=True)
    (root / "config/topics.json").write_text(
        '{"topicConfigTable": {"OrdersOfEurope": {"topicName": "OrdersOfEurope", "perm": 6}}}'
    )
    (root / "config/consumerOffset.json").write_text('{"offsetTable": {"OrdersOfEurope@billing": {0: 3}}}')
    (root / "brokerIdentity").write_text("prod-cluster#broker-a#0")
    settings = ("--set", "brokerName=broker-a", "--set", "fileReservedTime=7")
    run = rmqctl(*settings, "bundle", tmp_path / "a.tar.zst", "--yes", "--hide-names", "--salt", "s", store=root)
    assert run.code == OK, run.err
    mask = NameMask(b"s")
    topic, group = mask.name("OrdersOfEurope"), mask.name("billing")
    found = unpack_bundle(str(tmp_path / "a.tar.zst"))[0]
    assert {one.name for one in (found / "consumequeue").iterdir()} == {topic}
    assert json.loads((found / "config/topics.json").read_text()) == {
        "topicConfigTable": {topic: {"topicName": topic, "perm": 6}}
    }
    assert f'"{topic}@{group}"' in (found / "config/consumerOffset.json").read_text()
    assert (found / "brokerIdentity").read_text() == f"{mask.name('prod-cluster')}#{mask.name('broker-a')}#0"
    shown = rmqctl("-f", "json", "config", "settings", store=tmp_path / "a.tar.zst").json["settings"]
    assert [row["value"] for row in shown if row["name"] in {"fileReservedTime", "brokerName"}] == [7, None]
    [row] = rmqctl("-f", "jsonl", "get", topic, store=tmp_path / "a.tar.zst").rows
    assert (row["topic"], row["queue_id"], row["uniq_key"]) == (topic, 0, mask.properties["UNIQ_KEY"]("U1"))
    assert row["store_host"] == f"{'.'.join(map(str, mask.host(bytes((127, 0, 0, 1)))))}:10911"


NAMES = (
    "OrdersOfEurope",
    "%RETRY%billing-of-europe",
    "%DLQ%billing-of-europe",
    "%LMQ%client01@device",
    "欧洲的订单们和账单",
    "rmq_sys_REVIVE_LOG_production",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_keeps_its_length_its_hash_code_and_a_brokers_prefix(name: str) -> None:
    found = NameMask(b"salt").name(name)
    assert (found == name, string_hash(found), len(found.encode())) == (False, string_hash(name), len(name.encode()))
    prefix = next((one for one in ("%RETRY%", "%DLQ%", "%LMQ%", "rmq_sys_REVIVE_LOG_") if name.startswith(one)), "")
    assert found.startswith(prefix)
    assert found == NameMask(b"salt").name(name) != NameMask(b"other").name(name)


@pytest.mark.parametrize(
    "name", ["SCHEDULE_TOPIC_XXXX", "TBW102", "rmq_sys_wheel_timer", "%RETRY%TOOLS_CONSUMER", "offsetTable", "20240101"]
)
def test_names_that_a_broker_or_a_table_needs_stay(name: str) -> None:
    assert NameMask(b"salt").name(name) == name


PROPERTIES = {
    "UNIQ_KEY": "7F0000013A2C18B4AAC2000000000001",
    "REAL_TOPIC": "OrdersOfEurope",
    "PGROUP": "billing",
    "CLUSTER": "prod-cluster",
    "DLQ_ORIGIN_MESSAGE_ID": "0A01020300002A9F0000000000000007",
    "INNER_MULTI_DISPATCH": "%LMQ%first,%LMQ%second",
    "TIMER_DEL_UNIQKEY": "OrdersOfEurope+7F0000013A2C18B4AAC2000000000001",
}


@pytest.mark.parametrize("name", PROPERTIES)
def test_names_in_a_brokers_properties_are_those_of_their_places(name: str) -> None:
    mask, value = NameMask(b"salt"), PROPERTIES[name]
    uniq_key = mask.properties["UNIQ_KEY"](PROPERTIES["UNIQ_KEY"])
    wanted = {
        "UNIQ_KEY": uniq_key,
        "REAL_TOPIC": mask.name("OrdersOfEurope"),
        "PGROUP": mask.name("billing"),
        "CLUSTER": mask.properties["MSG_REGION"](value),
        "DLQ_ORIGIN_MESSAGE_ID": mask.host(bytes((10, 1, 2, 3))).hex().upper() + value[8:],
        "INNER_MULTI_DISPATCH": f"{mask.name('%LMQ%first')},{mask.name('%LMQ%second')}",
        "TIMER_DEL_UNIQKEY": f"{mask.name('OrdersOfEurope')}+{uniq_key}",
    }
    found = mask.properties[name](value)
    assert (found, found == value, len(found)) == (wanted[name], False, len(value))
    assert string_hash(uniq_key) == string_hash(PROPERTIES["UNIQ_KEY"])
    assert uniq_key[20:] == PROPERTIES["UNIQ_KEY"][20:]


def test_a_name_without_a_twin_stays_and_is_named(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 3)
    run = rmqctl("bundle", tmp_path / "a.tar.zst", "--yes", "--hide-names", store=root)
    assert (run.code, run.err) == (OK, "note: the name T stays: no other one has its length and hash code\n")


def test_names_are_found_in_tables_whole_or_damaged() -> None:
    table = b'{"offsetTable":{"OrdersOfEurope@billing":{0:1},"%LMQ%a@b":{"0":1}},"x":{"groupName":"g"'
    assert set(names_in(table)) == {"offsetTable", "OrdersOfEurope", "billing", "%LMQ%a@b", "x", "g"}
    assert set(names_in(b"prod#broker-a#0")) == {"prod", "broker-a"}


def test_two_names_that_would_become_one_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.verbs.bundle.names.disguise", lambda text, salt: text[0])
    NameMask(b"salt", ["Ab", "Bb", "Ab"])
    with pytest.raises(BadRequest, match="two names would become the same"):
        NameMask(b"salt", ["Ab", "Ac"])


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("a", ["a"]),
        ("a@b", ["a", "b"]),
        ("a@b@c", ["a", "b", "c"]),
        ("@b", ["@b"]),
        ("a@", ["a@"]),
        ("@@", ["@@"]),
        ("%RETRY%a@b", ["%RETRY%a@b"]),
        ("a@%RETRY%b", ["a", "%RETRY%b"]),
        ("rmq_sys_REVIVE_LOG_a@b", ["rmq_sys_REVIVE_LOG_a@b"]),
    ],
)
def test_a_key_of_topic_and_group_is_two_names_unless_a_brokers_prefix_begins_it(name: str, parts: list[str]) -> None:
    assert list(names_in(f'{{"{name}": {{'.encode())) == parts
    assert list(names_in(f'"group": "{name}"'.encode())) == parts
