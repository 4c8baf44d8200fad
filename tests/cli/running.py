"""Running rmqctl inside the test process, with streams of the test's own in place of the terminal."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

from rmqctl.app import main
from rmqctl.commands import DOCUMENTS
from rmqctl.environment import Environment
from rmqctl.exit_codes import INTERRUPTED
from rmqctl.schema import load_schema

NOW_MS = 1_800_000_000_000


@dataclass(frozen=True)
class Run:
    """What one command line did."""

    code: int
    out: str
    err: str
    data: bytes = b""
    """stdout as it was written."""

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def steps(self) -> list[str]:
        """The commands of the plan on stderr."""
        return re.findall(r"^step \d+: rmqctl --store \S+ (.+) \([^()]*\)$", self.err, re.MULTILINE)


class Text(io.TextIOWrapper):
    """A text stream over bytes, as a process has it, that may claim to be a terminal."""

    def __init__(self, terminal: bool, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding, errors="backslashreplace", newline="", write_through=True)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    @property
    def written(self) -> bytes:
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue()


class Keyboard(io.BytesIO):
    """Standard input, typed or piped."""

    def __init__(self, data: bytes, terminal: bool) -> None:
        super().__init__(data)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@cache
def validator(name: str) -> jsonschema_rs.Validator:
    """For documents of the schema `name`, as rmqctl.get/1; compiled, as some documents have thousands of rows."""
    command = name.removeprefix("rmqctl.").split("/")[0]
    path = next(path for path in DOCUMENTS if path.replace(" ", "-") == command)
    return jsonschema_rs.validator_for(load_schema(path))


def check_document(document: Any) -> None:
    """Fails where a --format json document is not valid against its schema."""
    problems = [
        f"{problem.instance_path}: {problem.message}" for problem in validator(document["schema"]).iter_errors(document)
    ]
    assert not problems, f"{document['schema']} (see rmqctl/documents/): {problems[:5]}"


def rmqctl(
    *arguments: object,
    store: Path | None = None,
    stdin: bytes = b"",
    terminal: bool = False,
    width: int = 80,
    encoding: str = "utf-8",
    variables: Mapping[str, str] | None = None,
) -> Run:
    """Runs one command line in this process; `store` stands for --store."""
    words = [str(word) for word in arguments]
    if store is not None:
        words = ["--store", str(store), *words]
    out, err = Text(terminal, encoding), Text(terminal)
    keyboard, known = Keyboard(stdin, terminal), {"NO_COLOR": "1"} if variables is None else variables
    environment = Environment(keyboard, out, err, known, lambda: NOW_MS, width)
    code = main(words, environment)
    if code == INTERRUPTED:
        # Ctrl-C is for pytest: rmqctl handles the signal while it runs here.
        raise KeyboardInterrupt
    if code in (0, 1) and out.written.startswith(b'{\n  "schema"'):
        check_document(json.loads(out.written.decode(encoding)))
    return Run(code, out.written.decode(encoding, "replace"), err.written.decode(), out.written)
