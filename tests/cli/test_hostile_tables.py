"""Hostile tables under config/ and hostile broker.conf files, through every command that reads them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.cli.running import rmqctl
from tests.support.golden import copy_store, golden
from tests.support.quickly import one_of

PATIENCE_S = 30
"""Far above what a command takes, far below what a loop or a quadratic reader does."""
TABLES = ("topics.json", "consumerOffset.json", "delayOffset.json", "subscriptionGroup.json", "consumerFilter.json")
COMMANDS = (
    "info", "doctor", "check", "config check", "config show", "lag", "recover --abnormal --dry-run", "salvage --to NEW",
    "rebuild --dry-run", "clean-expired --dry-run", "config rebuild-topics --dry-run", "delay show", "filter show",
    "put TopicA x",
)  # fmt: skip


def table(entries: str) -> bytes:
    """All tables in one document, each with these entries."""
    names = ("topicConfigTable", "offsetTable", "subscriptionGroupTable", "filterDataByTopic")
    return ("{" + ",".join(f'"{name}":{{{entries}}}' for name in names) + "}").encode()


REFUSED = {
    "blanks": b" \n",
    "NULs": bytes(4096),
    "BOM": b"\xef\xbb\xbf{}",
    "UTF-16": '{"offsetTable":{}}'.encode("utf-16"),
    "a number": b"5",
    "a text": b'"x"',
    "arrays": b"[[],[]]",
    "deep arrays": b"[" * 200_000,
    "deep maps": b'{"a":' * 50_000,
    "deep and closed": b'{"offsetTable":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a number of 5,000 digits": table('"TopicA@G":{"0":' + "9" * 5000 + "}"),
    "cut": b'{"offsetTable":{"TopicA@G":{"0":1',
    "two documents": b"{}{}",
    "half an escape": table(r'"T\u12":{"0":1}'),
    "a Java object": b'{"offsetTable":new Date(1)}',
}
"""What a broker doesn't load."""
LOADED = {
    "empty": b"",
    "null": b"null",
    "an empty array": b"[]",
    "not UTF-8": b'{"offsetTable":{"T\xff@g":{"0":1}}}',
    "tables that are arrays": b'{"topicConfigTable":[],"offsetTable":[],"subscriptionGroupTable":[]}',
    "tables that are numbers": b'{"topicConfigTable":1,"offsetTable":1,"subscriptionGroupTable":1,"dataVersion":1}',
    "entries that are numbers": table('"TopicA@G":1,"TopicA":1'),
    "entries that are null": table('"TopicA@G":null,"TopicA":null'),
    "entries that are arrays": table('"TopicA@G":[],"TopicA":[]'),
    "1e999": table('"TopicA@G":{"0":1e999,"1":-1e999},"TopicA":{"readQueueNums":1e999,"perm":1e999}'),
    "NaN": table('"TopicA@G":{"0":NaN},"TopicA":{"readQueueNums":NaN,"topicName":NaN}'),
    "fractions": table('"TopicA@G":{"0":0.5},"TopicA":{"readQueueNums":0.5,"perm":0.1}'),
    "2^63": table('"TopicA@G":{"0":9223372036854775808},"TopicA":{"readQueueNums":9223372036854775808}'),
    "negative queues": table('"TopicA@G":{"-1":5},"TopicA":{"readQueueNums":-4,"writeQueueNums":-4,"perm":-1}'),
    "negative offsets": table('"TopicA@G":{"0":-5}'),
    "queues that are no numbers": table('"TopicA@G":{"x":5,"":1,"0x1":2," 1":3}'),
    "offsets that are texts": table('"TopicA@G":{"0":"five"}'),
    "half a character": table(r'"T\ud800@G\udfff":{"0":1},"T\ud800":{"topicName":"T\ud800","perm":6}'),
    "control characters": table(r'"T\u0000\u001b[31m@G":{"0":1},"T\u0000":{"topicName":"T\u001b[31m"}'),
    "a path for a name": table('"../../etc@G":{"0":1},"../../etc":{"topicName":"../../etc","perm":6}'),
    "no @ and many": table('"TopicA":{"0":1},"@@@":{"0":1},"@G":{"0":1},"T@":{"0":1}'),
    "a key of 1 MB": table(f'"{"T" * 1_000_000}@G":{{"0":1}}'),
    "duplicate keys": table('"TopicA@G":{"0":1,"0":2},"TopicA@G":{"0":3},"TopicA":{},"TopicA":{}'),
    "delay levels that are none": b'{"offsetTable":{"1":"x","99":5,"-1":3,"0":1e999,"2":-7,"18":null,"3":{}}}',
}
"""What a broker loads, or passes over."""


