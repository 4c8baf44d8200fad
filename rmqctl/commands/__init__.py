"""The commands, one module each: parse, one engine call, return a Result.

A module has a function `run` (Typer reads its parameters and docstring) and `EXAMPLES`, which help and man page show.
A group of commands is a module with `run_<name>` functions.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import typer


@dataclass(frozen=True, slots=True)
class Command:
    """Where a command's function is. `path` is one word, or group and word."""

    path: str
    module: str
    function: str = "run"

    def load(self) -> tuple[Any, Sequence[str]]:
        """Its function and its example lines."""
        module = importlib.import_module(f"rmqctl.commands.{self.module}")
        examples = module.EXAMPLES
        lines = examples[self.path] if isinstance(examples, dict) else examples
        return getattr(module, self.function), lines


# In the order in which `rmqctl --help` lists them.
COMMANDS = (
    Command("put", "put"),
    Command("get", "get"),
    Command("index-query", "index_query"),
    Command("recover", "recover"),
    Command("truncate-dirty", "truncate_dirty"),
    Command("clean-expired", "clean_expired"),
    Command("checkpoint show", "checkpoint", "run_show"),
    Command("checkpoint rewrite", "checkpoint", "run_rewrite"),
    Command("check", "check"),
    Command("rebuild", "rebuild"),
    Command("usage", "usage"),
    Command("audit", "audit"),
    Command("sql", "sql"),
    Command("export", "export"),
    Command("flush-bench", "flush_bench"),
    Command("undo", "undo"),
    Command("quarantine list", "quarantine", "run_list"),
    Command("quarantine purge", "quarantine", "run_purge"),
)

GROUPS = {
    "checkpoint": "Show or rewrite the checkpoint.",
    "quarantine": "What changing commands took away, and can give back.",
}


def add_commands(app: typer.Typer) -> None:
    """Registers every command with the application."""
    groups: dict[str, typer.Typer] = {}
    for command in COMMANDS:
        function, examples = command.load()
        epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in examples)
        *group, name = command.path.split()
        target = _group(app, groups, group[0]) if group else app
        target.command(name, epilog=epilog)(function)


def _group(app: typer.Typer, groups: dict[str, typer.Typer], name: str) -> typer.Typer:
    if name not in groups:
        groups[name] = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=GROUPS[name])
        app.add_typer(groups[name], name=name)
    return groups[name]
