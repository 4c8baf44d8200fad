"""Copies a log over a link that is cut at random, by a copying process that is killed at random.

    python -m tests.engine.ha.link_cuts --messages 200000 --cuts 50 --kills 10

The copy must be byte-identical, with the same queues and the same answers of the index. pytest does a slice of it.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from store import open_store
from store.engine.ha.link import Address
from store.engine.ha.log_copy import LogCopy
from store.engine.ha.master import CommitLogSource, HAMaster
from store.engine.ha.receive import ReceiveOptions, Receiver
from store.files.filesystem import Filesystem
from tests.support.processes import running
from tests.support.stores import make_store

SETTINGS = {
    "mappedFileSizeCommitLog": 4 << 20,
    "mappedFileSizeConsumeQueue": 20_000,
    "maxHashSlotNum": 5000,
    "maxIndexNum": 20_000,
}


class CuttingProxy:
    """Hands bytes on between slaves and a master, and cuts the first `cuts` connections after a random number."""

    def __init__(self, master: Address, cuts: int, most_bytes: int, chance: random.Random) -> None:
        self._master, self._cuts, self._most, self._chance = master, cuts, most_bytes, chance
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self._server.getsockname())
        self.cut_count = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                slave, _ = self._server.accept()
                budget = self._chance.randrange(1, self._most) if self.cut_count < self._cuts else 1 << 62
                self.cut_count += budget < 1 << 62
                threading.Thread(target=self._connect, args=(slave, budget), daemon=True).start()

    def _connect(self, slave: socket.socket, budget: int) -> None:
        with contextlib.suppress(OSError), socket.create_connection(self._master) as master:
            threading.Thread(target=_pump, args=(slave, master, 1 << 62), daemon=True).start()
            _pump(master, slave, budget)


def _pump(source: socket.socket, target: socket.socket, budget: int) -> None:
    """Hands on up to `budget` bytes, then closes both ends."""
    with contextlib.suppress(OSError):
        while budget > 0 and (data := source.recv(min(budget, 1 << 16))):
            target.sendall(data)
            budget -= len(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def cutting_master(store: Path, cuts: int, most_bytes: int, chance: random.Random) -> Iterator[CuttingProxy]:
    """A master of the store behind a proxy that cuts."""
    with open_store(store) as opened:
        source = CommitLogSource(opened.opened.log)
        with HAMaster(source, Address("127.0.0.1", 0)) as master:
            proxy = CuttingProxy(master.address, cuts, most_bytes, chance)
            yield proxy
            proxy.close()


def copy_over_cuts(store: Path, to: Path, *, cuts: int, most_bytes: int, overlap_bytes: int, seed: int) -> int:
    """Copies the whole log in this process; gives the number of cuts."""
    log_end = log_end_of(store)
    with cutting_master(store, cuts, most_bytes, random.Random(seed)) as proxy:
        copy = LogCopy(to, SETTINGS, Filesystem())
        options = ReceiveOptions(
            follow=True,
            reconnect_delay_s=0,
            overlap_bytes=overlap_bytes,
            should_stop=lambda: copy.durable >= log_end,
        )
        Receiver(proxy.address, copy, options).run()
        copy.close()
        return proxy.cut_count


def copy_over_kills(store: Path, to: Path, *, kills: int, seed: int) -> int:
    """Copies the whole log in processes that are killed, the last one excepted; gives the number of kills."""
    chance, killed = random.Random(seed), 0
    size = f"mappedFileSizeCommitLog={SETTINGS['mappedFileSizeCommitLog']}"
    with cutting_master(store, 0, 2, chance) as proxy:
        words = [sys.executable, "-m", "rmqctl", "--set", size, "receive", str(proxy.address), "--to", str(to)]
        for _ in range(kills):
            with running(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                time.sleep(chance.uniform(0.1, 1.0))
                killed += process.poll() is None
        subprocess.run(words, stdout=subprocess.DEVNULL, check=True, timeout=120)
    return killed


def log_end_of(store: Path) -> int:
    with open_store(store) as opened:
        return opened.max_log_offset


def require_same(store: Path, to: Path) -> None:
    """Asserts that logs are byte-identical, and queues and index the same."""
    for ours in sorted((store / "commitlog").iterdir()):
        other = to / "commitlog" / ours.name
        if other.exists():
            assert ours.read_bytes() == other.read_bytes(), ours.name
        else:
            assert not ours.read_bytes().strip(b"\0"), ours.name
    with open_store(store) as first, open_store(to, settings=SETTINGS) as second:
        assert first.queues() == second.queues()
        for number in range(0, 100, 7):
            assert first.query("T", f"k{number}").messages == second.query("T", f"k{number}").messages


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--cuts", type=int, default=50)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    given = parser.parse_args()
    print(f"seed {given.seed}")
    with tempfile.TemporaryDirectory() as folder:
        store = make_store(Path(folder) / "master", given.messages, **SETTINGS)
        # Each connection sends the overlap before anything new.
        most = log_end_of(store) // max(given.cuts, 1) + (2 << 20)
        cut = copy_over_cuts(
            store, Path(folder) / "cut", cuts=given.cuts, most_bytes=most, overlap_bytes=1 << 20, seed=given.seed
        )
        require_same(store, Path(folder) / "cut")
        print(f"{cut} cuts: byte-identical, queues and index equal")
        killed = copy_over_kills(store, Path(folder) / "killed", kills=given.kills, seed=given.seed)
        require_same(store, Path(folder) / "killed")
        print(f"{killed} kills: byte-identical, queues and index equal")


if __name__ == "__main__":
    main()
