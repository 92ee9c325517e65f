"""The kernel code of a module, with the places and names that syntax rules ask for."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from nki_lab.diagnostic import Diagnostic, Related, Span, character_at, diagnose, error_of
from nki_lab.source.kernel_code import Dialect, KernelClass, KernelFunction, KernelSearch
from nki_lab.source.module import NEWLINE, PARSER_FAILURES, ModuleSource, decoded, normalized, parsed
from nki_lab.source.names import NameUses, binds, dotted, names_of
from nki_lab.source.nesting import Nesting
from nki_lab.source.parsing import not_python, parsed_as_typed, parsed_cells, recovered_module, unparsable
from nki_lab.source.positions import place_of
from nki_lab.source.trees import FUNCTIONS, SIMPLE, FunctionNode, attribute_path, children, elif_of, extent, lines_of

_SHOWN: Final = 40  # characters of source in a message
_SUBSET: Final = "kernel code is the Python subset that the NKI compiler evaluates"
_USUAL: Final = {"nl": "nki.language", "nisa": "nki.isa"}
_KEYWORDS: Final = re.compile(r"(?:async[ \t\f]+)?(?:def|class)[ \t\f]+")
_UNREADABLE: Final = re.compile("[\0\ud800-\udfff]")

Node = TypeVar("Node", bound=ast.AST)
_Index = dict[type[ast.AST], list[ast.AST]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntaxFacts:
    """A parsed module and its kernel code.

    `functions` are the kernels and the functions of the module they reach; `classes` those they instantiate; both in
    the order of the source. `dialect` is that of the NKI that the module imports. Host code (module level, tests,
    functions no kernel reaches) is in `tree` only.
    """

    parsed: ModuleSource
    functions: tuple[KernelFunction, ...]
    classes: tuple[KernelClass, ...]
    module: NameUses = field(repr=False, compare=False)
    dialect: Dialect | None = None
    _index: _Index = field(default_factory=dict, repr=False, compare=False)
    _heads: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    _nesting: list[Nesting[KernelFunction, int]] = field(default_factory=list, repr=False, compare=False)

    @property
    def file(self) -> str:
        """Return the name of the file."""
        return self.parsed.file

    @property
    def tree(self) -> ast.Module:
        """Return the tree; of a text as typed, without the lines that could not be read."""
        return self.parsed.tree

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the lines, without their ends."""
        return self.parsed.lines

    @property
    def kernels(self) -> tuple[FunctionNode, ...]:
        """Return the functions that the host launches."""
        return tuple(item.node for item in self.functions if item.is_entry)

    def limited(self, dialects: Iterable[Dialect]) -> SyntaxFacts:
        """Return these facts with the kernel code of `dialects` only."""
        wanted = frozenset(dialects)
        if {item.dialect for item in self.functions} | {item.dialect for item in self.classes} <= wanted:
            return self
        classes = tuple(item for item in self.classes if item.dialect in wanted)
        return replace(self.of(item for item in self.functions if item.dialect in wanted), classes=classes)

    def of(self, functions: Iterable[KernelFunction]) -> SyntaxFacts:
        """Return these facts with other `functions`, in the order of the source."""
        return replace(self, functions=tuple(functions), _index={}, _nesting=[])

    def find(self, *kinds: type[Node]) -> Iterator[Node]:
        """Yield the nodes of these types in kernel code, each once. Decorators, defaults and annotations of the kernels
        themselves are host code; those of functions nested in them are not (but for the annotations).
        """
        if not self._index:
            self._index.update(_indexed(item.node for item in self.functions))
        for kind in kinds:
            for node in self._index.get(kind, ()):
                assert isinstance(node, kind)
                yield node

    def functions_around(self, line: int) -> list[KernelFunction]:
        """Return the functions of kernel code that a 1-based line lies in, the outermost first."""
        if not self._nesting:
            self._nesting.append(Nesting(self.functions, lambda item: lines_of(item.node)))
        return self._nesting[0].around(line)

    def dotted(self, node: ast.expr) -> str:
        """Return the full name that `node` spells, through the module's imports: "nki.language.no_reorder"; "" for no
        name.

        `nl` and `nisa` are what they always are where nothing binds them.
        """
        node, parts = attribute_path(node)
        if not isinstance(node, ast.Name):
            return ""
        head = self._heads.get(node.id)
        if head is None:
            head = self._heads[node.id] = dotted(node, self.module)
        name = ".".join((head, *parts)) if head else ""
        root, dot, rest = name.partition(".")
        return f"{_USUAL[root]}.{rest}" if dot and root in _USUAL else name

    def short_name(self, node: ast.expr) -> str:
        """Return the last part of the full name that `node` spells."""
        return self.dotted(node).rpartition(".")[2]

    def calls(self, node: ast.expr, name: str) -> bool:
        """Return whether an expression calls NKI's function of this name, however it was imported."""
        return isinstance(node, ast.Call) and self.short_name(node.func) == name

    def imported(self, node: ast.expr) -> str:
        """Return the full name if the module imports its first part; else ""."""
        root, _ = attribute_path(node)
        return self.dotted(node) if isinstance(root, ast.Name) and binds(root.id, self.module) else ""

    def span(self, node: ast.AST, *, length: int | None = None) -> Span:
        """Return the place of `node` in characters; with `length`, of its first characters (a statement's keyword)."""
        line, column, end_line, end = extent(node)
        if length is not None:
            start = self.character(line, column) + 1
            return Span(self.file, line, start, line, start + length)
        return self._stretch(line, column, end_line, end)

    def place(self, node: ast.AST) -> Span:
        """Return the place at which a run reports a failure of `node`."""
        return self._stretch(*place_of(node))

    def _stretch(self, line: int, column: int, end_line: int, end: int) -> Span:
        return Span(self.file, line, self.character(line, column) + 1, end_line, self.character(end_line, end) + 1)

    def character(self, line: int, column: int) -> int:
        """Return the 0-based character that the 0-based UTF-8 byte `column` of the 1-based `line` is."""
        text = self.line(line)
        return character_at(text, column)

    def line(self, number: int) -> str:
        """Return the text of a 1-based line, without its end."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""

    def text(self, node: ast.AST) -> str:
        """Return the source of `node` in one short line, for a message."""
        span = self.span(node)
        size = span.end_column - span.column if span.end_line == span.line else _SHOWN
        first = self.line(span.line)[span.column - 1 : span.column - 1 + min(size, _SHOWN + 1)]
        return first if span.end_line == span.line and len(first) <= _SHOWN else f"{first[: _SHOWN - 3].rstrip()}..."

    def name_span(self, node: FunctionNode | ast.ClassDef) -> Span:
        """Return the place of the name in a `def` or `class` statement."""
        start, line = self.character(node.lineno, node.col_offset), self.line(node.lineno)
        found = _KEYWORDS.match(line, start)
        if found is None or not line.startswith(node.name, found.end()):  # the name is on a continued line
            return self.span(node, length=1)
        return Span(self.file, node.lineno, found.end() + 1, node.lineno, found.end() + len(node.name) + 1)

    def report(
        self,
        code: str,
        place: ast.AST | Span,
        message: str,
        *,
        use: str,
        limit: str = _SUBSET,
        related: Iterable[Related] = (),
    ) -> Diagnostic:
        """Return the finding `code` at a node of kernel code. In a helper it says which kernel makes it kernel code."""
        span = place if isinstance(place, Span) else self.span(place)
        return diagnose(code, message, span=span, limit=limit, help=use, related=(*related, *self._reached_from(span)))

    def _reached_from(self, span: Span) -> Iterator[Related]:
        around = self.functions_around(span.line)
        if around and not any(item.is_entry for item in around):
            name, kernel = around[-1].node.name, around[-1].kernel
            yield Related(f"{name} is kernel code: the kernel {kernel.name} reaches it", self.name_span(kernel))


def syntax_facts(
    source: str | bytes | Sequence[str],
    file: str,
    kernel_names: Iterable[str] | None = None,
    *,
    as_typed: bool = False,
    once: bool = False,
    before: SyntaxFacts | None = None,
) -> SyntaxFacts:
    """Return the kernel code of a text; `kernel_names` are kernels that no decorator marks.

    Bytes are decoded as Python decodes a file. Raises the error of an NKI101 diagnostic for whatever is no Python; a
    text `as_typed` is read around the lines that keep it from parsing, and so is each text of several, which are the
    cells of a notebook: the facts are those of the cells one below the other. `before` are the facts of an earlier
    state of the same file: what has not changed is taken from there, and they are used up. Therefore no one else has
    the tree of a text as typed. Where it is read `once`, nothing is kept for a later state of it.
    """
    former = None if before is None else before.parsed
    if not isinstance(source, str | bytes):
        module = _module_of_cells([normalized(text) for text in source], file, former)
    elif as_typed:
        module = _module(source, file, lambda text, file: parsed_as_typed(text, file, former))
    else:
        module = _module(source, file, parsed)
    return _facts(module, kernel_names or (), None if before is None else before.module, again=as_typed and not once)


def known_facts(source: str | bytes, file: str, kernel_names: Iterable[str] = ()) -> SyntaxFacts:
    """Return the kernel code of a text as typed, worked out once; raises as `syntax_facts`."""
    return facts_of(_module(source, file, recovered_module), kernel_names)


def facts_of(module: ModuleSource, kernel_names: Iterable[str] = ()) -> SyntaxFacts:
    """Return the kernel code of a module, worked out once."""
    names = frozenset(kernel_names)
    return module.once((SyntaxFacts, names), lambda: _facts(module, names, None))


def _facts(
    module: ModuleSource, kernel_names: Iterable[str], before: NameUses | None, *, again: bool = False
) -> SyntaxFacts:
    names = names_of(module.tree, before, again=again)
    search = KernelSearch(names, kernel_names)
    return SyntaxFacts(
        parsed=module,
        functions=search.found_functions(),
        classes=search.found_classes(),
        module=names,
        dialect=search.file_dialect if search.uses_nki else None,
    )


def _module(source: str | bytes, file: str, read: Callable[[str, str], ModuleSource]) -> ModuleSource:
    """Return the module that `read` makes of a text; the error of an NKI101 diagnostic where it makes none."""
    text = normalized(source if isinstance(source, str) else _decoded(source, file))
    if found := _UNREADABLE.search(text):
        raise error_of(_unreadable(found, _span_after(text[: found.start()], file)))
    try:
        return read(text, file)
    except PARSER_FAILURES as failure:
        raise error_of(unparsable(failure, file, text.split("\n"))) from None


def _module_of_cells(texts: Sequence[str], file: str, former: ModuleSource | None) -> ModuleSource:
    """Return the module of a notebook; the first character of a cell that Python cannot read is a fault of it."""
    module = parsed_cells([_UNREADABLE.sub("?", text) for text in texts], file, former)
    faults = []
    for cell, text in zip(module.cells, texts, strict=True):
        if found := _UNREADABLE.search(text):
            place = _span_after(text[: found.start()], file)
            line = place.line + cell.start
            faults.append(_unreadable(found, replace(place, line=line, end_line=line)))
    lines = {item.line for item in faults}
    others = (item for item in module.faults if item.line not in lines)
    if not faults:
        return module
    return replace(module, faults=tuple(sorted((*faults, *others), key=lambda item: (item.line, item.column))))


def _unreadable(found: re.Match[str], place: Span) -> Diagnostic:
    kind = "a null character" if found[0] == "\0" else f"half of a surrogate pair (U+{ord(found[0]):04X})"
    return not_python(f"the source contains {kind}", place)


def _span_after(text: str, file: str) -> Span:
    """Return the place of the character after the beginning of a file."""
    lines = NEWLINE.split(text)
    line, column = len(lines), len(lines[-1]) + 1
    return Span(file, line, column, line, column + 1)


def _decoded(source: bytes, file: str) -> str:
    try:
        return decoded(source)[0]
    except (SyntaxError, LookupError, UnicodeError) as failure:
        before = source[: failure.start].decode("latin-1") if isinstance(failure, UnicodeDecodeError) else ""
        reason = failure.msg if isinstance(failure, SyntaxError) else str(failure)
        found = not_python(
            f"the file is not text: {reason}",
            _span_after(before, file),
            "save it as UTF-8, or name its encoding in the first line: # coding: latin-1",
        )
        raise error_of(found) from None


_indexes: WeakKeyDictionary[ast.AST, _Index] = (
    WeakKeyDictionary()
)  # of functions and statements; they hold no key, so that it goes


def _indexed(functions: Iterable[FunctionNode]) -> _Index:
    """Return the nodes of functions by type, each once; the functions come in the order of the source."""
    index: _Index = {}
    end = (0, 0)
    for function in functions:
        if (function.lineno, function.col_offset) < end:
            continue  # inside the one before
        end = max(end, (function.end_lineno or 0, function.end_col_offset or 0))
        index.setdefault(type(function), []).append(function)
        for kind, nodes in _index_of(function).items():
            index.setdefault(kind, []).extend(nodes)
    return index


def _index_of(node: ast.AST) -> _Index:
    """Return the nodes inside a function or statement by type, in the order of the source.

    They are kept for functions and for statements that hold others.
    """
    found = _indexes.get(node)
    if found is None:
        found = {}
        parts = node.body if isinstance(node, FUNCTIONS) else _kernel_children(node)
        stack: list[ast.AST] = list(reversed(parts))
        branch = elif_of(node)
        keeps = len(parts) >= _LONG
        while stack:
            part = stack.pop()
            found.setdefault(type(part), []).append(part)
            if keeps and type(part) in SIMPLE:
                for inner in _inside(part):
                    found.setdefault(type(inner), []).append(inner)
            elif part is branch:
                branch = elif_of(part)
                stack.extend(reversed(_kernel_children(part)))
            elif type(part) in _COMPOUND:
                for kind, nodes in _index_of(part).items():
                    found.setdefault(kind, []).extend(nodes)
            else:
                stack.extend(reversed(_kernel_children(part)))
        _indexes[node] = found
    return found


_LONG: Final = 100
"""Statements of a block from which on it is kept what each simple one holds: while one of them is typed, the others
stay as they are."""
_insides: WeakKeyDictionary[ast.AST, list[ast.AST]] = WeakKeyDictionary()  # of simple statements; they hold no key


def _inside(statement: ast.AST) -> list[ast.AST]:
    """Return the nodes inside a simple statement, in the order of the source."""
    found = _insides.get(statement)
    if found is None:
        found = _insides[statement] = []
        stack = _kernel_children(statement)[::-1]
        while stack:
            part = stack.pop()
            found.append(part)
            stack.extend(reversed(_kernel_children(part)))
    return found


_COMPOUND: Final = frozenset((
    ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match
))  # fmt: skip


def _kernel_children(node: ast.AST) -> list[ast.AST]:
    if type(node) not in _ANNOTATED:
        return children(node)
    annotations = (getattr(node, "annotation", None), getattr(node, "returns", None))
    return [part for part in children(node) if part not in annotations]


_ANNOTATED: Final = frozenset((ast.AnnAssign, ast.arg, ast.FunctionDef, ast.AsyncFunctionDef))
