"""NKI104: a lambda in kernel code."""

from __future__ import annotations

import ast

from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts


@syntax_rule("NKI104")
def check(facts: SyntaxFacts) -> Findings:
    """One finding for each lambda expression."""
    for node in facts.find(ast.Lambda):
        yield facts.report(
            "NKI104", node, "a lambda in a kernel", use="write a nested def: it is inlined just the same"
        )
