"""Turning the kernels into machine code; the one module that imports numba.

1. The primitives of memory.py get twins that work on addresses: a load or a store and a byte swap.
2. The CRC is a symbol. It is isal's crc32_gzip_refl where that library has it, else the table-driven function below;
   either is checked against zlib before it is used.
3. Helpers are registered, so that kernels may call them.
4. Each kernel is compiled, or loaded from the cache, at its first use.

Kernels run without the GIL. They do not look at bounds: they check lengths themselves.
"""

# mypy: disable-error-code="no-untyped-call, attr-defined, call-arg"
from __future__ import annotations

import ctypes
import shutil
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload, register_jitable

from store.kernels import cache, memory

_VECTOR_SIZE = 32
_SYMBOL = "rmqctl_crc32"
_CRC: Any = types.ExternalFunction(_SYMBOL, types.uint32(types.uint32, types.voidptr, types.uint64))
_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_WRITABLE = types.Array(types.uint8, 1, "C")
_LONGS = types.Array(types.int64, 1, "A")
_MATRIX = types.Array(types.int64, 2, "A")
_TYPES = {
    "long": types.int64,
    "flag": types.boolean,
    "bytes": _BYTES,
    "writable": _WRITABLE,
    "longs": _LONGS,
    "matrix": _MATRIX,
    "none": types.void,
}
# No reference counts: kernels make no arrays, and counting costs more than most helpers do.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
_lock = threading.Lock()
_folder: Path | None = None


def compile_kernel(function: Callable[..., Any], signature: str) -> Any:
    """The compiled kernel; `signature` names types of the table above, such as "long(bytes, long)"."""
    with _lock:
        folder = _prepare()
        types_of = parse_signature(signature)
        saved = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(folder)
        try:
            return numba.njit(types_of, cache=True, **_OPTIONS)(function)
        except Exception:
            # A damaged cache shows in as many ways as there are bytes in it, a full disk is another reason. What is
            # wrong with the kernel itself shows again.
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return numba.njit(types_of, **_OPTIONS)(function)
        finally:
            numba.config.CACHE_DIR = saved


def parse_signature(text: str) -> Any:
    result, _, arguments = text.rstrip(")").partition("(")
    return _TYPES[result](*[_TYPES[name.strip()] for name in arguments.split(",")])


def _prepare() -> Path:
    """Steps 1 to 3, once a process; gives the cache's folder."""
    global _folder
    if _folder is not None:
        return _folder
    llvm.add_symbol(_SYMBOL, _crc_address())
    for function, twin in _TWINS.items():
        _replace(function, twin)
    from store.kernels import HELPERS

    for helper in HELPERS:
        register_jitable(helper)
    _folder = cache.cache_folder(numba.__version__, llvm.get_host_cpu_name())
    return _folder


def _replace(function: Any, twin: Any) -> None:
    """Let compiled code call `twin` where the source says `function`."""

    def choose(*_arguments: Any) -> Any:
        return twin

    overload(function, strict=False)(choose)


# The address of the CRC.


def _crc_address() -> int:
    """isal's function if it is there and right, else our own."""
    return _isal_address() or _table_address()


def _isal_address() -> int:
    """Address of crc32_gzip_refl in isal's extension module, or 0."""
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


_keep_alive: list[Any] = []


