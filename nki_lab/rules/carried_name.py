"""NKI119: an iteration of a device loop reads a name and rebinds it for the next iteration, which will not see it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from nki_lab.diagnostic import Related
from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts


@syntax_rule("NKI119")
def check(facts: SyntaxFacts) -> Findings:
    """Yield one finding for each such name of each `for` over nl.dynamic_range and each `while` on a register.

    Names that a function binds from nisa.register_alloc are registers.
    """
    registers = {
        target.id
        for node in facts.find(ast.Assign)
        if facts.calls(node.value, "register_alloc")
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    counted = [loop for loop in facts.find(ast.For) if facts.calls(loop.iter, "dynamic_range")]
    tested = [loop for loop in facts.find(ast.While) if isinstance(loop.test, ast.Name) and loop.test.id in registers]
    loops: list[ast.For | ast.While] = [*counted, *tested]
    for loop in loops:
        read: dict[str, ast.AST] = {}
        bound: dict[str, ast.AST] = {}
        targets = ast.walk(loop.target) if isinstance(loop, ast.For) else ()
        known = {node.id for node in targets if isinstance(node, ast.Name)}
        for node, stored in _uses(loop.body):
            name = node.id
            if stored:
                bound.setdefault(name, node)
                known.add(name)
            elif name not in known:
                read.setdefault(name, node)
        for name in read.keys() & bound.keys() - registers:
            yield facts.report(
                "NKI119",
                bound[name],
                f"{name} is read by an iteration of the device loop and bound anew for the next one",
                limit="the body is specialised once: every iteration reads what the name stood for in the first",
                use="write into the tensor with a nisa instruction instead of binding the name",
                related=(Related("it is read here", facts.span(read[name])),),
            )


def _uses(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.Name, bool]]:
    """Yield the names in nodes in the order in which they are used, and whether they are bound there."""
    for node in nodes:
        match node:
            case ast.Name():
                yield node, isinstance(node.ctx, ast.Store)
            case ast.Assign(targets=targets, value=value):
                yield from _uses([value, *targets])
            case ast.AugAssign(target=ast.Name() as target, value=value):
                yield from _uses([value])
                yield target, False
                yield target, True
            case ast.AugAssign(target=target, value=value):
                yield from _uses([value, target])
            case ast.AnnAssign(target=target, value=value):
                yield from _uses([target] if value is None else [value, target])
            case ast.For(target=target, iter=source, body=body, orelse=orelse):
                yield from _uses([source, target, *body, *orelse])
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda() | ast.ClassDef() | ast.comprehension():
                pass  # names of their own
            case _:
                yield from _uses(ast.iter_child_nodes(node))
