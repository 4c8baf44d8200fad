"""Find faults of 5.3's structures beside the log that decide about a start.

    compaction store    other names, or a wrong length, in one of its two trees: the load fails
    DLedger             an index file of a wrong length, or a file missing between others: the process ends
    timer               a wheel or a log file of a wrong length: the broker stops
                        a lost part: the broker starts, and messages are delivered twice or never
    epochs              a file that a crash left empty or torn: a broker in controller mode does not start

Each file is looked for before the code that reads it is imported, so a 4.9 store pays for none.

Source: CompactionStore.load, TimerWheel, TimerMessageStore.load, EpochFileCache (5.3.3).
"""

from __future__ import annotations

from collections.abc import Iterator

from store.files.store_reader import StoreReader
from store.formats.topics import TIMER_TOPIC
from store.opened.opened_store import OpenedStore
from store.structures.trap import Trap

TIMER_QUEUE = TIMER_TOPIC, 0


def side_blockers(opened: OpenedStore) -> Iterator[Trap]:
    """Each fault that keeps a 5.3 broker from starting."""
    fs, root = opened.fs, opened.layout.root
    if fs.exists(root / "compaction"):
        from store.structures.compaction.files import queues_of, start_faults

        for queue in queues_of(StoreReader(str(root), fs)):
            for file, fault in start_faults(queue):
                yield Trap("compaction-files", f"the compaction store is not loaded: {file.path}: {fault}")
    if opened.layout.dledger is not None:
        from store.verbs.recover.dledger_start import dledger_blockers

        yield from dledger_blockers(opened)
    if fs.exists(root / "timerwheel") or fs.exists(root / "timerlog"):
        from store.structures.timer.files import read_timer_files

        for name, fault in read_timer_files(opened.layout, fs).start_faults():
            yield Trap("timer-length", f"{name}: {fault}")
    if fs.exists(root / "epochFileCheckpoint"):
        from store.structures.state.lines import is_torn

        if is_torn(fs.read_file(root / "epochFileCheckpoint").decode("utf-8", "replace")):
            yield Trap("epochs-torn", "NumberFormatException: epochFileCheckpoint is empty or torn (controller mode)")


def timer_traps(opened: OpenedStore) -> Iterator[Trap]:
    """Each lost part of the timer's files, and the consequence of a start without it.

    Where no part is lost, the messages that a start delivers or rolls once more.
    """
    queue = opened.queues.find(*TIMER_QUEUE)
    if queue is None and not opened.fs.exists(opened.layout.root / "timerlog"):
        return
    from store.structures.timer.files import read_timer_files

    files = read_timer_files(opened.layout, opened.fs)
    lost = list(files.lost_parts(queue.max_offset if queue is not None else 0))
    if lost:
        yield from (Trap(code, fault) for code, fault in lost)
        return
    from store.structures.timer.review import describe_duplicates

    count, fault = describe_duplicates(opened)
    if count:
        yield Trap("timer-again", fault)
