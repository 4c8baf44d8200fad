"""Writes the manual pages: a page per command, rmqstore(5), and section 7 from man/*.md.

    python -m rmqctl.manpages man/

Everything about commands comes from the Typer application, so a page cannot contradict --help. A test fails if the
pages in the repository differ from what this module writes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from rmqctl import exit_codes
from rmqctl.app import app
from rmqctl.commands import COMMANDS, PANELS, CommandPlace
from rmqctl.glossary import TERMS, terms_in
from rmqctl.markdown_pages import markdown_pages
from rmqctl.store_manpage import roff, store_page
from store import __version__


def write_pages(folder: Path) -> list[Path]:
    """Write every page below `folder` and return their paths."""
    written = []
    for name, text in pages(folder).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def pages(folder: Path) -> dict[str, str]:
    """Return every page by its path below man/.

    folder  man/, with the Markdown of the pages in section 7
    """
    root = typer.main.get_command(app)
    found = {
        "man1/rmqctl.1": _root_page(root),
        "man5/rmqstore.5": store_page(__version__),
        "man7/rmqctl-glossary.7": _glossary_page(),
        **markdown_pages(folder),
    }
    for place in COMMANDS:
        found[f"man1/{_page_name(place.path)}.1"] = _command_page(place, _find(root, place.path))
    return dict(sorted(found.items()))


def _find(command: Any, path: str) -> Any:
    for word in path.split():
        command = command.commands[word]
    return command


def _root_page(root: Any) -> str:
    lines = [
        *_head("rmqctl", root.help),
        '.SH SYNOPSIS\n.B rmqctl\n[\\fIGLOBAL OPTIONS\\fR] \\fICOMMAND\\fR [\\fIGLOBAL OPTIONS\\fR] ...',
        ".SH DESCRIPTION",
        "Results go to stdout; progress, notes, warnings and errors go to stderr.",
        "Reading commands write nothing and work on a read-only mount and beside a live broker.",
        "Changing commands take the store's lock, show a plan first, and keep what they remove in a quarantine folder.",
        ".SH COMMANDS",
        *_panels(),
        ".SH GLOBAL OPTIONS",
        "They may stand before or after the command.",
        *_options(root),
        ".SH TIMES",
        roff(" ".join(TIMES.split())),
        ".SH FORMATS",
        roff(" ".join(FORMATS.split())),
        *_exit_codes({}),
        *_files(tuple(_FILE_TEXTS)),
        ".SH ENVIRONMENT",
        *(_entry(f"\\fB{name}\\fR", text) for name, text in ENVIRONMENT.items()),
        *_examples(root),
        ".SH SEE ALSO\n.BR rmqstore (5),\n.BR rmqctl-glossary (7)",
    ]  # fmt: skip
    return _join(lines)


def _glossary_page() -> str:
    lines = [
        f'.TH RMQCTL-GLOSSARY 7 "" "rmqctl {__version__}" "rmqctl manual"',
        '.\\" Written by rmqctl.manpages; change rmqctl/glossary.py instead.',
        ".SH NAME\nrmqctl-glossary \\- the words of RocketMQ's stores, and of rmqctl",
        ".SH DESCRIPTION",
        *(_entry(f"\\fB{roff(term)}\\fR", text) for term, text in TERMS.items()),
        ".SH SEE ALSO\n.BR rmqctl (1),\n.BR rmqstore (5)",
    ]
    return _join(lines)


def _panels() -> Iterator[str]:
    """Yield the commands by panel, as in --help."""
    for title, words in PANELS.items():
        yield f".SS {title}"
        places = (place for word in words for place in COMMANDS if place.path.split()[0] == word)
        yield from (_entry(f"\\fB{roff(_page_name(place.path))}\\fR(1)", place.summary) for place in places)


def _command_page(place: CommandPlace, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join(_argument(p) for p in arguments)
    name = f"\\fB{roff(place.path)}\\fR"
    lines = [
        *_head(_page_name(place.path), place.summary),
        f".SH SYNOPSIS\n.B rmqctl\n[\\fIGLOBAL OPTIONS\\fR] {name} [\\fIOPTIONS\\fR] {usage}",
        ".SH DESCRIPTION",
        *_paragraphs(command.help),
        *_arguments(command, arguments),
        ".SH OPTIONS",
        "The global options of rmqctl(1) are taken here as well.",
        *_options(command),
        *_exit_codes(place.exit_codes()),
        *_sections(place.sections()),
        *_files(FILES if (files := place.files()) is None else files),
        *_examples(command),
    ]
    return _join([*lines, *_see_also(place, terms_in(" ".join(lines)))])


def _sections(sections: Mapping[str, Callable[[], Iterable[tuple[str, str]]]]) -> Iterator[str]:
    """Yield a command's own sections.

    sections  by title a function that returns terms with their texts
    """
    for title, entries in sections.items():
        yield f".SH {title}"
        yield from (_entry(f"\\fB{roff(term)}\\fR", text) for term, text in entries())


def _page_name(path: str) -> str:
    return f"rmqctl-{path.replace(' ', '-')}"


def _see_also(place: CommandPlace, terms: Sequence[str]) -> list[str]:
    others = place.see_also()
    pages = ["rmqctl (1)", *(f"{roff(_page_name(other))} (1)" for other in sorted(others)), "rmqstore (5)"]
    lines = [".SH SEE ALSO", ",\n".join(f".BR {page}" for page in pages)]
    explained = f".PP\n.BR rmqctl-glossary (7)\nexplains: {roff(', '.join(terms))}."
    return [*lines, explained] if terms else lines


FILES = ("commitlog", "consumequeue", "index", "checkpoint", "config", "abort", "lock", ".rmqctl")
"""The files of a command without a list of its own."""
_FILE_TEXTS = {
    "commitlog": "The messages of all topics, in segments.",
    "consumequeue": "For each topic and queue the log offsets of its messages.",
    "consumequeue_ext": "Bit maps of SQL filters, and store times, if enableConsumeQueueExt is set.",
    "index": "For the hash of each key the log offsets of its messages.",
    "rocksdbstore": "Index, timers and half messages of 5.4 and later, each if a setting puts it there.",
    "checkpoint": "Times up to which the files can be trusted.",
    "abort": "There while a broker runs, or after a crash.",
    "lock": "Its first byte is locked by a running broker; changing commands lock it too.",
    "config": "The broker's tables: topics, subscription groups, consumer offsets.",
    ".rmqctl": "Quarantine and staging of changing commands; reading commands leave it alone.",
}
ENVIRONMENT = {
    "RMQCTL_STORE": "The store's root folder, if --store is not given.",
    "NO_COLOR": "If set to anything, --color auto means never; TERM=dumb does the same.",
    "RMQCTL_FORMAT, RMQCTL_SET, ...": "The default of a global option, by its name. rmqctl.toml in $XDG_CONFIG_HOME "
    "(else ~/.config) may hold defaults too; a variable overrides it.",
    "COLUMNS": "Width of tables, if the terminal does not report its own.",
    "RMQCTL_SPARK_CACHE": "Folder for an archive of classes that makes Spark start faster (150 MB); empty for none.",
    "TMPDIR": "Where reading commands build missing files, without --scratch.",
}


def _files(names: Sequence[str]) -> list[str]:
    if not names:
        return [".SH FILES", "None."]
    return [".SH FILES", *(_entry(_italic(f"STORE/{name}"), _FILE_TEXTS[name]) for name in names)]


def _head(name: str, text: str) -> list[str]:
    return [
        f'.TH {name.upper()} 1 "" "rmqctl {__version__}" "rmqctl manual"',
        ".\\\" Written by rmqctl.manpages; change the command's help instead.",
        f".SH NAME\n{roff(name)} \\- {roff(_lower_first(text.splitlines()[0].rstrip('.')))}",
    ]


def _options(command: Any) -> list[str]:
    context = _context(command)
    lines = []
    for parameter in command.params:
        record = parameter.get_help_record(context) if parameter.param_type_name != "argument" else None
        if record is not None:
            lines.append(_entry(f"\\fB{roff(record[0])}\\fR", record[1]))
    return [*lines, _entry("\\fB\\-h, \\-\\-help\\fR", "Show the help and exit.")]


def _arguments(command: Any, arguments: Sequence[Any]) -> list[str]:
    context = _context(command)
    # The synopsis shows the required ones.
    texts = (one.get_help_record(context)[1].removesuffix("[required]") for one in arguments)
    entries = [_entry(_argument(one), text) for one, text in zip(arguments, texts, strict=True)]
    return [".SH ARGUMENTS", *entries] if entries else []


def _argument(parameter: Any) -> str:
    metavar = parameter.metavar or parameter.name.upper()
    return _italic(metavar) if parameter.required else f"[{_italic(metavar.removeprefix('[').removesuffix(']'))}]"


def _examples(command: Any) -> list[str]:
    lines = [line.strip() for line in (command.epilog or "").splitlines() if line.startswith("  ")]
    return [".SH EXAMPLES", *(f".PP\n.nf\n.RS 4\n{roff(line)}\n.RE\n.fi" for line in lines)] if lines else []


TIMES = """
Epoch milliseconds, ISO 8601 (2026-11-21T04:00:00Z; local time without a zone), or relative to now: -15m, -2h, -3d.
In JSON times are epoch milliseconds, and their names end in _ms.
"""
FORMATS = """
json is one document with a schema name. jsonl and csv hold the rows of the command's main list; for info they hold one
row of everything. For an empty list jsonl has no line, and csv only its heading. 64-bit numbers are JSON numbers.
table and plain shorten long texts and escape control characters.
"""


def _exit_codes(special: Mapping[int, str]) -> list[str]:
    """Return all exit codes.

    special  the meaning of some codes for the command at hand
    """
    codes = re.findall(r"^(\d+) +(.*)$", exit_codes.__doc__ or "", re.MULTILINE)
    texts = {int(code): f"{text[:1].upper()}{text[1:]}." for code, text in codes} | dict(special)
    return [".SH EXIT STATUS", *(_entry(f"\\fB{code}\\fR", text) for code, text in texts.items())]


def _paragraphs(text: str) -> list[str]:
    blocks = re.split(r"\n\s*\n", text.strip())
    return [
        roff(" ".join(block.split())) if not n else f".PP\n{roff(' '.join(block.split()))}"
        for n, block in enumerate(blocks)
    ]


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def _entry(term: str, text: str) -> str:
    return f".TP\n{term}\n{roff(' '.join(text.split()))}"


def _italic(text: str) -> str:
    return f"\\fI{roff(text)}\\fR"


def _context(command: Any) -> Any:
    return command.context_class(command, info_name="rmqctl")


def _join(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for page in write_pages(Path(sys.argv[1] if len(sys.argv) > 1 else "man")):
        print(page)
