"""Changes of a module's source, one at a time, that a test should see: what `python -m tests.mutants --random` tries.

Left out is what no test can see: annotations, assertions, decorators, protocols, stubs that another function replaces,
the arguments of UNSEEN, sizes of a drawing, pauses, time that has passed (no test is timed), and how much is done at
once (TUNING, and what is compared with it), which changes speed and memory alone. So is what a module does as a
program: processes that a test starts run the code as it is. What is fetched ahead changes speed alone. A -1 that
stands for none becomes 0 alone, as -2 stands for none too.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from pathlib import Path
from types import CodeType
from typing import NamedTuple

FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
UNITS = (60, 1000, 3600, 1024, 1_000_000, 1_000_000_000)
UNSEEN = ("strict", "slots", "frozen", "repr", "stacklevel", "daemon", "maxsize", "reserved", "total")
DRAWN = (
    "height",
    "margin",
    "spacing",
    "x_label_rotation",
    "label_font_size",
    "major_label_font_size",
    "value_font_size",
)
STUBS = ("overload", "abstractmethod")
AHEAD = "prefetch"
CLOCKS = ("monotonic", "perf_counter", "perf_counter_ns")
TOLD = tomllib.loads(Path(__file__).parents[1].joinpath("mutants.toml").read_text(encoding="utf-8"))
TUNING = frozenset(TOLD["tuning"])


class Place(NamedTuple):
    """A statement's lines, without its body; whether it runs at import; what names within it begin with."""

    first: int
    last: int
    at_import: bool
    prefix: str

    @property
    def function(self) -> str:
        """The qualified name of the function or class, empty for the module."""
        return self.prefix.removesuffix(".").removesuffix(".<locals>")

    def inside(self, node: ast.AST, field: str) -> Place:
        """Return the place of a field's value in the node."""
        match node:
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) if field == "body":
                return self._replace(at_import=False, prefix=f"{self.prefix}{name}.<locals>.")
            case ast.ClassDef(name) if field == "body":
                return self._replace(prefix=f"{self.prefix}{name}.")
        return self


class Mutant(NamedTuple):
    """The number of a change within its module, its line, and the statement around it."""

    file: str
    number: int
    line: int
    place: Place
    change: str

    @property
    def function(self) -> str:
        """The name of the function around it, with that of the file."""
        return f"{self.file}::{self.place.function}"

    @property
    def lines(self) -> int:
        """The statement's lines as bits."""
        return (2 << self.place.last) - (1 << self.place.first)


class _Change(NamedTuple):
    line: int
    place: Place
    shown: str
    put: Callable[[], None]


MODULE = Place(0, 0, True, "")


def mutants_of(file: str, source: str) -> Iterator[Mutant]:
    """Yield every mutant of a module."""
    for number, change in enumerate(_changes(ast.parse(source), MODULE)):
        yield Mutant(file, number, change.line, change.place, change.shown)


def code_of(mutant: Mutant, source: str, path: str) -> CodeType:
    """Compile the module with the mutant's change."""
    tree = ast.parse(source)
    next(islice(_changes(tree, MODULE), mutant.number, None)).put()
    return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


def _changes(node: ast.AST, around: Place) -> Iterator[_Change]:
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "format_spec", "type_params"):
            continue
        place = around.inside(node, field)
        if isinstance(value, ast.AST):
            yield from _changes_at(value, place, lambda new, field=field: setattr(node, field, new), node)
        elif isinstance(value, list):
            yield from _swaps(value, place)
            for at, item in enumerate(value):
                if isinstance(item, ast.AST):
                    put = lambda new, at=at, items=value: items.__setitem__(at, new)  # noqa: E731
                    yield from _changes_at(item, place, put, node)


def _changes_at(node: ast.AST, around: Place, put: Callable[[ast.AST], None], parent: ast.AST) -> Iterator[_Change]:
    if _is_unseen(node):
        return
    place = _place_of(node, around)
    for new in _alternatives(node, parent):
        old_text, new_text = (ast.unparse(each).splitlines()[0] for each in (node, new))
        yield _Change(node.lineno, place, f"{old_text} -> {new_text}", lambda new=new: put(new))
    if not _stands_for_none(node, parent):
        yield from _changes(node, place)


def _stands_for_none(node: ast.AST, parent: ast.AST) -> bool:
    """Return whether a node is a -1 that no place is counted from and nothing compared with."""
    match node:
        case ast.UnaryOp(ast.USub(), ast.Constant(1)):
            return not isinstance(parent, ast.Subscript | ast.Slice | ast.Compare | ast.BinOp)
    return False


def _place_of(node: ast.AST, around: Place) -> Place:
    match node:
        case ast.stmt(body=[ast.stmt() as first, *_]) | ast.excepthandler(body=[ast.stmt() as first, *_]):
            return around._replace(first=node.lineno, last=max(node.lineno, first.lineno - 1))
        case ast.stmt():
            return around._replace(first=node.lineno, last=node.end_lineno)
        case ast.match_case(pattern, guard):
            return around._replace(first=pattern.lineno, last=(guard or pattern).end_lineno)
    return around