def _table_address() -> int:
    """Slicing by eight, for processors and builds without isal."""
    tables = crc_tables()

    @numba.cfunc(types.uint32(types.uint32, types.CPointer(types.uint8), types.uint64), nogil=True)
    def table_crc(crc: int, data: Any, size: int) -> Any:
        view = numba.carray(data, size)
        value = np.uint32(crc ^ 0xFFFFFFFF)
        at = np.uint64(0)
        while at + np.uint64(8) <= size:
            low = value ^ (
                np.uint32(view[at])
                | np.uint32(view[at + 1]) << np.uint32(8)
                | np.uint32(view[at + 2]) << np.uint32(16)
                | np.uint32(view[at + 3]) << np.uint32(24)
            )
            value = np.uint32(
                tables[7, low & 0xFF]
                ^ tables[6, low >> np.uint32(8) & 0xFF]
                ^ tables[5, low >> np.uint32(16) & 0xFF]
                ^ tables[4, low >> np.uint32(24)]
                ^ tables[3, view[at + 4]]
                ^ tables[2, view[at + 5]]
                ^ tables[1, view[at + 6]]
                ^ tables[0, view[at + 7]]
            )
            at += np.uint64(8)
        while at < size:
            value = np.uint32(tables[0, (value ^ view[at]) & 0xFF] ^ (value >> np.uint32(8)))
            at += np.uint64(1)
        return np.uint32(value ^ np.uint32(0xFFFFFFFF))

    _keep_alive.append(table_crc)
    return _number(table_crc.address)


def _number(address: Any) -> int:
    """ctypes and numba give addresses that the type checker knows nothing of."""
    return int(address)


def crc_tables() -> Any:
    """Eight tables of 256: table[k][b] is the CRC of byte b followed by k zero bytes."""
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0xEDB88320 if value & 1 else 0)
        tables[0, byte] = value
    for k in range(1, 8):
        tables[k] = tables[0, tables[k - 1] & 0xFF] ^ tables[k - 1] >> np.uint32(8)
    return tables


# Loads, stores and the other operations on an address.


def _address(context: Any, builder: Any, array_type: Any, array: Any, position: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(builder.bitcast(data, ir.IntType(8).as_pointer()), [position])


def _swap(builder: Any, value: Any) -> Any:
    bits = value.type.width
    if bits == 8:
        return value
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(value.type, [value.type]), f"llvm.bswap.i{bits}"
    )
    return builder.call(function, [value])


