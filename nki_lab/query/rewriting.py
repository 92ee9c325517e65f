"""The edits of `--fix` on a syntax tree that keeps every space and comment. Importing this takes libcst."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import libcst as cst
from libcst.metadata import CodeRange, PositionProvider

from nki_lab.diagnostic import Diagnostic

_MEMBER: Final = re.compile(r"write nisa\.(\w+\.\w+)")
_SUCCESSOR: Final = re.compile(r"write nl\.tile_size\.(\w+)")
_HARMLESS: Final = "is not part of the current signature"
"""What NKI604 says of a keyword that has no effect."""

Place = tuple[int, int, int, int]


class Rewriter(cst.CSTTransformer):
    """Mends `found` where the tree has exactly what their remedies replace; `count` is how many edits that took."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, found: Iterable[Diagnostic], modules: frozenset[str]) -> None:
        super().__init__()
        self.count = 0
        self._modules = modules
        self._found: dict[tuple[str, Place], Diagnostic] = {}
        for item in found:
            self._found[item.code, (item.line, item.column, item.end_line, item.end_column)] = item

    def _at(self, code: str, node: cst.CSTNode, last: cst.CSTNode | None = None) -> Diagnostic | None:
        """The finding whose place is a node, or goes from one to another; parentheses around them do not count."""
        first, final = (self.get_metadata(PositionProvider, item) for item in (node, last or node))
        assert isinstance(first, CodeRange)
        assert isinstance(final, CodeRange)
        start, end = first.start, final.end
        return self._found.get((code, (start.line, start.column + 1, end.line, end.column + 1)))

    # -- `is` between constants ----------------------------------------------------------------------------------------

    def leave_Comparison(  # noqa: N802 - the name is libcst's
        self, original_node: cst.Comparison, updated_node: cst.Comparison
    ) -> cst.BaseExpression:
        """`x.dtype is nl.float32` is `x.dtype == nl.float32`."""
        sides = original_node.left, original_node.comparisons[0].comparator
        if len(original_node.comparisons) != 1 or self._at("NKI110", *sides) is None:
            return updated_node
        target = updated_node.comparisons[0]
        sign = target.operator
        if not isinstance(sign, cst.Is | cst.IsNot) or not any(self._is_constant(side) for side in sides):
            return updated_node
        self.count += 1
        kind = cst.Equal if isinstance(sign, cst.Is) else cst.NotEqual
        equal = kind(whitespace_before=sign.whitespace_before, whitespace_after=sign.whitespace_after)
        return updated_node.with_changes(comparisons=[target.with_changes(operator=equal)])

    def _is_constant(self, node: cst.BaseExpression) -> bool:
        """Whether it is a literal, or a name of NKI."""
        if isinstance(node, cst.Integer | cst.Float | cst.SimpleString):
            return True
        if isinstance(node, cst.Name):
            return node.value in ("True", "False")
        root: cst.BaseExpression = node
        while isinstance(root, cst.Attribute):
            root = root.value
        return isinstance(node, cst.Attribute) and isinstance(root, cst.Name) and root.value in self._modules

    # -- lists as defaults ---------------------------------------------------------------------------------------------

    def leave_List(  # noqa: N802 - the name is libcst's
        self, original_node: cst.List, updated_node: cst.List
    ) -> cst.BaseExpression:
        """`[2, 2]` is `(2, 2)`."""
        if self._at("NKI114", original_node) is None:
            return updated_node
        self.count += 1
        elements = list(updated_node.elements)
        if len(elements) == 1 and isinstance(elements[0].comma, cst.MaybeSentinel):
            elements = [elements[0].with_changes(comma=cst.Comma())]
        return cst.Tuple(
            elements=elements,
            lpar=[*updated_node.lpar, cst.LeftParen(whitespace_after=updated_node.lbracket.whitespace_after)],
            rpar=[cst.RightParen(whitespace_before=updated_node.rbracket.whitespace_before), *updated_node.rpar],
        )

    # -- names ---------------------------------------------------------------------------------------------------------

    def leave_Attribute(  # noqa: N802 - the name is libcst's
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        """`nl.tile_size.psum_fmax` is `nl.tile_size.psum_bank_fmax`."""
        found = self._at("NKI601", original_node)
        successor = None if found is None else _SUCCESSOR.fullmatch(found.help)
        if successor is None:
            return updated_node
        self.count += 1
        return updated_node.with_changes(attr=updated_node.attr.with_changes(value=successor[1]))

    # -- arguments -----------------------------------------------------------------------------------------------------

    def leave_Call(  # noqa: N802 - the name is libcst's
        self, original_node: cst.Call, updated_node: cst.Call
    ) -> cst.BaseExpression:
        """`dge_mode=3` is `dge_mode=nisa.dge_mode.none`; a keyword without effect goes."""
        arguments = list(updated_node.args)
        for i, argument in enumerate(original_node.args):
            found = self._at("NKI606", argument.value)
            member = None if found is None else _MEMBER.fullmatch(found.help)
            module = _dotted(original_node.func)
            if member and module and isinstance(argument.value, cst.Integer | cst.SimpleString):
                self.count += 1
                value = cst.parse_expression(f"{module}.{member[1]}")
                kept = [argument.value.lpar, argument.value.rpar]
                arguments[i] = arguments[i].with_changes(value=value.with_changes(lpar=kept[0], rpar=kept[1]))
        gone = [
            i for i, argument in enumerate(original_node.args) if self._goes(argument, original_node.args[i - 1 : i])
        ]
        self.count += len(gone)
        for i in reversed(gone):
            _drop(arguments, i)
        return updated_node.with_changes(args=arguments)

    def _goes(self, argument: cst.Arg, before: Sequence[cst.Arg]) -> bool:
        """Whether an argument has no effect, and neither a comment nor a call in it."""
        found = self._at("NKI604", argument.value)
        if found is None or _HARMLESS not in found.message or argument.keyword is None:
            return False
        around = "".join(cst.Module([]).code_for_node(item) for item in (argument, *before))
        return argument.keyword.value == found.operand and "#" not in around and "(" not in around


def _dotted(function: cst.BaseExpression) -> str:
    """The module in `module.name`, in dots; empty where the function is another expression."""
    names: list[str] = []
    node = function.value if isinstance(function, cst.Attribute) else None
    while isinstance(node, cst.Attribute):
        names.append(node.attr.value)
        node = node.value
    return ".".join([node.value, *reversed(names)]) if isinstance(node, cst.Name) else ""


def _drop(arguments: list[cst.Arg], i: int) -> None:
    """Take an argument out; the last that stays ends as the last one did."""
    gone = arguments.pop(i)
    if i == len(arguments) and i > 0:
        arguments[i - 1] = arguments[i - 1].with_changes(
            comma=gone.comma, whitespace_after_arg=gone.whitespace_after_arg
        )
