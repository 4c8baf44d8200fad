"""Random stores of the real broker, broken at random and repaired: real groups miss no sound message.

python -m tests.runs.real_group --rounds N --seed S
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.cli.running import rmqctl
from tests.support.random_damage import records
from tests.support.refbroker import SETTINGS, Cluster, cluster

PAGE = 4096
QUEUE_FILE = "mappedFileSizeConsumeQueue"
REPAIRS = {
    "zeroed page": "salvage",
    "zeroed page in the newest segment": "salvage",
    "torn tail": "recover --abnormal --yes",
    "lost queue": "recover --abnormal --yes",
    "lost queues": "recover --abnormal --yes",
    "stray entries": "rebuild --yes",
    "nothing": "recover --abnormal --yes",
}
DELAY_LEVEL = 4
"""30 s: over only when the store has been broken and repaired."""
Rows = list[dict[str, Any]]


def run_round(folder: Path, seed: int) -> str:
    """Put, break, repair and consume; AssertionError where a group misses a sound message. Says what was done."""
    rnd, root, target = random.Random(seed), folder / "store", folder / "salvaged"
    topics = rnd.sample(["Orders", "Bills", "Late"], rnd.randint(1, 3))
    with cluster(folder / "real") as real:
        with real.broker(root) as broker:
            for topic in topics:
                real.make_topic(topic, rnd.randint(1, 4))
            early = _put(real, topics[0], rnd, delayed=False)
            real.consume(topics[0], "early", len(early))
            sent = [row for topic in topics for row in _put(real, topic, rnd, delayed=topic == "Late")]
            ends = rnd.choice(["killed", "stopped"])
            broker.kill() if ends == "killed" else broker.stop()
        kind = rnd.choice(sorted(REPAIRS))
        places = [(int(path.name) + at, size) for path, at, size in records(root)]
        start, end = _break(root, kind, rnd)
        gone = {at for at, size in places if at < end and at + size > start}
        salvages = REPAIRS[kind] == "salvage"
        words = ["salvage", "--to", str(target)] if salvages else REPAIRS[kind].split()
        # Without a queue file nothing in the store tells the size of one.
        given = [] if any(root.glob("consumequeue/*/*/*")) else [f"--set={QUEUE_FILE}={SETTINGS[QUEUE_FILE]}"]
        run = rmqctl("--format", "json", *given, *words, store=root)
        assert run.code in ((0, 1) if gone else (0,)), f"seed {seed}, {kind}: {run.out}{run.err}"
        told = run.json.get("lost_messages", 0)
        with real.broker(target if salvages else root):
            due = [row for row in [*early, *sent] if _log_offset(row) not in gone]
            for topic in topics:
                _consume(real, topic, "readers", _ids_of(due, topic), f"seed {seed}, {kind} at {start}, {ends}")
            later = {row["msgId"] for row in sent if row["topic"] == topics[0] and _log_offset(row) not in gone}
            _consume(real, topics[0], "early", later, f"seed {seed}, {kind} at {start}, {ends}")
    assert told == len(gone), f"seed {seed}, {kind}: {told} told, {len(gone)} lost"
    done = f"{', '.join(topics)}, {ends}, {kind}"
    return f"seed {seed}: {done}: {len(early) + len(sent)} sent, {told} lost, all others came"


def _put(real: Cluster, topic: str, rnd: random.Random, *, delayed: bool) -> Rows:
    words: list[object] = ["--body-size", rnd.randint(1, 900), "--keys", "order#", "--tags", "A,B"]
    rows = real.produce(topic, rnd.randint(30, 150), *words, *(["--delay", DELAY_LEVEL] if delayed else []))
    return [{**row, "topic": topic} for row in rows]


def _consume(real: Cluster, topic: str, group: str, wanted: set[str], what: str) -> None:
    got = real.consume(topic, group, len(wanted), "--from", "first", timeout_s=150)
    found = {row["properties"]["UNIQ_KEY"] for row in got if "RMQCTL_LOST" not in row["properties"]}
    assert wanted <= found, f"{what}: {group} misses {len(wanted - found)} of {len(wanted)} of {topic}"


def _ids_of(rows: Iterable[dict[str, Any]], topic: str) -> set[str]:
    return {row["msgId"] for row in rows if row["topic"] == topic}


def _log_offset(row: dict[str, Any]) -> int:
    """Of a message that was sent: the end of its offsetMsgId."""
    return int(row["offsetMsgId"][-16:], 16)


def _break(root: Path, kind: str, rnd: random.Random) -> tuple[int, int]:
    """Break the store; give the log offsets between which it is zero."""
    queues = sorted((root / "consumequeue").glob("*/*"))
    if kind == "lost queue":
        shutil.rmtree(rnd.choice(queues))
    elif kind == "lost queues":
        shutil.rmtree(root / "consumequeue")
    elif kind == "stray entries":
        file = rnd.choice(sorted(rnd.choice(queues).iterdir()))
        data = bytearray(file.read_bytes())
        data[:20] = (1 << 20).to_bytes(8, "big") + bytes((0, 0, 1, 0)) + bytes(8)
        file.write_bytes(data)
    elif kind != "nothing":
        return _break_log(root, kind, rnd)
    return 0, 0


def _break_log(root: Path, kind: str, rnd: random.Random) -> tuple[int, int]:
    places = records(root)
    if kind == "zeroed page in the newest segment":
        places = [place for place in places if place[0] == places[-1][0]]
    path, at, size = rnd.choice(places)
    data, base = bytearray(path.read_bytes()), int(path.name)
    tears = kind == "torn tail"
    first = at + rnd.randrange(size) if tears else at // PAGE * PAGE
    last = len(data) if tears else first + PAGE
    data[first:last] = bytes(last - first)
    path.write_bytes(data)
    if not tears:
        return base + first, base + last
    for later in sorted((root / "commitlog").iterdir()):
        if later.name > path.name:
            later.unlink()
    return base + first, 1 << 62


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    for seed in range(wanted.seed, wanted.seed + wanted.rounds):
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(run_round(Path(folder), seed), flush=True)
            except AssertionError as error:
                print(f"FAILED: {error}", flush=True)


if __name__ == "__main__":
    main()
