"""From a site to the expression a finding is about: the argument inside the call, when the source is at hand."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, lru_cache

from nki_lab.diagnostic import Diagnostic, Span
from nki_lab.kernel_runtime.ir import Site


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
    tree = _tree_of(site.file)
    wanted = (site.line, site.column, site.end_line, site.end_column)
    for node in ast.walk(tree) if tree is not None else ():
        if not isinstance(node, ast.If | ast.While | ast.For | ast.With) or node.lineno != site.line:
            continue
        if (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset) == wanted:
            if isinstance(node, ast.With):
                return node.items[0].context_expr
            return node.iter if isinstance(node, ast.For) else node.test
    return None


def argument_of(call: ast.Call, name: str, parameters: tuple[str, ...]) -> ast.expr | None:
    """The expression passed for a parameter, by keyword or by position."""
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
        return tuple(TABLE[called].operands)
    function = _language().get(called)
    if function is not None:
        return function
    named = diagnostic.message.split(":", 1)[0]
    return tuple(TABLE[named].operands) if named in TABLE else ()


@cache
def _language() -> dict[str, tuple[str, ...]]:
    """The parameters of the functions of nki.language."""
    from nki_lab.kernel_runtime.frontend import language

    functions = {name: value for name, value in language.names().items() if inspect.isfunction(value)}
    return {name: tuple(inspect.signature(value).parameters) for name, value in functions.items()}


def _call_at(site: Site) -> ast.Call | None:
    tree = _tree_of(site.file)
    if tree is None:
        return None
    wanted = (site.line, site.column, site.end_line, site.end_column)
    best: ast.Call | None = None
    for node in _calls(tree):
        place_of = (node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)
        if place_of == wanted:
            return node
        if node.lineno == site.line and best is None and not site.end_column:
            best = node
    return best


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _tree_of(file: str) -> ast.Module | None:
    return _parsed("".join(linecache.getlines(file)))


@lru_cache(maxsize=32)
def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
