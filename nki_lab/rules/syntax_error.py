"""NKI101, the part that Python's compiler finds after the parser: `return` at module level, a parameter named twice."""

from __future__ import annotations

import ast
import sys
import warnings
from typing import Final
from weakref import WeakSet

from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts
from nki_lab.source.parsing import PARSER_FAILURES, unparsable

_compiled: WeakSet[ast.stmt] = WeakSet()
"""Statements of modules that compile; Python's compiler looks at each on its own, but for what is declared global."""


@syntax_rule("NKI101", dialects=("current", "beta1"))
def check(facts: SyntaxFacts) -> Findings:
    """Yield the mistake that keeps the whole module, host code too, from compiling. Nothing is executed.

    Below lines that could not be read it is taken for their consequence.
    """
    body = facts.tree.body
    fresh = [node for node in body if node not in _compiled]
    part = body if any(isinstance(node, ast.Global) for node in body) else fresh
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # A notebook cell may await at top level.
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            if sys.version_info >= (3, 12):
                _refuse_deep_comprehensions(part)
            compile(ast.Module(body=part, type_ignores=[]), facts.file, "exec", flags=flags, dont_inherit=True)
    except PARSER_FAILURES as failure:
        fault = unparsable(failure, facts.file, facts.lines, in_bytes=True)
        if not facts.parsed.is_torn(fault.line):
            yield fault
    else:
        _compiled.update(fresh)


_BLOCKS: Final = (ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.With, ast.AsyncWith)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp)
_MOST_BLOCKS: Final = 20  # CO_MAXBLOCKS of CPython


def _refuse_deep_comprehensions(body: list[ast.stmt]) -> None:
    """Refuse comprehensions that stand in too many blocks: the compiler of Python 3.12 and 3.13 ends the process there.

    Since 3.12 a comprehension is compiled as a block of the function around it.
    """
    stack: list[tuple[ast.AST, int]] = [(node, 0) for node in body]
    while stack:
        node, depth = stack.pop()
        if isinstance(node, _COMPREHENSIONS):
            depth += len(node.generators)
        elif isinstance(node, _BLOCKS):
            depth += 1
        if depth > _MOST_BLOCKS and isinstance(node, _COMPREHENSIONS):
            raise SyntaxError("too many statically nested blocks", ("", node.lineno, node.col_offset + 1, None))
        stack.extend((child, depth) for child in ast.iter_child_nodes(node))
