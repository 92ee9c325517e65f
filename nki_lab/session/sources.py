"""Findings of the syntax rules in the source of one kernel and of the functions it reaches in its file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import CodeType
from typing import Final

from nki_lab.diagnostic import Diagnostic
from nki_lab.kernel_runtime.ir import Site
from nki_lab.rules import known_syntax_findings
from nki_lab.source import Dialect, SyntaxFacts, facts_of, module_at
from nki_lab.source.callables import code_of
from nki_lab.source.code_table import CodeTable
from nki_lab.source.kernel_code import KernelSearch
from nki_lab.source.names import NameUses
from nki_lab.source.trees import FUNCTIONS, first_line
from nki_lab.source_files import lines_of, read_again

_KEPT: Final = 256
_found: Final[CodeTable[dict[Dialect, tuple[Diagnostic, ...]]]] = CodeTable(_KEPT)


def syntax_findings(function: Callable[..., object], dialect: Dialect) -> tuple[Diagnostic, ...]:
    """The findings in a kernel's own code, worked out once for each code object; empty where there is no source."""
    code = code_of(function)
    if code is None:
        return ()
    by_dialect = _found.get(id(code))
    if by_dialect is None:
        read_again(code.co_filename)
        by_dialect = _found.enter(code, {})
    known = by_dialect.get(dialect)
    if known is None:
        found = _check(function, code, dialect)  # hints are for who edits
        known = by_dialect[dialect] = tuple(item for item in found if item.severity != "hint")
    return known


def definition_of(function: Callable[..., object]) -> Site:
    """Return the definition of a kernel; an empty site for one without Python code."""
    code = code_of(function)
    if code is None:
        return Site("", 0, 0, 0, 0, "")
    line = code.co_firstlineno
    return Site(code.co_filename, line, 0, line, 0, code.co_qualname)


def _check(function: Callable[..., object], code: CodeType, dialect: Dialect) -> list[Diagnostic]:
    lines_of(code.co_filename, getattr(function, "__globals__", None))  # of a module in an archive too
    module = module_at(code.co_filename)
    if module is None:  # the file has changed since it was imported, or it is no file: a notebook's magic line
        return []
    facts = facts_of(module)
    scope = _scope_of(facts, code)
    if scope is None:
        return []
    search = KernelSearch(facts.module, entries={scope: dialect})
    own = replace(facts, functions=search.found_functions(), classes=search.found_classes(), _index={})
    return known_syntax_findings(own, on_host=False)


def _scope_of(facts: SyntaxFacts, code: CodeType) -> NameUses | None:
    for scope in facts.module.subtree():
        node = scope.node
        if (
            isinstance(node, FUNCTIONS)
            and node.name == code.co_name
            and code.co_firstlineno in (first_line(node), node.lineno)
        ):
            return scope
    return None
