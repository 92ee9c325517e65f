"""NKI111, NKI112 and NKI125: dictionaries, classes and module variables that kernel code may not use."""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Container
from itertools import islice
from typing import Final

from nki_lab.diagnostic import Related
from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts
from nki_lab.source.trees import last_name

_MOST_KEYS: Final = 20
"""Keys of one display that are reported."""


@syntax_rule("NKI111")
def check_keys(facts: SyntaxFacts) -> Findings:
    """Yield one finding for each constant or tuple key that is no string: in a display, of which the first
    `_MOST_KEYS` are named, and where an item is assigned
    to a name that stands for dictionaries only. Names and calls may be strings: not judged here.
    """
    keys: list[ast.expr] = []
    for display in facts.find(ast.Dict):
        keys += islice((key for key in display.keys if key is not None and _is_never_text(key)), _MOST_KEYS)
    keys += _assigned(facts)
    for key in dict.fromkeys(keys):
        if _is_never_text(key):
            yield facts.report(
                "NKI111",
                key,
                f"the dictionary key {facts.text(key)} is not a string",
                limit="dictionaries of a kernel have string keys",
                use="use a list indexed by the number, or a string key",
            )


def _assigned(facts: SyntaxFacts) -> list[ast.expr]:
    """Return the keys of item assignments to names that stand for nothing but dictionaries, in all of the kernel
    code.
    """
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


_FOREIGN: Final = frozenset({
    "object", "abc.ABC", "typing.Generic", "typing.NamedTuple", "typing.Protocol", "typing.TypedDict",
    "typing_extensions.NamedTuple", "typing_extensions.Protocol", "typing_extensions.TypedDict",
})  # fmt: skip


@syntax_rule("NKI112")
def check_bases(facts: SyntaxFacts) -> Findings:
    """Yield one finding for each class of this module that has several bases, or known ones and no NKIObject or
    Enum.
    """
    for item in facts.classes:
        several = len(item.node.bases) > 1 and not any(ast.unparse(base).endswith("Enum") for base in item.node.bases)
        if several or (item.roots and all(_is_foreign(root) for root in item.roots)):
            first = min(item.instantiations, key=lambda call: (call.lineno, call.col_offset))
            fault = f"inherits from {len(item.node.bases)} classes" if several else "does not inherit from NKIObject"
            yield facts.report(
                "NKI112",
                facts.name_span(item.node),
                f"the class {item.node.name} is used in a kernel and {fault}",
                limit="a class used in a kernel inherits from nl.NKIObject alone, or from Enum",
                use=f"class {item.node.name}(nl.NKIObject): ...",
                related=[Related(f"a kernel makes a {item.node.name} here", facts.span(first))],
            )


def _is_foreign(root: str) -> bool:
    """Return whether the base is known not to be NKI's. Exceptions are left to the finding on `raise`."""
    known = getattr(builtins, root, None) if root.isidentifier() else None
    if isinstance(known, type):
        return not issubclass(known, BaseException)
    return root in _FOREIGN


_MAKERS: Final = frozenset({"list", "dict", "set", "bytearray", "defaultdict", "OrderedDict", "deque", "Counter"})
_DISPLAYS: Final = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)


@syntax_rule("NKI125")
def check_globals(facts: SyntaxFacts) -> Findings:
    """Yield one finding for the first use of each such object that the module makes and something changes."""
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
    """Return the names that the module binds to a container that can be changed."""
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
