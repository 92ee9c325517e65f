"""NKI103: a comprehension or generator expression in kernel code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from nki_lab.diagnostic import Diagnostic
from nki_lab.rules.facts import Rule, SyntaxFacts

_KINDS: Final[dict[type[ast.AST], str]] = {
    ast.ListComp: "a list comprehension",
    ast.DictComp: "a dict comprehension",
    ast.SetComp: "a set comprehension",
    ast.GeneratorExp: "a generator expression",
}


def check(facts: SyntaxFacts) -> Iterator[Diagnostic]:
    """One finding for each comprehension, nested ones too."""
    for kind, name in _KINDS.items():
        for node in facts.find(kind):
            yield facts.report(
                "NKI103", node, f"{name} in a kernel", use="write a for loop that appends to a list, or sets a key"
            )


RULE = Rule(code="NKI103", stage="syntax", check=check)
