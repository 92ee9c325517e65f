"""A module's text and tree, parsed once for the checker, the evaluator and the tracer. Nothing of it is executed."""

from __future__ import annotations

import ast
import io
import linecache
import re
import threading
import tokenize
import warnings
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from operator import le
from pathlib import PurePath
from typing import Final, NamedTuple, TypeVar

from nki_lab.diagnostic import Diagnostic
from nki_lab.source import tables
from nki_lab.source.scopes import Scope, inner_nodes
from nki_lab.source.trees import Extent, FunctionNode, branches, extent, first_line
from nki_lab.source_files import lines_of

PARSER_FAILURES: Final = (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError, SystemError)
"""Exceptions that Python's parser raises about a text."""
NEWLINE: Final = re.compile(r"\r\n|\r|\n")  # Python's tokenizer ends lines with these; str.splitlines() has more
KEPT: Final = 128
KEPT_CHARACTERS: Final = 1 << 19
"""The most parsed texts in the cache, and their most characters together."""

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Cell:
    """A part of a module that is read by itself: `text` begins after `start` lines."""

    text: str
    start: int
    body: tuple[ast.stmt, ...]
    faults: tuple[Diagnostic, ...]
    unread: frozenset[int]


class Calls(NamedTuple):
    """Calls and statement headers of a tree, by the places where Python reports their failures."""

    calls: dict[Extent, ast.Call]  # the outermost one that covers exactly an extent
    first: dict[int, ast.Call]  # the first one that begins on a line
    headers: dict[Extent, ast.expr]  # the expression that a statement tests, iterates over or enters


