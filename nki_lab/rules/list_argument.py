"""NKI114: a list as the default of a kernel parameter."""

from __future__ import annotations

import ast

from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts


@syntax_rule("NKI114")
def check(facts: SyntaxFacts) -> Findings:
    """One finding at each list default in the signature of a kernel. Helpers may take lists."""
    for node in facts.kernels:
        positional = [*node.args.posonlyargs, *node.args.args]
        last = positional[len(positional) - len(node.args.defaults) :]
        defaults = [*node.args.defaults, *node.args.kw_defaults]
        for parameter, default in zip([*last, *node.args.kwonlyargs], defaults, strict=True):
            if isinstance(default, ast.List | ast.ListComp):
                yield facts.report(
                    "NKI114",
                    default,
                    f"the parameter {parameter.arg} of the kernel {node.name} defaults to a list",
                    limit="a kernel argument is a tensor or an immutable constant",
                    use="write a tuple: (1, 1)",
                )
