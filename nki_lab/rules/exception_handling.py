"""NKI105: try and raise in kernel code."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nki_lab.diagnostic import Diagnostic
from nki_lab.rules.rule import SyntaxRule
from nki_lab.source.facts import SyntaxFacts


def check(facts: SyntaxFacts) -> Iterator[Diagnostic]:
    """One finding at each `try` keyword and for each `raise` statement."""
    for node in facts.find(ast.Try, ast.TryStar):
        yield facts.report(
            "NKI105",
            facts.span(node, length=len("try")),
            "try in a kernel: nothing can be caught on the NeuronCore",
            use="test the condition with if before the call that may fail",
        )
    for statement in facts.find(ast.Raise):
        yield facts.report(
            "NKI105", statement, "raise in a kernel", use="assert the condition with a message: assert rows <= 128, ..."
        )


RULE = SyntaxRule(code="NKI105", check=check)
