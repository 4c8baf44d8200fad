"""Kernels: the hot loops over a segment's bytes, one source that runs in two ways.

    plain()      interpreted over a memoryview: for a few records; imports no numba
    compiled()   machine code over a uint8 array: for whole segments; without the GIL
    for_work(n)  the one that is sooner done with n bytes

Both give a Kernels object with the same functions and the same results:

    kernels = for_work(len(mapping))
    count = kernels.scan_records(kernels.view(mapping), position, limit, accept_v2, check_crc, columns, state)

A kernel takes buffers (through `view`), ints, flags, and int64 numpy arrays that it fills; it keeps nothing.
memory.py holds the operations on bytes they stand on, compile.py makes machine code of them by numba, cache.py keeps
it, machine_code.py loads and calls it. With NUMBA_DISABLE_JIT=1 compiled() is the same as plain().
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from store.kernels import dispatch, encode, hashing, index, properties, scan, verify

_MODULES: tuple[Any, ...] = (properties, hashing, scan, verify, dispatch, index, encode)
KERNELS: dict[str, tuple[Callable[..., Any], str]] = {
    name: kernel for module in _MODULES for name, kernel in getattr(module, "KERNELS", {}).items()
}
HELPERS: tuple[Callable[..., Any], ...] = tuple(helper for module in _MODULES for helper in module.HELPERS)

# Loading machine code takes about as long as interpreting the records of this many bytes.
WORK_WORTH_COMPILING_BYTES = 1 << 20


class Kernels:
    """The kernels by name, interpreted or compiled; each is made ready at its first use."""

    def __init__(self, compiled: bool) -> None:
        self.compiled = compiled

    def view(self, buffer: Any) -> Any:
        """`buffer` as the kernels want it: shares its memory, and is writable if it is."""
        if self.compiled:
            import numpy

            return numpy.frombuffer(buffer, numpy.uint8)
        return memoryview(buffer).cast("B")

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in KERNELS:
            raise AttributeError(name)
        function, signature = KERNELS[name]
        if self.compiled:
            from store.kernels.machine_code import load_kernel

            function = load_kernel(name, function, signature)
        setattr(self, name, function)
        return function


@functools.cache
def plain() -> Kernels:
    """Interpreted kernels."""
    return Kernels(compiled=False)


@functools.cache
def compiled() -> Kernels:
    """Compiled kernels, or interpreted ones under NUMBA_DISABLE_JIT=1."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return plain()
    return Kernels(compiled=True)


def for_work(byte_count: int) -> Kernels:
    """Compiled kernels if the work is worth loading them, or if they are loaded already."""
    if byte_count >= WORK_WORTH_COMPILING_BYTES or compiled.cache_info().currsize:
        return compiled()
    return plain()
