"""NKI336: a Beta 1 kernel makes a tensor in shared HBM anywhere but at its top level."""

from __future__ import annotations

import ast
from operator import attrgetter
from typing import Final

from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts
from nki_lab.source.trees import FunctionNode, last_name

_LINE: Final = attrgetter("lineno")
_MAKERS: Final = frozenset({"ndarray", "zeros", "ones", "full", "empty_like", "zeros_like"})
# Branches are accepted: AWS's own kernels make an optional output under a condition that is known when they are traced.


@syntax_rule("NKI336", dialects=("beta1",))
def check(facts: SyntaxFacts) -> Findings:
    """One finding for each such call in a loop, or in a function that a kernel calls and that is none itself."""
    made = [node for node in facts.find(ast.Call) if _is_shared(facts, node)]
    if not made:
        return
    loops = [*facts.find(ast.For), *facts.find(ast.While)]
    functions: list[FunctionNode] = [item.node for item in facts.functions]
    functions += [node for node in facts.find(ast.FunctionDef) if node not in functions]
    kernels = {id(item.node) for item in facts.functions if item.is_entry or item.node.decorator_list}
    for node in made:
        function = max((item for item in functions if _holds(item, node)), key=_LINE, default=functions[0])
        loop = any(_holds(function, item) and _holds(item, node) for item in loops)
        if loop or id(function) not in kernels:
            yield facts.report(
                "NKI336",
                node,
                f"a tensor in shared HBM is made in {'a loop' if loop else f'the function {function.name}'}",
                limit="tensors in shared HBM are made at the top level of a kernel",
                use="make it at the top of the kernel, and pass it on",
            )


def _holds(outer: ast.stmt, inner: ast.expr | ast.stmt) -> bool:
    return outer.lineno <= inner.lineno <= (outer.end_lineno or outer.lineno) and outer is not inner


def _is_shared(facts: SyntaxFacts, node: ast.Call) -> bool:
    if not node.keywords or last_name(node.func) not in _MAKERS:
        return False
    buffers = (item.value for item in node.keywords if item.arg == "buffer")
    is_nki = facts.dotted(node.func).rpartition(".")[0].endswith("language")
    return is_nki and any(facts.short_name(item) == "shared_hbm" for item in buffers)
