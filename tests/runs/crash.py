"""Kill a putting process at random moments, recover, and compare with what it had acknowledged.

    python -m tests.runs.crash --rounds 200 --seed 7        prints one line per round and what was verified

One round:
    1. a child process opens the store with SYNC_FLUSH and puts from several threads; whenever a put returns PUT_OK it
       writes one line to a pipe: writer, number, queue, queue offset
    2. after a random number of lines and a random pause the parent kills it with SIGKILL, and reads the pipe to its end
    3. the parent recovers the store and reads it through its queues
    4. verified: every acknowledged message is there, once, at its queue offset, with its body; queue offsets are dense;
       of each writer at most the one put that was under way is there without an acknowledgement
The next round goes on with the recovered store; every ten rounds begin with a new one.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from store import Message, MessageStore, open_store
from tests.support.processes import REPOSITORY, environment
from tests.support.stores import FOR_PROCESSES, SMALL, recover, stored_messages

WRITERS = 3
QUEUES = 2
ROUNDS_PER_STORE = 10
MOST_ACKNOWLEDGEMENTS = 120
TIMEOUT_S = 240
SETTINGS = {**SMALL, **FOR_PROCESSES, "flushDiskType": "SYNC_FLUSH"}


@dataclass(slots=True)
class Acknowledged:
    """What the children were told: body → (queue, queue offset), and the next number of each writer."""

    places: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    next_numbers: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(WRITERS), 0))

    def note(self, line: str) -> None:
        writer, number, queue, queue_offset = map(int, line.split())
        self.places[body_of(writer, number)] = (queue, queue_offset)
        self.next_numbers[writer] = max(self.next_numbers[writer], number + 1)


def body_of(writer: int, number: int) -> bytes:
    return f"writer {writer} message {number} ".encode().ljust(40 + 13 * (number % 7), b".")


def crash_rounds(root: Path, rounds: int, seed: int) -> list[str]:
    """Runs the rounds; gives one line about each. AssertionError when a promise was broken."""
    chance = random.Random(seed)
    report = []
    for number in range(rounds):
        if number % ROUNDS_PER_STORE == 0:
            store, acknowledged = root / str(number), Acknowledged()
        _put_until_killed(store, acknowledged, chance)
        change, _ = recover(store, settings=SETTINGS)
        found = verify(store, acknowledged)
        report.append(
            f"round {number}: {len(acknowledged.places)} acknowledged, {found} found, "
            f"log ends at {change.report.log_end}, {len(change.actions)} actions"
        )
    return report


def _put_until_killed(root: Path, acknowledged: Acknowledged, chance: random.Random) -> None:
    starts = [str(acknowledged.next_numbers[writer]) for writer in range(WRITERS)]
    words = [sys.executable, "-m", "tests.runs.crash", "--child", str(root), *starts]
    child = subprocess.Popen(words, cwd=REPOSITORY, env=environment(), stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    watchdog = threading.Timer(TIMEOUT_S, child.kill)
    watchdog.start()
    try:
        for _ in range(chance.randint(1, MOST_ACKNOWLEDGEMENTS)):
            line = child.stdout.readline()
            assert line, f"the putting process ended by itself with {child.wait()}"
            acknowledged.note(line)
        time.sleep(chance.random() * 0.005)
        child.send_signal(signal.SIGKILL)
        for line in child.stdout:
            if line.endswith("\n"):
                acknowledged.note(line)
    finally:
        watchdog.cancel()
        child.kill()
        child.wait()
        child.stdout.close()


def verify(root: Path, acknowledged: Acknowledged) -> int:
    """Compares the store with what was acknowledged; gives the number of messages found."""
    with open_store(root) as store:
        found = stored_messages(store)
    places: dict[bytes, tuple[int, int]] = {}
    for (_, queue), messages in found.items():
        assert [offset for offset, _ in messages] == list(range(len(messages))), f"queue {queue} is not dense"
        for offset, body in messages:
            assert body not in places, f"{body!r} is there twice"
            places[body] = (queue, offset)
    for body, place in acknowledged.places.items():
        assert places.get(body) == place, f"{body!r} was acknowledged at {place}, found {places.get(body)}"
    for body in places.keys() - acknowledged.places.keys():
        _, writer, _, number, *_ = body.split()
        assert int(number) == acknowledged.next_numbers[int(writer)], f"{body!r} was never put"
        # The next round must not put the same number again.
        acknowledged.places[body] = places[body]
        acknowledged.next_numbers[int(writer)] += 1
    return len(places)


def put_for_ever(root: Path, starts: list[int]) -> None:
    """The child: puts and acknowledges until it is killed."""
    store = open_store(root, settings=SETTINGS, read_only=False)
    writers = [threading.Thread(target=_write, args=(store, writer, start)) for writer, start in enumerate(starts)]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()


def _write(store: MessageStore, writer: int, number: int) -> None:
    while True:
        queue = (writer + number) % QUEUES
        properties = f"KEYS\x01w{writer}n{number}".encode()
        result = store.put(Message("T", body_of(writer, number), queue, properties))
        if not result.is_ok:
            os.write(2, f"{result}\n".encode())
            os._exit(1)
        # One small write to a pipe is whole or not there at all.
        os.write(1, f"{writer} {number} {queue} {result.queue_offset}\n".encode())
        number += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        put_for_ever(Path(options.child[0]), [int(start) for start in options.child[1:]])
        return
    print(f"seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="crash-") as folder:
        for line in crash_rounds(Path(folder), options.rounds, options.seed):
            print(line)
    print(f"{options.rounds} crashes: every acknowledged message was there, once, in order")


if __name__ == "__main__":
    main()
