"""NKI110 and NKI126: operators that kernel code may not apply to some operands."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from nki_lab.diagnostic import Span
from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts
from nki_lab.source.names import NameUses, definitions_of, dotted

_ENUMS: Final = frozenset({"enum.Enum", "enum.IntEnum", "enum.Flag", "enum.IntFlag", "enum.StrEnum"})


@syntax_rule("NKI110")
def check_identity(facts: SyntaxFacts) -> Findings:
    """Yield one finding for each `is` or `is not` with None on neither side: AWS's kernels test for None that way."""
    for _, operator, left, right in _comparisons(facts):
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


@syntax_rule("NKI126")
def check_enum(facts: SyntaxFacts) -> Findings:
    """Yield one finding for each ordering or arithmetic with a member of an Enum of this module, written out.

    Members that a variable holds are not seen; `nisa.nc_version` is no Enum of the module, and AWS's kernels order it.
    """
    enums = {name for name in facts.module.definitions if _is_enum(name, facts.module)}
    if not enums:
        return
    uses = [
        (node, "ordered", left, right)
        for node, operator, left, right in _comparisons(facts)
        if isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE)
    ]
    uses += [(node, "calculated with", node.left, node.right) for node in facts.find(ast.BinOp)]
    for node, verb, *operands in uses:
        if any(_is_member(item, enums) for item in operands):
            yield facts.report(
                "NKI126",
                node,
                f"the Enum member in {facts.text(node)} is {verb}",
                limit="members of an Enum are compared with == and !=",
                use="compare with ==, or keep the number in a plain variable",
            )


def _comparisons(facts: SyntaxFacts) -> Iterator[tuple[ast.expr, ast.cmpop, ast.expr, ast.expr]]:
    """Yield (the whole expression, operator, left and right operand) of each comparison in kernel code."""
    for node in facts.find(ast.Compare):
        operands = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, operands, operands[1:], strict=False):
            yield node, operator, left, right


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_enum(name: str, module: NameUses) -> bool:
    classes = [item.node for item in definitions_of(name, module) if isinstance(item.node, ast.ClassDef)]
    return any(dotted(base, module) in _ENUMS for node in classes for base in node.bases)


def _is_member(node: ast.expr, enums: set[str]) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in enums
