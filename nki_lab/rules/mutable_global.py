"""NKI125: a list, dictionary or set of the module that kernel code reads."""

from __future__ import annotations

import ast
from collections.abc import Container
from typing import Final

from nki_lab.diagnostic import Related
from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts
from nki_lab.source.trees import last_name

_MAKERS: Final = frozenset({"list", "dict", "set", "bytearray", "defaultdict", "OrderedDict", "deque", "Counter"})
_DISPLAYS: Final = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)


@syntax_rule("NKI125")
def check(facts: SyntaxFacts) -> Findings:
    """One finding for the first use of each such object that the module makes and something changes."""
    made = _made(facts.tree)
    if not made:
        return
    inner = [scope for scope in facts.module.subtree() if scope.parent is not None]
    local = {name for scope in inner for name in (*scope.bound, *scope.aliases, *scope.definitions)}
    used: dict[str, ast.Name] = {}
    for node in facts.find(ast.Name):
        if node.id in made and node.id not in local:
            used.setdefault(node.id, node)
    for name in sorted(_changed(facts.tree, used)) if used else ():
        yield facts.report(
            "NKI125",
            used[name],
            f"the kernel reads {name}, an object of the module that is changed",
            limit="a kernel is a function of its arguments: a compiled one is kept, whatever its globals become",
            use="pass it as an argument, as a tuple",
            related=(Related(f"{name} is made here", facts.span(made[name])),),
        )


def _made(tree: ast.Module) -> dict[str, ast.AST]:
    """The names that the module binds to a container that can be changed."""
    found: dict[str, ast.AST] = {}
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ) if _is_mutable(value):
                found[name] = node
            case _:
                pass
    return found


def _is_mutable(value: ast.expr) -> bool:
    return last_name(value.func) in _MAKERS if isinstance(value, ast.Call) else isinstance(value, _DISPLAYS)


_CHANGES: Final = frozenset({
    "append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault", "add", "discard", "sort", "reverse",
    "popitem", "appendleft",
})  # fmt: skip


def _changed(tree: ast.Module, names: Container[str]) -> set[str]:
    """Return the names whose object something in the module writes to."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case (
                ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del())
                | ast.AugAssign(target=ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)))
            ):
                found.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if method in _CHANGES:
                found.add(name)
            case ast.Global(names=declared):
                found.update(declared)
            case _:
                pass
    return {name for name in found if name in names}
