"""NKI005: instructions and tensors of NKI made by a statement of the module itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.spec import TABLE
from nki_lab.rules.facts import Rule, SyntaxFacts
from nki_lab.rules.scopes import FUNCTIONS

_MODULES: Final = ("nki", "neuronxcc.nki")
_TENSORS: Final = frozenset(
    [
        "ndarray",
        "full",
        "zeros",
        "ones",
        "zeros_like",
        "empty_like",
        "load",
        "store",
        "load_transpose2d",
        "copy",
        "shared_constant",
        "shared_identity_matrix",
        "program_id",
        "num_programs",
    ]
)
"""Functions of nki.language that record something, or ask about the launch; the operators are values as well."""


def check(facts: SyntaxFacts) -> Iterator[Diagnostic]:
    """One finding for each such call that runs when the module is loaded. What functions do depends on who calls them,
    and a fault of an import guard is its own affair."""
    for node in _statements(facts.tree):
        if isinstance(node, ast.Call):
            home, _, name = facts.dotted(node.func).rpartition(".")
            package, _, part = home.rpartition(".")
            if package in _MODULES and ((part == "isa" and name in TABLE) or (part == "language" and name in _TENSORS)):
                short = "nisa" if part == "isa" else "nl"
                yield facts.report(
                    "NKI005",
                    node,
                    f"{short}.{name} is called by the module, outside of every kernel",
                    limit="instructions and tensors exist while a kernel is specialised",
                    use="move it into a function decorated with nki.jit, or into one that such a function calls",
                )


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes that run when the module is loaded: neither bodies of functions, nor what `try` guards."""
    stack: list[ast.AST] = list(reversed(tree.body))
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, (*FUNCTIONS, ast.Lambda, ast.Try)):
            continue
        stack.extend(reversed(list(ast.iter_child_nodes(node))))


RULE = Rule(code="NKI005", stage="syntax", check=check, dialects=("current", "legacy"))
