"""rmqctl as a process of its own: as somebody else, on a read-only mount, with little memory."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
NOBODY = 65534
TIMEOUT_S = 120

PR_CAPBSET_DROP = 24
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2
_LIBC = ctypes.CDLL(None)


@dataclass(frozen=True)
class Finished:
    """Exit code and output of a process."""

    code: int
    out: str
    err: str


def command_line(store: Path | None, *words: object) -> list[str]:
    return [sys.executable, "-m", "rmqctl", *(["--store", str(store)] if store else []), *map(str, words)]


def run(words: Sequence[str], *, memory_bytes: int | None = None, override: bool = True) -> Finished:
    """Run a command line to its end.

    memory_bytes  limit of allocated memory, without mapped files
    override      False removes root's right to open files against their modes
    """

    def limit() -> None:
        if memory_bytes is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
        if not override:
            for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
                _LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)

    done = subprocess.run(
        words,
        cwd=REPOSITORY,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        preexec_fn=limit,
        check=False,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


Line = Sequence[object]
"""The words of one command line behind `--store STORE`."""


def run_lines(
    store: Path, lines: Sequence[Line], wrapper: Sequence[str] = (), *, override: bool = True
) -> list[Finished]:
    """Run command lines one after another in a process that `wrapper` starts; fail if a line kills it."""
    texts = [[str(word) for word in line] for line in lines]
    program = [sys.executable, "-m", "tests.support.lines", str(store), json.dumps(texts)]
    done = run([*wrapper, *program], override=override)
    rows = done.out.splitlines()
    assert done.code == 0, f"{texts[len(rows) : len(rows) + 1]} ended the process with {done.code}: {done.err}"
    return [Finished(*json.loads(row)) for row in rows]


def run_as_a_stranger(store: Path, lines: Sequence[Line]) -> list[Finished]:
    """Run command lines as a user who may read everything in `store` but write nothing there.

    Root changes the store's owner and drops the right to override modes; other users remove the write bits.
    """
    paths = [store, *store.rglob("*")]
    if os.geteuid() == 0:
        for path in paths:
            os.chown(path, NOBODY, NOBODY)
        return run_lines(store, lines, override=False)
    modes = {path: path.stat().st_mode & 0o7777 for path in paths}
    for path in paths:
        path.chmod(modes[path] & ~0o222)
    try:
        return run_lines(store, lines)
    finally:
        for path in paths:
            path.chmod(modes[path])


def run_on_read_only_mount(store: Path, lines: Sequence[Line]) -> list[Finished]:
    """Run command lines with `store` mounted read-only over itself, in a mount namespace of their own."""
    script = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'
    return run_lines(store, lines, [*namespace(), "sh", "-c", script, "sh", str(store)])


@cache
def namespace() -> tuple[str, ...]:
    """Return the command for a mount namespace, of root or of a user namespace; () without the right."""
    if shutil.which("unshare"):
        for words in (("unshare", "-m"), ("unshare", "-rm")):
            probe = [*words, "sh", "-c", "mount --bind /tmp /tmp"]
            if subprocess.run(probe, capture_output=True, check=False, timeout=TIMEOUT_S).returncode == 0:
                return words
    return ()


def environment() -> dict[str, str]:
    search_path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "NO_COLOR": "1", "PYTHONPATH": search_path}


def run_script_on_small_disk(folder: Path, size: str, script: str) -> Finished:
    """Run a shell script with a file system of `size` mounted at `folder`; it can call `rmqctl`."""
    preamble = f'rmqctl() {{ "{sys.executable}" -m rmqctl "$@"; }}; mount -t tmpfs -o size={size} none "$1" && shift\n'
    return run([*namespace(), "sh", "-c", preamble + script, "sh", str(folder), str(folder)])


@contextmanager
def running(words: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Start a process with pipes at stdin and stdout, and kill it at the end of the block.

    options  for subprocess.Popen, in place of the ones here
    """
    pipes = {"cwd": REPOSITORY, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, **{**pipes, "preexec_fn": default_signals, **options}) as process:
        try:
            yield process
        finally:
            process.kill()


def default_signals() -> None:
    """Reset signals to their defaults: a process inherits those that nohup and background shells ignore."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def open_below(folder: Path) -> list[str]:
    """Return the files and folders below `folder` that this process has open; what earlier tests left is elsewhere."""
    links = []
    for descriptor in Path("/proc/self/fd").iterdir():
        # The descriptor of this listing is closed by the time it is read.
        with contextlib.suppress(FileNotFoundError):
            links.append(str(descriptor.readlink()))
    return [link for link in links if link.startswith(f"{folder}/")]
