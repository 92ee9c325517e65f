"""NKI334 to NKI336: parameters that Beta 1 kernels write, and their tensors in shared HBM."""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import attrgetter
from typing import Final

from nki_lab.diagnostic import Related
from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts
from nki_lab.source.nesting import Nesting
from nki_lab.source.trees import FunctionNode, last_name, lines_of

_VIEWS: Final = frozenset({"reshape", "view", "broadcast_to", "expand_dims", "ap", "astype"})
_LINE: Final = attrgetter("lineno")


@syntax_rule("NKI334", dialects=("beta1",))
def check_stores(facts: SyntaxFacts) -> Findings:
    """Yield one finding for the first store into each parameter of a kernel that is not annotated as mutable."""
    for kernel, parameter, place in _stored_parameters(facts):
        if not _is_mutable(parameter.annotation):
            name = parameter.arg
            yield facts.report(
                "NKI334",
                place,
                f"{kernel.name} stores into its parameter {name}",
                limit="arguments are read only, but for those annotated nt.mutable_tensor",
                use=f"annotate {name}: nt.mutable_tensor and return it, or store into a tensor in nl.shared_hbm",
                related=(Related(f"{name} is a parameter", facts.name_span(kernel)),),
            )


@syntax_rule("NKI335", dialects=("beta1",))
def check_returns(facts: SyntaxFacts) -> Findings:
    """Yield one finding for each mutable parameter that a kernel writes and does not return."""
    for kernel, parameter, _ in _stored_parameters(facts):
        if _is_mutable(parameter.annotation) and parameter.arg not in _returned_names(kernel):
            yield facts.report(
                "NKI335",
                parameter,
                f"{kernel.name} writes its mutable parameter {parameter.arg} and does not return it",
                limit="what a kernel writes is among its results",
                use=f"add {parameter.arg} to what the kernel returns",
            )


def _returned_names(kernel: FunctionNode) -> set[str]:
    returns = (node.value for node in ast.walk(kernel) if isinstance(node, ast.Return) and node.value is not None)
    return {item.id for value in returns for item in ast.walk(value) if isinstance(item, ast.Name)}


def _stored_parameters(facts: SyntaxFacts) -> Iterator[tuple[FunctionNode, ast.arg, ast.expr]]:
    """Yield (kernel, parameter, place of the first store) of the parameters that `nl.store` writes, whole or in part.

    A name that is bound to a view of a parameter counts as the parameter, a name that is bound to anything else does
    not.
    """
    if not facts.kernels:
        return
    stores = [node for node in facts.find(ast.Call) if last_name(node.func) == "store"]
    nodes: list[ast.Assign | ast.Call] = [*facts.find(ast.Assign), *stores]
    nodes.sort(key=attrgetter("lineno", "col_offset"))
    for kernel in facts.kernels:
        meant = {arg.arg: arg.arg for arg in kernel.args.args}
        found: dict[str, ast.expr] = {}
        first = bisect_left(nodes, kernel.lineno, key=_LINE)
        for node in nodes[first : bisect_right(nodes, kernel.end_lineno or kernel.lineno, key=_LINE)]:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        source = meant.get(_root(node.value))
                        meant.pop(target.id, None)
                        if source:
                            meant[target.id] = source
            elif "." in facts.dotted(node.func):
                given = [*node.args[:1], *(item.value for item in node.keywords if item.arg == "dst")]
                if given and (name := meant.get(_root(given[0]))):
                    found.setdefault(name, given[0])
        parameters = {arg.arg: arg for arg in kernel.args.args}
        yield from ((kernel, parameters[name], place) for name, place in found.items())


def _is_mutable(annotation: ast.expr | None) -> bool:
    """Return whether an annotation is `nt.mutable_tensor`, with a shape or without, also as text."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return "mutable_tensor" in annotation.value
    while isinstance(annotation, ast.Subscript | ast.BinOp):
        annotation = annotation.value if isinstance(annotation, ast.Subscript) else annotation.left
    return annotation is not None and last_name(annotation) == "mutable_tensor"


def _root(node: ast.expr) -> str:
    """Return the name of the tensor that an expression is a view of; "" for other expressions."""
    while True:
        match node:
            case ast.Name(id=name):
                return name
            case ast.Subscript(value=value):
                node = value
            case ast.Call(func=ast.Attribute(value=value, attr=method)) if method in _VIEWS:
                node = value
            case _:
                return ""


_MAKERS: Final = frozenset({"ndarray", "zeros", "ones", "full", "empty_like", "zeros_like"})
# Branches are accepted: AWS's own kernels make an optional output under a condition that is known when they are traced.


@syntax_rule("NKI336", dialects=("beta1",))
def check_shared(facts: SyntaxFacts) -> Findings:
    """Yield one finding for each such call in a loop, or in a function that a kernel calls and that is none itself."""
    made = [node for node in facts.find(ast.Call) if _is_shared(facts, node)]
    if not made:
        return
    loops = Nesting[ast.stmt, int]([*facts.find(ast.For), *facts.find(ast.While)], lines_of)
    nodes = [item.node for item in facts.functions]
    functions = Nesting[FunctionNode, int](dict.fromkeys([*nodes, *facts.find(ast.FunctionDef)]), lines_of)
    kernels = {item.node for item in facts.functions if item.is_entry or item.node.decorator_list}
    for node in made:
        function = (functions.around(node.lineno) or nodes)[-1]
        loop = any(function.lineno <= item.lineno for item in loops.around(node.lineno))
        if loop or function not in kernels:
            yield facts.report(
                "NKI336",
                node,
                f"a tensor in shared HBM is made in {'a loop' if loop else f'the function {function.name}'}",
                limit="tensors in shared HBM are made at the top level of a kernel",
                use="make it at the top of the kernel, and pass it on",
            )


def _is_shared(facts: SyntaxFacts, node: ast.Call) -> bool:
    if not node.keywords or last_name(node.func) not in _MAKERS:
        return False
    buffers = (item.value for item in node.keywords if item.arg == "buffer")
    is_nki = facts.dotted(node.func).rpartition(".")[0].endswith("language")
    return is_nki and any(facts.short_name(item) == "shared_hbm" for item in buffers)
