"""A list of the newest files that use one of a process's limited maps or descriptors."""

from __future__ import annotations

import weakref
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Newest(Generic[T]):
    """At most `most` files; past that number `add` returns the oldest one, to release it."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._files: deque[weakref.ref[T]] = deque()

    def add(self, file: T) -> T | None:
        self._files.append(weakref.ref(file))
        return self._files.popleft()() if len(self._files) > self.most else None
