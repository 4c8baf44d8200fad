"""The house rules of the code that a machine can check: each rule yields its offences in a module.

python -m tests.support.tidy             lists the offences that tests/tidy_offences.toml does not allow
python -m tests.support.tidy --shrink    lowers the numbers in it to what is left; it never raises one
python -m tests.support.tidy --structures  lists the modules that name a structure outside of its room
python -m tests.support.tidy --picture   draws the imports of the rooms into README.md
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Callable, Collection, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
ALLOWED = ROOT / "tests" / "tidy_offences.toml"
README = ROOT / "README.md"
MERMAID = re.compile(r"```mermaid\n.*?```", re.DOTALL)
PACKAGES = ("store", "rmqctl")
MOST_LINES = 50
MOST_FIRST_LINE = 100
MOST_WORDS = 25
MOST_LOOSE_MODULES = 8
MOST_STRANGERS = 10
STRANGERS = "The modules that name a structure outside of its room, each with its reason; at most ten."
MOST_MODULE_LINES = 400
MOST_PARAMETERS = 8
MAY_TAKE_MORE = ("rmqctl/commands/", "rmqctl/options.py", "store/kernels/")
OPTION_LISTS = {
    "store/engine/open.py": "open_store",
    "store/opened/staged.py": "staged_store",
    "store/reading/stores.py": "messages",
    "store/verbs/salvage/salvage.py": "salvage",
}
"""The library's functions whose keywords are options, as a command's are; each has its line in the docstring."""

NOT_IMPERATIVE = re.compile(
    r"(the|an?|each|every|all|both|one|some|any|another|whether|how|why|where|which|what|who|when|its|their|this|that|"
    r"these|those|as|for|from|in|of|per|up|behind|after|until|steps?|[a-z]*[^\W_s]s|\w+error)\b",
    re.IGNORECASE,
)
"""First words of a docstring that is no order: an article, a preposition, `reads`, a plural, an error."""
CLAUSE = re.compile(r"\b(what|which|whoever|whatever)\b", re.IGNORECASE)
PICTURE = re.compile(
    r"\b(lies|stands|told|walks up to|gone|somebody|nobody|anybody|its life|neighbours?|strangers?|anew|lent buffer|"
    r"lets? go|hands? over|handed over|one behind (?:another|the other)|at or behind|take[ns]? for|poison)\b"
)
CLAUSE_END = re.compile(r"(?<=[.;:!?])\s+")
DRAWN = re.compile(r"^\s{2,}\S|\S {2,}\S|^\s*(\d+\.|[-*>|])\s", re.MULTILINE)
"""A paragraph that is a table, a list or a drawing."""
STEP = re.compile(r"\bsteps? (\d+)")
NUMBERED = re.compile(r"^\s*(\d+)\. ", re.MULTILINE)


class Named(NamedTuple):
    """The words that name a structure, and the paths of its room."""

    words: re.Pattern[str]
    rooms: tuple[str, ...]

    @classmethod
    def of(cls, words: str, *rooms: str) -> Named:
        """The words in any case, the rooms below store/structures."""
        return cls(re.compile(words, re.IGNORECASE), tuple(f"store/structures/{room}" for room in rooms))


STRUCTURES = {
    # Rows of state are made of small files of several structures.
    # The message database and the store of pop consumers are RocksDBs too, and tables may be in one.
    "queue database": Named.of("rocksdb|queuedb", "queuedb/", "messagedb/", "timer/timeline", "tables/", "pop/"),
    "message database": Named.of("messagedb|rocksdbstore", "messagedb/", "timer/timeline"),
    "dledger": Named.of("dledger|dleger", "dledger/", "state/"),
    "batch queue": Named.of("batch_?(consume_?)?queue|batch_?cq|batch_topic", "batchqueue/"),
    "timer": Named.of(r"timer_?(wheel|log|check|metrics)|structures\.timer", "timer/"),
    "compaction": Named.of("(?<!db)compaction(?!_style)", "compaction/", "state/"),
    "light queue": Named.of(
        "lmq|light_?(queue|put|poison)",
        "lightqueue/",
        "consumequeue/multi_",
        "consumequeue/dispatch_",
        "commitlog/multi_",
    ),
    # Times since the epoch are another thing.
    "epochs": Named.of(r"epoch_?file|epochs\b|brokeridentity", "epochs/", "state/"),
    "tiered storage": Named.of("tiered", "tiered/", "state/"),
}
MAY_NAME_ANY = (
    "store/config.py",
    "store/layout.py",
    "store/formats/",
    "store/files/rocksdb_",
    "store/structures/registry.py",
    "rmqctl/commands/",
    "rmqctl/advice.py",
    "rmqctl/documents/",
    "rmqctl/glossary.py",
    "rmqctl/hints.py",
    "rmqctl/manpages.py",
    "rmqctl/store_manpage.py",
)
"""The tables of settings and of file names, pages of bytes, the registry, and the command line's words."""


