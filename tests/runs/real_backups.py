"""Backups beside a real broker that is killed while a real producer writes; real clients on a restored store.

RMQCTL_REFBROKER=… python -m tests.runs.real_backups --count 280000 --kills 5

producer  its lines are the ledger: the log offset of each message that the broker acknowledged
follow    one `backup create --follow` through all of it, until SIGTERM
creates   a `backup create` before and after each kill, into a folder of their own
then      each backup is restored: it has the messages of the ledger before its end, and none after; a broker
          starts on the followed one, and the group goes on at its offset
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from store import open_store
from store.files.backup_files import BackupFiles
from tests.cli.running import rmqctl
from tests.support.processes import command_line, running
from tests.support.refbroker import SLOW, Cluster, Server, broker_port, cluster, ids, log_offset
from tests.verbs.backup.backups import faults_in, restore

SETTINGS = {"mappedFileSizeCommitLog": 4 << 20, "mappedFileSizeConsumeQueue": 200_000, "maxHashSlotNum": 50_000,
            "maxIndexNum": 200_000}  # fmt: skip
QUEUES = 4
EARLY = 500
"""Messages that the group has consumed before the producer begins."""
OFFSETS_ARE_WRITTEN_S = 7
EVERY_S = 1
PAUSE_S = 10
THREADS = 4
WAIT_S = 900


@dataclass
class RealBackups:
    """One run."""

    folder: Path
    line: str
    count: int
    kills: int
    moments: list[tuple[str, int, int]] = field(default_factory=list)
    """Id and log end of each created backup, and how many messages were acknowledged before it began."""
    sent: list[tuple[int, str]] = field(default_factory=list)
    """Log offset and id of each acknowledged message."""
    refused: int = 0
    group_got: int = 0
    followed_after_s: float = 0.0

    def __post_init__(self) -> None:
        self._root, self._ledger = self.folder / "store", self.folder / "ledger.jsonl"
        self._created, self._followed = self.folder / "created", self.folder / "followed"

    def run(self) -> None:
        """Produce, back up and kill; AssertionError where a moment lacks a message, or has one too many."""
        with cluster(self.folder / "real", self.line) as real:
            # The name server has its port then.
            self._port = broker_port()
            self._write(real)
            self._read_ledger()
            newest = BackupFiles(str(self._followed)).find(None)
            for number, (backup, log_end, acknowledged) in enumerate(self.moments):
                self._compare(self._created, backup, log_end, acknowledged, f"created{number}")
            self._compare(self._followed, newest.id, newest.log_end, len(self.sent), "new")
            self._consume(real)

    def _write(self, real: Cluster) -> None:
        with contextlib.ExitStack() as stack:
            broker = self._start(real, stack)
            real.make_topic("Orders", QUEUES)
            early = real.produce("Orders", EARLY)
            self._early = {(log_offset(row), row["msgId"]) for row in early}
            assert len(ids(real.consume("Orders", "billing", EARLY))) == EARLY
            time.sleep(OFFSETS_ARE_WRITTEN_S)
            words = ["--follow", "--broker", f"127.0.0.1:{self._port + 1}", "--every", EVERY_S, "--quiet"]
            follow = stack.enter_context(running(command_line(self._root, "backup", "create", self._followed, *words)))
            producer = stack.enter_context(self._producer(real))
            for _ in range(self.kills):
                self._create()
                time.sleep(PAUSE_S)
                broker.kill()
                broker = self._start(real, stack)
                self._create()
            assert producer.wait(WAIT_S) in (0, 1)
            self._create()
            began = time.monotonic()
            follow.terminate()
            assert follow.wait(WAIT_S) == 0, "SIGTERM did not end the backup with exit code 0"
            self.followed_after_s = time.monotonic() - began
            broker.kill()

    def _start(self, real: Cluster, stack: contextlib.ExitStack) -> Server:
        return stack.enter_context(real.broker(self._root, SETTINGS, self._port))

    @contextlib.contextmanager
    def _producer(self, real: Cluster) -> Iterator[subprocess.Popen[bytes]]:
        words = ["--namesrv", real.namesrv, "--topic", "Orders", "--count", self.count, "--threads", THREADS, *SLOW]
        with self._ledger.open("wb") as out:
            process = subprocess.Popen(
                [real.command, "produce", *map(str, words)], env=real.environment("producer"), stdout=out
            )
            try:
                yield process
            finally:
                process.kill()
                process.wait()

    def _create(self) -> None:
        acknowledged = self._ledger.read_bytes().count(b'"SEND_OK"') if self._ledger.exists() else 0
        run = rmqctl("-f", "json", "backup", "create", self._created, store=self._root)
        assert run.code == 0, run.err
        self.moments.append((run.json["backup_id"], run.json["log_end"], acknowledged))

    def _read_ledger(self) -> None:
        rows = [json.loads(line) for line in self._ledger.read_text().splitlines() if line.startswith("{")]
        done = [row for row in rows if row.get("status") == "SEND_OK"]
        self.refused = len(rows) - len(done)
        self.sent = [(log_offset(row), row["msgId"]) for row in done]

    def _compare(self, folder: Path, backup: str, log_end: int, acknowledged: int, name: str) -> None:
        """Restore a backup, and hold it against the ledger."""
        new = self.folder / name
        assert restore(folder, new, backup).findings == []
        with open_store(new) as store:
            found = {
                (one.log_offset, one.uniq_key) for queue in range(QUEUES) for one in store.messages("Orders", queue)
            }
        sent = {one for one in self._early | set(self.sent) if one[0] < log_end}
        assert sent <= found, f"{backup} lacks {len(sent - found)} messages"
        assert set(self.sent[:acknowledged]) <= found, f"{backup} lacks messages acknowledged before it"
        # A broker that is killed has messages that it never acknowledged.
        assert len(found - sent) <= (self.kills + 1) * 4 * THREADS, f"{backup} has {len(found - sent)} too many"
        assert max(found)[0] < log_end

    def _consume(self, real: Cluster) -> None:
        """Let the group go on in the restored store."""
        assert faults_in(self._followed) == []
        wanted = {key for _, key in self.sent}
        with real.broker(self.folder / "new", SETTINGS):
            rows = real.consume("Orders", "billing", len(wanted), "--no-bodies", "--linger", 5, timeout_s=WAIT_S)
        got = {row["properties"]["UNIQ_KEY"] for row in rows}
        self.group_got = len(got)
        assert wanted <= got, f"the group misses {len(wanted - got)} messages"
        assert not got & {key for _, key in self._early}, "the group got messages again"


def main() -> int:
    """Run as the command line says; AssertionError where something was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=280_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--line", choices=["4.9", "5.5"], default="4.9")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = RealBackups(Path(folder), options.line, options.count, options.kills)
        run.run()
    print(f"{len(run.sent)} messages acknowledged, {run.refused} refused, the broker killed {run.kills} times")
    print(f"{len(run.moments)} created backups and the followed one restored, none lacks a message")
    print(
        f"the group went on with {run.group_got}; the followed backup ended {run.followed_after_s:.1f} s after SIGTERM"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
