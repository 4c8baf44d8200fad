"""What a cut of the log takes out of sight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from store.commitlog.resync import has_bytes_behind, readable_behind
from store.commitlog.scan import Segment
from store.disk.filesystem import Filesystem
from store.formats.java import decode_utf8
from store.kernels.run import Run


def count_lost(segments: Sequence[Segment], log_offset: int, fs: Filesystem) -> dict[str, int]:
    """Readable messages per topic at or behind `log_offset`: what a cut there takes out of sight.

    Segments in which nothing was ever written behind that place are not read.
    """
    counts: Counter[str] = Counter()
    written = [
        segment
        for segment in segments
        if segment.file_start + segment.size > log_offset
        and has_bytes_behind(segment, max(0, log_offset - segment.file_start), fs)
    ]
    for step in readable_behind(written, log_offset):
        if isinstance(step, Run):
            counts += count_topics(step)
    return dict(sorted(counts.items()))


def count_topics(run: Run) -> Counter[str]:
    """Messages per topic in a run."""
    columns, buffer = run.columns, run.buffer
    places = zip(columns.topic_position.tolist(), columns.topic_size.tolist(), strict=True)
    counts = Counter(bytes(buffer[at : at + size]) for at, size in places)
    return Counter({decode_utf8(topic): count for topic, count in counts.items()})
