"""Compiled kernels as Python functions: object code from the cache, linked by LLVM, called through ctypes.

    1. the object code of a kernel is read from the cache; where it is missing or damaged, compile.py makes it
    2. LLVM's linker places it in memory; the one name it may lack is the CRC's
    3. a call checks the arrays, passes on the arguments, and lets go of the GIL

numba itself is imported for step 1 only, when there is something to compile: loading it takes longer than reading some
hundred megabytes of log.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from store.kernels import cache, crc
from store.kernels.signature import ARRAYS, Signature, parse_signature

_NUMBERS: dict[str, Any] = {"long": ctypes.c_int64, "flag": ctypes.c_bool}
_BYTE, _LONG = np.dtype(np.uint8), np.dtype(np.int64)
_lock = threading.Lock()
_loaded: dict[str, Callable[..., Any]] = {}
_placed: list[Any] = []
"""Linked object code, which must live as long as the process does."""


def load_kernel(name: str, function: Callable[..., Any], signature: str) -> Callable[..., Any]:
    """The kernel `name` as machine code, compiled from `function` if the cache lacks it."""
    with _lock:
        if name not in _loaded:
            parsed = parse_signature(signature)
            _loaded[name] = _caller(name, _link(name, _object_code(name, function, parsed)), parsed)
        return _loaded[name]


def _object_code(name: str, function: Callable[..., Any], signature: Signature) -> bytes:
    """Step 1."""
    folder = _folder()
    code = cache.read_code(folder, name)
    if code is None:
        from store.kernels.compile import compile_kernel

        code = compile_kernel(name, function, signature)
        cache.write_code(folder, name, code)
    return code


@functools.cache
def _folder() -> Path | None:
    """The cache's folder for these sources, this machine, and the CRC that the code is built on."""
    versions = [f"{package} {metadata.version(package)}" for package in ("numba", "llvmlite")]
    built_on = "isal" if crc.isal_address() else "tables"
    processor = f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"
    return cache.cache_folder(" ".join([*versions, built_on]), processor)


@functools.cache
def _linker() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.create_lljit_compiler()


def _link(name: str, code: bytes) -> int:
    """Places object code in memory; the address of the function."""
    library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(name)
    if crc.isal_address():
        library = library.import_symbol(crc.SYMBOL, crc.isal_address())
    _placed.append(library.link(_linker(), name))
    return int(_placed[-1][name])


def _caller(name: str, address: int, signature: Signature) -> Callable[..., Any]:
    """A Python function that checks its arrays and calls the code at `address` (compile.py says what that takes)."""
    types = [_NUMBERS.get(kind, ctypes.py_object) for kind in signature.parameters]
    native = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, *types)(address)
    arrays = [(number, kind) for number, kind in enumerate(signature.parameters) if kind in ARRAYS]
    gives_none, count = signature.result == "none", len(types)

    def call(*arguments: Any) -> int | None:
        if len(arguments) != count:
            raise TypeError(f"{name} takes {count} arguments, not {len(arguments)}")
        for number, kind in arrays:
            check_array(kind, arguments[number])
        result = ctypes.c_int64()
        if native(ctypes.addressof(result), *arguments):
            raise RuntimeError(f"the kernel {name} failed")
        return None if gives_none else result.value

    call.__name__ = name
    return call


def check_array(kind: str, array: Any) -> None:
    """TypeError for an array of another kind: the code would not notice."""
    if type(array) is not np.ndarray or array.ndim != ARRAYS[kind]:
        raise TypeError(f"{kind} wanted, not {array!r:.60}")
    fits = kind == "bytes" or array.flags.writeable
    if kind in ("longs", "matrix"):
        fits = fits and array.dtype == _LONG
    else:
        fits = fits and array.dtype == _BYTE and array.strides == (1,)
    if not fits:
        raise TypeError(f"{kind} wanted, not {array.dtype} with strides of {array.strides}")
