"""Walking syntax trees, quickly: a large module has a hundred thousand nodes, and they are walked at each keystroke."""

from __future__ import annotations

import ast
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
SIMPLE: Final = frozenset((ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Assert))
"""Statements that hold expressions and no other statements: most of a function."""
Extent = tuple[int, int, int, int]
"""First line (1-based) and column (UTF-8 bytes, 0-based), last line and the column after the end."""

# Fields that hold no node, or one that says nothing: contexts and operators.
_SILENT: Final = frozenset({
    "arg", "asname", "attr", "conversion", "ctx", "id", "is_async", "kind", "level", "module", "n", "name", "op", "ops",
    "rest", "s", "simple", "type_comment", "type_ignores",
})  # fmt: skip
_SPEAKING: Final[dict[type[ast.AST], tuple[str, ...]]] = {}
if sys.version_info >= (3, 12):
    _SPEAKING[ast.TypeAlias] = ("name", "type_params", "value")


_DIRECT: Final[dict[type[ast.AST], Callable[[Any], list[ast.AST]]]] = {
    ast.Name: lambda _: [],
    ast.Constant: lambda _: [],
    ast.Attribute: lambda node: [node.value],
    ast.Call: lambda node: [node.func, *node.args, *node.keywords],
    ast.keyword: lambda node: [node.value],
    ast.Subscript: lambda node: [node.value, node.slice],
    ast.BinOp: lambda node: [node.left, node.right],
    ast.Compare: lambda node: [node.left, *node.comparators],
    ast.Tuple: lambda node: [*node.elts],
    ast.List: lambda node: [*node.elts],
    ast.UnaryOp: lambda node: [node.operand],
    ast.Assign: lambda node: [*node.targets, node.value],
    ast.Expr: lambda node: [node.value],
    ast.Return: lambda node: [] if node.value is None else [node.value],
    ast.If: lambda node: [node.test, *node.body, *node.orelse],
    ast.Pass: lambda _: [],
    ast.arg: lambda node: [] if node.annotation is None else [node.annotation],
}
"""The children of the most frequent nodes."""


def children(node: ast.AST) -> list[ast.AST]:
    """Return the child nodes in the order of their fields, but for contexts and operators."""
    kind = type(node)
    direct = _DIRECT.get(kind)
    if direct is not None:
        return direct(node)
    names = _SPEAKING.get(kind)
    if names is None:
        # The `name` of an `except` handler and of a pattern is a text.
        names = _SPEAKING[kind] = tuple(name for name in kind._fields if name not in _SILENT)
    found: list[ast.AST] = []
    for name in names:
        # Not vars(node): tools that explain tracebacks set attributes at nodes, and the parser shares some of them.
        value = getattr(node, name, None)
        if type(value) is list:
            found += value if name not in _MIXED else [item for item in value if isinstance(item, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


_LEAVES: Final = frozenset((ast.Constant, ast.Name))
"""Nodes without children. A table has a million of them."""


def branches(node: ast.AST) -> list[ast.AST]:
    """Return the child nodes, but for names and constants, contexts and operators."""
    found = children(node)
    return found if _LEAVES.isdisjoint(map(type, found)) else [item for item in found if type(item) not in _LEAVES]


def without_constants(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of trees as `ast.walk` does, but for constants and signed ones: a table has a million of them."""
    todo = deque(nodes)
    while todo:
        node = todo.popleft()
        yield node
        todo.extend(children_without_constants(node))


def children_without_constants(node: ast.AST) -> list[ast.AST]:
    """Return the child nodes, but for constants and signed ones, contexts and operators."""
    return [
        item
        for item in children(node)
        if (kind := type(item)) is not ast.Constant and not (kind is ast.UnaryOp and is_signed(item))
    ]


def is_signed(node: ast.AST) -> bool:
    """Return whether a node is a constant with an operator: a negative number."""
    return isinstance(node, ast.UnaryOp) and type(node.operand) is ast.Constant


def parameters(arguments: ast.arguments) -> list[ast.arg]:
    """Return every parameter, `*args` and `**kwargs` last."""
    extra = [arg for arg in (arguments.vararg, arguments.kwarg) if arg is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *extra]


def defaults(arguments: ast.arguments) -> list[ast.expr]:
    """Return the expressions of default values."""
    return [*arguments.defaults, *(default for default in arguments.kw_defaults if default is not None)]


def attribute_path(node: ast.expr) -> tuple[ast.expr, list[str]]:
    """Return the expression that attributes are taken from, and their names: `a` and b, c of `a.b.c`."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return node, names[::-1]


def last_name(node: ast.AST) -> str:
    """Return the last part of a name in dots; "" for other expressions."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def elif_of(node: ast.AST) -> ast.If | None:
    """Return the `if` that is all of the `else` of another one; thousands may follow each other."""
    other = node.orelse[0] if isinstance(node, ast.If) and len(node.orelse) == 1 else None
    return other if isinstance(other, ast.If) else None


def first_line(node: ast.AST) -> int:
    """Return the line that a statement begins on, decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    line: int = getattr(node, "lineno", 1)
    return min([line, *(item.lineno for item in decorators)]) if decorators else line


def lines_of(node: ast.stmt) -> tuple[int, int]:
    """Return the lines that a statement begins and ends on, without its decorators."""
    return node.lineno, node.end_lineno or node.lineno


def extent(node: ast.AST) -> Extent:
    """Return the lines and columns that a node covers."""
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    return line, column, getattr(node, "end_lineno", None) or line, getattr(node, "end_col_offset", None) or column


_MIXED: Final = frozenset({"names", "keys", "kw_defaults", "kwd_attrs"})
"""Lists that may hold something else than nodes: names of `global`, the missing keys of `**` in a dictionary."""


def numbers_in(nodes: Iterable[ast.AST | None]) -> list[int]:
    """Return the whole numbers that trees have as literals, each once, in order."""
    found = set()
    stack = [node for node in nodes if node is not None]
    while stack:
        node = stack.pop()
        if not isinstance(node, ast.Constant):
            stack += children(node)
        elif type(node.value) is int:
            found.add(node.value)
    return sorted(found)
