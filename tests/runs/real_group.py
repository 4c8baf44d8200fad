"""Random stores of the real broker, broken at random and repaired: a real group misses no sound message.

python -m tests.runs.real_group --rounds N --seed S
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
from pathlib import Path

from tests.cli.running import rmqctl
from tests.support.random_damage import records
from tests.support.refbroker import cluster

PAGE = 4096


def run_round(folder: Path, seed: int) -> str:
    """Put, break, repair and consume; AssertionError where the group misses a sound message. Says what was done."""
    rnd, root, target = random.Random(seed), folder / "store", folder / "salvaged"
    with cluster(folder / "real") as real:
        with real.broker(root) as broker:
            real.make_topic("Orders", rnd.randint(1, 4))
            size = rnd.randint(1, 900)
            sent = real.produce(
                "Orders", rnd.randint(50, 300), "--body-size", size, "--keys", "order#", "--tags", "A,B"
            )
            broker.stop()
        kind = rnd.choice(["zeroed page", "torn tail", "lost queue"])
        places = [(int(path.name) + at, size) for path, at, size in records(root)]
        start, end = _break(root, kind, rnd)
        lost = {at for at, size in places if at < end and at + size > start}
        words = ("salvage", "--to", target) if kind == "zeroed page" else ("recover", "--abnormal", "--yes")
        told = rmqctl("--format", "json", *words, store=root).json["lost_messages"]
        with real.broker(target if kind == "zeroed page" else root):
            got = real.consume("Orders", "readers", len(sent), "--from", "first", timeout_s=25)
    found = {row["properties"]["UNIQ_KEY"] for row in got if "RMQCTL_LOST" not in row["properties"]}
    sound = {row["msgId"] for row in sent if int(row["offsetMsgId"][-16:], 16) not in lost}
    assert (found, told) == (sound, len(sent) - len(sound)), (
        f"seed {seed}, {kind} at {start}: {len(sound - found)} missed"
    )
    return f"seed {seed}: {kind}, {len(sent)} sent, {told} lost, {len(found)} consumed"


def _break(root: Path, kind: str, rnd: random.Random) -> tuple[int, int]:
    """Break the store; give the log offsets between which it is zero."""
    if kind == "lost queue":
        shutil.rmtree(rnd.choice(sorted((root / "consumequeue/Orders").iterdir())))
        return 0, 0
    path, at, size = rnd.choice(records(root))
    data, base = bytearray(path.read_bytes()), int(path.name)
    first = at // PAGE * PAGE if kind == "zeroed page" else at + rnd.randrange(size)
    last = first + PAGE if kind == "zeroed page" else len(data)
    data[first:last] = bytes(last - first)
    path.write_bytes(data)
    if kind == "zeroed page":
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
            print(run_round(Path(folder), seed), flush=True)


if __name__ == "__main__":
    main()
