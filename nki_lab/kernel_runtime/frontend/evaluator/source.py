"""A module of the user's as the evaluator sees it: text, tree and scope. Nothing of it is executed."""

from __future__ import annotations

import ast
import io
import linecache
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any

from nki_lab.kernel_runtime.frontend.evaluator.scopes import Scope, inner_nodes, module_scope
from nki_lab.source import places


class ModuleSource:
    """A parsed module. `stars` are the modules that it imports everything from, relative ones with their dots."""

    __slots__ = ("_lines", "file", "name", "places", "scope", "source", "stars", "tree")

    def __init__(self, source: str, file: str, tree: ast.Module) -> None:
        self.source = source
        self._lines: list[str] | None = None
        self.file = file
        self.tree = tree
        self.places = places.Places(tree)
        self.name = PurePath(file).stem or "module"
        self.scope: Scope = module_scope(tree)
        self.stars = tuple(
            "." * node.level + (node.module or "")
            for node in inner_nodes(tree.body)
            if isinstance(node, ast.ImportFrom) and any(item.name == "*" for item in node.names)
        )

    @classmethod
    def parse(cls, source: str, file: str = "<source>") -> ModuleSource:
        """The module of a text; SyntaxError, ValueError or RecursionError as `ast.parse` raises them."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in the user's string is not ours to report
            return cls(source, file, ast.parse(source))

    @contextmanager
    def shown(self) -> Iterator[None]:
        """While this lasts, places in the module's file are read in this text, whatever the disk holds."""
        if self._lines is None:
            self._lines = list(io.StringIO(self.source, newline=None))
        entry: Any = (len(self.source), None, self._lines, self.file)
        with _showing, _set(linecache.cache, self.file, entry), _set(places.shown, self.file, self.places):
            yield

    def function(self, name: str) -> ast.FunctionDef | None:
        """The last function of that name at the module's top level, inside `if` and `try` too."""
        found = None
        stack: list[ast.stmt] = list(reversed(self.tree.body))
        while stack:
            node = stack.pop()
            if isinstance(node, ast.FunctionDef) and node.name == name:
                found = node
            for part in ("body", "orelse", "finalbody") if isinstance(node, ast.If | ast.Try | ast.With) else ():
                stack.extend(reversed(getattr(node, part, [])))
        return found


@contextmanager
def _set(table: dict[str, Any], key: str, value: Any) -> Iterator[None]:
    """While this lasts, `table` has `value` at `key`."""
    former = table.get(key)
    table[key] = value
    try:
        yield
    finally:
        if former is None:
            table.pop(key, None)
        else:
            table[key] = former


_showing = threading.RLock()
