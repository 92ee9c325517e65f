"""NKI126: members of an Enum in an operation other than == and !=, in kernel code."""

from __future__ import annotations

import ast
from typing import Final

from nki_lab.diagnostic import Diagnostic
from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts
from nki_lab.source.names import NameUses, definitions_of, dotted

_ENUMS: Final = frozenset({"enum.Enum", "enum.IntEnum", "enum.Flag", "enum.IntFlag", "enum.StrEnum"})
_ORDER: Final = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


@syntax_rule("NKI126")
def check(facts: SyntaxFacts) -> Findings:
    """One finding for each ordering or arithmetic with a member of an Enum of this module, written out.

    Members that a variable holds are not seen; `nisa.nc_version` is no Enum of the module, and AWS's kernels order it.
    """
    enums = {name for name in facts.module.definitions if _is_enum(name, facts.module)}
    if not enums:
        return
    for node in facts.find(ast.Compare):
        operands = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, operands, operands[1:], strict=False):
            sign = _ORDER.get(type(operator))
            if sign and (_is_member(left, enums) or _is_member(right, enums)):
                yield _finding(facts, node, sign)
    for arithmetic in facts.find(ast.BinOp):
        if _is_member(arithmetic.left, enums) or _is_member(arithmetic.right, enums):
            yield _finding(facts, arithmetic, type(arithmetic.op).__name__)


def _finding(facts: SyntaxFacts, node: ast.expr, sign: str) -> Diagnostic:
    what = "ordered" if sign in _ORDER.values() else "calculated with"
    return facts.report(
        "NKI126",
        node,
        f"the Enum member in {facts.text(node)} is {what}",
        limit="members of an Enum are compared with == and !=",
        use="compare with ==, or keep the number in a plain variable",
    )


def _is_enum(name: str, module: NameUses) -> bool:
    found = [item for item in definitions_of(name, module) if isinstance(item.node, ast.ClassDef)]
    bases = [base for item in found if isinstance(item.node, ast.ClassDef) for base in item.node.bases]
    return any(dotted(base, module) in _ENUMS for base in bases)


def _is_member(node: ast.expr, enums: set[str]) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in enums