@dataclass(frozen=True, eq=False)
class ModuleSource:
    """A parsed module; its tree is shared by all readers, and none of them changes it.

    `text` ends its lines with newline characters. `faults` are the NKI101 findings of the `unread` lines (1-based),
    which the tree has no statements for. `cells` are the parts of a notebook.
    """

    text: str
    file: str
    tree: ast.Module = field(repr=False)
    faults: tuple[Diagnostic, ...] = ()
    unread: frozenset[int] = frozenset()
    cells: tuple[Cell, ...] = ()
    _known: dict[Hashable, object] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def parse(cls, text: str, file: str = "<source>") -> ModuleSource:
        """Return the module of a text; raises `PARSER_FAILURES`."""
        return parsed(text, file)

    def is_torn(self, line: int) -> bool:
        """Return whether lines above this one, of its cell, are unread: what stands here may belong to them."""
        unread, starts = self._unread_and_cells
        cell = bisect_left(starts, line)
        after = bisect_right(unread, starts[cell - 1] if cell else 0)
        return after < len(unread) and unread[after] < line

    @cached_property
    def _unread_and_cells(self) -> tuple[list[int], list[int]]:
        """Return the unread lines, and the numbers of lines above the cells."""
        return sorted(self.unread), sorted(cell.start for cell in self.cells)

    def lacks_lines_of(self, node: FunctionNode | ast.Lambda) -> bool:
        """Return whether unread lines belong to a function, or may: they stand behind it, before the next statement."""
        if not self.unread:
            return False
        unread, starts = self._unread_and_starts
        following = bisect_right(starts, node.end_lineno or node.lineno)
        first = bisect_right(unread, node.lineno)
        return first < len(unread) and (following == len(starts) or unread[first] < starts[following])

    @cached_property
    def _unread_and_starts(self) -> tuple[list[int], list[int]]:
        """Return the unread lines, and those on which the module's statements begin."""
        return sorted(self.unread), [node.lineno for node in self.tree.body]

    @property
    def name(self) -> str:
        """Return the name that the file gives the module."""
        return PurePath(self.file).stem or "module"

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """Return the lines, without their ends."""
        return tuple(self.text.split("\n"))

    @cached_property
    def scope(self) -> Scope:
        """Return the module's names as Python's compiler sees them."""
        return Scope("module", "<module>", None, (), self.tree.body)

    @cached_property
    def stars(self) -> tuple[str, ...]:
        """Return the modules that this one imports everything from, relative ones with their dots."""
        return tuple(
            "." * node.level + (node.module or "")
            for node in inner_nodes(self.tree.body)
            if isinstance(node, ast.ImportFrom) and any(item.name == "*" for item in node.names)
        )

    @cached_property
    def calls(self) -> Calls:
        """Calls and statement headers by their places."""
        return _calls([self.tree])

    def calls_on(self, line: int) -> Calls:
        """Return the calls and statement headers of the top-level statements that stand on a line."""
        place = self._standing_on(line)
        if place is None:
            return self.calls
        return self.once(("calls", place), lambda: _calls(self.tree.body[slice(*place)]))

    def assigned_at(self, place: Extent) -> str:
        """Return the name or attribute that the expression at a place is assigned to; "" where that is none."""
        statements = self._standing_on(place[0])
        body = self.tree.body if statements is None else self.tree.body[slice(*statements)]
        return self.once(("assigned", statements), lambda: dict(_assigned(body))).get(place, "")

    def _standing_on(self, line: int) -> tuple[int, int] | None:
        """Return the first of the top-level statements that stand on a line, and the end of them; None where
        statements do not stand in order.
        """
        starts = self._starts
        if starts is None:
            return None
        last = first = bisect_right(starts, line)
        body = self.tree.body
        while first and (body[first - 1].end_lineno or 0) >= line:
            first -= 1
        return first, last

    @cached_property
    def _starts(self) -> list[int] | None:
        """The lines on which the top-level statements begin; None where they do not stand in order."""
        starts = [first_line(node) for node in self.tree.body]
        return starts if all(map(le, starts, starts[1:])) else None

    def once(self, key: Hashable, analysis: Callable[[], V]) -> V:
        """Return the result of an analysis of the module, which runs when it is first asked for."""
        if key not in self._known:
            self._known[key] = analysis()
        known: V = self._known[key]  # type: ignore[assignment]
        return known

    def under(self, head: str, *, line: int = 0) -> ModuleSource:
        """Return the module after the statements of `head`, which count as standing on `line`; the text is the same."""
        above = ast.increment_lineno(ast.parse(head), line - 1)
        tree = ast.Module(body=[*above.body, *self.tree.body], type_ignores=self.tree.type_ignores)
        return ModuleSource(self.text, self.file, tree)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """While this lasts, places in the module's file are read in this text, whatever the disk holds."""
        lines = self.once("shown", lambda: list(io.StringIO(self.text, newline=None)))
        entry = (len(self.text), None, lines, self.file)
        with _showing, _set(linecache.cache, self.file, entry), _set(_shown, self.file, self):
            yield

    def function(self, name: str) -> ast.FunctionDef | None:
        """Return the last function of that name at the module's top level, inside `if` and `try` too."""
        return self._functions.get(name)

    @cached_property
    def _functions(self) -> dict[str, ast.FunctionDef]:
        found = {}
        stack: list[ast.stmt] = list(reversed(self.tree.body))
        while stack:
            node = stack.pop()
            if isinstance(node, ast.FunctionDef):
                found[node.name] = node
            for part in ("body", "orelse", "finalbody") if isinstance(node, ast.If | ast.Try | ast.With) else ():
                stack.extend(reversed(getattr(node, part, [])))
        return found


_HEADED: Final = (ast.If, ast.While, ast.For, ast.With)


def argument_of(call: ast.Call, name: str, parameters: tuple[str, ...]) -> ast.expr | None:
    """Return the expression passed for a parameter, by keyword or by position; `src2` is the third entry of a list
    `srcs`.
    """
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


def _calls(nodes: Sequence[ast.AST]) -> Calls:
    found = Calls({}, {}, {})
    stack = list(reversed(nodes))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Call):
            found.calls.setdefault(extent(node), node)
            found.first.setdefault(node.lineno, node)
        elif isinstance(node, _HEADED):
            found.headers.setdefault(extent(node), _header(node))
        stack.extend(reversed(branches(node)))
    return found


