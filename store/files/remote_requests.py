"""Requests to an object store, with retries after growing pauses while it is busy.

read of 8 bytes     a block of BLOCK_BYTES is fetched and kept; later reads of the block fetch nothing
busy (503, 429 …)   a pause of FIRST_PAUSE_S, twice that, … before each next attempt, `retries` times
after that          StoreIOError with the address and the number of attempts
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeVar

from store.errors import StoreIOError

BLOCK_BYTES = 64 << 10
"""The smallest fetch, as a request takes as long as the transfer of so many bytes."""
MOST_BLOCKS = 256
MOST_UNSENT_BYTES = 64 << 20
"""After so many unsent bytes a writer waits, as pyarrow keeps them in memory."""
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 10.0
RETRIES = 6
_BUSY = re.compile(
    r"SLOW_DOWN|THROTTL|UNAVAILABLE|INTERNAL_FAILURE|NETWORK_CONNECTION|TIMEOUT|TIMED OUT|TOO MANY REQUESTS"
    r"|RESOURCE_EXHAUSTED|HTTP STATUS (?:429|5\d\d)|HTTP RESPONSE CODE: (?:429|5\d\d)|EXPECTED \d+ BYTES|INCOMPLETE"
)
_NO_RIGHT = re.compile(r"ACCESS_DENIED|ACCESS DENIED|FORBIDDEN|HTTP STATUS 40[13]|HTTP RESPONSE CODE: 40[13]|SIGNATURE")
_RIGHT_HINT = "give credentials that may list and read it, as the storage's own client takes them (AWS_PROFILE, …)"

Answer = TypeVar("Answer")


class RemoteRequests:
    """Requests to one file system of pyarrow.fs.

    retries  attempts after the first, for all instances of the process
    """

    retries: ClassVar[int] = RETRIES

    def __init__(self, address: str, fs: Any) -> None:
        self._address = address
        self._fs = fs
        self._blocks: OrderedDict[tuple[str, int], memoryview] = OrderedDict()
        self._lock = threading.Lock()

    def ask(self, path: str, doing: str, request: Callable[[], Answer]) -> Answer:
        """Return the result of a request; StoreIOError if it fails."""
        pause = FIRST_PAUSE_S
        for left in range(self.retries, -1, -1):
            try:
                return request()
            except OSError as error:
                if not left or error.errno or not _BUSY.search(str(error).upper()):
                    raise self._as_store_error(error, path, doing) from error
            self.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)
        raise AssertionError("the last attempt returns or raises")

    def wait(self, seconds: float) -> None:
        """Pause before the next attempt."""
        time.sleep(seconds)

    def _as_store_error(self, error: OSError, path: str, doing: str) -> StoreIOError:
        place, text = f"{self._address}/{path}".rstrip("/"), str(error).upper()
        # pyarrow's text for an error of the system repeats the path.
        cause = OSError(error.errno, os.strerror(error.errno)) if error.errno else OSError(first_sentence(error))
        found = StoreIOError.from_os(cause, place, doing)
        if _NO_RIGHT.search(text):
            return StoreIOError(f"no right to {doing} it: {first_sentence(error)}", file=place, hint=_RIGHT_HINT)
        if not error.errno and _BUSY.search(text):
            tried = f"cannot {doing}, tried {self.retries + 1} times: {first_sentence(error)}"
            return StoreIOError(tried, file=place, code="busy-remote")
        return found

    def read(self, path: str, place: str, position: int, size: int | None) -> memoryview:
        """Return bytes of the file at `place`, fewer at its end; `path` is its name in messages."""
        if size is None or size >= BLOCK_BYTES:
            return self._fetch(path, place, position, size)
        first, last = position // BLOCK_BYTES, max(position + size - 1, position) // BLOCK_BYTES
        parts = [self._block(path, place, number) for number in range(first, last + 1)]
        whole = parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
        return whole[position - first * BLOCK_BYTES :][:size]

    def _block(self, path: str, place: str, number: int) -> memoryview:
        key = place, number
        with self._lock:
            if key in self._blocks:
                self._blocks.move_to_end(key)
                return self._blocks[key]
        block = self._fetch(path, place, number * BLOCK_BYTES, BLOCK_BYTES)
        with self._lock:
            self._blocks[key] = block
            if len(self._blocks) > MOST_BLOCKS:
                self._blocks.popitem(last=False)
        return block

    def _fetch(self, path: str, place: str, position: int, size: int | None) -> memoryview:
        def request() -> memoryview:
            with self._fs.open_input_file(place) as file:
                length = file.size()
                start = min(position, length)
                wanted = length - start if size is None else min(size, length - start)
                file.seek(start)
                found = memoryview(file.read_buffer(wanted))
                if len(found) < wanted:
                    raise OSError(f"expected {wanted} bytes, and {len(found)} came")
                return found

        return self.ask(path, "read", request)

    def write(self, path: str, place: str, parts: Callable[[], Iterable[bytes | memoryview]]) -> None:
        """Write the whole file at `place`; on an error leave no file."""

        def request() -> None:
            # By default pyarrow would compress a file whose name ends with .zst.
            stream, unsent = self._fs.open_output_stream(place, compression=None), 0
            try:
                for part in parts():
                    stream.write(part)
                    unsent += len(part)
                    if unsent >= MOST_UNSENT_BYTES:
                        stream.flush()
                        unsent = 0
                stream.close()
            except BaseException:
                # A stream creates a file of its bytes when it ends, even when it is garbage collected.
                with contextlib.suppress(OSError):
                    stream.close()
                    self._fs.delete_file(place)
                raise

        with self._lock:
            for key in [one for one in self._blocks if one[0] == place]:
                del self._blocks[key]
        self.ask(path, "write", request)


def first_sentence(error: Exception) -> str:
    """Return the first sentence of an error, as pyarrow's clients append advice and metadata."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0].split(". ")[0]
