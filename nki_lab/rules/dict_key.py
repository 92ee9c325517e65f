"""NKI111: a dictionary with a key that is not a string, in kernel code."""

from __future__ import annotations

import ast
from collections import Counter

from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts


@syntax_rule("NKI111")
def check(facts: SyntaxFacts) -> Findings:
    """One finding for each constant or tuple key that is no string: in a display, and where an item is assigned to a
    name that stands for dictionaries only. Names and calls may be strings: not judged here."""
    keys = [key for display in facts.find(ast.Dict) for key in display.keys]
    keys += _assigned(facts)
    for key in dict.fromkeys(keys):
        if key is not None and _is_never_text(key):
            yield facts.report(
                "NKI111",
                key,
                f"the dictionary key {facts.text(key)} is not a string",
                limit="dictionaries of a kernel have string keys",
                use="use a list indexed by the number, or a string key",
            )


def _assigned(facts: SyntaxFacts) -> list[ast.expr]:
    """The keys of item assignments to names that stand for nothing but dictionaries, in all of the kernel code."""
    stores = [
        (node.value.id, node.slice)
        for node in facts.find(ast.Subscript)
        if isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and _is_never_text(node.slice)
    ]
    if not stores:
        return []
    made = Counter(
        target.id
        for node in facts.find(ast.Assign)
        if _is_dict(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    )
    bound = Counter(node.id for node in facts.find(ast.Name) if isinstance(node.ctx, ast.Store))
    own = (arg for item in facts.functions for arg in ast.walk(item.node.args) if isinstance(arg, ast.arg))
    bound.update(arg.arg for arg in (*facts.find(ast.arg), *own))
    return [key for name, key in stores if 0 < made[name] == bound[name]]


def _is_dict(value: ast.expr) -> bool:
    match value:
        case ast.Dict() | ast.Call(func=ast.Name(id="dict")):
            return True
        case _:
            return False


def _is_never_text(key: ast.expr) -> bool:
    match key:
        case ast.Constant(value=value):
            return not isinstance(value, str)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert(), operand=ast.Constant()):
            return True
        case _:
            return isinstance(key, ast.Tuple)
