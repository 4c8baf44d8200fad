"""What a real start cuts off is sent into the real broker by a replay that is killed; a real consumer gets each once.

    RMQCTL_REFBROKER=… python -m tests.runs.killed_replays --kills 50 --seed S

The log is damaged in its middle, so that the broker's start loses the second half. A copy of it is replayed.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.cli.running import rmqctl
from tests.support.processes import command_line, running
from tests.support.refbroker import cluster, ids, log_offset, sent_ids

SETTINGS = {"mappedFileSizeCommitLog": 4 << 20}
"""One segment, as a start of 5.5 reads no record that is more than ten segments back, and cuts none there."""
RATE = 10
LONGEST_S = 8.0
COUNT = 3000


def run_killed(folder: Path, line: str, count: int, kills: int, seed: int) -> int:
    """Replay over kills; AssertionError unless each message came once. Returns how many were lost and replayed."""
    root, copy, ledger = folder / "store", folder / "copy", folder / "ledger"
    rnd = random.Random(seed)
    with cluster(folder / "real", line) as real:
        with real.broker(root, SETTINGS) as broker:
            real.make_topic("Orders", 2)
            sent = sorted(real.produce("Orders", count, "--body-size", 500), key=log_offset)
            assert ids(real.consume("Orders", "billing", count)) == sent_ids(sent)
            broker.kill()
        damage(root, log_offset(sent[count // 2]))
        shutil.copytree(root, copy)
        lost = sent[count // 2 + 1 :]
        with real.broker(root, SETTINGS):
            words = ["replay", copy, "--losses", "--to", real.namesrv, "--ledger", ledger, "--verify"]
            for _ in range(kills):
                with running(command_line(None, *words, "--rate", RATE)) as replay:
                    time.sleep(rnd.uniform(1, LONGEST_S))
                    replay.kill()
            run = rmqctl("-f", "json", *words)
            assert (run.json["stop_reason"], run.json["ledger_doubt_count"]) == (None, 0), run.err
            got = real.consume("Orders", "audit", count // 2 + len(lost), "--from", "first", "--linger", 3)
            # A consumer may get one record again after a rebalance; two records of one message are a replay's fault.
            places = Counter(key for key, _ in {(row["properties"]["UNIQ_KEY"], row["logOffset"]) for row in got})
            twice = [key for key, number in places.items() if number > 1]
            assert twice == [], f"{len(twice)} messages are there twice"
            wanted = set(sent_ids([*sent[: count // 2], *lost]))
            missing, foreign = wanted - set(places), set(places) - wanted
            assert (missing, foreign) == (set(), set()), f"{len(missing)} messages are missing, {len(foreign)} foreign"
    return len(lost)


def damage(root: Path, at: int) -> None:
    """Change a byte of the body of the record at a log offset."""
    for path in sorted((root / "commitlog").iterdir()):
        start = int(path.name)
        if start <= at < start + path.stat().st_size:
            data = bytearray(path.read_bytes())
            data[at - start + 120] ^= 1
            path.write_bytes(data)


def main() -> int:
    """Run as the command line says; AssertionError where a message came twice, or not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--line", choices=["4.9", "5.5"], default="4.9")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    with tempfile.TemporaryDirectory() as folder:
        lost = run_killed(Path(folder), options.line, COUNT, options.kills, options.seed)
    print(f"{lost} lost messages replayed over {options.kills} kills, each came once")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
