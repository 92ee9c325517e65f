"""NKI113: a with statement on something other than nl.no_reorder(), in kernel code."""

from __future__ import annotations

import ast

from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts


@syntax_rule("NKI113")
def check(facts: SyntaxFacts) -> Findings:
    """One finding for each context manager that is not `no_reorder`, however it was imported."""
    for statement in facts.find(ast.With):
        for item in statement.items:
            manager = item.context_expr
            called = manager.func if isinstance(manager, ast.Call) else manager
            if facts.dotted(called).rpartition(".")[2] != "no_reorder":
                yield facts.report(
                    "NKI113",
                    manager,
                    f"with {facts.text(manager)} in a kernel",
                    limit="the only context manager of a kernel is nl.no_reorder()",
                    use="enter it in host code, around the call of the kernel",
                )