class Offence(NamedTuple):
    """One place that a rule does not allow."""

    file: str
    line: int
    text: str


class Module(NamedTuple):
    """A source file: its name below the repository, text and syntax tree."""

    file: str
    text: str
    tree: ast.Module


def texts() -> Iterator[tuple[str, str]]:
    """Yield the name and text of every module of the packages, by name."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def modules() -> Iterator[Module]:
    """Yield every module of the packages, by name."""
    for file, text in texts():
        yield Module(file, text, ast.parse(text))


def first_lines(module: Module) -> Iterator[Offence]:
    """Yield first lines of docstrings of 100 characters or more, or with "what", "which" or "whoever"."""
    for node in _documented(module.tree):
        first = (ast.get_docstring(node) or "").split("\n")[0]
        if len(first) >= MOST_FIRST_LINE or CLAUSE.search(first):
            yield Offence(module.file, node.body[0].lineno, first)


def moods(module: Module) -> Iterator[Offence]:
    """Yield docstrings of functions without an imperative verb first; properties have a noun."""
    for node in _documented(module.tree):
        first = (ast.get_docstring(node) or "").split("\n")[0]
        is_order = first[:1].isupper() and not NOT_IMPERATIVE.match(first)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_order and not _is_property(node):
            yield Offence(module.file, node.body[0].lineno, first)


def pictures(module: Module) -> Iterator[Offence]:
    """Yield docstrings and comments with a picture in place of the field's word."""
    for node in _documented(module.tree):
        for found in PICTURE.finditer(ast.get_docstring(node) or ""):
            yield Offence(module.file, node.body[0].lineno, found.group())
    # To split a module into tokens takes as long as all other rules.
    if not any("#" in line and PICTURE.search(line) for line in module.text.splitlines()):
        return
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type == tokenize.COMMENT:
            for found in PICTURE.finditer(token.string):
                yield Offence(module.file, token.start[0], found.group())


def long_sentences(module: Module) -> Iterator[Offence]:
    """Yield docstrings with more than 25 words up to a full stop, colon or semicolon; not in tables and lists."""
    for node in _documented(module.tree):
        for paragraph in re.split(r"\n\s*\n", ast.get_docstring(node) or ""):
            for clause in CLAUSE_END.split(paragraph) if not DRAWN.search(paragraph) else ():
                if len(clause.split()) > MOST_WORDS:
                    yield Offence(module.file, node.body[0].lineno, " ".join(clause.split()))


def steps(module: Module) -> Iterator[Offence]:
    """Yield references to a step that is not in the module's docstring."""
    known = {int(number) for number in NUMBERED.findall(ast.get_docstring(module.tree) or "")}
    for node in _documented(module.tree):
        text = ast.get_docstring(node) or ""
        own = known | {int(number) for number in NUMBERED.findall(text)}
        for found in STEP.finditer(text):
            if int(found.group(1)) not in own:
                yield Offence(module.file, node.body[0].lineno, found.group())


