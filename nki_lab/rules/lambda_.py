"""NKI104: a lambda in kernel code."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nki_lab.diagnostic import Diagnostic
from nki_lab.rules.rule import SyntaxRule
from nki_lab.source.facts import SyntaxFacts


def check(facts: SyntaxFacts) -> Iterator[Diagnostic]:
    """One finding for each lambda expression."""
    for node in facts.find(ast.Lambda):
        yield facts.report(
            "NKI104", node, "a lambda in a kernel", use="write a nested def: it is inlined just the same"
        )


RULE = SyntaxRule(code="NKI104", check=check)