def _assigned(statements: Sequence[ast.stmt]) -> Iterator[tuple[Extent, str]]:
    """Yield the places of expressions that are assigned to a name or an attribute, with that."""
    stack: list[ast.AST] = list(reversed(statements))
    while stack:
        node = stack.pop()
        pairs: list[tuple[ast.expr, ast.expr | None]] = []
        if isinstance(node, ast.Assign):
            pairs = [(node.targets[0], node.value)]
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
            pairs = [(node.target, node.value)]
        for target, value in pairs:
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
                pairs += zip(target.elts, value.elts, strict=True)  # and theirs
            elif isinstance(target, ast.Name | ast.Attribute) and value is not None:
                yield extent(value), ast.unparse(target)
        stack.extend(reversed(branches(node)))


def _header(node: ast.If | ast.While | ast.For | ast.With) -> ast.expr:
    if isinstance(node, ast.With):
        return node.items[0].context_expr
    return node.iter if isinstance(node, ast.For) else node.test


# -- texts ------------------------------------------------------------------------------------------------------------


def decoded(data: bytes) -> tuple[str, str]:
    """Return the text of a Python file, with its line ends as they are, and its encoding.

    Raises SyntaxError, LookupError or UnicodeError as Python does.
    """
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return data.decode(encoding), encoding


def normalized(text: str) -> str:
    """Return a text as Python reads it from a file: its parser may place things otherwise with other line ends."""
    text = text.removeprefix("\ufeff")
    return NEWLINE.sub("\n", text) if "\r" in text else text


def tree_of(text: str, file: str, *, quiet: bool = True, compiled: bool = False) -> ast.Module:
    """Parse a text; raises `PARSER_FAILURES`. Without `quiet`, Python warns about odd escapes in strings.

    A tree that is to be `compiled` has each number of long tables, which stand in others as a `tables.Table`.
    """

    def read(part: str) -> ast.Module:
        return ast.parse(part, filename=file)

    with warnings.catch_warnings(action="ignore") if quiet else nullcontext():
        return read(text) if compiled else tables.parse(text, read)


# -- modules that are kept --------------------------------------------------------------------------------------------

_kept: OrderedDict[tuple[str, str], ModuleSource] = OrderedDict()
_lock: Final = threading.Lock()


def parsed(text: str, file: str) -> ModuleSource:
    """Return the module of a text under a file's name, parsed once; raises `PARSER_FAILURES`."""
    with _lock:
        known = _kept.get((text, file))
        if known is not None:
            _kept.move_to_end((text, file))
            return known
    made = ModuleSource(text, file, tree_of(text, file))
    keep(made)
    return made


def keep(module: ModuleSource) -> None:
    """Have `module` stand for its text under the name of its file."""
    with _lock:
        _kept[module.text, module.file] = module
        _kept.move_to_end((module.text, module.file))
        size = sum(len(key[0]) for key in _kept)
        while len(_kept) > KEPT or (size > KEPT_CHARACTERS and len(_kept) > 1):
            (gone_text, _), _ = _kept.popitem(last=False)
            size -= len(gone_text)


def forget(files: Collection[str]) -> None:
    """Drop the modules that are kept of some files."""
    with _lock:
        for key in [key for key in _kept if key[1] in files]:
            del _kept[key]


def module_at(file: str) -> ModuleSource | None:
    """Return the module of a source file, where its text is at hand and parses.

    Of a file that is being evaluated it is the evaluated text, which may be half typed.
    """
    shown = _shown.get(file)
    if shown is not None:
        return shown
    text = "".join(lines_of(file))
    try:
        return parsed(text, file) if text else None
    except PARSER_FAILURES:
        return None


# -- modules that are evaluated ---------------------------------------------------------------------------------------

_shown: Final[dict[str, ModuleSource]] = {}
_showing: Final = threading.RLock()


@contextmanager
def _set(table: MutableMapping[str, V], key: str, value: V) -> Iterator[None]:
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
