"""Backups that are killed at random moments beside a store that is written to and killed too; every moment is restored.

python -m tests.runs.backups --kills 30 --seed S

owner     `rmqctl serve --ha-listen` in a process of its own; killed now and then, and started with --recover
writer    puts messages, and notes the log offset of each that is acknowledged: the ledger
backups   `backup create` and `backup create --follow`, killed at random moments; the last one ends by SIGTERM
each      what was in the folder is there still; the newest backup holds the digests of its manifest, and its
          restored store has the messages of the ledger before its end, and none after
"""

from __future__ import annotations

import argparse
import contextlib
import random
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from store import Message, StoreClosed, StoreError, open_store
from store.engine.serving import StoreClient
from store.files.backup_files import BackupFiles
from store.formats.backup_manifest import Manifest
from tests.support.processes import command_line, next_line, running
from tests.support.refstore import free_port
from tests.support.stores import FOR_PROCESSES
from tests.support.threads import eventually
from tests.verbs.backup.backups import faults_in, restore

SETTINGS = {"mappedFileSizeCommitLog": 256 << 10, "mappedFileSizeConsumeQueue": 20_000, "maxIndexNum": 20_000,
            "maxHashSlotNum": 5_000, **FOR_PROCESSES}  # fmt: skip
QUEUES = 3
BODY_BYTES = 300
PAUSE_S = 0.001
EVERY_S = 0.2
LONGEST_S = 3.0
WAIT_S = 60


