"""The words of Cython that kernels use, for running them uncompiled.

    @kernel         a function that other rooms call; compiled it runs without the GIL
    @short_kernel   the same with the GIL, for what is over before another thread could take it
    @with_objects   a function that takes Python's objects and holds the GIL
    @cfunc          a function that kernels call; compiled it is a C function, which needs no GIL and raises nothing
    Long, Flag      a signed integer of 64 bits, a truth value
    Address         of a byte, as `start_of` gives it
    Object          of Python
    Bytes, Writable a buffer of bytes; the second is written to
    Longs, Matrix   int64 [n], int64 [n, m]

The build puts Cython itself in the place of this module, so running kernels needs no Cython.
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
    """Give `function` memoryviews of its arrays: their items are Python's ints, so none overflows."""
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
