"""NKI334: a Beta 1 kernel stores into an argument that no annotation allows it to write."""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from typing import Final

from nki_lab.diagnostic import Related
from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts
from nki_lab.source.trees import FunctionNode

_VIEWS: Final = frozenset({"reshape", "view", "broadcast_to", "expand_dims", "ap", "astype"})


@syntax_rule("NKI334", dialects=("beta1",))
def check(facts: SyntaxFacts) -> Findings:
    """One finding for the first store into each parameter of a kernel that is not annotated as mutable."""
    nodes = bindings_and_stores(facts) if facts.kernels else []
    for kernel in facts.kernels:
        for name, place in stored_parameters(facts, kernel, nodes).items():
            annotation = next(arg.annotation for arg in kernel.args.args if arg.arg == name)
            if not is_mutable(annotation):
                yield facts.report(
                    "NKI334",
                    place,
                    f"{kernel.name} stores into its parameter {name}",
                    limit="arguments are read only, but for those annotated nt.mutable_tensor",
                    use=f"annotate {name}: nt.mutable_tensor and return it, or store into a tensor in nl.shared_hbm",
                    related=(Related(f"{name} is a parameter", facts.name_span(kernel)),),
                )


def bindings_and_stores(facts: SyntaxFacts) -> list[ast.Assign | ast.Call]:
    """The assignments of kernel code and its calls that may be stores, in the order of the source."""
    calls = [node for node in facts.find(ast.Call) if _may_store(node)]
    return sorted([*facts.find(ast.Assign), *calls], key=lambda node: (node.lineno, node.col_offset))


def _line(node: ast.stmt | ast.expr) -> int:
    return node.lineno


def stored_parameters(
    facts: SyntaxFacts, kernel: FunctionNode, nodes: list[ast.Assign | ast.Call]
) -> dict[str, ast.expr]:
    """The parameters of a kernel that `nl.store` writes, whole or in part, with the place of the first store.

    `nodes` are the bindings and stores of the kernel code. A name that is bound to a view of a parameter counts as the
    parameter, one that is bound to anything else does not.
    """
    meant: dict[str, str] = {arg.arg: arg.arg for arg in kernel.args.args}
    found: dict[str, ast.expr] = {}
    first = bisect_left(nodes, kernel.lineno, key=_line)
    last = bisect_right(nodes, kernel.end_lineno or kernel.lineno, key=_line)
    for node in nodes[first:last]:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    source = meant.get(_root(node.value), "")
                    meant.pop(target.id, None)
                    if source:
                        meant[target.id] = source
        elif facts.dotted(node.func).count("."):
            given = [*node.args[:1], *(item.value for item in node.keywords if item.arg == "dst")]
            name = meant.get(_root(given[0]), "") if given else ""
            if name:
                found.setdefault(name, given[0])
    return found


def _may_store(node: ast.Call) -> bool:
    """Whether a call may be one of `nl.store`, by its name alone."""
    function = node.func
    return (function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")) == "store"


def is_mutable(annotation: ast.expr | None) -> bool:
    """Whether an annotation is `nt.mutable_tensor`, with a shape or without, also as text."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return "mutable_tensor" in annotation.value
    while isinstance(annotation, ast.Subscript | ast.BinOp):
        annotation = annotation.value if isinstance(annotation, ast.Subscript) else annotation.left
    name = annotation.attr if isinstance(annotation, ast.Attribute) else getattr(annotation, "id", "")
    return name == "mutable_tensor"


def _root(node: ast.expr) -> str:
    """The name of the tensor that an expression is a view of; "" for other expressions."""
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
