"""ConsumeQueueStore: all consume queues of a store, and what builds them from the log.

    consumequeue/<topic>/<queue id>/<20 digits>

A queue is created by its first message. `dispatch` takes the runs of the walk in log order; a record that already has
its unit is passed over, so that dispatching the same stretch twice changes nothing.

Source: DefaultMessageStore.loadConsumeQueue, CommitLogDispatcherBuildConsumeQueue (4.9.8).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from store.config import StoreConfig
from store.consumequeue.consume_queue import ConsumeQueue, OutOfOrder
from store.consumequeue.consume_queue_ext import ConsumeQueueExt
from store.disk.filesystem import Filesystem
from store.disk.mapped_file_queue import MappedFileQueue
from store.disk.overlay import Overlay, OverlayFileQueue, StagedFile
from store.errors import ForeignFile
from store.formats.java import decode_utf8, tags_code
from store.formats.message import SCHEDULE_TOPIC, is_queued
from store.formats.properties import DELAY, TAGS, decode_properties
from store.kernels.run import Run
from store.layout import StoreLayout, parse_queue_id

QueueKey = tuple[str, int]


class ConsumeQueueStore:
    """The queues by (topic, queue id). With an `overlay` nothing under the store's folder is written."""

    def __init__(
        self,
        layout: StoreLayout,
        config: StoreConfig,
        fs: Filesystem,
        *,
        writable: bool,
        overlay: Overlay | Path | None = None,
    ) -> None:
        self.findings: list[OutOfOrder] = []
        """Queues found shifted while building; the newest 100."""
        self.last_store_timestamp_ms = 0
        """Store time of the last message put into a queue."""
        self._layout = layout
        self._config = config
        self._fs = fs
        self._writable = writable
        self._overlay = Overlay(overlay) if isinstance(overlay, Path) else overlay
        self._queues: dict[QueueKey, ConsumeQueue] = {}

    def load(self, compat: str = "4.9") -> None:
        """Opens every queue on disk; raises as a broker would refuse to start."""
        for topic in self._fs.list_folder(self._layout.consumequeue):
            for entry in self._fs.list_folder(topic.path) if topic.is_folder else ():
                queue_id = parse_queue_id(entry.path.name)
                if queue_id is None:
                    if compat.startswith("4"):
                        raise ForeignFile("not a queue id", file=entry.path, hint="move it away")
                    continue
                queue = self._new_queue(topic.path.name, queue_id)
                queue.files.load(compat)
                if queue.ext is not None:
                    queue.ext.files.load(compat)
                self._queues[queue.topic, queue_id] = queue

    # Looking.

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(list(self._queues.values()))

    def __len__(self) -> int:
        return len(self._queues)

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        return self._queues.get((topic, queue_id))

    def find_or_create(self, topic: str, queue_id: int) -> ConsumeQueue:
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            queue = self._queues[topic, queue_id] = self._new_queue(topic, queue_id)
        return queue

    @property
    def max_physic_offset(self) -> int:
        """The log offset up to which the queues are built: the greatest of all, -1 without any."""
        return max((queue.max_physic_offset for queue in self._queues.values()), default=-1)

    # After a restart.

    def recover(self) -> int:
        """Finds every queue's end; gives max_physic_offset."""
        for queue in self:
            queue.recover()
        return self.max_physic_offset

    def truncate_dirty(self, log_offset: int) -> None:
        """Cuts every queue back to records before `log_offset`."""
        for queue in self:
            queue.truncate_dirty_logic_files(log_offset)

    def correct_min_offsets(self, min_log_offset: int) -> None:
        for queue in self:
            queue.correct_min_offset(min_log_offset)

    def destroy(self) -> None:
        """Deletes every queue file: what a broker does when the commit log is empty."""
        for queue in self:
            queue.destroy()

    # Building.

    def dispatch(self, run: Run) -> None:
        """Appends the units of a run's records to their queues."""
        columns, buffer = run.columns, run.buffer
        for row in range(run.count):
            sys_flag = int(columns.sys_flag[row])
            if not is_queued(sys_flag):
                continue
            at, size = int(columns.topic_position[row]), int(columns.topic_size[row])
            topic = decode_utf8(buffer[at : at + size])
            queue = self.find_or_create(topic, int(columns.queue_id[row]))
            at, size = int(columns.properties_position[row]), int(columns.properties_size[row])
            properties = decode_properties(buffer[at : at + size])
            time_ms = int(columns.store_timestamp_ms[row])
            self._put(queue, run, row, unit_tags_code(topic, properties, time_ms, self._config.delay_levels_ms))

    def _put(self, queue: ConsumeQueue, run: Run, row: int, tags_code: int) -> None:
        columns = run.columns
        finding = queue.put(
            int(columns.log_offset[row]), int(columns.size[row]), tags_code, int(columns.queue_offset[row])
        )
        self.last_store_timestamp_ms = int(columns.store_timestamp_ms[row])
        if finding is not None:
            self.findings = [*self.findings[-99:], finding]

    # Keeping.

    def delete_expired(self, min_log_offset: int) -> int:
        """Deletes queue files whose records are gone; gives their number."""
        return sum(queue.delete_expired(min_log_offset) for queue in self)

    def close(self) -> None:
        for queue in self:
            queue.close()

    # What an overlay holds.

    def staged_files(self) -> list[StagedFile]:
        return [staged for files in self._overlays() for staged in files.staged_files()]

    def removed_paths(self) -> list[Path]:
        return [path for files in self._overlays() for path in files.removed_paths()]

    def _overlays(self) -> Iterator[OverlayFileQueue]:
        for queue in self:
            for files in (queue.files, queue.ext.files if queue.ext is not None else None):
                if isinstance(files, OverlayFileQueue):
                    yield files

    def _new_queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        files = self._files(self._layout.queue_folder(topic, queue_id), self._config.mapped_file_size_consume_queue)
        if not self._config.enable_consume_queue_ext:
            return ConsumeQueue(topic, queue_id, files)
        size = self._config.mapped_file_size_consume_queue_ext
        ext = ConsumeQueueExt(self._files(self._layout.queue_ext_folder(topic, queue_id), size))
        return ConsumeQueue(topic, queue_id, files, ext)

    def _files(self, folder: Path, file_size: int) -> MappedFileQueue:
        if self._overlay is None:
            return MappedFileQueue(folder, file_size, self._fs, writable=self._writable)
        staged = self._overlay.folder / folder.relative_to(self._layout.root)
        return OverlayFileQueue(folder, file_size, self._fs, self._overlay, staged)


def unit_tags_code(
    topic: str, properties: dict[str, str], store_timestamp_ms: int, delay_levels_ms: tuple[int, ...]
) -> int:
    """The tags code of a record's unit: the deliver time of a delayed message, else the hash of its tags."""
    if topic == SCHEDULE_TOPIC and DELAY in properties:
        level = min(int(properties[DELAY]), len(delay_levels_ms))
        if level > 0:
            return store_timestamp_ms + delay_levels_ms[level - 1]
    return tags_code(properties.get(TAGS, ""))
