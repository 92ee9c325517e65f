"""NKI108: assignment expressions, match statements and sets in kernel code."""

from __future__ import annotations

import ast

from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts
from nki_lab.source.names import binds


@syntax_rule("NKI108")
def check(facts: SyntaxFacts) -> Findings:
    """One finding for each `:=`, at each `match` keyword, and for each set."""
    for walrus in facts.find(ast.NamedExpr):
        yield facts.report(
            "NKI108",
            walrus,
            f"{walrus.target.id} := ... in a kernel",
            use=f"assign {walrus.target.id} in a statement of its own",
        )
    for match in facts.find(ast.Match):
        yield facts.report(
            "NKI108", facts.span(match, length=len("match")), "match in a kernel", use="write if / elif / else"
        )
    for display in facts.find(ast.Set):
        yield facts.report("NKI108", display, "a set in a kernel", use="write a tuple: `in` works on it as well")
    for call in facts.find(ast.Call):
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        if name in ("set", "frozenset") and not binds(name, facts.module):
            yield facts.report("NKI108", call, "a set in a kernel", use="write a tuple: `in` works on it as well")
