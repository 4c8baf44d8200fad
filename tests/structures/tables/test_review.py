"""What is wrong with the tables under config/; topics.json rebuilt, and offsets and versions written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from store.broker_line import LINE_4_9, LINE_5_3, BrokerLine
from store.files.filesystem import Filesystem
from store.structures.tables.config_file import read_config_file, read_config_files
from store.structures.tables.consumer_offsets import ConsumerOffsets, encode_consumer_offsets, offsets_file
from store.structures.tables.data_version import DataVersion, parse_data_version
from store.structures.tables.fastjson import Json, parse_fastjson, write_fastjson
from store.structures.tables.review import review_config, review_loading
from store.structures.tables.topics import rebuild_topics, refused_attributes, topic_attribute, topic_queues

NO_TOPICS = [f"no-topic topics.json rebuild-topics () {topic} has messages but no entry" for topic in "STU"]
WITHOUT_ENTRY = [
    *("TBW102", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"),
    *("RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC", "rmq_sys_wheel_timer", "rmq_sys_REVIVE_LOG_C"),
]
TOPICS = '{"dataVersion":{"counter":3},"topicConfigTable":{"T":{"perm":4,"writeQueueNums":2,"topicName":"T"}}}'


def findings(folder: Path, line: BrokerLine = LINE_4_9, **files: str) -> list[str]:
    """The findings on these files; a name's underscore stands for the dot of .bak and .tmp."""
    for name, text in files.items():
        stem, _, end = name.partition("_")
        (folder / f"{stem}.json{'.' + end if end else ''}").write_text(text)
    tops = {("T", queue): 5 + queue for queue in range(3)}
    found = review_config(read_config_files(folder, Filesystem()), line, ["U", "T", "S", *WITHOUT_ENTRY], tops)
    return [f"{one.kind} {one.file} {one.code} {one.subject} {one.detail}" for one in found]


BROKEN = "is damaged (Expecting property name enclosed in double quotes: line 1 column 2 (char 1))"
LOST = "a broker starts with an empty table and logs an error"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"delayOffset": '{"offsetTable":{1:5}}'}, []),
        ({"delayOffset": "{"}, [f"lost delayOffset.json write-table () delayOffset.json {BROKEN}; {LOST}"]),
        ({"topics": "{"}, [f"lost topics.json rebuild-topics () topics.json {BROKEN}; {LOST}", *NO_TOPICS]),
        (
            {"delayOffset": "{", "delayOffset_bak": "{"},
            [
                (
                    f"refused delayOffset.json write-table () delayOffset.json {BROKEN}, "
                    "and so is its .bak; a broker does not start"
                )
            ],
        ),
        (
            {"delayOffset": "{", "delayOffset_bak": "{}"},
            [
                (
                    "backup delayOffset.json restore-table ('delayOffset.json.bak',) delayOffset.json "
                    f"{BROKEN}; a broker loads .bak"
                )
            ],
        ),
        (
            {"delayOffset_bak": "{}", "delayOffset_tmp": "{}"},
            [
                (
                    "backup delayOffset.json restore-table ('delayOffset.json.tmp',) "
                    "delayOffset.json is missing; a broker "
                    "loads .bak"
                ),
                (
                    "newer-copy delayOffset.json restore-table ('delayOffset.json.tmp',) "
                    "delayOffset.json.tmp is newer than "
                    "what a broker loads"
                ),
            ],
        ),
        ({"delayOffset": "{}", "delayOffset_tmp": "{}"}, []),
        ({"delayOffset": "", "delayOffset_bak": ""}, []),
        (
            {"consumerOffset": '{"offsetTable":{"T@G":{0:5,1:6},"T@H":{0:6,2:8},"a@b@c":{0:1},"x":{0:1},"U@G":{0:0}}}'},
            [
                "bad-key consumerOffset.json remove-entry () 'a@b@c' does not name one topic and one group",
                "bad-key consumerOffset.json remove-entry () 'x' does not name one topic and one group",
                "outside consumerOffset.json reset-offset ('H', 'T', 0) H is at 6 of T/0, whose maximum is 5",
                "outside consumerOffset.json reset-offset ('H', 'T', 2) H is at 8 of T/2, whose maximum is 7",
            ],
        ),
        ({"topics": TOPICS}, [NO_TOPICS[0], NO_TOPICS[2]]),
    ],
)
def test_a_review_finds(tmp_path: Path, files: dict[str, str], found: list[str]) -> None:
    assert findings(tmp_path, **files) == found


def test_a_5_x_broker_never_writes_a_newer_copy(tmp_path: Path) -> None:
    files = {"delayOffset": "{", "delayOffset_bak": "{}", "delayOffset_tmp": "{}"}
    backup = "('delayOffset.json.bak',)"
    assert findings(tmp_path, LINE_5_3, **files) == [
        f"backup delayOffset.json restore-table {backup} delayOffset.json {BROKEN}; a broker loads .bak"
    ]


