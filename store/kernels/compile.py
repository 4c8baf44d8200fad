"""From a kernel's source to object code; the one module that imports numba.

1. The primitives of memory.py get twins that work on addresses: a load or a store and a byte swap.
2. The CRC is isal's function, called by address, or the table-driven function below; see crc.py.
3. Helpers are registered, so that kernels may call them.
4. Each kernel is compiled by itself, with all it calls, and gets an entry under its plain name.

The entry takes the address of the result (int64) and the kernel's arguments, arrays as the Python objects they are, and
returns 0. It looks up what the compiled function takes: where to put result and error, and for an array its two owners
(unused here), its number of elements, their size, its address, its shape and its strides.

Kernels run without the GIL. They do not look at bounds: they check lengths themselves.

Source: numba.core.callconv.CPUCallConv, numba.core.datamodel.models.ArrayModel (0.62), PyArrayObject_fields (NumPy 2).
"""

# mypy: disable-error-code="no-untyped-call, attr-defined, call-arg"
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload, register_jitable

from store.kernels import crc, memory
from store.kernels.signature import ARRAYS, Signature

_VECTOR_SIZE = 32
_CRC: Any = types.ExternalFunction(crc.SYMBOL, types.uint32(types.uint32, types.voidptr, types.uint64))
_TYPES = {
    "long": types.int64,
    "flag": types.boolean,
    "bytes": types.Array(types.uint8, 1, "C", readonly=True),
    "writable": types.Array(types.uint8, 1, "C"),
    "longs": types.Array(types.int64, 1, "A"),
    "matrix": types.Array(types.int64, 2, "A"),
    "none": types.void,
}
# No reference counts: kernels make no arrays, and counting costs more than most helpers do. Nothing calls the code from
# Python but machine_code.py, so it needs no wrappers.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "_nrt": False,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}


def compile_kernel(name: str, function: Callable[..., Any], signature: Signature) -> bytes:
    """Object code with the one visible function `name`; it takes what machine_code.py says."""
    _prepare()
    parameters = [_TYPES[kind] for kind in signature.parameters]
    dispatcher = numba.njit(_TYPES[signature.result](*parameters), **_OPTIONS)(function)
    (compiled,) = dispatcher.overloads.values()
    module = llvm.parse_assembly(compiled.library.get_llvm_str())
    module.link_in(llvm.parse_assembly(str(_entry(name, compiled.fndesc.llvm_func_name, signature))))
    return bytes(_target_machine().emit_object(module))


def _target_machine() -> Any:
    """LLVM's description of this processor."""
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="pic",
        codemodel="small",
    )


@functools.cache
def _prepare() -> None:
    """Steps 1 to 3, once a process."""
    if crc.isal_address():
        llvm.add_symbol(crc.SYMBOL, crc.isal_address())
    for function, twin in _twins().items():
        _replace(function, twin)
    from store.kernels import HELPERS

    for helper in HELPERS:
        register_jitable(helper)


def _replace(function: Any, twin: Any) -> None:
    """Let compiled code call `twin` where the source says `function`."""

    def choose(*_arguments: Any) -> Any:
        return twin

    overload(function, strict=False)(choose)


# The entry of a kernel.

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_POINTER = _I8.as_pointer()
# A NumPy array in memory: the head of every Python object, then data, nd, dimensions, strides.
_DATA_AT = object.__basicsize__
_DIMENSIONS_AT, _STRIDES_AT = _DATA_AT + 16, _DATA_AT + 24


def _entry(name: str, inner_name: str, signature: Signature) -> Any:
    """A module with the function `name`, which calls `inner_name`."""
    module = ir.Module(name)
    module.triple = llvm.get_default_triple()
    kinds = [{"long": _I64, "flag": _I8}.get(kind, _POINTER) for kind in signature.parameters]
    function = ir.Function(module, ir.FunctionType(_I32, [_POINTER, *kinds]), name)
    builder = ir.IRBuilder(function.append_basic_block())
    values = [function.args[0], builder.bitcast(builder.alloca(_I64), _POINTER)]
    for kind, argument in zip(signature.parameters, function.args[1:], strict=True):
        values += _array_parts(builder, argument, kind) if kind in ARRAYS else [argument]
    inner = ir.Function(module, ir.FunctionType(_I32, [value.type for value in values]), inner_name)
    builder.ret(builder.call(inner, values))
    return module


def _array_parts(builder: Any, array: Any, kind: str) -> list[Any]:
    """What a compiled function takes for an array, from the Python object."""
    none, size = ir.Constant(_POINTER, None), ir.Constant(_I64, 1)
    shape = _longs_of(builder, array, _DIMENSIONS_AT, ARRAYS[kind])
    for length in shape:
        size = builder.mul(size, length)
    item_size = ir.Constant(_I64, 8 if kind in ("longs", "matrix") else 1)
    data = _load_at(builder, array, _DATA_AT, _POINTER)
    return [none, none, size, item_size, data, *shape, *_longs_of(builder, array, _STRIDES_AT, ARRAYS[kind])]


def _longs_of(builder: Any, array: Any, place: int, count: int) -> list[Any]:
    longs = _load_at(builder, array, place, _POINTER)
    return [_load_at(builder, longs, 8 * number, _I64) for number in range(count)]


def _load_at(builder: Any, start: Any, place: int, kind: Any) -> Any:
    address = builder.gep(start, [ir.Constant(_I64, place)], source_etype=_I8)
    return builder.load(builder.bitcast(address, kind.as_pointer()), typ=kind)


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


# The twins.


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


def _isal_crc(buffer: Any, position: int, size: int) -> Any:
    return np.int64(_CRC(0, _pointer(buffer, position), size)) & memory.CRC_MASK


_TABLES = crc.crc_tables()


def _table_crc(buffer: Any, position: int, size: int) -> Any:
    """Slicing by eight, for processors and builds without isal."""
    value, at, stop = np.uint32(0xFFFFFFFF), position, position + size
    while at + 8 <= stop:
        low = value ^ np.uint32(
            _load_byte(buffer, at)
            | _load_byte(buffer, at + 1) << 8
            | _load_byte(buffer, at + 2) << 16
            | _load_byte(buffer, at + 3) << 24
        )
        value = np.uint32(
            _TABLES[7, low & 0xFF]
            ^ _TABLES[6, low >> np.uint32(8) & 0xFF]
            ^ _TABLES[5, low >> np.uint32(16) & 0xFF]
            ^ _TABLES[4, low >> np.uint32(24)]
            ^ _TABLES[3, _load_byte(buffer, at + 4)]
            ^ _TABLES[2, _load_byte(buffer, at + 5)]
            ^ _TABLES[1, _load_byte(buffer, at + 6)]
            ^ _TABLES[0, _load_byte(buffer, at + 7)]
        )
        at += 8
    while at < stop:
        value = np.uint32(_TABLES[0, (value ^ np.uint32(_load_byte(buffer, at))) & 0xFF] ^ (value >> np.uint32(8)))
        at += 1
    return np.int64(value ^ np.uint32(0xFFFFFFFF)) & memory.CRC_MASK


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


def _twins() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Each primitive with its twin, in the order of memory.PRIMITIVES."""
    twins = (
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
        _isal_crc if crc.isal_address() else _table_crc,
        _find_head,
        _find_either,
        _ask_for,
    )
    return dict(zip(memory.PRIMITIVES, twins, strict=True))