@dataclass
class KilledBackups:
    """One run: what was acknowledged, and what the folder of backups had."""

    folder: Path
    seed: int
    acknowledged: list[tuple[int, float]] = field(default_factory=list)
    """The log offset of each acknowledged message, and when it was."""
    ends: dict[str, int] = field(default_factory=dict)
    """The log's end in each backup."""
    lags_s: list[float] = field(default_factory=list)
    """Of each moment under --follow: the age of the oldest acknowledged message that it lacks."""
    owner_kills: int = 0
    restored: int = 0
    _ending: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._root, self._to, self._port = self.folder / "store", self.folder / "backups", free_port()
        self._random = random.Random(self.seed)

    def run(self, kills: int) -> None:
        """Kill `kills` backups of each kind; AssertionError where one lacks a message, or has one too many."""
        self._writer = writer = threading.Thread(target=self._write)
        owner = contextlib.ExitStack()
        process = owner.enter_context(self._owner())
        writer.start()
        try:
            for number in range(2 * kills):
                self._kill_one(follows=number % 2 == 1)
                if number % 5 == 4:
                    process.kill()
                    owner.close()
                    self.owner_kills += 1
                    process = owner.enter_context(self._owner("--recover"))
            self._end_one(process, owner)
        finally:
            self._ending.set()
            writer.join()
            owner.close()

    def _kill_one(self, *, follows: bool) -> None:
        began, had = {place for place, _ in self.acknowledged[:]}, set(self.ends)
        with self._backup(follows=follows) as backup:
            # Up to where a backup exists, and beyond that.
            with contextlib.suppress(subprocess.TimeoutExpired):
                backup.wait(self._random.uniform(0.3, LONGEST_S))
            killed_at = time.monotonic()
            backup.kill()
            backup.wait()
        made = self._check()
        if not follows and backup.returncode == 0:
            assert made is not None, "a backup that ended is not there"
            assert began <= self._before(made.log_end), "an acknowledged message is not there"
        if follows and made is not None and made.id not in had:
            missing = [when for place, when in self.acknowledged[:] if place >= made.log_end]
            self.lags_s.append(max(0.0, killed_at - min(missing, default=killed_at)))

    def _end_one(self, owner: subprocess.Popen[str], stack: contextlib.ExitStack) -> None:
        """Follow over a restart of the owner until SIGTERM; the backup has all that was acknowledged then."""
        with self._backup(follows=True) as backup:
            self._await_backup()
            owner.kill()
            stack.close()
            self.owner_kills += 1
            stack.enter_context(self._owner("--recover"))
            self._await_backup()
            self._ending.set()
            self._writer.join()
            self._await_backup(of_more=False)
            backup.terminate()
            assert backup.wait(WAIT_S) == 0, "SIGTERM did not end the backup with exit code 0"
        made = self._check()
        assert made is not None, "a backup that ended is not there"
        assert max(place for place, _ in self.acknowledged) < made.log_end, "an acknowledged message is not there"

    def _await_backup(self, *, of_more: bool = True) -> None:
        """Wait until the newest backup has all that is acknowledged by now, and with `of_more` a message after it."""
        count = len(self.acknowledged) + of_more
        has_more = eventually(lambda: len(self.acknowledged) >= count, WAIT_S)
        wanted = self.acknowledged[-1][0]
        files = BackupFiles(str(self._to))
        has_all = eventually(lambda: max((one.log_end for one in files.manifests()), default=0) > wanted, WAIT_S)
        assert (has_more, has_all) == (True, True), "the backup does not follow"

    def _before(self, log_end: int) -> set[int]:
        return {place for place, _ in self.acknowledged[:] if place < log_end}

    def _check(self) -> Manifest | None:
        """Compare the folder with what it had, and the newest backup with the ledger."""
        if not (self._to / "backups").exists():
            return None
        manifests = BackupFiles(str(self._to)).manifests()
        ends = {one.id: one.log_end for one in manifests}
        assert all(ends.get(one, -1) >= end for one, end in self.ends.items()), (self.ends, ends)
        assert faults_in(self._to) == []
        self.ends = ends
        if not manifests:
            return None
        made = manifests[-1]
        with tempfile.TemporaryDirectory(dir=self.folder) as new:
            report = restore(self._to, Path(new) / "new")
            assert report.findings == []
            with open_store(Path(new) / "new") as store:
                found = {one.log_offset for queue in range(QUEUES) for one in store.messages("T", queue)}
        self.restored += 1
        known = self._before(made.log_end)
        assert known <= found, f"{made.id} lacks {len(known - found)} of {len(known)} messages"
        # A put that a kill cut short is there, and was never acknowledged.
        assert len(found - known) <= self.owner_kills + 1, f"{made.id} has {len(found - known)} messages too many"
        assert not found or max(found) < made.log_end
        return made

    @contextlib.contextmanager
    def _backup(self, *, follows: bool) -> Iterator[subprocess.Popen[str]]:
        how = ["--follow", "--broker", f"127.0.0.1:{self._port}", "--every", EVERY_S] if follows else []
        with running(command_line(self._root, "backup", "create", self._to, "--quiet", *how)) as process:
            yield process

    @contextlib.contextmanager
    def _owner(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        given = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
        listens = ["--ha-listen", f"127.0.0.1:{self._port}", "--ready", "--quiet"]
        with running(command_line(self._root, "serve", *listens, *given, *words)) as owner:
            assert next_line(owner) == "ready\n", "the owner does not answer"
            yield owner

    def _write(self) -> None:
        number = 0
        while not self._ending.is_set():
            with contextlib.suppress(StoreError, StoreClosed):
                client = StoreClient.find(self._root)
                while client is not None and not self._ending.is_set():
                    body = f"{number} ".encode().ljust(BODY_BYTES, b".")
                    put = client.put(Message.of("T", body, queue_id=number % QUEUES, keys=[str(number)]))
                    assert put.is_ok, put
                    self.acknowledged.append((put.log_offset, time.monotonic()))
                    number += 1
                    time.sleep(PAUSE_S)
            time.sleep(0.05)


def summary(run: KilledBackups, kills: int) -> Mapping[str, object]:
    """Return what was measured."""
    lags = sorted(run.lags_s)
    return {
        "kills of create, and of --follow": kills,
        "kills of the owner": run.owner_kills,
        "messages acknowledged": len(run.acknowledged),
        "moments restored": run.restored,
        "lag of --follow, median and worst (s)": [round(lags[len(lags) // 2], 2), round(lags[-1], 2)] if lags else None,
    }


def main() -> int:
    """Run as the command line says; AssertionError where something was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    with tempfile.TemporaryDirectory() as folder:
        run = KilledBackups(Path(folder), options.seed)
        run.run(options.kills)
    for name, value in summary(run, options.kills).items():
        print(f"{name}: {value}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
