"""Compiled kernels as Python functions: object code from the cache, linked by LLVM, called through ctypes.

    1. the object code of a kernel is read from the cache; where it is missing or damaged, compile.py makes it
    2. LLVM's linker places it in memory; the one name it may lack is the CRC's
    3. a call passes addresses and sizes as numba's compiled functions take them, and lets go of the GIL

numba itself is imported for step 1 only, when there is something to compile: loading it takes longer than reading some
hundred megabytes of log.

What the compiled function takes (numba.core.callconv.CPUCallConv, numba.core.datamodel.models.ArrayModel): where to put
the result, where to put an error, and the arguments; an array is its two owners (unused here), its number of elements,
their size, its address, its shape and its strides. It returns 0.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np
import numpy.typing as npt

from store.kernels import cache, crc

# Element type, number of dimensions, and whether the elements have to lie side by side.
_ARRAYS: dict[str, tuple[npt.DTypeLike, int, bool]] = {
    "bytes": (np.uint8, 1, True),
    "writable": (np.uint8, 1, True),
    "longs": (np.int64, 1, False),
    "matrix": (np.int64, 2, False),
}
_NUMBERS: dict[str, Any] = {"long": ctypes.c_int64, "flag": ctypes.c_bool}
_lock = threading.Lock()
_linked: list[Any] = []
"""What must live as long as the process does."""


class Signature(NamedTuple):
    """The names of what a kernel gives and takes, such as "long" and ["bytes", "long"]."""

    result: str
    parameters: list[str]


def parse_signature(text: str) -> Signature:
    """The parts of a signature such as "long(bytes, long)"."""
    result, _, parameters = text.rstrip(")").partition("(")
    return Signature(result, [name.strip() for name in parameters.split(",")])


def load_kernel(name: str, function: Callable[..., Any], signature: str) -> Callable[..., Any]:
    """The kernel `name` as machine code, compiled from `function` if the cache lacks it."""
    with _lock:
        folder = _folder()
        code = cache.read_code(folder, name)
        if code is None:
            from store.kernels.compile import compile_kernel

            code = compile_kernel(name, function, parse_signature(signature))
            cache.write_code(folder, name, code)
        return _caller(name, _link(name, code), parse_signature(signature))


@functools.cache
def _folder() -> Path:
    """The cache's folder for these sources, this machine, and the CRC that the code is built on."""
    versions = [f"{package} {metadata.version(package)}" for package in ("numba", "llvmlite")]
    built_on = "isal" if crc.isal_address() else "tables"
    return cache.cache_folder(" ".join([*versions, built_on]), llvm.get_host_cpu_name())


def target_machine() -> Any:
    """LLVM's description of this processor, for making code and for linking it."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="pic",
        codemodel="small",
    )


@functools.cache
def _linker() -> Any:
    return llvm.create_lljit_compiler(target_machine())


def _link(name: str, code: bytes) -> int:
    """Places object code in memory; the address of the function."""
    library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(name)
    if crc.isal_address():
        library = library.import_symbol(crc.SYMBOL, crc.isal_address())
    placed = library.link(_linker(), name)
    _linked.append(placed)
    return int(placed[name])


def _caller(name: str, address: int, signature: Signature) -> Callable[..., Any]:
    """A Python function that checks its arguments and calls the code at `address`."""
    types: list[Any] = [ctypes.c_void_p, ctypes.c_void_p]
    for kind in signature.parameters:
        types += [_NUMBERS[kind]] if kind in _NUMBERS else _array_types(_ARRAYS[kind][1])
    native = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(address)
    parameters, gives_none = signature.parameters, signature.result == "none"

    def call(*arguments: Any) -> int | None:
        result, error = ctypes.c_int64(), ctypes.c_void_p()
        values: list[Any] = [ctypes.addressof(result), ctypes.addressof(error)]
        for kind, argument in zip(parameters, arguments, strict=True):
            if kind in _NUMBERS:
                values.append(int(argument))
            else:
                values += array_values(kind, argument)
        if native(*values):
            raise RuntimeError(f"the kernel {name} failed")
        return None if gives_none else result.value

    call.__name__ = name
    return call


def _array_types(dimensions: int) -> list[Any]:
    sizes = [ctypes.c_int64] * (2 * dimensions)
    return [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, *sizes]


def array_values(kind: str, array: Any) -> list[Any]:
    """The array as the compiled function takes it. TypeError for another kind: the code would not notice."""
    element, dimensions, side_by_side = _ARRAYS[kind]
    if array.dtype != element or array.ndim != dimensions or (side_by_side and array.strides != (1,)):
        raise TypeError(f"{kind} wanted, not {array.ndim} dimensions of {array.dtype}")
    if kind == "writable" and not array.flags.writeable:
        raise TypeError("the array can't be written to")
    return [None, None, array.size, array.itemsize, array.ctypes.data, *array.shape, *array.strides]
