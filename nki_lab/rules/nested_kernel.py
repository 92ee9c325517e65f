"""NKI129: kernel code calls a function that is a kernel itself."""

from __future__ import annotations

import ast

from nki_lab.diagnostic import Related
from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts
from nki_lab.source.trees import FUNCTIONS, FunctionNode


@syntax_rule("NKI129")
def check(facts: SyntaxFacts) -> Findings:
    """One finding for each call, by its name, of a function of this module that `nki.jit` decorates."""
    kernels: dict[str, tuple[FunctionNode, ast.expr]] = {}
    for node in facts.tree.body:
        if isinstance(node, FUNCTIONS):
            for decorator in node.decorator_list:
                name = decorator.func if isinstance(decorator, ast.Call) else decorator
                if facts.dotted(name) == "nki.jit":
                    kernels[node.name] = (node, decorator)
    if not kernels:
        return
    for call in facts.find(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id in kernels:
            node, decorator = kernels[call.func.id]
            yield facts.report(
                "NKI129",
                call.func,
                f"{node.name} is called by kernel code and is a kernel itself",
                limit="the compiler inlines the functions that a kernel calls; nki.jit is for what the host launches",
                use=f"drop nki.jit from {node.name}, and let the host launch nki.jit({node.name})",
                related=(Related(f"{node.name} is made a kernel here", facts.span(decorator)),),
            )
