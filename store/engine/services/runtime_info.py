"""The part of a broker's runtime report that comes from its store, besides the counters.

Values are texts, as the broker's. Entries on the broker's own threads and clients are left out.

Source: DefaultMessageStore.getRuntimeInfo, AdminBrokerProcessor.prepareRuntimeInfo (4.9.8).
"""

from __future__ import annotations

from collections.abc import Mapping

from store.engine.live.services import StoreServices
from store.formats.java import double_text
from store.formats.topics import SCHEDULE_TOPIC
from store.opened.opened_store import OpenedStore


def read_runtime_info(opened: OpenedStore, services: StoreServices, delay_offsets: Mapping[int, int]) -> dict[str, str]:
    """Return the report of a live store.

    `delay_offsets` are the delivery's queue offsets, by level.
    """
    log, now_ms = opened.commit_log, opened.clock()
    locked_since_ms = log.locked_since_ms
    info = _disk_ratios(opened) | {
        f"scheduleMessageOffset_{level}": f"{offset},{_queue_end(opened, level)}"
        for level, offset in sorted(delay_offsets.items())
    }
    return info | {
        "commitLogMinOffset": str(log.min_offset),
        "commitLogMaxOffset": str(log.max_offset),
        "dispatchBehindBytes": str(services.behind_bytes),
        "pageCacheLockTimeMills": str(now_ms - locked_since_ms if locked_since_ms else 0),
        "earliestMessageTimeStamp": str(log.earliest_time()),
        "remainHowManyDataToFlush": describe_bytes(log.max_offset - log.segments.flushed_where),
        **_transient_pool(opened, services),
        "commitLogDirCapacity": _capacity(opened),
    }


def _disk_ratios(opened: OpenedStore) -> dict[str, str]:
    layout = opened.layout
    ratios = {folder: opened.fs.used_ratio(folder) for folder in layout.commitlogs}
    return {
        **{f"commitLogDiskRatio_{folder}": double_text(used) for folder, used in ratios.items()},
        "commitLogDiskRatio": double_text(min(ratios.values())),
        "consumeQueueDiskRatio": double_text(opened.fs.used_ratio(layout.consumequeue)),
    }


def _queue_end(opened: OpenedStore, level: int) -> int:
    queue = opened.queues.find(SCHEDULE_TOPIC, level - 1)
    return queue.max_offset if queue is not None else 0


def _transient_pool(opened: OpenedStore, services: StoreServices) -> dict[str, str]:
    if not opened.config.uses_transient_pool:
        return {}
    waiting = opened.log.segments.max_wrote_offset - opened.log.segments.committed_where
    return {
        "remainTransientStoreBufferNumbs": str(services.free_buffer_count),
        "remainHowManyDataToCommit": describe_bytes(waiting),
    }


def _capacity(opened: OpenedStore) -> str:
    total, free = opened.fs.capacity(opened.layout.commitlogs[0])
    return f"Total : {describe_bytes(total)}, Free : {describe_bytes(free)}."


def describe_bytes(count: int) -> str:
    """Return an amount of bytes as MixAll.humanReadableByteCount writes it."""
    if count < 1024:
        return f"{count} B"
    exponent = min((count.bit_length() - 1) // 10, 6)
    return f"{count / 1024**exponent:.1f} {'KMGTPE'[exponent - 1]}iB"
