"""Shell completion from the store: topics, queue ids, consumer groups, changes that can be undone.

Only folder names and small tables are read, and no engine is imported. An unreadable store completes nothing.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from pathlib import Path

import typer

from rmqctl.options import DEFAULT_STORE


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return topics with a folder in consumequeue/."""
    return _chosen(_names(_root(ctx) / "consumequeue"), incomplete)


def complete_queue(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the queue ids of the topic on the command line."""
    topics = set(_names(_root(ctx) / "consumequeue"))
    # Typer has not parsed the words before an unfinished option, so the topic is searched among them.
    topic = ctx.params.get("topic") or next((word for word in _words() if word in topics), None)
    return _chosen(_names(_root(ctx) / "consumequeue" / topic), incomplete) if topic else []


def complete_group(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return consumer groups of config/subscriptionGroup.json and config/consumerOffset.json."""
    config = _root(ctx) / "config"
    groups = set(_table(config / "subscriptionGroup.json", "subscriptionGroupTable"))
    groups |= {name.partition("@")[2] for name in _table(config / "consumerOffset.json", "offsetTable")}
    return _chosen(groups, incomplete)


def complete_change(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return ids of the changes in the store's quarantine."""
    return _chosen(_names(_root(ctx) / ".rmqctl" / "quarantine"), incomplete)


def _words() -> list[str]:
    """Return the words of the command line so far: bash sets COMP_WORDS, other shells Typer's variable."""
    return (os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or "").split()


def _root(ctx: typer.Context) -> Path:
    """Return the folder of --store, before or after the command, or of RMQCTL_STORE."""
    given = ctx.params.get("global_store")
    root = ctx.find_root().params.get("store")
    default = os.environ.get("RMQCTL_STORE") or DEFAULT_STORE
    chosen = given if given and given != DEFAULT_STORE else root
    return Path(chosen or default).expanduser()


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(folder) if entry.is_dir()]
    except OSError:
        return []


def _table(file: Path, name: str) -> Iterable[str]:
    try:
        return list(json.loads(file.read_text("utf-8")).get(name) or ())
    except (OSError, ValueError, AttributeError, TypeError):
        return []


def _chosen(names: Iterable[str], incomplete: str) -> list[str]:
    """Return the names that begin with `incomplete`; no names with control characters."""
    return sorted((name for name in names if name.startswith(incomplete) and name.isprintable()), key=_natural)


def _natural(name: str) -> tuple[float, str]:
    return (int(name), "") if name.isdecimal() else (math.inf, name)