def test_of_tables_that_are_not_loaded_from_their_file_no_newer_copy_is_said(tmp_path: Path) -> None:
    for end in (".bak", ".tmp"):
        (tmp_path / f"topics.json{end}").write_text("{}")
    found = review_loading(tmp_path, ["topics.json", "delayOffset.json"], LINE_4_9, Filesystem())
    assert [(one.kind, one.file) for one in found] == [("backup", "topics.json")]


def rebuilt(folder: Path, queues: list[tuple[str, int]], line: BrokerLine = LINE_4_9) -> dict[str, object]:
    copy = read_config_file(folder, "topics.json", Filesystem()).best(line)
    document = parse_fastjson(rebuild_topics(queues, copy, line, 1_700_000_000_000).text)
    assert isinstance(document, dict)
    return {str(name): entry for name, entry in document.items()}


def test_known_topics_keep_their_entry_with_the_queues_that_exist(tmp_path: Path) -> None:
    (tmp_path / "topics.json").write_text(TOPICS)
    document = rebuilt(tmp_path, [("T", 0), ("T", 3)])
    assert document["topicConfigTable"] == {"T": {"perm": 4, "writeQueueNums": 4, "topicName": "T", "readQueueNums": 4}}
    assert document["dataVersion"] == {"counter": 4, "timestamp": 1_700_000_000_000}


def test_unknown_topics_get_the_fields_of_their_line(tmp_path: Path) -> None:
    for line, extra in ((LINE_4_9, {}), (LINE_5_3, {"attributes": {}})):
        table = rebuilt(tmp_path, [("U", 1), ("SCHEDULE_TOPIC_XXXX", 2)], line)["topicConfigTable"]
        entry = {"order": False, "perm": 6, "readQueueNums": 2, "topicFilterType": "SINGLE_TAG", "topicName": "U"}
        assert table == {"U": {**extra, **entry, "topicSysFlag": 0, "writeQueueNums": 2}}


@pytest.mark.parametrize(
    ("told", "count", "origin"),
    [
        ({}, 1, "kept"),
        ({"queue.type": "SimpleCQ"}, 2, "kept"),
        ({"queue.type": "BatchCQ"}, 1, "its files need an attribute"),
        ({"queue.type": "BatchCQ"}, 3, "more queues exist"),
    ],
)
def test_an_attribute_that_files_need_is_set_beside_the_others(
    told: dict[str, str], count: int, origin: str, tmp_path: Path
) -> None:
    before = {"cleanup.policy": "DELETE", "queue.type": "SimpleCQ"}
    known = {"topicName": "T", "readQueueNums": 4, "writeQueueNums": 2, "attributes": before}
    (tmp_path / "topics.json").write_text(json.dumps({"topicConfigTable": {"T": known}}))
    copy = read_config_file(tmp_path, "topics.json", Filesystem()).best(LINE_5_3)
    table = rebuild_topics([("T", count - 1)], copy, LINE_5_3, 5, {"T": told})
    counts = {"readQueueNums": 3, "writeQueueNums": 3} if count == 3 else {}
    assert [(one.queue_count, one.origin) for one in table.entries] == [(max(2, count), origin)]
    assert json.loads(table.text)["topicConfigTable"] == {"T": {**known, **counts, "attributes": {**before, **told}}}


@pytest.mark.parametrize(
    ("queues", "entries"),
    [
        ([], [("T", 2, "kept")]),
        ([("T", 0)], [("T", 2, "kept")]),
        ([("T", 1)], [("T", 2, "kept")]),
        ([("T", 2), ("T", 1)], [("T", 3, "more queues exist")]),
        ([("S", -1)], [("T", 2, "kept")]),
        ([("S", 0)], [("S", 1, "found in the store"), ("T", 2, "kept")]),
        (
            [("U", 4), ("U", 0), ("S", 1)],
            [("S", 2, "found in the store"), ("T", 2, "kept"), ("U", 5, "found in the store")],
        ),
        ([("TBW102", 7), ("%LMQ%x", 0)], [("T", 2, "kept")]),
    ],
)
def test_each_topic_is_kept_gets_more_queues_or_is_found(
    queues: list[tuple[str, int]], entries: list[tuple[str, int, str]], tmp_path: Path
) -> None:
    (tmp_path / "topics.json").write_text(TOPICS)
    copy = read_config_file(tmp_path, "topics.json", Filesystem()).best(LINE_4_9)
    found = rebuild_topics(queues, copy, LINE_4_9, 5)
    assert [(one.topic, one.queue_count, one.origin) for one in found.entries] == entries


@pytest.mark.parametrize(
    ("version", "line", "written"),
    [
        ('{"counter":3}', LINE_4_9, {"counter": 4, "timestamp": 5}),
        ('{"counter":"3"}', LINE_4_9, {"counter": 1, "timestamp": 5}),
        ("null", LINE_5_3, {"counter": 1, "stateVersion": 0, "timestamp": 5}),
    ],
)
def test_a_rebuilt_table_has_a_version_above_the_one_before(
    version: str, line: BrokerLine, written: dict[str, int], tmp_path: Path
) -> None:
    (tmp_path / "topics.json").write_text(f'{{"dataVersion":{version},"topicConfigTable":{{}}}}')
    copy = read_config_file(tmp_path, "topics.json", Filesystem()).best(line)
    assert rebuild_topics([], copy, line, 5).text == write_fastjson({"dataVersion": written, "topicConfigTable": {}})
    assert rebuild_topics([], None, line, 5).entries == []


