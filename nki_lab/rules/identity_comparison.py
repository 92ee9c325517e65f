"""NKI110: `is` between things other than None in kernel code."""

from __future__ import annotations

import ast

from nki_lab.diagnostic import Span
from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts


@syntax_rule("NKI110")
def check(facts: SyntaxFacts) -> Findings:
    """One finding for each `is` or `is not` with None on neither side: AWS's kernels test for None that way."""
    for node in facts.find(ast.Compare):
        operands = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, operands, operands[1:], strict=False):
            if isinstance(operator, ast.Is | ast.IsNot) and not (_is_none(left) or _is_none(right)):
                word, instead = ("is", "==") if isinstance(operator, ast.Is) else ("is not", "!=")
                start, end = facts.span(left), facts.span(right)
                yield facts.report(
                    "NKI110",
                    Span(facts.file, start.line, start.column, end.end_line, end.end_column),
                    f"`{word}` compares two values that are not None",
                    limit="identity has no meaning while a kernel is specialised; None is accepted",
                    use=f"compare with {instead}",
                )


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
