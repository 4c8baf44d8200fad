"""The pages that `rmqctl help TOPIC` prints: the glossary, and the Markdown of the manual."""

from __future__ import annotations

from pathlib import Path

PAGES = ("cookbook", "install", "library", "remote", "spark", "stability")
"""Pages of the manual by topic. `rmqctl help sql` explains the command; the page is `man 7 rmqctl-sql`."""
TOPICS = ("glossary", *PAGES)
_FOLDERS = (Path(__file__).parent / "pages", Path(__file__).parents[1] / "man")
"""The folders of the Markdown: in an installed package, and in the repository."""


def topic_text(topic: str) -> str:
    """Return the text of a topic in TOPICS."""
    if topic == "glossary":
        from rmqctl.glossary import glossary_lines

        return "".join(f"{line}\n" for line in glossary_lines())
    found = next(path for folder in _FOLDERS if (path := folder / f"rmqctl-{topic}.md").is_file())
    return found.read_text(encoding="utf-8")