def long_functions(module: Module) -> Iterator[Offence]:
    """Yield functions of more than 50 lines without the docstring, which has a line for each option."""
    for node in _nodes(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if ast.get_docstring(node) is not None:
                length -= (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
            if length > MOST_LINES:
                yield Offence(module.file, node.lineno, f"{node.name} has {length} lines")


def any_in_signatures(module: Module) -> Iterator[Offence]:
    """Yield public functions and methods with `Any` in the signature."""
    for node in _public_functions(module.tree.body):
        annotations = [a.annotation for a in ast.walk(node.args) if isinstance(a, ast.arg)] + [node.returns]
        named = (n for annotation in annotations if annotation is not None for n in ast.walk(annotation))
        if any(isinstance(name, ast.Name) and name.id == "Any" for name in named):
            yield Offence(module.file, node.lineno, node.name)


def long_modules(module: Module) -> Iterator[Offence]:
    """Yield a module of more than 400 lines."""
    length = len(module.text.splitlines())
    if length > MOST_MODULE_LINES:
        yield Offence(module.file, length, f"the module has {length} lines")


def many_parameters(module: Module) -> Iterator[Offence]:
    """Yield functions of more than eight parameters, without self; not commands, option lists and kernels."""
    if module.file.startswith(MAY_TAKE_MORE):
        return
    for node in _nodes(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            every = (*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg)
            names = [one.arg for one in every if one]
            count = len(names) - (names[:1] in (["self"], ["cls"]))
            if count > MOST_PARAMETERS and OPTION_LISTS.get(module.file) != node.name:
                yield Offence(module.file, node.lineno, f"{node.name} takes {count} parameters")


def circles(module: Module) -> Iterator[Offence]:
    """Yield a module that imports itself through others, at its top or in a function."""
    graph, name = module_imports(), _dotted(module.file)
    for other in sorted(graph[name]):
        if _reaches(graph, graph[other], name):
            yield Offence(module.file, 1, f"imports {other}, which leads back to it")


RULES: dict[str, Callable[[Module], Iterator[Offence]]] = {
    "first-lines": first_lines,
    "moods": moods,
    "pictures": pictures,
    "long-sentences": long_sentences,
    "steps": steps,
    "long-functions": long_functions,
    "any-in-signatures": any_in_signatures,
    "long-modules": long_modules,
    "many-parameters": many_parameters,
    "circles": circles,
}


def offences(rule: str) -> dict[str, list[Offence]]:
    """Return all offences of a rule, by file."""
    return all_offences()[rule]


@cache
def all_offences() -> dict[str, dict[str, list[Offence]]]:
    """Return the offences by rule and file; every module is parsed once."""
    found: dict[str, dict[str, list[Offence]]] = {name: {} for name in RULES}
    for module in modules():
        for name, rule in RULES.items():
            for offence in rule(module):
                found[name].setdefault(module.file, []).append(offence)
    return found


def allowed(rule: str) -> dict[str, int]:
    """Return the allowed number of offences of a rule, by file."""
    return dict(tomllib.loads(ALLOWED.read_text(encoding="utf-8")).get(rule, {}))


def too_many(rule: str) -> list[str]:
    """Return the offences of files with more than allowed."""
    limits = allowed(rule)
    return [
        f"{offence.file}:{offence.line}: {offence.text}"
        for file, found in offences(rule).items()
        if len(found) > limits.get(file, 0)
        for offence in found
    ]


def strangers() -> list[str]:
    """Return the modules that name a structure outside of its room, each after the structure's name."""
    return sorted(
        f"{name}: {file}"
        for file, text in texts()
        for name, one in STRUCTURES.items()
        if not file.startswith((*MAY_NAME_ANY, *one.rooms)) and one.words.search(text)
    )


def listed_strangers() -> dict[str, str]:
    """Return the reasons of the allowed ones, by the names of `strangers`."""
    return dict(tomllib.loads(ALLOWED.read_text(encoding="utf-8")).get("structures", {}))


@cache
def module_imports() -> dict[str, set[str]]:
    """Return the imported modules of each module of the packages."""
    imports = {_dotted(file): found for file, found in all_imports().items()}
    return {
        name: {_known(one, imports) for one in _names_imported(found)} & imports.keys() - {name}
        for name, found in imports.items()
    }


@cache
def all_imports() -> dict[str, list[ast.ImportFrom]]:
    """Return the imports of each file of the packages, but those for types alone."""
    return {module.file: list(_imports(module.tree)) for module in modules()}


def room_imports() -> set[tuple[str, str]]:
    """Return the imports between rooms of store/, without those that follow from others (a -> b -> c)."""
    edges: dict[str, set[str]] = {}
    for file, imports in all_imports().items():
        room = _room_of(file.removesuffix(".py").split("/"))
        if room:
            edges.setdefault(room, set()).update(_rooms_of(imports) - {room, ""})
    return {(a, b) for a, below in edges.items() for b in below if not _reaches(edges, below - {b}, b)}


def picture() -> str:
    """Return the imports of the rooms as a Mermaid graph."""
    arrows = "".join(f"    {a} --> {b}\n" for a, b in sorted(room_imports()))
    return f"```mermaid\ngraph TD\n{arrows}```"


def _dotted(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _known(name: str, trees: Collection[str]) -> str:
    """Return the module of an imported name: the name itself, or the module that defines it."""
    return name if name in trees else name.rpartition(".")[0]


def _names_imported(imports: Collection[ast.ImportFrom]) -> Iterator[str]:
    for node in imports:
        yield from (f"{node.module}.{name.name}" for name in node.names)


def _imports(tree: ast.Module) -> Iterator[ast.ImportFrom]:
    for_types = {id(n) for node in _nodes(tree) if _is_for_types(node) for n in ast.walk(node)}
    return (n for n in _nodes(tree) if isinstance(n, ast.ImportFrom) and n.module and id(n) not in for_types)


def _rooms_of(imports: Collection[ast.ImportFrom]) -> set[str]:
    return {_room_of((node.module or "").split(".")) for node in imports}


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _room_of(path: list[str]) -> str:
    """Return the room of a module, given in parts of its path or dotted name; empty for a loose module."""
    return path[1] if path[0] == "store" and len(path) > 2 else ""


def _reaches(edges: dict[str, set[str]], starts: set[str], target: str) -> bool:
    seen, todo = set(starts), list(starts)
    while todo:
        for room in edges.get(todo.pop(), set()) - seen:
            seen.add(room)
            todo.append(room)
    return target in seen


@lru_cache(maxsize=1)
def _nodes(tree: ast.Module) -> list[ast.AST]:
    """Return every node of a module, found once for all rules."""
    return list(ast.walk(tree))


def _documented(tree: ast.Module) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in _nodes(tree):
        is_documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if is_documented and ast.get_docstring(node):
            yield node


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(one) for one in node.decorator_list)


def _public_functions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield node
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _public_functions(node.body)


def _shrunk(first: bool) -> str:
    """Return the list with every number lowered to the offences that are left."""
    lines = ["# Offences that are left, by rule and file. The numbers only fall: python -m tests.support.tidy --shrink"]
    for rule in RULES:
        limits = {} if first else allowed(rule)
        found = {file: len(of_file) for file, of_file in sorted(offences(rule).items())}
        counts = {file: count if first else min(count, limits.get(file, 0)) for file, count in found.items()}
        lines += ["", f"[{rule}]", *(f'"{file}" = {count}' for file, count in counts.items() if count)]
    reasons = listed_strangers()
    kept = (f'"{one}" = "{reasons.get(one, "")}"' for one in strangers())
    lines += ["", f"# {STRANGERS}", "[structures]", *kept]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if "--shrink" in sys.argv:
        ALLOWED.write_text(_shrunk(first=not ALLOWED.exists()), encoding="utf-8")
    if "--picture" in sys.argv:
        README.write_text(
            MERMAID.sub(lambda _: picture(), README.read_text(encoding="utf-8"), count=1), encoding="utf-8"
        )
    if "--structures" in sys.argv:
        sys.stdout.writelines(f"{one}\n" for one in strangers())
    for name in RULES:
        sys.stdout.writelines(f"{name}: {line}\n" for line in too_many(name))
