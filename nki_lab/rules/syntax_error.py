"""NKI101, the part that Python's compiler finds after the parser: `return` at module level, a parameter named twice."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

from nki_lab.diagnostic import Diagnostic
from nki_lab.rules.facts import PARSER_FAILURES, Rule, SyntaxFacts, unparsable


def check(facts: SyntaxFacts) -> Iterator[Diagnostic]:
    """What keeps the whole module, host code too, from compiling. Nothing is executed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # A notebook cell may await at top level.
            compile(facts.tree, facts.file, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except PARSER_FAILURES as failure:
        yield unparsable(failure, facts.file, facts.lines, in_bytes=True)


RULE = Rule(code="NKI101", stage="syntax", check=check, dialects=("current", "legacy"))
