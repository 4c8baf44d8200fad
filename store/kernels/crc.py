"""The CRC-32 of bodies for compiled kernels: isal's function where that library has it, else tables.

isal's crc32_gzip_refl is a C function in its extension module; compiled code calls it by address, without Python in
between. It is checked against zlib before it is used. Where it can't be had, compile.py builds the kernels on the
tables below.
"""

from __future__ import annotations

import ctypes
import functools
import zlib
from typing import Any

import numpy as np

SYMBOL = "rmqctl_crc32"


@functools.cache
def isal_address() -> int:
    """Address of crc32_gzip_refl(initial, bytes, size) in isal's extension module, or 0."""
    try:
        from isal import isal_zlib

        function = ctypes.CDLL(isal_zlib.__file__).crc32_gzip_refl
    except (ImportError, OSError, AttributeError):
        return 0
    function.restype, function.argtypes = ctypes.c_uint32, [ctypes.c_uint32, ctypes.c_char_p, ctypes.c_uint64]
    address = ctypes.cast(function, ctypes.c_void_p).value
    return address if address is not None and _is_crc32(function) else 0


def _is_crc32(function: Any) -> bool:
    """Whether `function` gives zlib's results for every size up to 300 and one longer one."""
    sample = bytes((i * 167 + (i >> 3)) & 0xFF for i in range(5000))
    sizes = [*range(300), len(sample)]
    return all(function(0, sample[:size], size) == zlib.crc32(sample[:size]) for size in sizes)


def crc_tables() -> Any:
    """Eight tables of 256 (uint32): table[k][b] is the CRC of byte b followed by k zero bytes."""
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0xEDB88320 if value & 1 else 0)
        tables[0, byte] = value
    for k in range(1, 8):
        tables[k] = tables[0, tables[k - 1] & 0xFF] ^ tables[k - 1] >> np.uint32(8)
    return tables
