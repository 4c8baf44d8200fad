"""What simulate foretells of a start, held against the real store's start, on stores damaged at random:

    python -m tests.runs.forecast --reference CMD [--line 4.9|5.3] [--rounds N] [--seed N] [--only ROUND]

CMD is the real message store behind a command line, as tests.runs.differential takes it, with `ops --show-load`:
it starts, and then answers `get` for each queue offset. In every round

    starts   simulate says whether the broker starts, and where its log ends
    unseen   a message of the log that the real store's `get` gives for no queue offset counts; simulate has this
             number for each queue, and no other queue
    start    recover --as-broker leaves the broker's bytes (tests.runs.differential)

Prints every round that differs, with its seed, and a last line of counts; the exit code is 1 when any differs.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.files.stored_segment import StoredSegment
from store.structures.commitlog.resync import runs_between
from store.structures.commitlog.scan import ScanRules
from store.structures.consumequeue.numbering import QueueTable
from tests.runs import differential
from tests.support.random_damage import MORE_KINDS
from tests.support.simulating import simulate

WAITS_SECONDS = 60
"""After so long a start of 4.9 is taken for one that waits for ever, for a missing segment."""

Queue = tuple[str, int]
Shown = dict[Queue, set[bytes]]


class Forecast(differential.Round):
    """One damaged store, its simulated start, and the real one."""

    module, kinds = "forecast", MORE_KINDS
    recoveries = (True,)

    def run(self) -> list[str]:
        """Every disagreement, as a sentence."""
        said = simulate(self.damaged, self.reference.line, **self.archive.settings)
        real = self._copy("real")
        state, shown = self._start(real)
        if said.starts != state["loadOk"]:
            return [f"starts: {said.starts} ({said.reason}), really {state}"]
        if not said.starts:
            return []
        if said.log_end != state["maxPhyOffsetAfterLoad"]:
            self.faults.append(f"log end: {said.log_end}, really {state['maxPhyOffsetAfterLoad']}")
        unseen = unseen_in(real, state["minPhyOffset"], state["maxPhyOffset"], shown, v2=self.reference.line != "4.9")
        if said.unseen != unseen:
            self.faults.append(f"unseen: {said.unseen}, really {unseen}")
        self._compare_start(real)
        return self.faults

    def _start(self, root: Path) -> tuple[dict[str, Any], Shown]:
        """Starts the real store in place; gives its state, and the messages that its queues show."""
        command = [*self.reference.command, "ops", "--store", str(root), *differential.sizes_of(self.archive)]
        with subprocess.Popen(
            [*command, "--show-load", "--raw", "--then-close", "abort"],
            env={**os.environ, "REFSTORE_V": self.reference.line.replace(".", "")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            # It writes its state out with the first answer.
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write('{"op": "catchup"}\n')
                process.stdin.flush()
            waits = threading.Timer(WAITS_SECONDS, process.kill)
            waits.start()
            first = process.stdout.readline()
            waits.cancel()
            state = json.loads(first) if first.startswith("{") else {"loadOk": False}
            if not state["loadOk"]:
                return state, {}
            asked = list(_gets(state["queues"]))
            answers, _ = process.communicate("".join(json.dumps(one) + "\n" for one in asked), timeout=300)
        shown: Shown = {}
        for line in answers.splitlines():
            answer = json.loads(line)
            request = answer["req"]
            if request["op"] != "get":
                continue
            found = shown.setdefault((request["topic"], request["queue"]), set())
            found |= {base64.b64decode(one["raw"]) for one in answer.get("res", {}).get("messages", ())}
        return state, shown


def _gets(queues: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A request for each queue offset: one that leads nowhere does not hide those behind it."""
    for queue in queues:
        for offset in range(queue["min"], queue["max"]):
            yield {"op": "get", "topic": queue["topic"], "queue": queue["queueId"], "offset": offset, "max": 1}


def unseen_in(root: Path, start: int, stop: int, shown: Shown, *, v2: bool) -> dict[Queue, int]:
    """Counts the messages of the real store's log that none of its answers holds."""
    files = StoreReader(str(root), Filesystem())
    segments = [StoredSegment(files, file) for file in files.segments()]
    table, found = QueueTable(), Counter[Queue]()
    for run in runs_between(segments, start, stop, rules=ScanRules(check_crc=False, accept_v2=v2)):
        numbers = table.assign(run.buffer, run.array, run.count).tolist()
        sizes, positions = run.columns.size.tolist(), run.columns.position.tolist()
        for number, size, at in zip(numbers, sizes, positions, strict=True):
            if number >= 0 and bytes(run.buffer[at : at + size]) not in shown.get(table.names[number], set()):
                found[table.names[number]] += 1
    return dict(sorted(found.items()))


if __name__ == "__main__":
    sys.exit(differential.main(round_of=Forecast))
