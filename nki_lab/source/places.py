"""The calls and headers of a source file by their places, and the arguments of a call by parameter."""

from __future__ import annotations

import ast
import linecache
from functools import cached_property, lru_cache
from typing import Final

from nki_lab.source.trees import children


def argument_of(call: ast.Call, name: str, parameters: tuple[str, ...]) -> ast.expr | None:
    """The expression passed for a parameter, by keyword or by position; `src2` is the third entry of a list `srcs`."""
    group = f"{name.rstrip('0123456789')}s"
    if name not in parameters and group in parameters:
        found = argument_of(call, group, parameters)
        place = int(name[len(group) - 1 :] or 0)
        if isinstance(found, ast.List | ast.Tuple) and place < len(found.elts):
            return found.elts[place]
        return found
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if name in parameters:
        position = parameters.index(name)
        if position < len(call.args) and not any(isinstance(item, ast.Starred) for item in call.args):
            return call.args[position]
    return None


_Stretch = tuple[int, int, int, int]


class Places:
    """Where the calls and headers of a tree stand; looked for when first asked for."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree

    @cached_property
    def _found(self) -> tuple[dict[_Stretch, ast.Call], dict[int, ast.Call], dict[_Stretch, ast.expr]]:
        calls: dict[_Stretch, ast.Call] = {}
        first: dict[int, ast.Call] = {}
        headers: dict[_Stretch, ast.expr] = {}
        stack: list[ast.AST] = [self.tree]
        while stack:
            node = stack.pop()
            if isinstance(node, ast.Call):
                calls.setdefault(_stretch(node), node)
                first.setdefault(node.lineno, node)
            elif isinstance(node, _HEADED):
                headers.setdefault(_stretch(node), _header(node))
            stack.extend(reversed(children(node)))
        return calls, first, headers

    @property
    def calls(self) -> dict[_Stretch, ast.Call]:
        """The outermost call that covers exactly a stretch."""
        return self._found[0]

    @property
    def first(self) -> dict[int, ast.Call]:
        """The first call that begins on a line."""
        return self._found[1]

    @property
    def headers(self) -> dict[_Stretch, ast.expr]:
        """What the statement that covers exactly a stretch tests, walks or enters."""
        return self._found[2]


_HEADED: Final = (ast.If, ast.While, ast.For, ast.With)


def _stretch(node: ast.expr | ast.stmt) -> _Stretch:
    return node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0


def _header(node: ast.If | ast.While | ast.For | ast.With) -> ast.expr:
    if isinstance(node, ast.With):
        return node.items[0].context_expr
    return node.iter if isinstance(node, ast.For) else node.test


shown: Final[dict[str, Places]] = {}
"""The trees of files that are evaluated at the moment. Their text need not parse: a line may be half typed."""


def tree_of(file: str) -> ast.Module | None:
    """The tree of a source file, where its text is at hand and parses."""
    places = places_of(file)
    return None if places is None else places.tree


def places_of(file: str) -> Places | None:
    """The places of a source file, where its text is at hand and parses."""
    return shown.get(file) or _parsed("".join(linecache.getlines(file)))


@lru_cache(maxsize=32)
def _parsed(source: str) -> Places | None:
    try:
        return Places(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
