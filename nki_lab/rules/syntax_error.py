"""NKI101, the part that Python's compiler finds after the parser: `return` at module level, a parameter named twice."""

from __future__ import annotations

import ast
import warnings
from weakref import WeakSet

from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts
from nki_lab.source.parsing import PARSER_FAILURES, unparsable

_compiled: WeakSet[ast.stmt] = WeakSet()
"""Statements of modules that compile; Python's compiler looks at each on its own, but for what is declared global."""


@syntax_rule("NKI101", dialects=("current", "legacy"))
def check(facts: SyntaxFacts) -> Findings:
    """What keeps the whole module, host code too, from compiling. Nothing is executed."""
    body = facts.tree.body
    fresh = [node for node in body if node not in _compiled]
    part = body if any(isinstance(node, ast.Global) for node in body) else fresh
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # A notebook cell may await at top level.
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            compile(ast.Module(body=part, type_ignores=[]), facts.file, "exec", flags=flags, dont_inherit=True)
    except PARSER_FAILURES as failure:
        yield unparsable(failure, facts.file, facts.lines, in_bytes=True)
    else:
        _compiled.update(fresh)
