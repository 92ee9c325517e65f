"""NKI103: a comprehension or generator expression in kernel code."""

from __future__ import annotations

import ast
from typing import Final

from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts

_KINDS: Final[dict[type[ast.AST], str]] = {
    ast.ListComp: "a list comprehension",
    ast.DictComp: "a dict comprehension",
    ast.SetComp: "a set comprehension",
    ast.GeneratorExp: "a generator expression",
}


@syntax_rule("NKI103")
def check(facts: SyntaxFacts) -> Findings:
    """One finding for each comprehension, nested ones too."""
    for kind, name in _KINDS.items():
        for node in facts.find(kind):
            yield facts.report(
                "NKI103", node, f"{name} in a kernel", use="write a for loop that appends to a list, or sets a key"
            )
