"""NKI335: a Beta 1 kernel writes a mutable parameter and does not return it."""

from __future__ import annotations

import ast

from nki_lab.rules.parameter_written import bindings_and_stores, is_mutable, stored_parameters
from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts


@syntax_rule("NKI335", dialects=("beta1",))
def check(facts: SyntaxFacts) -> Findings:
    """One finding for each such parameter of a kernel that returns other things."""
    for kernel in facts.kernels:
        mutable = {arg.arg: arg for arg in kernel.args.args if is_mutable(arg.annotation)}
        if not mutable:
            continue
        returns = [node.value for node in ast.walk(kernel) if isinstance(node, ast.Return) and node.value is not None]
        mentioned = {item.id for value in returns for item in ast.walk(value) if isinstance(item, ast.Name)}
        for name in stored_parameters(facts, kernel, bindings_and_stores(facts)):
            if name in mutable and name not in mentioned:
                yield facts.report(
                    "NKI335",
                    mutable[name],
                    f"{kernel.name} writes its mutable parameter {name} and does not return it",
                    limit="what a kernel writes is among its results",
                    use=f"add {name} to what the kernel returns",
                )
