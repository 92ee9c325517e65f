"""From a site to the expression a finding is about: the argument inside the call, when the source is at hand."""

from __future__ import annotations

import ast
import inspect
from dataclasses import replace
from functools import cache

from nki_lab.diagnostic import Diagnostic, Span
from nki_lab.kernel_runtime.ir import Site
from nki_lab.source.module import module_at
from nki_lab.source.trees import Extent, extent


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
    return Span.from_bytes(site.file, *(_extent(site) if found is None else extent(found)))


def _header_at(site: Site) -> ast.expr | None:
    module = module_at(site.file)
    return None if module is None else module.calls.headers.get(_extent(site))


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
    module = module_at(site.file)
    if module is None:
        return None
    found = module.calls.calls.get(_extent(site))
    return module.calls.first.get(site.line) if found is None and not site.end_column else found


def _extent(site: Site) -> Extent:
    return site.line, site.column, site.end_line, site.end_column
