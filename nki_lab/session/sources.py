"""What the syntax rules say about the source of one kernel and the functions it reaches in its file."""

from __future__ import annotations

import ast
import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from types import CodeType
from typing import Any, Final

from nki_lab.diagnostic import Diagnostic, NkiError
from nki_lab.kernel_runtime.ir import Site
from nki_lab.rules import SyntaxFacts, check_syntax, syntax_facts
from nki_lab.rules.kernel_code import Dialect, KernelSearch, Scope
from nki_lab.source_files import lines_of

_KEPT: Final = 256
_found: OrderedDict[tuple[str, CodeType, str], tuple[Diagnostic, ...]] = OrderedDict()


def syntax_findings(function: Callable[..., Any], dialect: Dialect) -> tuple[Diagnostic, ...]:
    """The findings in a kernel's own code, worked out once for each code object; empty where there is no source."""
    code = code_of(function)
    if code is None:
        return ()
    key = (code.co_filename, code, dialect)  # equal code objects of two files are equal
    known = _found.get(key)
    if known is None:
        found = _check(function, code, dialect)
        known = _found[key] = tuple(item for item in found if item.severity != "hint")  # those are for who edits
        if len(_found) > _KEPT:
            _found.popitem(last=False)
    return known


def code_of(function: Callable[..., Any]) -> CodeType | None:
    """The code object behind a function, a method or a partial; None for other callables."""
    plain: Any = function
    while hasattr(plain, "func") and not hasattr(plain, "__code__"):
        plain = plain.func
    code = getattr(inspect.unwrap(plain), "__code__", None)
    return code if isinstance(code, CodeType) else None


def definition_of(function: Callable[..., Any]) -> Site:
    """Where a kernel is defined; an empty place for one without Python code."""
    code = code_of(function)
    if code is None:
        return Site("", 0, 0, 0, 0, "")
    line = code.co_firstlineno
    return Site(code.co_filename, line, 0, line, 0, code.co_qualname)


def _check(function: Callable[..., Any], code: CodeType, dialect: Dialect) -> list[Diagnostic]:
    lines = lines_of(code.co_filename, getattr(function, "__globals__", None))
    facts = _facts("".join(lines), code.co_filename)
    scope = None if facts is None else _scope_of(facts, code)
    if facts is None or scope is None:
        return []
    search = _OneKernel(facts.module, scope, dialect)
    own = replace(facts, functions=search.found_functions(), classes=search.found_classes(), _index={})
    return check_syntax(own, on_host=False)


@lru_cache(maxsize=8)
def _facts(source: str, file: str) -> SyntaxFacts | None:
    if not source:
        return None
    try:
        return syntax_facts(source, file)
    except NkiError:  # the file has changed since it was imported, or it is no file: a notebook's magic line
        return None


def _scope_of(facts: SyntaxFacts, code: CodeType) -> Scope | None:
    for scope in facts.module.subtree():
        node = scope.node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            if code.co_firstlineno in (first, node.lineno):
                return scope
    return None


class _OneKernel(KernelSearch):
    """The search for kernel code that starts from one kernel, and not from all that the module has."""

    def __init__(self, module: Scope, kernel: Scope, dialect: Dialect) -> None:
        self._kernel = kernel
        self._dialect: Dialect = dialect
        super().__init__(module, ())

    def _find_entries(self, kernel_names: Iterable[str]) -> None:
        self.entries[self._kernel] = self._dialect
