"""Sites of a program in the source: the site of a bytecode offset, and the expression that a finding is about."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import replace
from types import CodeType
from typing import Any, Final

from nki_lab.diagnostic import Diagnostic, Span
from nki_lab.isa.spec import TABLE
from nki_lab.kernel_runtime.ir import Site
from nki_lab.source.module import argument_of, module_at
from nki_lab.source.trees import Extent, extent

_MOST_CODES: Final = 256  # code objects whose positions are at hand: they are read off one after the other

FUNCTIONS: Final[dict[str, Callable[..., object]]] = {}
"""The functions of nki.language by name, entered by the module that lists them: diagnostics name their parameters."""


_positions: dict[int, tuple[CodeType, list[Any]]] = {}  # by id: hashing code takes long; kept alive


def site_at(code: CodeType, offset: int) -> Site:
    """Return the source stretch of the instruction at byte `offset` of a code object."""
    known = _positions.get(id(code))
    if known is None:
        if len(_positions) >= _MOST_CODES:
            _positions.clear()
        known = _positions[id(code)] = code, list(code.co_positions())
    line, end_line, column, end_column = known[1][offset // 2] if offset >= 0 else (code.co_firstlineno,) * 2 + (0, 0)
    line = line or code.co_firstlineno
    return Site(code.co_filename, line, column or 0, end_line or line, end_column or 0, code.co_qualname)


def span_of(site: Site) -> Span:
    """Return the span that users see."""
    return Span.from_bytes(site.file, site.line, site.column, site.end_line, site.end_column)


def placed(diagnostic: Diagnostic, site: Site) -> Diagnostic:
    """Return the diagnostic with its span: the operand's expression in the call at `site`, else the call itself.

    A site that is a whole `if`, `while`, `for` or `with` statement, as Python places a failing truth test or iteration,
    becomes its condition.
    """
    if diagnostic.span is not None or not site.file:
        return diagnostic
    if not diagnostic.operand:
        module = module_at(site.file) if site.end_line > site.line else None
        return replace(
            diagnostic, span=_span(site, None if module is None else module.calls.headers.get(_extent(site)))
        )
    call = _call_at(site)
    if call is None:
        return replace(diagnostic, span=_span(site, None))
    return placed_in(diagnostic, call, lambda found: _span(site, found))


def placed_in(diagnostic: Diagnostic, call: ast.Call, span: Callable[[ast.expr | None], Span]) -> Diagnostic:
    """Return the diagnostic with the span of its operand's expression in `call`; `span(None)` is that of the call."""
    found = argument_of(call, diagnostic.operand, _parameters(call, diagnostic)) if diagnostic.operand else None
    note = diagnostic.note
    if isinstance(found, (ast.Name, ast.Attribute)) and note.startswith(f"{diagnostic.operand}: "):
        note = f"{ast.unparse(found)}: {note.removeprefix(f'{diagnostic.operand}: ')}"
    return replace(diagnostic, span=span(found), note=note)


def _span(site: Site, found: ast.expr | None) -> Span:
    """Return the span of `found`, of the whole site without one."""
    return Span.from_bytes(site.file, *(_extent(site) if found is None else extent(found)))


def _parameters(call: ast.Call, diagnostic: Diagnostic) -> tuple[str, ...]:
    """Return the parameters of an instruction or a function of nki.language, by its name in the call.

    Under another name it counts as the instruction that the message begins with.
    """
    func = call.func
    called = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
    if called in TABLE:
        return tuple(TABLE[called].arguments)
    function = FUNCTIONS.get(called)
    if function is not None:
        return tuple(inspect.signature(function).parameters)
    named = diagnostic.message.split(":", 1)[0]
    return tuple(TABLE[named].arguments) if named in TABLE else ()


def _call_at(site: Site) -> ast.Call | None:
    module = module_at(site.file)
    if module is None:
        return None
    found = module.calls.calls.get(_extent(site))
    return module.calls.first.get(site.line) if found is None and not site.end_column else found


def _extent(site: Site) -> Extent:
    return site.line, site.column, site.end_line, site.end_column
