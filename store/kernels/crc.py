"""The CRC-32 of compiled kernels: isal's function if it is installed, else the tables of native.h.

isal's crc32_gzip_refl is a C function in its extension module, called by its address: no Python call per record. Before
use it is compared with zlib, and the tables with crcmod.
"""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

_SAMPLE = bytes((i * 167 + (i >> 3)) & 0xFF for i in range(5000))


def choose_crc(compiled: ModuleType) -> bool:
    """Set the compiled module's CRC function; return whether it computes right values."""
    address = isal_address()
    compiled.use_crc(address)
    if address:
        return True
    import crcmod.predefined

    return _agree(compiled.crc32, crcmod.predefined.mkCrcFun("crc-32"))


def isal_address() -> int:
    """Return the address of crc32_gzip_refl(initial, bytes, size) in isal's extension module, or 0."""
    try:
        from isal import isal_zlib

        function = ctypes.CDLL(isal_zlib.__file__).crc32_gzip_refl
    except (ImportError, OSError, AttributeError):
        return 0
    function.restype, function.argtypes = ctypes.c_uint32, [ctypes.c_uint32, ctypes.c_char_p, ctypes.c_uint64]
    address = ctypes.cast(function, ctypes.c_void_p).value
    is_right = _agree(lambda data: function(0, data, len(data)), zlib.crc32)
    return address if address is not None and is_right else 0


def _agree(function: Callable[[bytes], Any], other: Callable[[bytes], int]) -> bool:
    """Return whether both give the same for all sizes below 300 and a larger one."""
    sizes = [*range(300), len(_SAMPLE)]
    return all(function(_SAMPLE[:size]) == other(_SAMPLE[:size]) for size in sizes)
