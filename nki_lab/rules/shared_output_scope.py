"""NKI336: a Beta 1 kernel makes a tensor in shared HBM anywhere but at its top level."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from nki_lab.diagnostic import Diagnostic
from nki_lab.rules.facts import Rule, SyntaxFacts
from nki_lab.rules.scopes import FUNCTIONS

_MAKERS: Final = frozenset({"ndarray", "zeros", "ones", "full", "empty_like", "zeros_like"})
_BLOCKS: Final = {ast.For: "a loop", ast.While: "a loop"}
"""Not branches: AWS's own kernels make an optional output under a condition that is known when they are traced."""


def check(facts: SyntaxFacts) -> Iterator[Diagnostic]:
    """One finding for each such call in a loop, or in a function that a kernel calls and that is none itself."""
    for item in facts.functions:
        is_kernel = item.is_entry or bool(item.node.decorator_list)
        yield from _within(facts, item.node.body, "" if is_kernel else f"the function {item.node.name}")


def _within(facts: SyntaxFacts, body: list[ast.stmt], where: str) -> Iterator[Diagnostic]:
    stack: list[tuple[ast.AST, str]] = [(node, where) for node in reversed(body)]
    while stack:
        node, place = stack.pop()
        if isinstance(node, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            continue
        if place and isinstance(node, ast.Call) and _is_shared(facts, node):
            yield facts.report(
                "NKI336",
                node,
                f"a tensor in shared HBM is made in {place}",
                limit="tensors in shared HBM are made at the top level of a kernel",
                use="make it at the top of the kernel, and pass it on",
            )
        inner = place or _BLOCKS.get(type(node), "")
        stack.extend((child, inner) for child in reversed(list(ast.iter_child_nodes(node))))


def _is_shared(facts: SyntaxFacts, node: ast.Call) -> bool:
    home, _, name = facts.dotted(node.func).rpartition(".")
    if name not in _MAKERS or not home.endswith("language"):
        return False
    buffers = [item.value for item in node.keywords if item.arg == "buffer"]
    return any(facts.dotted(item).rpartition(".")[2] == "shared_hbm" for item in buffers)


RULE = Rule(code="NKI336", stage="syntax", check=check, dialects=("legacy",))
