"""Writers and readers on one served store, hostile connections beside them, kills in between, and the memory it takes.

    python -m tests.runs.soak --minutes 10 --kills 3
    python -m tests.runs.soak --minutes 10 --connections 500

    owner      `rmqctl serve` in a process of its own
    writers    a thread and a connection each; a message carries its writer's number and is put until it is acknowledged
    readers    a thread and a connection each; they follow queues by long polling
    hostile    connections that are idle, send halves or garbage, or take no answer; hostile.py
    kills      kill -9 of the owner, then `serve --recover`; writers and readers connect again
    end        SIGTERM with hostile connections, else `rmqctl stop`; then every acknowledged message is looked for in
               the closed store

Memory is the anonymous and private part of the owner's resident set: pages of mapped files belong to the page cache.
A message that was put when the owner was killed may be there though it was not acknowledged, and twice for it was put
again. Acknowledged before a kill -9 of the process alone means in the page cache, which outlives the process.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from store import Message, StoreClosed, StoreError, open_store
from store.engine.serving import StoreClient
from tests.engine.serving.hostile import Hostile
from tests.support.processes import command_line, next_line, running
from tests.support.refstore import free_port
from tests.support.stores import FOR_PROCESSES

SETTINGS = {"mappedFileSizeCommitLog": 64 << 20, "mappedFileSizeConsumeQueue": 300_000 * 20, "maxIndexNum": 200_000,
            "maxHashSlotNum": 50_000, **FOR_PROCESSES}  # fmt: skip
BODY_BYTES = 200
SAMPLE_S = 0.25
START_S = 120
HOLD_MS = 2000
WARM_TURNS = 20
LONGEST_PUT_S = 10
FILES = 256
"""Files that the owner may open beside hostile connections."""
PAUSE_S = 0.002
"""Between two puts of one writer: the store is to be used for long, not to be filled."""


@dataclass
class Soak:
    """One run: what was acknowledged and what was read, by queue."""

    root: Path
    seconds: float
    writers: int = 8
    readers: int = 4
    kills: int = 1
    connections: int = 0
    """Hostile ones, to an owner that may open FILES files."""
    longest_put_s: float = 0.0
    acknowledged: dict[int, list[int]] = field(default_factory=dict)
    read: dict[int, list[int]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    memory_bytes: list[list[int]] = field(default_factory=list)
    """Samples of each owner."""
    hostile: Hostile = field(init=False)
    _ending: threading.Event = field(default_factory=threading.Event)
    _read_to: dict[int, int] = field(default_factory=dict)
    _turns: Counter[str] = field(default_factory=Counter)
    """Answers that each writer and each reader got."""

    def __post_init__(self) -> None:
        self.hostile = Hostile(self.root, self.connections, free_port(), free_port())

    def run(self) -> None:
        """Write, read and kill; then compare what is there with what was acknowledged."""
        threads = [threading.Thread(target=self._guarded, args=(self._write, n)) for n in range(self.writers)]
        threads += [threading.Thread(target=self._guarded, args=(self._read, n)) for n in range(self.readers)]
        besieging = threading.Thread(target=self.hostile.run, daemon=True)
        part_s = self.seconds / (self.kills + 1)
        for part in range(self.kills + 1):
            with self._owner(recovers=part > 0) as owner:
                if part == 0:
                    for thread in threads:
                        thread.start()
                    if self.connections:
                        besieging.start()
                self._watch(owner, part_s)
                if part < self.kills:
                    owner.kill()
                    owner.wait(START_S)
                else:
                    self._end(threads)
                    self._stop(owner)
        self.hostile.end()
        self._compare()

    def _stop(self, owner: subprocess.Popen[str]) -> None:
        for client in self._clients(lambda: True):
            found = client.stats()["findings"]
            self._check(not found, f"the owner says {found}")
            if not self.connections:
                self._check(client.stop(START_S), "the owner did not stop in time")
            break
        if self.connections:
            owner.send_signal(signal.SIGTERM)
        self._check(owner.wait(START_S) == 0, "the owner did not end with exit code 0")

    @contextlib.contextmanager
    def _owner(self, *, recovers: bool) -> Iterator[subprocess.Popen[str]]:
        words = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
        options = ["--recover"] if recovers else []
        limit = None
        if self.connections:
            options += ["--ha-listen", str(self.hostile.ha_port), "--metrics", str(self.hostile.metrics_port)]
            limit = _limit_files
        words = command_line(self.root, "serve", "--ready", "--quiet", *words, *options)
        with running(words, preexec_fn=limit) as owner:
            self._check(next_line(owner) == "ready\n", "the owner does not answer")
            yield owner

    def _watch(self, owner: subprocess.Popen[str], seconds: float) -> None:
        samples: list[int] = []
        self.memory_bytes.append(samples)
        self._await_use()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self.failures:
            samples.append(private_bytes(owner.pid))
            time.sleep(SAMPLE_S)

    def _await_use(self) -> None:
        """Return when this owner has answered each writer and each reader some times: it has grown to its size."""
        before, deadline = dict(self._turns), time.monotonic() + START_S
        while any(self._turns[one] < before.get(one, 0) + WARM_TURNS for one in self._users) and not self.failures:
            self._check(time.monotonic() < deadline, "a writer or a reader gets no answers")
            time.sleep(0.05)

    @property
    def _users(self) -> list[str]:
        return [*(f"writer {n}" for n in range(self.writers)), *(f"reader {n}" for n in range(self.readers))]

    def _end(self, threads: list[threading.Thread]) -> None:
        self._ending.set()
        for thread in threads:
            thread.join(START_S)
        self._check(not any(thread.is_alive() for thread in threads), "a thread did not end")

    def _guarded(self, work: object, number: int) -> None:
        try:
            work(number)  # type: ignore[operator]
        except Exception as error:
            self.failures.append(f"{getattr(work, '__name__', work)} {number}: {error!r}")

    def _check(self, holds: bool, text: str) -> None:
        if not holds:
            self.failures.append(text)

    def _clients(self, while_true: Callable[[], bool]) -> Iterator[StoreClient]:
        """A connection after the other; the owner may be away between them."""
        while while_true():
            with contextlib.suppress(StoreError):
                client = StoreClient.find(self.root)
                if client is not None:
                    with client:
                        yield client
            time.sleep(0.05)

    def _write(self, queue_id: int) -> None:
        done = self.acknowledged.setdefault(queue_id, [])
        for client in self._clients(lambda: not self._ending.is_set()):
            with contextlib.suppress(StoreClosed):
                while not self._ending.is_set():
                    number = len(done)
                    body = f"{queue_id} {number} ".encode().ljust(BODY_BYTES, b".")
                    message = Message.of("T", body, queue_id=queue_id, keys=[f"{queue_id}-{number}"])
                    began = time.monotonic()
                    answer = client.put(message)
                    self.longest_put_s = max(self.longest_put_s, time.monotonic() - began)
                    if not answer.is_ok:
                        raise AssertionError(f"a put was refused: {answer.status.value} {answer.reason}")
                    done.append(number)
                    self._turns[f"writer {queue_id}"] += 1
                    time.sleep(PAUSE_S)

    def _read(self, number: int) -> None:
        queues = range(number, self.writers, self.readers)
        for client in self._clients(lambda: not self._ending.is_set()):
            with contextlib.suppress(StoreClosed):
                while not self._ending.is_set():
                    for queue_id in queues:
                        self._read_queue(client, queue_id)
                    self._turns[f"reader {number}"] += 1
                    client.wait_for_message("T", queues[0], self._read_to.get(queues[0], 0), HOLD_MS)

    def _read_queue(self, client: StoreClient, queue_id: int) -> None:
        reader = client.messages("T", queue_id, start=self._read_to.get(queue_id, 0), max_count=2000, must_exist=False)
        # All or none: a connection that is lost in between is read again from the same place.
        found = [_number(message.body) for message in reader]
        self.read.setdefault(queue_id, []).extend(found)
        self._read_to[queue_id] = reader.next_offset

    def _compare(self) -> None:
        self._check(self.longest_put_s < LONGEST_PUT_S, f"a put took {self.longest_put_s:.1f} s")
        with open_store(self.root) as store:
            for queue_id, done in self.acknowledged.items():
                stored = [_number(message.body) for message in store.messages("T", queue_id)]
                counts = Counter(stored)
                lost = [number for number in done if not counts[number]]
                self._check(not lost, f"queue {queue_id}: {len(lost)} acknowledged messages are not there: {lost[:5]}")
                twice = sum(count - 1 for count in counts.values())
                self._check(twice <= self.kills, f"queue {queue_id}: {twice} messages are there twice")
                seen = self.read.get(queue_id, [])
                self._check(
                    seen == stored[: len(seen)], f"queue {queue_id}: a reader saw other messages than are stored"
                )

    @property
    def message_count(self) -> int:
        """Messages acknowledged."""
        return sum(map(len, self.acknowledged.values()))

    @property
    def read_count(self) -> int:
        """Messages read."""
        return sum(map(len, self.read.values()))

    def memory_growth(self, part: int = -1) -> float:
        """The mean of an owner's last samples as a multiple of those behind its first third."""
        samples = self.memory_bytes[part]
        third = len(samples) // 3
        early, late = samples[third : 2 * third] or samples, samples[2 * third :] or samples
        return (sum(late) / len(late)) / (sum(early) / len(early))


def private_bytes(process_id: int) -> int:
    """Anonymous resident memory of a process (proc_pid_status(5)); 0 where it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return 0


def _limit_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))


def _number(body: bytes) -> int:
    return int(body.split(b" ", 2)[1])


def main() -> int:
    """Run as the command line says; exit code 1 where something was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--connections", type=int, default=0, help="hostile ones")
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--readers", type=int, default=4)
    parser.add_argument("--kills", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "store"
        soak = Soak(root, given.minutes * 60, given.writers, given.readers, given.kills, given.connections)
        soak.run()
        for part, samples in enumerate(soak.memory_bytes):
            shown = [samples[0], samples[len(samples) // 2], samples[-1]] if samples else []
            print(f"owner {part}: private memory {[f'{size / 1e6:.1f} MB' for size in shown]}")
        print(f"{soak.message_count} messages acknowledged, {soak.read_count} read, {given.kills} kills")
        print(f"longest put {soak.longest_put_s:.2f} s; {soak.hostile.made.total()} hostile connections were made")
        print("\n".join(soak.failures) or "nothing is lost")
    return 1 if soak.failures else 0


if __name__ == "__main__":
    sys.exit(main())