BEYOND = (
    "not UTF-8", "2^63", "negative queues", "negative offsets", "half a character", "control characters",
    "a path for a name", "no @ and many", "a key of 1 MB",
)  # fmt: skip
"""Those with offsets of queues that the store has not."""
CONF = {
    b"\xef\xbb\xbfbrokerName=a": "RocketMQ has no setting 'ï»¿brokerName'; did you mean brokerName?",
    bytes(3): r"RocketMQ has no setting '\x00\x00\x00'; `rmqctl config settings` lists the names",
    b"=5": "RocketMQ has no setting ''; `rmqctl config settings` lists the names",
    b'{"flushDiskType": 5}': "RocketMQ has no setting '{\"flushDiskType\"'; did you mean flushDiskType?",
    b"fileReservedTime": "setting fileReservedTime needs a whole number, not ''",
    b"fileReservedTime=": "setting fileReservedTime needs a whole number, not ''",
    b"fileReservedTime=1e999": "setting fileReservedTime needs a whole number, not '1e999'",
    b"fileReservedTime=NaN": "setting fileReservedTime needs a whole number, not 'NaN'",
    b"fileReservedTime=1_0": "setting fileReservedTime needs a whole number, not '1_0'",
    b"fileReservedTime=\\u0663": "setting fileReservedTime needs a whole number, not '\u0663'",
    b"mappedFileSizeCommitLog=-1": "mappedFileSizeCommitLog lies between 1 and 2147483647, not -1",
    b"mappedFileSizeCommitLog=" + b"9" * 9999: "setting mappedFileSizeCommitLog needs a whole number, not "
    f"'{'9' * 40}'",
    b"brokerName=\\u12": r"not a Java properties file: Invalid \u escape sequence: \u12",
    b"brokerName=\\u0000x": r"setting brokerName holds a zero byte: '\x00x'",
    b"storePathCommitLog=\\ud800": r"setting storePathCommitLog holds half of a character: '\ud800'",
    b"messageDelayLevel=1s x": "messageDelayLevel holds 'x', which is not a number with s, m, h or d",
    b"messageDelayLevel=-1s": "messageDelayLevel holds '-1s', which is not a number with s, m, h or d",
    b"deleteWhen=25;x": "deleteWhen needs hours from 00 to 23 with semicolons, not '25;x'",
    b"flushDiskType=BLUE": "flushDiskType is ASYNC_FLUSH or SYNC_FLUSH, not BLUE",
    b"listenPort=-1": "listenPort lies between 0 and 65535, not -1",
    b"k" * (1 << 20): f"RocketMQ has no setting '{'k' * 60}'…; `rmqctl config settings` lists the names",
    b"brokerName=" + b"x" * (1 << 20): f"a broker configuration has no more than {1 << 20} bytes",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hostile") / "store"
    copy_store(golden("normal").store, root)
    (root / "config").mkdir(exist_ok=True)
    return root


def run_all(store: Path, new: Path, *options: object) -> dict[str, tuple[int, str]]:
    """Exit code and errors of every command; none is a defect or takes long."""
    found = {}
    for number, command in enumerate(COMMANDS):
        began = time.monotonic()
        words = command.replace("NEW", str(new / str(number))).split()
        run = rmqctl("-q", *options, *words, store=store)
        assert time.monotonic() - began < PATIENCE_S, command
        assert ("defect" in run.err, "Traceback" in run.err) == (False, False), run.err
        found[command] = (run.code, run.err)
    return found


def remove_tables(store: Path) -> None:
    """Take away what another test left in the store, in whatever order they run."""
    for one in TABLES:
        (store / "config" / one).unlink(missing_ok=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*REFUSED, *LOADED])
def test_a_hostile_table_is_a_finding_or_passed_over(name: str, store: Path, tmp_path: Path) -> None:
    for one in TABLES:
        (store / "config" / one).write_bytes((REFUSED | LOADED)[name])
    runs = run_all(store, tmp_path)
    findings = {"doctor", "config check", *(["info"] if name in REFUSED else []), *(["lag"] if name in BEYOND else [])}
    assert {command for command, (code, _) in runs.items() if code == 1} == findings
    assert {code for code, _ in runs.values()} == {0, 1}
    checked = rmqctl("-f", "json", "config", "check", store=store).json["findings"]
    assert {row["file"] for row in checked if row["kind"] == "lost"} == (set(TABLES) if name in REFUSED else set())


@pytest.mark.slow
@pytest.mark.parametrize("text", CONF, ids=lambda text: repr(text[:40]))
def test_a_hostile_broker_conf_is_one_sentence_with_the_file(text: bytes, store: Path, tmp_path: Path) -> None:
    remove_tables(store)
    conf = tmp_path / "broker.conf"
    conf.write_bytes(text)
    sentence = f"rmqctl: {conf}: {CONF[text]}"
    for command, (code, said) in run_all(store, tmp_path, "--broker-conf", conf).items():
        assert (code, said.partition(" (see ")[0].strip()) == (2, sentence), command
    assert [path.name for path in tmp_path.iterdir()] == ["broker.conf"]


@pytest.mark.parametrize(
    "text", one_of(5, [b"", b"brokerName=\xff", b"fileReservedTime = 5\r\n", b"brokerName=x\\", b"! x\n# y\n"])
)
def test_a_strange_broker_conf_is_read_as_java_reads_it(text: bytes, store: Path, tmp_path: Path) -> None:
    remove_tables(store)
    (tmp_path / "broker.conf").write_bytes(text)
    runs = run_all(store, tmp_path, "--broker-conf", tmp_path / "broker.conf")
    assert {command for command, (code, _) in runs.items() if code} == set()
