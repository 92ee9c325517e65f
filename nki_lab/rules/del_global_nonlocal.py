"""NKI107: del, global and nonlocal in kernel code."""

from __future__ import annotations

import ast
from typing import Final

from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts

_KINDS: Final[dict[type[ast.AST], tuple[str, str]]] = {
    ast.Delete: ("del", "leave it out: a tile's memory is free after its last use"),
    ast.Global: ("global", "pass the value as an argument and return what changes"),
    ast.Nonlocal: ("nonlocal", "keep the state in a tensor, a list or an NKIObject made outside the nested function"),
}


@syntax_rule("NKI107")
def check(facts: SyntaxFacts) -> Findings:
    """One finding for each of these statements."""
    for kind, (word, use) in _KINDS.items():
        for node in facts.find(kind):
            yield facts.report("NKI107", node, f"{word} in a kernel", use=use)
