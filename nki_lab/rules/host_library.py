"""NKI130: kernel code calls a function of NumPy or of a framework."""

from __future__ import annotations

import ast
from typing import Final

from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts

_LIBRARIES: Final = frozenset({"numpy", "torch", "jax", "ml_dtypes"})
_ACCEPTED: Final = frozenset({"finfo", "iinfo", "dtype"})
"""They give numbers and dtypes of the language."""

_CONSTANT: Final = "nki.language.shared_constant"
"""It takes an array of the host."""


@syntax_rule("NKI130")
def check(facts: SyntaxFacts) -> Findings:
    """One finding for each such call that the module's imports make plain, but for the arrays of constants."""
    calls = [(node, facts.dotted(node.func)) for node in facts.find(ast.Call)]
    constants = {part for node, name in calls if name.endswith(_CONSTANT) for part in ast.walk(node)}
    for node, name in calls:
        if node in constants:
            continue
        if name.partition(".")[0] in _LIBRARIES and name.rpartition(".")[2] not in _ACCEPTED:
            yield facts.report(
                "NKI130",
                node.func,
                f"{facts.text(node.func)} is called in a kernel",
                limit="values in a kernel are tensors, numbers, strings and containers of them; arrays are the host's",
                use="compute it on the host and pass it as an argument, or compute with nisa instructions",
            )