def _loader(bits: int, signed: bool) -> Any:
    @intrinsic
    def load(typing_context: Any, buffer: Any, position: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            address = _address(context, builder, signature.args[0], arguments[0], arguments[1])
            word = ir.IntType(bits)
            value = _swap(builder, builder.load(builder.bitcast(address, word.as_pointer()), align=1))
            if bits == 64:
                return value
            return (builder.sext if signed else builder.zext)(value, ir.IntType(64))

        return types.int64(buffer, types.int64), generate

    return load


def _storer(bits: int) -> Any:
    @intrinsic
    def store(typing_context: Any, buffer: Any, position: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            address = _address(context, builder, signature.args[0], arguments[0], arguments[1])
            word = ir.IntType(bits)
            low = arguments[2] if bits == 64 else builder.trunc(arguments[2], word)
            builder.store(_swap(builder, low), builder.bitcast(address, word.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(buffer, types.int64, types.int64), generate

    return store


@intrinsic
def _pointer(typing_context: Any, buffer: Any, position: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _address(context, builder, signature.args[0], arguments[0], arguments[1])

    return types.voidptr(buffer, types.int64), generate


@intrinsic
def _copy(typing_context: Any, target: Any, position: Any, source: Any, start: Any, size: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to = _address(context, builder, signature.args[0], arguments[0], arguments[1])
        origin = _address(context, builder, signature.args[2], arguments[2], arguments[3])
        cgutils.raw_memcpy(builder, to, origin, arguments[4], 1)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate


@intrinsic
def _prefetch(typing_context: Any, buffer: Any, position: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args[0], arguments[0], arguments[1])
        int32 = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, int32, int32, int32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        # The ints say: for reading, moderate locality, data cache.
        builder.call(function, [address, int32(0), int32(2), int32(1)])
        return context.get_dummy_value()

    return types.void(buffer, types.int64), generate


@intrinsic
def _matches(typing_context: Any, buffer: Any, position: Any, first: Any, second: Any) -> Any:
    """A bit for each of the 32 bytes at `position` that is one byte or the other."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args[0], arguments[0], arguments[1])
        vector = ir.VectorType(ir.IntType(8), _VECTOR_SIZE)
        data = builder.load(builder.bitcast(address, vector.as_pointer()), align=1)
        same = [builder.icmp_signed("==", data, _splat(builder, vector, value)) for value in arguments[2:]]
        bits = builder.bitcast(builder.or_(*same), ir.IntType(_VECTOR_SIZE))
        return builder.zext(bits, ir.IntType(64))

    return types.int64(buffer, types.int64, types.int64, types.int64), generate


def _splat(builder: Any, vector: Any, value: Any) -> Any:
    int32 = ir.IntType(32)
    byte = builder.trunc(value, ir.IntType(8))
    single = builder.insert_element(ir.Constant(vector, ir.Undefined), byte, int32(0))
    zeros = ir.Constant(ir.VectorType(int32, vector.count), [0] * vector.count)
    return builder.shuffle_vector(single, ir.Constant(vector, ir.Undefined), zeros)


@intrinsic
def _lowest_bit(typing_context: Any, mask: Any) -> Any:
    """Number of the lowest bit of a mask that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.int64(types.int64), generate


_load_byte, _load_short, _load_int, _load_long = (
    _loader(8, False),
    _loader(16, True),
    _loader(32, True),
    _loader(64, True),
)
_store_byte, _store_short, _store_int, _store_long = _storer(8), _storer(16), _storer(32), _storer(64)


# The twins, in the order of memory.PRIMITIVES.


def _read_byte(buffer: Any, position: int) -> Any:
    return _load_byte(buffer, position)


def _read_short(buffer: Any, position: int) -> Any:
    return _load_short(buffer, position)


def _read_int(buffer: Any, position: int) -> Any:
    return _load_int(buffer, position)


def _read_long(buffer: Any, position: int) -> Any:
    return _load_long(buffer, position)


def _write_byte(buffer: Any, position: int, value: int) -> Any:
    return _store_byte(buffer, position, value)


def _write_short(buffer: Any, position: int, value: int) -> Any:
    return _store_short(buffer, position, value)


def _write_int(buffer: Any, position: int, value: int) -> Any:
    return _store_int(buffer, position, value)


def _write_long(buffer: Any, position: int, value: int) -> Any:
    return _store_long(buffer, position, value)


def _copy_bytes(target: Any, position: int, source: Any, start: int, size: int) -> Any:
    return _copy(target, position, source, start, size)


def _bytes_equal(buffer: Any, position: int, other: Any, start: int, size: int) -> bool:
    at = 0
    while at + 8 <= size:
        if _load_long(buffer, position + at) != _load_long(other, start + at):
            return False
        at += 8
    while at < size:
        if _load_byte(buffer, position + at) != _load_byte(other, start + at):
            return False
        at += 1
    return True


def _body_crc(buffer: Any, position: int, size: int) -> Any:
    return np.int64(_CRC(0, _pointer(buffer, position), size)) & memory.CRC_MASK


def _find_head(buffer: Any, head: int, start: int, stop: int) -> int:
    wanted = head & 0xFFFFFF00
    for at in range(start, stop - 3):
        if _load_int(buffer, at) & 0xFFFFFF00 == wanted:
            return at
    return -1


def _find_either(buffer: Any, first: int, second: int, start: int, stop: int) -> Any:
    at = start
    inside = len(buffer) - _VECTOR_SIZE
    while at < stop:
        if at <= inside:
            found: Any = _matches(buffer, at, first, second)
            if found != 0:
                return min(at + _lowest_bit(found), stop)
            at += _VECTOR_SIZE
        else:
            byte = _load_byte(buffer, at)
            if byte in (first, second):
                return at
            at += 1
    return stop


def _ask_for(buffer: Any, position: int) -> Any:
    return _prefetch(buffer, position)


_TWINS = dict(
    zip(
        memory.PRIMITIVES,
        (
            _read_byte,
            _read_short,
            _read_int,
            _read_long,
            _write_byte,
            _write_short,
            _write_int,
            _write_long,
            _copy_bytes,
            _bytes_equal,
            _body_crc,
            _find_head,
            _find_either,
            _ask_for,
        ),
        strict=True,
    )
)