def _is_unseen(node: ast.AST) -> bool:
    if isinstance(node, ast.ClassDef):
        return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases)
    if isinstance(node, ast.Assign):
        target = node.targets[0]
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        return all(isinstance(name, ast.Name) and name.id in TUNING for name in names)
    if isinstance(node, ast.FunctionDef):
        return node.name.startswith(AHEAD) or any(ast.unparse(one) in STUBS for one in node.decorator_list)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name):
        return node.value.func.id.startswith(AHEAD)
    if isinstance(node, ast.If):
        return ast.unparse(node.test) in ("TYPE_CHECKING", "__name__ == '__main__'")
    return isinstance(node, ast.Assert) or (isinstance(node, ast.keyword) and node.arg in (*UNSEEN, *DRAWN))


def _is_with_tuning(node: ast.AST) -> bool:
    """Return whether a comparison is with a constant of TUNING: when more is done, not what."""
    match node:
        case ast.Compare(left, _, others):
            return any(isinstance(one, ast.Name) and one.id in TUNING for one in (left, *others))
    return False


def _alternatives(node: ast.AST, parent: ast.AST) -> Iterator[ast.AST]:
    if _is_with_tuning(node):
        return
    match node:
        case ast.Compare(left, operators, right):
            for at, operator in enumerate(operators):
                flipped = [*operators[:at], FLIPPED[type(operator)](), *operators[at + 1 :]]
                yield ast.copy_location(ast.Compare(left, flipped, right), node)
        case ast.Constant(bool(value)):
            yield ast.copy_location(ast.Constant(not value), node)
        case ast.UnaryOp(ast.USub()) if _stands_for_none(node, parent):
            yield ast.copy_location(ast.Constant(0), node)
        case ast.Constant(int(value)):
            steps = {1, -1} - set(_steps_told(node, parent))
            yield from (ast.copy_location(ast.Constant(value + step), node) for step in sorted(steps, reverse=True))
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.BoolOp(operator, values):
            other = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield ast.copy_location(ast.BoolOp(other, values), node)
        case ast.BinOp(ast.Call(ast.Attribute(attr=name)), ast.Sub()) if name in CLOCKS:
            return
        case ast.BinOp(left, ast.Add() | ast.Sub() as operator, right) if not _is_text(left) and not _is_text(right):
            other_sign = ast.Sub() if isinstance(operator, ast.Add) else ast.Add()
            yield ast.copy_location(ast.BinOp(left, other_sign, right), node)
        case ast.BinOp(left, ast.Mult() | ast.Div() | ast.FloorDiv(), right) if _is_unit(right):
            yield left
        case ast.Call(ast.Name("min" | "max" as name), arguments, keywords):
            other_name = ast.Name("max" if name == "min" else "min", ast.Load())
            yield ast.copy_location(ast.Call(other_name, arguments, keywords), node)
        case ast.Call(ast.Name("sorted") | ast.Attribute(attr="sort")):
            yield ast.copy_location(_reversed(node), node)
        case ast.Call(ast.Name("reversed"), [argument]):
            yield ast.copy_location(ast.Call(ast.Name("iter", ast.Load()), [argument], []), node)
        case ast.Tuple([first, second, *others]) if isinstance(parent, ast.Lambda):
            yield ast.copy_location(ast.Tuple([second, first, *others], ast.Load()), node)
        case ast.Expr(ast.Call(ast.Attribute(attr="sleep"))):
            return
        case ast.Expr(ast.Call()):
            yield ast.copy_location(ast.Pass(), node)


def _steps_told(number: ast.Constant, parent: ast.AST) -> Iterator[int]:
    """Yield steps of a compared number that equal a change of the comparison: x > -1 is x >= 0."""
    if isinstance(parent, ast.Compare):
        for operator, (left, right) in zip(parent.ops, pairwise([parent.left, *parent.comparators]), strict=True):
            if number in (left, right) and isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE):
                step = 1 if isinstance(operator, ast.Lt | ast.GtE) else -1
                yield step if number is right else -step


def _swaps(nodes: list[ast.AST], place: Place) -> Iterator[_Change]:
    """Yield swaps of two adjacent statements that yield, or append to the same list."""
    for at, (first, second) in enumerate(pairwise(nodes)):
        if (rows := _rows_of(first)) and rows == _rows_of(second):
            shown = f"{ast.unparse(first)} -> after: {ast.unparse(second)}".replace("\n", " ")
            yield _Change(
                first.lineno,
                _place_of(first, place),
                shown,
                lambda at=at: nodes.__setitem__(slice(at, at + 2), [nodes[at + 1], nodes[at]]),
            )


def _rows_of(node: ast.AST) -> str:
    """Name the rows that a statement adds to: those that are yielded, or a list; empty for another statement."""
    match node:
        case ast.Expr(ast.Yield() | ast.YieldFrom()):
            return "yield"
        case ast.Expr(ast.Call(ast.Attribute(rows, "append" | "extend"))):
            return ast.unparse(rows)
    return ""


def _reversed(call: ast.Call) -> ast.Call:
    """Return the call of sort with the other order."""
    keywords = [each for each in call.keywords if each.arg != "reverse"]
    if len(keywords) == len(call.keywords):
        keywords = [*keywords, ast.keyword("reverse", ast.Constant(True))]
    return ast.Call(call.func, call.args, keywords)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _is_unit(node: ast.AST) -> bool:
    match node:
        case ast.Constant(int(value)):
            return value in UNITS
        case ast.Name(name):
            return name.isupper()
    return False
