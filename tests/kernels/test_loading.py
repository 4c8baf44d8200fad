"""Which kernels are taken for which work, and the folder compiled ones are kept in."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from store import kernels
from store.kernels import cache, machine_code
from tests.support import processes

ROOT = Path(__file__).resolve().parents[2]

_USE_A_KERNEL = """
import sys, numpy as np
from store import kernels
used = kernels.{kind}
assert used.first_earlier(np.zeros((14, 4), np.int64), 0, 4, 0) == 4
print(used.compiled, "numba" in sys.modules)
"""


def run(kind: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process that uses a small kernel of `kernels.<kind>` and prints what that loaded."""
    return subprocess.run(
        [sys.executable, "-c", _USE_A_KERNEL.format(kind=kind)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "0", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_small_work_loads_no_compiler() -> None:
    assert run("for_work(1000)").stdout.split() == ["False", "False"]


def test_without_the_jit_everything_is_interpreted(tmp_path: Path) -> None:
    done = run("compiled()", NUMBA_DISABLE_JIT="1", XDG_CACHE_HOME=str(tmp_path))
    assert done.stdout.split() == ["False", "False"]
    assert not list(tmp_path.iterdir())


def test_what_was_compiled_is_kept_for_the_next_process_which_needs_no_compiler(tmp_path: Path) -> None:
    for needs_compiler in ("True", "False"):
        assert run("compiled()", XDG_CACHE_HOME=str(tmp_path)).stdout.split() == ["True", needs_compiler]
    kept = list(tmp_path.rglob("*.o"))
    (folder,) = (tmp_path / "rmqctl").iterdir()
    assert len(kept) == 1
    assert folder.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", [lambda code: code[:100], lambda code: b"", lambda code: b"\x00" + code[1:]])
def test_a_damaged_cache_is_compiled_anew(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    run("compiled()", XDG_CACHE_HOME=str(tmp_path))
    (kept,) = tmp_path.rglob("*.o")
    whole = kept.read_bytes()
    kept.write_bytes(damage(whole))
    done = run("compiled()", XDG_CACHE_HOME=str(tmp_path))
    assert (done.stdout.split(), done.stderr) == (["True", "True"], "")
    assert kept.read_bytes() == whole


def test_two_processes_may_compile_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _USE_A_KERNEL.format(kind="compiled()")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "0", "XDG_CACHE_HOME": str(tmp_path)}
    processes = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[0].split() for process in processes] == [["True", "True"]] * 2
    assert run("compiled()", XDG_CACHE_HOME=str(tmp_path)).returncode == 0


_USE_IN_THREADS = """
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from store.kernels import Kernels
def use(number):
    return Kernels(compiled=True).first_earlier(np.zeros((14, 4), np.int64), 0, 4, 0)
with ThreadPoolExecutor(8) as pool:
    print({*pool.map(use, range(32))})
"""


def test_threads_may_ask_for_one_kernel_at_once(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "0", "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", _USE_IN_THREADS], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "{4}"


def test_a_cache_home_that_is_no_folder_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert run("compiled()", XDG_CACHE_HOME=str(tmp_path / "file")).stdout.split() == ["True", "True"]


def run_without_right_to_write(cache_home: Path) -> list[str]:
    """What `run` prints, by a process that may read below `cache_home` but write nothing there."""
    folders = [cache_home, *(path for path in cache_home.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o500)
    try:
        settings = (f"XDG_CACHE_HOME={cache_home}", "NUMBA_DISABLE_JIT=0")
        use = _USE_A_KERNEL.format(kind="compiled()")
        done = processes.run(["env", *settings, sys.executable, "-c", use], override=False)
    finally:
        for folder in folders:
            folder.chmod(0o700)
    assert done.err == ""
    return done.out.split()


def test_a_warm_cache_that_cannot_be_written_is_read(tmp_path: Path) -> None:
    run("compiled()", XDG_CACHE_HOME=str(tmp_path))
    assert run_without_right_to_write(tmp_path) == ["True", "False"]


def test_what_a_cache_that_cannot_be_written_lacks_is_compiled_and_not_kept(tmp_path: Path) -> None:
    run("compiled()", XDG_CACHE_HOME=str(tmp_path))
    (kept,) = tmp_path.rglob("*.o")
    kept.unlink()
    assert run_without_right_to_write(tmp_path) == ["True", "True"]
    assert not list(kept.parent.iterdir())


def test_without_a_cache_and_without_a_temporary_folder_kernels_are_compiled(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    no_folder = f"import tempfile; tempfile.tempdir = {str(tmp_path / 'missing')!r}"
    done = subprocess.run(
        [sys.executable, "-c", no_folder + _USE_A_KERNEL.format(kind="compiled()")],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "NUMBA_DISABLE_JIT": "0",
            "XDG_CACHE_HOME": str(tmp_path / "file"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.split(), done.stderr) == (["True", "True"], "")


def test_without_a_folder_nothing_is_read_or_kept() -> None:
    cache.write_code(None, "scan", b"code")
    assert cache.read_code(None, "scan") is None


@pytest.mark.parametrize("which", ["rmqctl", "rmqctl/kernels"])
def test_a_folder_that_others_may_write_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = cache.cache_folder("1", "some processor")
    assert folder is not None
    (folder if which != "rmqctl" else folder.parent).chmod(0o770)
    assert cache.cache_folder("1", "some processor") is None


def test_both_folders_are_made_for_their_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = os.umask(0o002)
    try:
        folder = cache.cache_folder("1", "some processor")
    finally:
        os.umask(before)
    assert folder is not None
    assert [path.stat().st_mode & 0o777 for path in (folder, folder.parent)] == [0o700, 0o700]


@pytest.mark.parametrize(
    ("owner", "mode", "trusted"),
    [(1000, 0o700, True), (0, 0o755, True), (1001, 0o755, False), (0, 0o775, False), (1000, 0o1777, False)],
)
def test_a_folder_is_trusted_that_only_we_or_root_may_write(
    monkeypatch: pytest.MonkeyPatch, owner: int, mode: int, trusted: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(Path, "stat", lambda _: SimpleNamespace(st_uid=owner, st_mode=mode))
    assert cache.is_trusted(Path("cache")) == trusted


def test_other_versions_and_processors_have_other_folders() -> None:
    assert len({cache.digest("1", "a"), cache.digest("2", "a"), cache.digest("1", "b")}) == 3


def test_a_relative_cache_home_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "somewhere")
    assert cache.user_cache_home() == Path("~/.cache").expanduser()


def test_an_unknown_kernel_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        _ = kernels.plain().no_such_kernel


def test_a_disk_without_room_for_the_cache_is_no_reason_to_stop(tmp_path: Path) -> None:
    cache.write_code(tmp_path / "missing", "scan", b"code")
    assert cache.read_code(tmp_path / "missing", "scan") is None


@pytest.mark.parametrize(
    ("kind", "array"),
    [
        ("longs", np.zeros(4, np.int32)),
        ("longs", np.zeros((4, 4), np.int64)),
        ("bytes", np.zeros(8, np.uint8)[::2]),
        ("bytes", memoryview(b"no array")),
        ("writable", np.frombuffer(b"read-only", np.uint8)),
    ],
)
def test_machine_code_is_given_no_array_of_another_kind(kind: str, array: Any) -> None:
    with pytest.raises(TypeError):
        machine_code.check_array(kind, array)


_USE_THE_TABLES = """
import sys, zlib, numpy as np
from store.kernels import crc
crc.isal_address = lambda: 0
from store import kernels
columns, data = np.zeros((14, 1), np.int64), np.frombuffer(bytes(i * 167 % 251 for i in range(5000)), np.uint8)
for size in (*range(1, 300), 4999):
    columns[2:4, 0], columns[13, 0] = (1, size), zlib.crc32(data[1 : 1 + size]) & 0x7FFFFFFF
    assert kernels.compiled().first_bad_body(data, columns, 0, 1) == 1, size
columns[13, 0] ^= 1
print(kernels.compiled().first_bad_body(data, columns, 0, 1), kernels.compiled().compiled)
"""


def test_without_isal_the_tables_give_the_same_crc(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _USE_THE_TABLES],
        env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "0", "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["0", "True"]
