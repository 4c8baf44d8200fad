"""What is wrong with the tables under config/, and topics.json rebuilt."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.broker_line import LINE_4_9, LINE_5_3, BrokerLine
from store.files.filesystem import Filesystem
from store.structures.tables.config_file import read_config_file, read_config_files
from store.structures.tables.fastjson import parse_fastjson
from store.structures.tables.review import review_config
from store.structures.tables.topics import rebuild_topics

OFFSETS = '{"offsetTable":{"T@G":{0:7},"a@b@c":{0:1}}}'
TOPICS = '{"dataVersion":{"counter":3},"topicConfigTable":{"T":{"perm":4,"writeQueueNums":2,"topicName":"T"}}}'


def kinds(folder: Path, **files: str) -> list[str]:
    """The kinds of finding on these files; a name's underscore stands for the dot of .bak and .tmp."""
    for name, text in files.items():
        stem, _, end = name.partition("_")
        (folder / f"{stem}.json{'.' + end if end else ''}").write_text(text)
    found = review_config(read_config_files(folder, Filesystem()), LINE_4_9, ["T", "U"], lambda topic, queue_id: 5)
    return [one.kind for one in found]


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"delayOffset": '{"offsetTable":{1:5}}'}, []),
        ({"delayOffset": "{"}, ["lost"]),
        ({"delayOffset": "{", "delayOffset_bak": "{"}, ["refused"]),
        ({"delayOffset": "{", "delayOffset_bak": "{}"}, ["backup"]),
        ({"delayOffset_bak": "{}", "delayOffset_tmp": "{}"}, ["backup", "newer-copy"]),
        ({"consumerOffset": OFFSETS}, ["bad-key", "outside"]),
        ({"topics": TOPICS}, ["no-topic"]),
    ],
)
def test_a_review_finds(tmp_path: Path, files: dict[str, str], found: list[str]) -> None:
    assert kinds(tmp_path, **files) == found


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
