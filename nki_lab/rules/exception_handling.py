"""NKI105: try and raise in kernel code."""

from __future__ import annotations

import ast

from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts


@syntax_rule("NKI105")
def check(facts: SyntaxFacts) -> Findings:
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
