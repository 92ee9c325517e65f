"""From a site to the expression a finding is about: the argument inside the call, when the source is at hand."""

from __future__ import annotations

import ast
import inspect
from dataclasses import replace
from functools import cache, cached_property, lru_cache
from typing import Final

from nki_lab.diagnostic import Diagnostic, Span
from nki_lab.kernel_runtime.frontend.trees import children
from nki_lab.kernel_runtime.ir import Site
from nki_lab.source_files import lines_of


def place(diagnostic: Diagnostic, site: Site) -> Diagnostic:
    """The diagnostic with its span: the operand's expression in the call at `site`, else the call itself.

    A site that is a whole `if`, `while`, `for` or `with` statement, as Python places a failing truth test or iteration,
    becomes its condition.
    """
    if diagnostic.span is not None or not site.file:
        return diagnostic
    if not diagnostic.operand:
        return replace(diagnostic, span=_span(site, _header_at(site) if site.end_line > site.line else None))
    call = _call_at(site)
    found = None if call is None else argument_of(call, diagnostic.operand, _parameters(call, diagnostic))
    span = _span(site, found)
    if found is None:
        return replace(diagnostic, span=span)
    note = diagnostic.note
    if isinstance(found, (ast.Name, ast.Attribute)) and note.startswith(f"{diagnostic.operand}: "):
        note = f"{ast.unparse(found)}: {note.removeprefix(f'{diagnostic.operand}: ')}"
    return replace(diagnostic, span=span, note=note)


def _span(site: Site, found: ast.expr | None) -> Span:
    """The span of `found`, of the whole site without one."""
    if found is None:
        place_of = (site.line, site.column, site.end_line, site.end_column)
    else:
        end_line, end_column = found.end_lineno or found.lineno, found.end_col_offset or found.col_offset
        place_of = (found.lineno, found.col_offset, end_line, end_column)
    return Span.from_bytes(site.file, *place_of)


def _header_at(site: Site) -> ast.expr | None:
    places = _places_of(site.file)
    return None if places is None else places.headers.get((site.line, site.column, site.end_line, site.end_column))


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


def _parameters(call: ast.Call, diagnostic: Diagnostic) -> tuple[str, ...]:
    """The parameters of what is called: an instruction or a function of nki.language, by its name in the call.

    Under another name it counts as the instruction that the message begins with.
    """
    from nki_lab.isa.spec import TABLE

    func = call.func
    called = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
    if called in TABLE:
        return tuple(TABLE[called].arguments)
    function = _language().get(called)
    if function is not None:
        return function
    named = diagnostic.message.split(":", 1)[0]
    return tuple(TABLE[named].arguments) if named in TABLE else ()


@cache
def _language() -> dict[str, tuple[str, ...]]:
    """The parameters of the functions of nki.language."""
    from nki_lab.kernel_runtime.frontend import language

    functions = {name: value for name, value in language.names().items() if inspect.isfunction(value)}
    return {name: tuple(inspect.signature(value).parameters) for name, value in functions.items()}


def _call_at(site: Site) -> ast.Call | None:
    places = _places_of(site.file)
    if places is None:
        return None
    found = places.calls.get((site.line, site.column, site.end_line, site.end_column))
    return places.first.get(site.line) if found is None and not site.end_column else found


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
    places = _places_of(file)
    return None if places is None else places.tree


def _places_of(file: str) -> Places | None:
    return shown.get(file) or _parsed("".join(lines_of(file)))


@lru_cache(maxsize=32)
def _parsed(source: str) -> Places | None:
    try:
        return Places(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
