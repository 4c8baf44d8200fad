"""The names of Cython that kernels use, for running them uncompiled.

    @kernel         a function that other rooms call; compiled it runs without the GIL
    @short_kernel   the same with the GIL, for calls shorter than a change of threads
    @with_objects   a function that takes Python objects and holds the GIL
    @cfunc          a function that kernels call; compiled it is a C function without GIL and exceptions
    Long, Flag      a signed integer of 64 bits, a truth value
    Address         the address of a byte, from `start_of`
    Object          a Python object
    Bytes, Writable a buffer of bytes; the second is written to
    Longs, Matrix   int64 [n], int64 [n, m]

The build replaces this module by Cython itself, so kernels run without Cython.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

Long = int
Flag = bool
Address: TypeAlias = Any
Object: TypeAlias = Any

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Buffer

    class Bytes(Buffer, Protocol):
        def __len__(self) -> int: ...

    Writable: TypeAlias = Bytes
    Longs: TypeAlias = NDArray[Any]
    Matrix: TypeAlias = NDArray[Any]
else:
    Bytes = Writable = Longs = Matrix = memoryview


def cfunc(function: _Function) -> _Function:
    return function


def with_objects(function: _Function) -> _Function:
    return function


def kernel(function: _Function) -> _Function:
    """Return `function` with memoryviews for its arrays: their items are Python ints, without overflow."""
    kinds = [kind for name, kind in function.__annotations__.items() if name != "return"]

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        return function(*map(_view, arguments, kinds))

    return call  # type: ignore[return-value]


short_kernel = kernel


def _view(argument: Any, kind: str) -> Any:
    if kind in ("Bytes", "Writable"):
        return memoryview(argument).cast("B")
    return memoryview(argument) if kind in ("Longs", "Matrix") else argument
