"""Pages of section 7 from Markdown: man/rmqctl-NAME.md becomes man7/rmqctl-NAME.7.

Only headings, paragraphs, lists and code are translated, as the pages have nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rmqctl.store_manpage import roff
from store import __version__

if TYPE_CHECKING:
    from markdown_it.token import Token


def markdown_pages(folder: Path) -> dict[str, str]:
    """Return every page by its path below man/."""
    return {f"man7/{file.stem}.7": _page(file.stem, file.read_text("utf-8")) for file in sorted(folder.glob("*.md"))}


def _page(name: str, text: str) -> str:
    """Return the page in roff; the text begins with a heading `# name: its purpose`."""
    from markdown_it import MarkdownIt

    title, *tokens = MarkdownIt("commonmark").parse(text)[1:]
    head = [
        f'.TH {name.upper()} 7 "" "rmqctl {__version__}" "rmqctl manual"',
        f'.\\" Written by rmqctl.manpages; change man/{name}.md instead.',
        f".SH NAME\n{roff(name)} \\- {roff(title.content.partition(': ')[2])}",
        ".SH DESCRIPTION",
    ]
    return "\n".join([*head, *_blocks(tokens), ".SH SEE ALSO\n.BR rmqctl (1),\n.BR rmqstore (5)"]) + "\n"


def _blocks(tokens: list[Token]) -> Iterator[str]:
    request = ".PP\n"
    for token in tokens:
        if token.type == "heading_open":
            request = ".SH " if token.tag == "h2" else ".SS "
        elif token.type == "list_item_open":
            request = ".IP \\(bu 2\n"
        elif token.type == "fence":
            yield f".PP\n.nf\n.RS 4\n{_lines(token.content)}\n.RE\n.fi"
        elif token.type == "inline":
            yield request + "".join(map(_span, token.children or ()))
            request = ".PP\n"


def _lines(code: str) -> str:
    return "\n".join(map(roff, code.rstrip().splitlines()))


def _span(token: Token) -> str:
    if token.type == "code_inline":
        return f"\\fB{roff(token.content)}\\fR"
    return "\n" if token.type == "softbreak" else roff(token.content)
