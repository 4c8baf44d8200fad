"""Plans a rebuild: selects the valid parts of the log, and divides the files among tasks.

    parts ──valid_parts──> parts up to the log's end ──plan_shares──> a share for every file

If a queue's units are consecutive, each unit has a fixed position, and each file is a share. A queue with a repeat or a
gap is one share. A key's position follows from its rank in the log: entry rank % (capacity - 1) + 1 of file
rank // (capacity - 1). If a record's log offset differs from its position, the whole index is one share too.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from pathlib import Path

from store.config import StoreConfig
from store.formats.queue_unit import UNIT_SIZE
from store.layout import StoreLayout, index_file_name, segment_name
from store.query.spark.pieces import PartPieces, UnitPiece
from store.query.spark.writers import IndexKeys, QueueFile, Share, WholeQueue
from store.structures.commitlog.end import LogEnd
from store.structures.commitlog.scan import Blank, End
from store.structures.commitlog.slices import LogSlice
from store.structures.consumequeue.unit_array import LAST_ADDRESS
from store.verbs.rebuild.scope import Queue, RebuildScope

# One task writes small files up to so many bytes in all, as a task alone costs some 50 ms.
TASK_BYTES = 64 << 20


def valid_parts(
    parts: Sequence[PartPieces], walk_again: Callable[[LogSlice], PartPieces]
) -> tuple[list[PartPieces], LogEnd]:
    """Return the parts up to the log's valid end, and that end, equal to those of one continuous scan.

    A part searches its first record by the records' log offset fields. If the previous part ended elsewhere (at a
    blank, or a record with a wrong log offset), the part is scanned again from there.
    """
    live: list[PartPieces] = []
    log_end = parts[0].part.file_start if parts else 0
    end = LogEnd(log_end, log_end)
    for _, group in groupby(parts, key=lambda found: found.part.file_start):
        in_segment = list(group)
        log_end = in_segment[0].part.file_start
        for found in in_segment:
            if found.part.log_stop <= log_end:
                continue  # a record covers the whole part
            if found.first != log_end:
                start = log_end - found.part.file_start
                found = walk_again(found.part._replace(start=start, is_exact=True))
            live.append(found)
            log_end = found.end
            end.log_end, end.outcome = log_end, found.outcome
            end.record_count += found.record_count
            if isinstance(found.outcome, Blank):
                break
            if found.outcome is not None:
                return live, end
        else:
            part = in_segment[-1].part
            end.outcome = End(part.file_start, Path(part.path), log_end - part.file_start)
            return live, end
    return live, end


def plan_tasks(shares: Sequence[Share]) -> Iterator[list[Share]]:
    """Yield the shares of each task, the largest first, so that tasks end at about the same time."""
    task: list[Share] = []
    size = 0
    for share in sorted(shares, key=lambda share: share.weight_bytes, reverse=True):
        if task and size + share.weight_bytes > TASK_BYTES:
            yield task
            task, size = [], 0
        task.append(share)
        size += share.weight_bytes
    if task:
        yield task


def plan_shares(
    live: Sequence[PartPieces], layout: StoreLayout, config: StoreConfig, scope: RebuildScope, now_ms: int
) -> list[Share]:
    """Return the shares of all files to write."""
    shares: list[Share] = list(_queue_shares(live, layout, config))
    if scope.index:
        shares += _index_shares(live, layout, config, now_ms)
    return shares


def _queue_shares(live: Sequence[PartPieces], layout: StoreLayout, config: StoreConfig) -> Iterator[Share]:
    """Yield the shares of all queues with units."""
    size = config.mapped_file_size_consume_queue
    of_queue: dict[Queue, list[UnitPiece]] = {}
    for part in live:
        for queue, found in part.queues.items():
            of_queue.setdefault(queue, []).extend(found)
    for queue, pieces in sorted(of_queue.items()):
        folder = layout.queue_folder(*queue)
        if _has_fixed_places(pieces, size):
            yield from _queue_files(folder, size, pieces)
        else:
            yield WholeQueue(folder, queue, size, tuple(pieces))


def _has_fixed_places(pieces: Sequence[UnitPiece], file_size: int) -> bool:
    """Return whether each unit's position follows from its queue offset.

    Only a damaged record has a queue offset out of the range of file names.
    """
    in_range = pieces[0].first >= 0 and pieces[-1].last * UNIT_SIZE < LAST_ADDRESS - file_size
    return (
        in_range
        and all(piece.is_dense for piece in pieces)
        and all(piece.leads_on_to(later) for piece, later in pairwise(pieces))
    )


def _queue_files(folder: Path, size: int, pieces: Sequence[UnitPiece]) -> Iterator[QueueFile]:
    starts = [piece.first * UNIT_SIZE for piece in pieces]
    first, stop = starts[0], (pieces[-1].last + 1) * UNIT_SIZE
    for start in range(first - first % size, stop, size):
        inside = pieces[_place_of(start, starts) : bisect_left(starts, start + size)]
        yield QueueFile(folder / segment_name(start), start, size, first, tuple(inside))


def _index_shares(
    live: Sequence[PartPieces], layout: StoreLayout, config: StoreConfig, now_ms: int
) -> Iterator[IndexKeys]:
    """Yield the shares of the index, with rising names from `now_ms` on; none without records."""
    with_records = [part for part in live if part.record_count]
    if not with_records:
        return
    pieces = [piece for part in live for piece in part.keys]
    key_count, capacity = sum(piece.key_count for piece in pieces), config.max_index_num - 1
    if not all(part.is_true_to_place for part in live):
        capacity = key_count
    name = int(index_file_name(now_ms))
    ranks = list(accumulate((piece.key_count for piece in pieces), initial=0))
    for number, start in enumerate(range(0, max(key_count, 1), max(capacity, 1))):
        count = min(capacity, key_count - start)
        # The key before the first gives the end of the previous file.
        place = _place_of(start - 1, ranks)
        yield IndexKeys(
            layout.index / f"{name + number:017d}",
            config.max_hash_slot_num,
            config.max_index_num,
            tuple(pieces[place : bisect_left(ranks, start + count)]),
            start - ranks[place],
            count,
            start + count == key_count and not with_records[-1].ends_with_keys,
        )


def _place_of(value: int, starts: Sequence[int]) -> int:
    """Return the number of the piece that contains `value`; 0 if `value` is before all pieces."""
    return max(bisect_right(starts, value) - 1, 0)