def test_producers_may_send_to_the_queues_that_the_table_counts(tmp_path: Path) -> None:
    assert topic_queues(tmp_path, Filesystem()) == set()
    table = {"T": {"writeQueueNums": 2}, "U": {"writeQueueNums": 0}, "S": {}, "TBW102": {"writeQueueNums": 8}}
    (tmp_path / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    assert topic_queues(tmp_path, Filesystem()) == {("T", 0), ("T", 1)}


@pytest.mark.parametrize(
    ("attributes", "clause"),
    [
        ({}, None),
        ({"queue.type": "SimpleCQ"}, None),
        ({"queue.type": "BatchCQ", "cleanup.policy": "DELETE"}, None),
        ({"queue.type": "x"}, "queue.type is 'x', expected SimpleCQ or BatchCQ"),
        ({"cleanup.policy": 1}, "cleanup.policy is 1, expected DELETE or COMPACTION"),
        ({"cleanup.policy": "y", "queue.type": "x"}, "queue.type is 'x', expected SimpleCQ or BatchCQ"),
        ({"other": "z"}, None),
    ],
)
def test_an_attribute_that_a_broker_refuses_is_said(
    attributes: dict[str, object], clause: str | None, tmp_path: Path
) -> None:
    table = {"T": {"attributes": attributes}, "U": {}}
    (tmp_path / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    assert refused_attributes(tmp_path, Filesystem()) == ({"T": clause} if clause else {})
    assert topic_attribute(tmp_path, Filesystem(), "other") == ({"T": "z"} if "other" in attributes else {})


@pytest.mark.parametrize(
    ("line", "document", "changes", "written"),
    [
        (LINE_4_9, {}, {}, '{"offsetTable":{}}'),
        (LINE_4_9, {}, {("T", "G"): {1: 5, 0: 4}}, '{"offsetTable":{"T@G":{0:4,1:5}}}'),
        (
            LINE_4_9,
            {"offsetTable": {"T@G": {"1": 5, "x": 6, "2": "no"}}, "z": 1},
            {("T", "G"): {3: 7}},
            '{"offsetTable":{"T@G":{1:5,3:7}},"z":1}',
        ),
        (
            LINE_5_3,
            {"offsetTable": {"T@G": {"0": 1}, "a@b@c": {"0": 2}}},
            {("S", "G"): {0: 3}},
            (
                '{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":9},"groupTopicMap":{"G":["S","T"]},'
                '"offsetTable":{"a@b@c":{0:2},"T@G":{0:1},"S@G":{0:3}}}'
            ),
        ),
        (
            LINE_5_3,
            {"dataVersion": {"counter": 8}, "offsetTable": {}},
            {},
            '{"dataVersion":{"counter":8},"groupTopicMap":{},"offsetTable":{}}',
        ),
    ],
)
def test_offsets_are_written_beside_what_the_file_has(
    line: BrokerLine, document: dict[str, Json], changes: ConsumerOffsets, written: str
) -> None:
    text = encode_consumer_offsets(document, changes, line, 9).decode()
    assert "".join(text.split()) == written


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({}, "consumerOffset.json"),
        ({"consumerOffset.json": "{}"}, "consumerOffset.json"),
        ({"consumerOffset.json": "{}", "lmqConsumerOffset.json.bak": "{}"}, "lmqConsumerOffset.json"),
    ],
)
def test_offsets_are_in_the_file_of_light_queues_where_it_is_there(
    files: dict[str, str], name: str, tmp_path: Path
) -> None:
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    assert offsets_file(tmp_path, Filesystem()).name == name


@pytest.mark.parametrize(
    ("value", "version"),
    [
        ({"counter": 1, "stateVersion": 2, "timestamp": 3}, DataVersion(1, 2, 3)),
        ({"counter": 1, "stateVersion": 2}, None),
        ({"counter": 1, "stateVersion": 2, "timestamp": "3"}, None),
        (None, None),
    ],
)
def test_a_data_version_has_three_numbers(value: Json, version: DataVersion | None) -> None:
    assert parse_data_version(value) == version


def test_a_change_counts_one_and_has_its_time() -> None:
    version = DataVersion(1, 2, 3)
    version.move(9)
    assert (version, version.to_json()) == (
        DataVersion(2, 2, 9),
        {"counter": 2, "stateVersion": 2, "timestamp": 9},
    )
    assert DataVersion() == DataVersion(0, 0, 0)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "[1]"])
def test_a_copy_has_the_time_of_its_file_in_whole_milliseconds(text: str, tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    path.write_text(text)
    os.utime(path, ns=(0, 1_700_000_000_123_999_999))
    found = read_config_file(tmp_path, "topics.json", Filesystem())
    assert (found.main.mtime_ms, found.backup.mtime_ms) == (1_700_000_000_123, 0)
