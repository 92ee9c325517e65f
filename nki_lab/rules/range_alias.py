"""NKI127: `nl.affine_range` and its kin, which are Python's `range` by now."""

from __future__ import annotations

import ast
from typing import Final

from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts

_NAMES: Final = frozenset({"affine_range", "sequential_range", "static_range"})


@syntax_rule("NKI127")
def check(facts: SyntaxFacts) -> Findings:
    """One finding for each call of one of them."""
    for node in facts.find(ast.Call):
        name = facts.dotted(node.func)
        home, _, last = name.rpartition(".")
        if home == "nki.language" and last in _NAMES:
            yield facts.report(
                "NKI127",
                node.func,
                f"nl.{last} is an alias of range",
                limit="NKI 0.6 deprecates it; its loops are unrolled like all others",
                use="write range",
            )
