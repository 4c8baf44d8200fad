"""The latency of puts as the broker counts it: 13 classes, and 76 buckets for percentiles.

Classes and buckets count one minute. A report shows the last full minute.

Source: StoreStatsService.initPutMessageTimeBuckets, findPutMessageEntireTimePX (4.9.8, 5.3.3).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

CLASSES = (
    "[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]", "[500ms~1s]", "[1~2s]", "[2~3s]",
    "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]",
)  # fmt: skip
CLASS_BOUNDS_MS = (0, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000)
"""The bounds between classes. The first class includes its upper bound, the others do not."""
_CLASS_STARTS_MS = (1, *CLASS_BOUNDS_MS[1:])
BUCKET_BOUNDS_MS = (
    *range(1, 20), *range(20, 50, 2), *range(50, 100, 5), *range(100, 200, 10), *range(200, 500, 50),
    *range(500, 1000, 100), *range(1000, 10_001, 1000), (1 << 63) - 1,
)  # fmt: skip
assert len(CLASSES) == len(_CLASS_STARTS_MS) + 1 == 13
assert len(BUCKET_BOUNDS_MS) == 76


class Latency:
    """The counts of the present minute, and those of the last full one."""

    def __init__(self) -> None:
        self.max_ms = 0
        """The greatest time since the start."""
        self.total_ms = 0
        self.total_classes = [0] * len(CLASSES)
        """The classes since the start."""
        self.last_classes: list[int] | None = None
        """The classes of the last full minute, None before its end."""
        self._last_buckets: list[int] = [0] * len(BUCKET_BOUNDS_MS)
        self._clear()

    def note(self, elapsed_ms: int) -> None:
        """Count one put."""
        self.max_ms = max(self.max_ms, elapsed_ms)
        self.total_ms += elapsed_ms
        place = bisect_right(_CLASS_STARTS_MS, elapsed_ms)
        self._classes[place] += 1
        self.total_classes[place] += 1
        self._buckets[bisect_left(BUCKET_BOUNDS_MS, elapsed_ms)] += 1

    def rotate(self) -> None:
        """End the present minute."""
        self.last_classes, self._last_buckets = self._classes, self._buckets
        self._clear()

    def _clear(self) -> None:
        self._classes = [0] * len(CLASSES)
        self._buckets = [0] * len(BUCKET_BOUNDS_MS)

    def describe_classes(self) -> str:
        """Return the classes of the last full minute as the broker writes them."""
        if self.last_classes is None:
            return "null"
        return "".join(f"{name}:{count} " for name, count in zip(CLASSES, self.last_classes, strict=True))

    def percentile(self, share: float) -> float:
        """Return the longest time in ms of `share` of the last full minute's puts; 0 without puts.

        Puts between two bounds count as evenly distributed.
        """
        index = int(sum(self._last_buckets) * share)
        passed = before = 0
        for bound, count in zip(BUCKET_BOUNDS_MS, self._last_buckets, strict=True):
            if index <= passed + count:
                return before + ((bound - before) * (index - passed) / count if count else 0.0)
            before, passed = bound, passed + count
        return 0.0
