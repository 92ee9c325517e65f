"""NKI128: the body of `nl.fori_loop` writes the register of its counter, which is a copy."""

from __future__ import annotations

import ast

from nki_lab.isa.spec import TABLE
from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts
from nki_lab.source.trees import FunctionNode


@syntax_rule("NKI128")
def check(facts: SyntaxFacts) -> Findings:
    """One finding for each such write in a function that kernel code hands to nl.fori_loop by its name."""
    bodies = set()
    for call in facts.find(ast.Call):
        if facts.dotted(call.func) == "nki.language.fori_loop":
            given = [*call.args[2:3], *(item.value for item in call.keywords if item.arg == "body_fun")]
            bodies |= {item.id for item in given if isinstance(item, ast.Name)}
    if not bodies:
        return
    for node in facts.find(ast.FunctionDef):
        if node.name in bodies and node.args.args:
            yield from _writes(facts, node, node.args.args[0].arg)


def _writes(facts: SyntaxFacts, node: FunctionNode, counter: str) -> Findings:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            called = TABLE.get(facts.short_name(inner.func))
            if called is None or not called.writes_register:
                continue
            place = list(called.arguments).index(called.register_out)
            named = [item.value for item in inner.keywords if item.arg == called.register_out]
            target = next(iter([*inner.args[place : place + 1], *named]), None)
            if isinstance(target, ast.Name) and target.id == counter:
                yield facts.report(
                    "NKI128",
                    target,
                    f"{counter}, the counter that nl.fori_loop passes to its body, is written",
                    limit="the body has the counter by value: writing it does not change the loop",
                    use="write another register, made by nisa.register_alloc()",
                )
