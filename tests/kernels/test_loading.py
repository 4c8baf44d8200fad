"""Which kernels a process uses, and what the compiled ones are made of."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from store import kernels
from store.kernels.shipped import copy_to_ship
from tests.support.twice import SOURCES, both

ROOT = Path(__file__).resolve().parents[2]
needs_compiled = pytest.mark.skipif(not kernels.COMPILED, reason="kernels run uncompiled")

_USE_A_KERNEL = """
import numpy as np
from store import kernels
from store.kernels.shipped import copy_to_ship
assert kernels.first_earlier(np.zeros((14, 4), np.int64), 0, 4, 0) == 4
print(kernels.COMPILED)
"""


def run(code: str, **environment: str) -> str:
    """What a process prints that runs `code`."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_without_extensions_kernels_run_from_their_sources() -> None:
    assert run(_USE_A_KERNEL, RMQCTL_NO_EXTENSIONS="1") == "False"


@pytest.mark.parametrize(("value", "is_loaded"), [(None, True), ("", True), ("0", True), ("1", False)])
def test_the_compiled_module_is_loaded_unless_the_variable_says_no(
    value: str | None, is_loaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = SimpleNamespace()
    monkeypatch.setattr(kernels, "_import", lambda: module)
    monkeypatch.setattr("store.kernels.crc.choose_crc", lambda one: one is module)
    monkeypatch.delenv("RMQCTL_NO_EXTENSIONS", raising=False)
    if value is not None:
        monkeypatch.setenv("RMQCTL_NO_EXTENSIONS", value)
    assert kernels._load() is (module if is_loaded else None)


def test_an_installation_without_the_compiled_module_runs_the_sources() -> None:
    missing = "import sys; sys.modules['store.kernels.compiled'] = None\n"
    assert run(missing + _USE_A_KERNEL) == "False"


def test_sources_need_no_cython_and_no_numpy() -> None:
    code = "import sys; from store import kernels; print(sorted({'Cython', 'cython', 'numpy'} & set(sys.modules)))"
    assert run(code, RMQCTL_NO_EXTENSIONS="1") == "[]"


def build_module() -> Any:
    spec = importlib.util.spec_from_file_location("build_kernels", ROOT / ".build" / "kernels.py")
    assert spec is not None
    assert spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    return build


@pytest.mark.skipif(os.environ.get("RMQCTL_NO_EXTENSIONS", "0") not in ("", "0"), reason="RMQCTL_NO_EXTENSIONS is set")
def test_the_compiled_module_is_made_of_these_sources() -> None:
    from store.kernels import compiled  # type: ignore[attr-defined]

    assert build_module().digest() == compiled.SOURCES, "run python .build/kernels.py"


def test_an_installed_module_of_these_sources_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = build_module()
    monkeypatch.setattr(build, "is_current", lambda module: module.is_file() and module.read_bytes() == b"current")
    monkeypatch.setattr(build, "build", lambda folder: folder / "built")
    monkeypatch.delenv("RMQCTL_NO_EXTENSIONS", raising=False)
    module, installed = tmp_path / "module", tmp_path / "installed"
    assert build.ensure(module, installed) == tmp_path / "built"
    installed.write_bytes(b"older")
    assert build.ensure(module, installed) == tmp_path / "built"
    installed.write_bytes(b"current")
    with monkeypatch.context() as patch:
        patch.setenv("RMQCTL_NO_EXTENSIONS", "1")
        assert build.ensure(module, installed) == tmp_path / "built"
    with monkeypatch.context() as patch:
        patch.setattr(build, "PROCESSOR", "x86_64")
        assert build.ensure(module, installed) == tmp_path / "built"
    assert build.ensure(module, installed) == module
    assert module.read_bytes() == b"current"
    installed.unlink()
    assert build.ensure(module, installed) == module


@pytest.mark.parametrize(
    ("module", "processor", "tag"),
    [
        (b"\0libc.so.6\0GLIBC_2.2.5\0GLIBC_2.14\0", "x86_64", "cp311-cp311-manylinux_2_17_x86_64"),
        (b"\0libc.so.6\0GLIBC_2.17\0", "x86_64", "cp311-cp311-manylinux_2_17_x86_64"),
        (b"\0libc.so.6\0GLIBC_2.33\0GLIBC_2.4\0", "x86_64", "cp311-cp311-manylinux_2_33_x86_64"),
        (b"\0libc.so.6\0GLIBC_2.17\0", "aarch64", "cp311-cp311-manylinux_2_17_aarch64"),
        (b"\0libc.musl-x86_64.so.1\0", "x86_64", "cp311-cp311-linux_x86_64"),
    ],
)
def test_a_wheel_has_the_tag_of_the_oldest_c_library_that_its_kernels_run_with(
    module: bytes, processor: str, tag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "compiled.so").write_bytes(module)
    monkeypatch.setenv("RMQCTL_PROCESSOR", processor)
    build = build_module()
    assert build.system_tag(tmp_path / "compiled.so", "cp311-cp311-linux_x86_64") == tag
    suffix = sysconfig.get_config_var("EXT_SUFFIX").replace(platform.machine(), processor)
    assert f"compiled{suffix}" == build.FILE_NAME


@needs_compiled
@pytest.mark.parametrize("is_shipped", [True, False])
def test_a_worker_with_the_package_as_a_zip_uses_the_module_shipped_beside_it(tmp_path: Path, is_shipped: bool) -> None:
    with zipfile.ZipFile(tmp_path / "store.zip", "w") as archive:
        for path in [*(ROOT / "store").rglob("*.py"), *(ROOT / "store").rglob("*.pyi")]:
            archive.write(path, path.relative_to(ROOT))
    assert kernels.compiled_module is not None
    if is_shipped:
        copy_to_ship(kernels.compiled_module, tmp_path)
    search_path = os.pathsep.join([str(tmp_path / "store.zip"), str(tmp_path)])
    assert run(f"import os; os.chdir('/')\n{_USE_A_KERNEL}", PYTHONPATH=search_path) == str(is_shipped)


def test_every_kernel_has_a_source() -> None:
    assert set(SOURCES) == set(kernels.__all__) - {"COMPILED"}


@needs_compiled
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("first_earlier", (np.zeros((14, 4), np.int32), 0, 4, 0)),
        ("first_earlier", (np.zeros(14, np.int64), 0, 4, 0)),
        ("first_bad_body", (np.zeros(8, np.uint8)[::2], np.zeros((14, 4), np.int64), 0, 0)),
        ("first_bad_body", ("text", np.zeros((14, 4), np.int64), 0, 0)),
        ("write_units", (bytes(8), 0, *[np.zeros(1, np.int64)], 0, 0, np.zeros((14, 4), np.int64), np.zeros(1, int))),
    ],
)
def test_a_compiled_kernel_takes_no_array_of_another_kind(name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises((TypeError, ValueError, BufferError)):
        getattr(kernels, name)(*arguments)


@needs_compiled
def test_without_isal_the_tables_give_the_same_crc() -> None:
    code = """
import sys, zlib
sys.modules["isal"] = None
from store import kernels
from store.kernels.shipped import copy_to_ship
from store.kernels import compiled
data = bytes(i * 167 % 251 for i in range(5000))
for size in (*range(300), 4999):
    assert compiled.crc32(data[1 : 1 + size]) == zlib.crc32(data[1 : 1 + size]), size
print(kernels.COMPILED)
"""
    assert run(code) == "True"


@needs_compiled
def test_a_crc_that_is_wrong_is_not_used() -> None:
    code = """
import sys, crcmod.predefined
sys.modules["isal"] = None
crcmod.predefined.mkCrcFun = lambda name: lambda data: 0
from store import kernels
from store.kernels.shipped import copy_to_ship
print(kernels.COMPILED)
"""
    assert run(code) == "False"


def test_a_kernel_takes_every_kind_of_buffer() -> None:
    data = b"\0" * 200
    columns, state = np.zeros((14, 4), np.int64), np.zeros(8, np.int64)
    for buffer in (data, bytearray(data), memoryview(data), np.frombuffer(data, np.uint8)):
        assert both(lambda kernels: kernels.scan_records(buffer, 0, 200, True, True, columns, state)) == 0  # noqa: B023
