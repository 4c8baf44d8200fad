"""Put, flush, crash, recover, truncate, clean and undo in any order, against a model: a list of messages by queue."""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from store import open_store
from store.change.quarantine import undo
from store.files.filesystem import Filesystem
from store.files.lock import AbortMarker
from store.verbs.clean.plan import plan_cleaning
from tests.runs.power_cuts import FAR_FUTURE_MS, QUEUES, SMALLER, verify
from tests.support.simulated_disk import Cut, SimulatedDisk
from tests.support.stores import Clock, planning, recover, text_message, truncate

Place = tuple[int, int]
Model = dict[Place, bytes]
STEPS, EXAMPLES = 15, 6


class StoreMachine(RuleBasedStateMachine):
    """`messages` are those that consumers must be given, by queue id and queue offset; `places` their log offsets."""

    @initialize(seed=st.integers(0, 1 << 32))
    def begin(self, seed: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="machine-"))
        self.root, self.fs, self.clock = self.folder / "disk/store", Filesystem(), Clock()
        self.chance, self.number = random.Random(seed), 0
        self.messages: Model = {}
        self.undoable: tuple[str, Model] | None = None
        self.put(3, "ASYNC_FLUSH")

    def put(self, count: int, flush: str, fs: Filesystem | None = None) -> None:
        """Puts and shuts down; what is acknowledged is in `messages` at once."""
        options = {**SMALLER, "flushDiskType": flush}
        with open_store(self.root, settings=options, read_only=False, clock=self.clock, fs=fs or self.fs) as store:
            for _ in range(count):
                self.number, self.clock.now_ms = self.number + 1, self.clock.now_ms + 1000
                message = text_message(self.number, queue_id=self.number % QUEUES)
                result = store.put(message)
                assert result.is_ok
                self.messages[message.queue_id, result.queue_offset] = message.body
        self.undoable = None

    @rule(count=st.integers(1, 12), flush=st.sampled_from(["SYNC_FLUSH", "ASYNC_FLUSH"]))
    def put_and_shut_down(self, count: int, flush: str) -> None:
        self.put(count, flush)

    @rule(count=st.integers(1, 6), cut_at=st.integers(1, 120))
    def lose_power_while_putting(self, count: int, cut_at: int) -> None:
        """Goes on with what a cut left; what was acknowledged before it must be there."""
        disk, cuts = self.folder / "disk", self.folder / "cuts"
        options = {"cuts": [cut_at], "chance": self.chance, "witness": lambda: dict(self.messages)}
        simulated = SimulatedDisk(disk, cuts, **options)  # type: ignore[arg-type]
        self.put(count, "SYNC_FLUSH", simulated)
        simulated.close()
        for cut in simulated.taken:
            shutil.rmtree(disk)
            cut.root.rename(disk)
            verify(Cut(disk, cut.operation, cut.witness))
            # A message that was put and not yet acknowledged may be there too.
            held = self.held()
            assert all(self.messages[place] == body for place, body in held.items())
            self.messages = held

    @rule()
    def recover_after_a_kill(self) -> None:
        AbortMarker(self.root / "abort", self.fs).create()
        recover(self.root, settings=SMALLER)
        self.undoable = None

    @precondition(lambda self: self.messages)
    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        places, before = self.places(), dict(self.messages)
        cut_at = sorted(places.values())[int(share * (len(places) - 1))]
        change_id = truncate(self.root, cut_at, settings=SMALLER)[1]
        self.messages = {place: body for place, body in before.items() if places[place] < cut_at}
        self.undoable = (change_id, before) if change_id is not None else None

    @rule()
    def clean(self) -> None:
        places, before = self.places(), dict(self.messages)
        with planning(self.root, settings=SMALLER) as opened:
            kept_from = opened.log.segments.files[-1].file_start
            change_id = plan_cleaning(opened, now_ms=FAR_FUTURE_MS, reserved_hours=0, force=True).apply()
        self.messages = {place: body for place, body in before.items() if places[place] >= kept_from}
        self.undoable = (change_id, before) if change_id is not None else None

    @precondition(lambda self: self.undoable is not None)
    @rule()
    def undo(self) -> None:
        assert self.undoable is not None
        change_id, self.messages = self.undoable
        undo(self.root, change_id, fs=self.fs)
        self.undoable = None

    @invariant()
    def consumers_are_given_the_messages_of_the_model(self) -> None:
        assert self.held() == self.messages

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def held(self) -> Model:
        with open_store(self.root, settings=SMALLER) as store:
            return {
                (message.queue_id, message.queue_offset): message.body
                for queue in store.queues()
                for message in store.messages(queue.topic, queue.queue_id)
            }

    def places(self) -> dict[Place, int]:
        """The log offset of every message."""
        with open_store(self.root, settings=SMALLER) as store:
            return {place: store.get("T", *place, 1).messages[0].log_offset for place in self.messages}


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=EXAMPLES, stateful_step_count=STEPS)
