"""NKI111: a dictionary display with a key that is not a string, in kernel code."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nki_lab.diagnostic import Diagnostic
from nki_lab.rules.facts import Rule, SyntaxFacts


def check(facts: SyntaxFacts) -> Iterator[Diagnostic]:
    """One finding for each constant or tuple key that is no string. Names and calls may be strings: not judged here."""
    for display in facts.find(ast.Dict):
        for key in display.keys:
            if key is not None and _is_never_text(key):
                yield facts.report(
                    "NKI111",
                    key,
                    f"the dictionary key {facts.text(key)} is not a string",
                    limit="dictionaries of a kernel have string keys",
                    use="use a list indexed by the number, or a string key",
                )


def _is_never_text(key: ast.expr) -> bool:
    match key:
        case ast.Constant(value=value):
            return not isinstance(value, str)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert(), operand=ast.Constant()):
            return True
        case _:
            return isinstance(key, ast.Tuple)


RULE = Rule(code="NKI111", stage="syntax", check=check)
