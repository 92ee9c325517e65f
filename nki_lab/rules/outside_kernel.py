"""NKI005: instructions and tensors of NKI made by a statement of the module itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from nki_lab.isa.spec import TABLE
from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts

_MODULES: Final = ("nki", "neuronxcc.nki")
_TENSORS: Final = frozenset({
    "ndarray", "full", "zeros", "ones", "zeros_like", "empty_like", "load", "store", "load_transpose2d", "copy",
    "shared_constant", "shared_identity_matrix", "program_id", "num_programs",
})  # fmt: skip
"""Functions of nki.language that record something, or ask about the launch; the operators are values as well."""


@syntax_rule("NKI005", dialects=("current", "beta1"), on_host=True)
def check(facts: SyntaxFacts) -> Findings:
    """One finding for each such call that runs when the module is loaded. What functions do depends on who calls them,
    and a fault of an import guard is its own affair."""
    for node in _calls(facts):
        home, _, name = facts.imported(node.func).rpartition(".")
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


def _calls(facts: SyntaxFacts) -> Iterator[ast.Call]:
    """The calls that run when the module is loaded, but for those that `try` guards."""
    guarded = [(node.lineno, node.end_lineno or node.lineno) for node in facts.tree.body if isinstance(node, ast.Try)]
    scopes = [facts.module]
    for scope in scopes:
        scopes += [inner for inner in scope.children if isinstance(inner.node, ast.ClassDef)]
        for call in scope.calls:
            if not any(first <= call.lineno <= last for first, last in guarded):
                yield call
