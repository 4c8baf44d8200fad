"""The broker's own tables under config/, read for what they tell about a store. Nothing here writes.

Fastjson writes integer keys of a map without quotes ({0:12,1:3}), which no strict JSON reader takes; and power loss
leaves empty files behind, for which the `.bak` stands in.

Source: ConsumerOffsetManager, ConfigManager.load (4.9.8).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from store.disk.filesystem import Filesystem

_BARE_KEY = re.compile(r"([{,]\s*)(-?\d+)(\s*:)")
_TEXT_OR_BARE_KEY = re.compile(r'"(?:[^"\\]|\\.)*"|[{,]\s*-?\d+\s*:')


def read_tolerantly(path: Path, fs: Filesystem) -> Any | None:
    """The JSON of `path` or of its `.bak`; None where neither is there and readable.

    ForeignFile where one is no file.
    """
    for candidate in (path, path.with_name(path.name + ".bak")):
        if not fs.exists(candidate):
            continue
        fs.require_file(candidate)
        text = fs.read_file(candidate).decode("utf-8", "replace")
        try:
            return json.loads(_TEXT_OR_BARE_KEY.sub(_quote_key, text))
        except ValueError:
            continue
    return None


def read_consumer_offsets(config_folder: Path, fs: Filesystem) -> dict[tuple[str, str], dict[int, int]]:
    """Per (topic, group): the queue offset up to which each queue id was consumed."""
    document = read_tolerantly(config_folder / "consumerOffset.json", fs)
    table = document.get("offsetTable") if isinstance(document, dict) else None
    found: dict[tuple[str, str], dict[int, int]] = {}
    for name, queues in (table or {}).items():
        topic, separator, group = str(name).partition("@")
        if separator and isinstance(queues, dict):
            found[topic, group] = {int(queue): int(offset) for queue, offset in queues.items()}
    return found


def _quote_key(match: re.Match[str]) -> str:
    text = match.group()
    return text if text.startswith('"') else _BARE_KEY.sub(r'\1"\2"\3', text)
