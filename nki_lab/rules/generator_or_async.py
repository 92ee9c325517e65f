"""NKI106: generators and coroutines in kernel code."""

from __future__ import annotations

import ast
from typing import Final

from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts

_EXPRESSIONS: Final[dict[type[ast.AST], str]] = {ast.Yield: "yield", ast.YieldFrom: "yield from", ast.Await: "await"}
_STATEMENTS: Final[dict[type[ast.AST], str]] = {
    ast.AsyncFor: "async for",
    ast.AsyncWith: "async with",
    ast.AsyncFunctionDef: "async def",
}


@syntax_rule("NKI106")
def check(facts: SyntaxFacts) -> Findings:
    """One finding for each yield and await, and at the `async` of each asynchronous statement."""
    use = "return the tiles in a list, or do the work in the caller's loop"
    for expression, word in _EXPRESSIONS.items():
        for node in facts.find(expression):
            yield facts.report("NKI106", node, f"{word} in a kernel", use=use)
    for statement, word in _STATEMENTS.items():
        for node in facts.find(statement):
            yield facts.report("NKI106", facts.span(node, length=len("async")), f"{word} in a kernel", use=use)
