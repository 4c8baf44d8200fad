"""Compiles store/kernels to one extension module, store.kernels.compiled.

    python .build/kernels.py        in place, for a checkout, if the sources have changed since: a copy of the installed
                                    module if that is current; else compiled, which needs Cython, and a C compiler or
                                    the package ziglang

Steps:
  1. merge: the kernels' modules as one Cython source, so that the C compiler can inline calls between them
  2. Cython makes C of it
  3. the first compiler that gives a module which can be imported: $CC, the one Python was built with, cc, zig; with
     RMQCTL_PROCESSOR=x86_64 or aarch64 zig alone, for that processor and the C library of manylinux_2_17

The source is merged as syntax trees. Imports go, names of constants become their values, `@cfunc` becomes Cython's
decorators, `@kernel` a C function and one of Python that calls it without the GIL, and types become those of C. So
constants have one definition, in store/formats or in the kernels.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KERNELS = ROOT / "store" / "kernels"
MODULES = (
    "properties",
    "hashing",
    "scan",
    "verify",
    "queue_table",
    "dispatch",
    "index",
    "requests",
    "encode",
    "put",
    "compare",
    "base64",
    "line_members",
    "line_properties",
    "lines",
    "line_text",
    "line_writer",
)
NATIVE = ("native", "lost_pages", "commit_groups")
"""Written in Cython and C; modules of these names are for kernels that run uncompiled."""
MODULE_NAME = "store.kernels.compiled"
PROCESSOR = os.environ.get("RMQCTL_PROCESSOR", "")
HOST = platform.machine()
FILE_NAME = f"compiled{sysconfig.get_config_var('EXT_SUFFIX')}".replace(HOST, PROCESSOR or HOST)
OLDEST_GLIBC = 17
"""The minor version of the C library that wheels for other machines are made for."""
INSTALLED = Path(sysconfig.get_path("platlib"), "store", "kernels", FILE_NAME)
"""The module of the environment that runs this, also while pip builds in it."""
NO_EXTENSIONS = "RMQCTL_NO_EXTENSIONS"
REQUIREMENTS = ["cython>=3.1,<4"]
ZIG_REQUIREMENT = "ziglang>=0.13"

_ARRAYS = {
    "Bytes": "Buffer",
    "Writable": "Buffer",
    "Longs": "cython.longlong[::1]",
    "Matrix": "cython.longlong[:, :]",
}
_ACCESS = {"Bytes": "PyBUF_SIMPLE", "Writable": "PyBUF_WRITABLE"}
_DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "infer_types": True,
    "binding": False,
}
_DECORATORS = ("cython.cfunc", "cython.nogil", "cython.inline", "cython.exceptval(check=False)")
_PRELUDE = '''"""Compiled kernels; the sources are the modules beside this one."""
import cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.string cimport memset
ctypedef long long Long
ctypedef bint Flag
ctypedef unsigned char *Address
ctypedef Py_buffer *Buffer

SOURCES = "{digest}"
'''
# Clang leaves helpers that take an array out of line otherwise: a scan then takes 1.6 times as long.
_INLINE = "-DCYTHON_INLINE=__inline__ __attribute__((always_inline))"
_PORTABLE_FLAGS = [_INLINE, "-O3", "-fwrapv", "-fPIC", "-g0", "-DNDEBUG", "-w"]


class BuildFailed(Exception):
    """Why there is no compiled module."""


def is_wanted() -> bool:
    return os.environ.get(NO_EXTENSIONS, "") in ("", "0")


def requirements() -> list[str]:
    """The packages that compiling here needs."""
    if not is_wanted():
        return []
    return [*REQUIREMENTS, *([] if _machine_compilers() else [ZIG_REQUIREMENT])]


def system_tag(module: Path, tag: str) -> str:
    """A wheel's tag with the oldest C library that has all that the module needs, in the place of this machine."""
    versions = [int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", module.read_bytes())]
    system = f"manylinux_2_{max(OLDEST_GLIBC, *versions)}_{PROCESSOR or HOST}" if versions else ""
    return re.sub(r"linux_\w+$", system, tag) if system else tag


def is_current(module: Path) -> bool:
    """Whether the compiled module is made of the sources as they are."""
    return module.is_file() and _try_import(module).stdout.strip() == digest()


def ensure(module: Path, installed: Path = INSTALLED) -> Path:
    """Have the module current: as it is, as a copy of the installed one unless RMQCTL_PROCESSOR is set, or compiled."""
    if is_current(module):
        return module
    if is_wanted() and not PROCESSOR and is_current(installed):
        return shutil.copyfile(installed, module)
    return build(module.parent)


def build(folder: Path) -> Path:
    """The compiled module, in `folder`; BuildFailed says why there is none."""
    target = folder / FILE_NAME
    target.unlink(missing_ok=True)
    if not is_wanted():
        raise BuildFailed(f"{NO_EXTENSIONS} is set")
    with tempfile.TemporaryDirectory(prefix="rmqctl-kernels-") as scratch:
        _compile(_to_c(Path(scratch)), target)
    return target


# Step 1.


def merge() -> str:
    """The source of all kernels as one Cython module."""
    functions = [text for name in MODULES for text in _functions(name)]
    arrays = [line for name in MODULES for line in _arrays(name)]
    native = [(KERNELS / f"{name}.pxd").read_text().partition('"""\n\n')[2] for name in NATIVE]
    return "\n\n".join([_PRELUDE.format(digest=digest()), *native, *arrays, *functions]) + "\n"


def digest() -> str:
    """What the compiled module is made of, in 16 hex digits."""
    sources = [path for name in NATIVE for path in KERNELS.glob(f"{name}.*")]
    sources += [*(KERNELS / f"{name}.py" for name in MODULES), Path(__file__)]
    sources += (ROOT / "store" / "formats").glob("*.py")
    what = hashlib.sha256()
    for path in sorted(sources):
        what.update(path.name.encode() + b"\0" + path.read_bytes())
    return what.hexdigest()[:16]


def _functions(module: str) -> Iterator[str]:
    values = _namespace(module)
    for node in ast.parse((KERNELS / f"{module}.py").read_text()).body:
        if isinstance(node, ast.FunctionDef):
            _Constants(values).visit(node)
            yield from _compiled_forms(node)


def _arrays(module: str) -> Iterator[str]:
    """Tuples of constants as arrays of C, for subscripts that are no constants."""
    for name, value in _namespace(module).items():
        if isinstance(value, tuple) and value and all(type(item) is int for item in value):
            yield f"cdef long long[{len(value)}] {name} = {list(value)}"


def _namespace(module: str) -> dict[str, Any]:
    """The module's names, run uncompiled."""
    return vars(importlib.import_module(f"store.kernels.{module}"))


class _Constants(ast.NodeTransformer):
    """Puts the value in the place of each upper-case name, and of each member of an enumeration."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self._values.get(node.id)
        return _literal(value) if node.id.isupper() and isinstance(value, int) else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        owner = self._values.get(node.value.id) if isinstance(node.value, ast.Name) else None
        return _literal(getattr(owner, node.attr)) if isinstance(owner, type) else self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.LShift):
            # A literal would be shifted as an int of 32 bits.
            node.left = ast.Call(_expression("cython.cast"), [_expression("Long"), node.left], [])
        return node


def _literal(value: int) -> ast.expr:
    # Cython takes a literal of more than 31 bits for an object of Python.
    return _expression(f"cython.cast(Long, {int(value)})" if value.bit_length() > 31 else str(int(value)))


def _compiled_forms(function: ast.FunctionDef) -> Iterator[str]:
    """The function as one of C; for a kernel also one of Python that calls it without the GIL."""
    (kind,) = (decorator.id for decorator in function.decorator_list)
    if kind == "with_objects":
        yield _with_objects(function)
        return
    if kind != "cfunc":
        yield _entry(function, without_gil=kind == "kernel")
        function.name += "_"
    for argument in function.args.args:
        if argument.annotation.id in _ARRAYS:
            argument.annotation = _expression(_ARRAYS[argument.annotation.id])
    function.decorator_list = [_expression(text) for text in _DECORATORS]
    if isinstance(function.returns, ast.Constant):
        function.returns = _expression("cython.void")
    yield ast.unparse(function)


def _with_objects(function: ast.FunctionDef) -> str:
    """The function as Cython compiles any Python."""
    function.decorator_list, function.returns = [], None
    for argument in function.args.args:
        argument.annotation = None
    return ast.unparse(function)


def _entry(function: ast.FunctionDef, *, without_gil: bool) -> str:
    """The function that Python calls: it holds buffers of bytes, whatever their format, while the kernel runs."""
    types = {argument.arg: argument.annotation.id for argument in function.args.args}
    buffers = [name for name, kind in types.items() if kind in _ACCESS]
    parameters = (name if name in buffers else f"{name}: {_ARRAYS.get(kind, kind)}" for name, kind in types.items())
    arguments = ", ".join(f"&{name}_" if name in buffers else name for name in types)
    has_result = not isinstance(function.returns, ast.Constant)
    lines = [
        f"def {function.name}({', '.join(parameters)}):",
        f"    {ast.unparse(function.body[0])}",
        *(f"    cdef Py_buffer {name}_" for name in buffers),
        *(f"    memset(&{name}_, 0, sizeof(Py_buffer))" for name in buffers),
        "    try:",
        *(f"        PyObject_GetBuffer({name}, &{name}_, {_ACCESS[types[name]]})" for name in buffers),
        "        with nogil:" if without_gil else "        if True:",
        f"            {'result = ' if has_result else ''}{function.name}_({arguments})",
        *(["        return result"] if has_result else []),
        "    finally:",
        *(f"        PyBuffer_Release(&{name}_)" for name in buffers),
        "        pass",
    ]
    return "\n".join(lines)


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


# Step 2.


def _to_c(folder: Path) -> Path:
    try:
        from Cython.Compiler.Main import CompilationOptions, compile
    except ImportError as error:
        raise BuildFailed("Cython is not installed") from error
    with _uncompiled():
        source = folder / "compiled.pyx"
        source.write_text(merge())
    options = CompilationOptions(compiler_directives=_DIRECTIVES, output_file=str(folder / "compiled.c"))
    result = compile(str(source), options, full_module_name=MODULE_NAME)
    if result.num_errors:
        raise BuildFailed(f"Cython finds {result.num_errors} errors")
    return folder / "compiled.c"


@contextlib.contextmanager
def _uncompiled() -> Iterator[None]:
    """Imports kernels as they are written, from this checkout."""
    before = os.environ.get(NO_EXTENSIONS)
    os.environ[NO_EXTENSIONS] = "1"
    sys.path.insert(0, str(ROOT))
    try:
        yield
    finally:
        sys.path.remove(str(ROOT))
        if before is None:
            del os.environ[NO_EXTENSIONS]
        else:
            os.environ[NO_EXTENSIONS] = before


# Step 3.


def _compile(source: Path, target: Path) -> None:
    attempts = []
    for compiler in (*_machine_compilers(), *_zig()):
        made = source.with_name(FILE_NAME)
        done = _run([*compiler, *_flags(), str(source), "-o", str(made)])
        if done.returncode == 0 and PROCESSOR in ("", HOST):
            done = _try_import(made)
        if done.returncode == 0:
            shutil.copyfile(made, target)
            return
        attempts.append(f"{shlex.join(compiler)}: {(done.stderr.strip().splitlines() or ['failed'])[0][:300]}")
    raise BuildFailed("; ".join(attempts) or "there is no C compiler, and no package ziglang")


def _flags() -> list[str]:
    """For every processor of this kind: a wheel may be installed on another machine."""
    folders = {sysconfig.get_path(name) for name in ("include", "platinclude")} | {str(KERNELS)}
    links = ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared", "-s"]
    return [*_PORTABLE_FLAGS, *links, *(f"-I{folder}" for folder in sorted(folders))]


def _machine_compilers() -> list[list[str]]:
    if PROCESSOR:
        return []
    told = [os.environ.get("CC"), sysconfig.get_config_var("CC"), "cc", "gcc", "clang"]
    commands = [shlex.split(command) for command in dict.fromkeys(filter(None, told))]
    return [command for command in commands if command and shutil.which(command[0])]


def _zig() -> list[list[str]]:
    if importlib.util.find_spec("ziglang") is None:
        return []
    target = ["-target", f"{PROCESSOR}-linux-gnu.2.{OLDEST_GLIBC}"] if PROCESSOR else []
    return [[sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline", *target]]


def _try_import(module: Path) -> subprocess.CompletedProcess[str]:
    code = (
        "import importlib.util as u, sys; s = u.spec_from_file_location(*sys.argv[1:]);"
        "m = u.module_from_spec(s); s.loader.exec_module(m); print(m.SOURCES)"
    )
    return _run([sys.executable, "-c", code, MODULE_NAME, str(module)])


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True)


if __name__ == "__main__":
    try:
        print(ensure(KERNELS / FILE_NAME))
    except BuildFailed as failure:
        sys.exit(f"the kernels stay uncompiled: {failure}")
