"""Count how far the code has the shape that is wanted: one room for each structure, small modules, no flags.

python -m tests.support.shape [REVISION]    prints the counts, and those of a revision beside them
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.support.golden import unpack
from tests.support.tidy import MAY_NAME_ANY, MOST_MODULE_LINES, MOST_PARAMETERS, STRUCTURES, Module, many_parameters

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("store", "rmqctl")
GONE = r"\b(with_dledger|with_rocksdb|only_looks|concerns_\w+|refuse_rocksdb|refuse_dledger)\b"


def counts(root: Path) -> dict[str, int]:
    """Count a tree with store/ and rmqctl/ in it."""
    texts = {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in _modules(root)}
    lengths = [text.count("\n") for text in texts.values()]
    kinds = sum((_kinds(text) for text in texts.values()), Counter[str]())
    found = {
        "lines of Python": sum(lengths),
        **{f"of them {kind}": kinds[kind] for kind in ("statements", "imports", "docstrings and comments", "blank")},
        f"modules above {MOST_MODULE_LINES} lines": sum(lines > MOST_MODULE_LINES for lines in lengths),
        f"functions with more than {MOST_PARAMETERS} parameters": sum(_wide(*one) for one in texts.items()),
        "rooms on the first floor": len({name.split("/")[1] for name in texts if name.startswith("store/")
                                         and name.count("/") > 1}),
        "flags for one structure": sum(len(re.findall(GONE, text)) for text in texts.values()),
    }  # fmt: skip
    for name, one in STRUCTURES.items():
        naming = [file for file, text in texts.items() if one.words.search(text)]
        found[f"{name}: modules that name it"] = len(naming)
        found[f"{name}: of them outside of its room"] = sum(not _may_name(file, one.rooms) for file in naming)
    return found


def _modules(root: Path) -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((root / package).rglob("*.py"))


def _kinds(text: str) -> Counter[str]:
    """Count the lines of a module by kind; a docstring's blank lines are its own."""
    lines = text.splitlines()
    kinds = ["blank" if not line.strip() else "statements" for line in lines]
    for at, line in enumerate(lines):
        if line.lstrip().startswith("#"):
            kinds[at] = "docstrings and comments"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            kind = "imports"
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            kind = "docstrings and comments"
        else:
            continue
        kinds[node.lineno - 1 : node.end_lineno] = [kind] * ((node.end_lineno or node.lineno) - node.lineno + 1)
    return Counter(kinds)


def _may_name(file: str, rooms: tuple[str, ...]) -> bool:
    """Whether it is the structure's room, under the name of an older tree too, or may name every structure."""
    older = file.replace("store/five/rocksdb/", "store/five/queuedb/").replace("store/five/", "store/structures/")
    return older.startswith((*MAY_NAME_ANY, *rooms))


def _wide(file: str, text: str) -> int:
    """Count the functions with too many parameters, but for those of commands, kernels and option lists."""
    return sum(1 for _ in many_parameters(Module(file, text, ast.parse(text))))


def _at(revision: str) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, "tree.tar")
        command = ["git", "-C", str(ROOT), "archive", "-o", str(archive), revision, *PACKAGES]
        subprocess.run(command, check=True)
        unpack(archive, Path(folder))
        return counts(Path(folder))


def main(revisions: list[str]) -> None:
    """Print the counts of the tree, and those of the revisions before them."""
    columns = [*(_at(revision) for revision in revisions), counts(ROOT)]
    sys.stdout.write(f"{'':60}{''.join(f'{name[:10]:>12}' for name in [*revisions, 'now'])}\n")
    for name in columns[0]:
        sys.stdout.write(f"{name:60}{''.join(f'{column[name]:>12,}' for column in columns)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
