"""NKI103 to NKI108 and NKI113: constructs of Python that kernel code may not contain."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts
from nki_lab.source.names import binds


def _always(_node: ast.AST, _facts: SyntaxFacts) -> bool:
    return True


class _Banned(NamedTuple):
    """A banned kind of node; `message` and `use` may mention the `node`, and the finding may cover a keyword only."""

    code: str
    kind: type[ast.AST]
    message: str
    use: str
    keyword: str = ""
    applies: Callable[[ast.AST, SyntaxFacts], bool] = _always


def _makes_set(call: ast.AST, facts: SyntaxFacts) -> bool:
    """Return whether a call is one of Python's `set` and `frozenset`."""
    match call:
        case ast.Call(func=ast.Name(id="set" | "frozenset" as name)):
            return not binds(name, facts.module)
        case _:
            return False


_LOOP: Final = "write a for loop that appends to a list, or sets a key"
_RETURN: Final = "return the tiles in a list, or do the work in the caller's loop"
_TUPLE: Final = "write a tuple: `in` works on it as well"
_CONSTRUCTS: Final = (
    _Banned("NKI103", ast.ListComp, "a list comprehension in a kernel", _LOOP),
    _Banned("NKI103", ast.DictComp, "a dict comprehension in a kernel", _LOOP),
    _Banned("NKI103", ast.SetComp, "a set comprehension in a kernel", _LOOP),
    _Banned("NKI103", ast.GeneratorExp, "a generator expression in a kernel", _LOOP),
    _Banned("NKI104", ast.Lambda, "a lambda in a kernel", "write a nested def: it is inlined just the same"),
    *(
        _Banned("NKI105", kind, "try in a kernel: nothing can be caught on the NeuronCore",
                "test the condition with if before the call that may fail", "try")
        for kind in (ast.Try, ast.TryStar)
    ),
    _Banned("NKI105", ast.Raise, "raise in a kernel", "assert the condition with a message: assert rows <= 128, ..."),
    _Banned("NKI106", ast.Yield, "yield in a kernel", _RETURN),
    _Banned("NKI106", ast.YieldFrom, "yield from in a kernel", _RETURN),
    _Banned("NKI106", ast.Await, "await in a kernel", _RETURN),
    _Banned("NKI106", ast.AsyncFor, "async for in a kernel", _RETURN, "async"),
    _Banned("NKI106", ast.AsyncWith, "async with in a kernel", _RETURN, "async"),
    _Banned("NKI106", ast.AsyncFunctionDef, "async def in a kernel", _RETURN, "async"),
    _Banned("NKI107", ast.Delete, "del in a kernel", "leave it out: a tile's memory is free after its last use"),
    _Banned("NKI107", ast.Global, "global in a kernel", "pass the value as an argument and return what changes"),
    _Banned("NKI107", ast.Nonlocal, "nonlocal in a kernel",
            "keep the state in a tensor, a list or an NKIObject made outside the nested function"),
    _Banned("NKI108", ast.NamedExpr, "{node.target.id} := ... in a kernel",
            "assign {node.target.id} in a statement of its own"),
    _Banned("NKI108", ast.Match, "match in a kernel", "write if / elif / else", "match"),
    _Banned("NKI108", ast.Set, "a set in a kernel", _TUPLE),
    _Banned("NKI108", ast.Call, "a set in a kernel", _TUPLE, applies=_makes_set),
)  # fmt: skip


def check(code: str, facts: SyntaxFacts) -> Findings:
    """Yield one finding for each construct of a code, nested ones too."""
    for item in _CONSTRUCTS:
        for node in facts.find(item.kind) if item.code == code else ():
            if item.applies(node, facts):
                place = facts.span(node, length=len(item.keyword)) if item.keyword else node
                yield facts.report(code, place, item.message.format(node=node), use=item.use.format(node=node))


RULES: Final = {code: syntax_rule(code)(partial(check, code)) for code in sorted({item.code for item in _CONSTRUCTS})}


@syntax_rule("NKI113")
def check_with(facts: SyntaxFacts) -> Findings:
    """Yield one finding for each context manager that is not `no_reorder`, however it was imported."""
    for statement in facts.find(ast.With):
        for item in statement.items:
            manager = item.context_expr
            if facts.short_name(manager.func if isinstance(manager, ast.Call) else manager) != "no_reorder":
                yield facts.report(
                    "NKI113",
                    manager,
                    f"with {facts.text(manager)} in a kernel",
                    limit="the only context manager of a kernel is nl.no_reorder()",
                    use="enter it in host code, around the call of the kernel",
                )
