"""The edits of `--fix` on a syntax tree that keeps every space and comment. Importing this takes libcst."""

# ruff: noqa: N802 - the names of methods are libcst's

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

import libcst as cst
from libcst.metadata import CodeRange, PositionProvider

from nki_lab.diagnostic import Diagnostic

_MEMBER: Final = re.compile(r"write nisa\.(\w+\.\w+)")
_SUCCESSOR: Final = re.compile(r"write nl\.tile_size\.(\w+)")
_MEMORY: Final = re.compile(r"write buffer=nl\.(\w+)")
_RANGE: Final = re.compile(r"\brange\s*=[^=]|\b(?:def|class|as|import)\s+range\b|,\s*range\s*[,=)\n]")
_RESPELT: Final[Mapping[str, Mapping[str, str]]] = {
    "use_gpsimd_dma": {
        "True": "dma_engine={module}.dma_engine.gpsimd_dma",
        "False": "dma_engine={module}.dma_engine.dma",
    },
    "imm": {"": "src={value}"},
}
"""Removed keywords, by their literal value ("" is any), and what stands for them now."""
_NUMBER: Final = re.compile(r"write (-?\d+)")
_HARMLESS: Final = re.compile(r"is not part of the current signature|^nki\.jit\(mode=")
"""The messages of NKI604 about a keyword that has no effect."""

N = TypeVar("N", bound=cst.CSTNode)
Place = tuple[int, int, int, int]


class Rewriter(cst.CSTTransformer):
    """Mends `found` where the tree has exactly what their remedies replace; `count` is how many edits that took.

    The tree is one of the `text` or of a part of it: what the text binds decides what may be written.
    """

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, found: Iterable[Diagnostic], modules: frozenset[str], text: str) -> None:
        super().__init__()
        self.count = 0
        self._text = text
        self._modules = modules
        self._found: dict[tuple[str, Place], Diagnostic] = {}
        for item in found:
            self._found[item.code, (item.line, item.column, item.end_line, item.end_column)] = item

    def _at(self, code: str, node: cst.CSTNode, last: cst.CSTNode | None = None) -> Diagnostic | None:
        """Return the finding whose place is a node, or goes from one to another; parentheses around them do not
        count.
        """
        return self._found.get((code, (*self._place(node)[:2], *self._place(last or node)[2:])))

    def _place(self, node: cst.CSTNode) -> Place:
        found = self.get_metadata(PositionProvider, node)
        assert isinstance(found, CodeRange)
        return found.start.line, found.start.column + 1, found.end.line, found.end.column + 1

    def _edited(self, node: N) -> N:
        """Count an edit."""
        self.count += 1
        return node

    def _starts(self, code: str, node: cst.CSTNode) -> bool:
        """Return whether a finding begins where a node does."""
        start = self._place(node)[:2]
        return any(key == code and place[:2] == start for key, place in self._found)

    # -- `is` between constants ----------------------------------------------------------------------------------------

    def leave_Comparison(self, original_node: cst.Comparison, updated_node: cst.Comparison) -> cst.BaseExpression:
        """`x.dtype is nl.float32` is `x.dtype == nl.float32`."""
        sides = original_node.left, original_node.comparisons[0].comparator
        if len(original_node.comparisons) != 1 or self._at("NKI110", *sides) is None:
            return updated_node
        target = updated_node.comparisons[0]
        sign = target.operator
        if not isinstance(sign, cst.Is | cst.IsNot) or not any(self._is_constant(side) for side in sides):
            return updated_node
        kind = cst.Equal if isinstance(sign, cst.Is) else cst.NotEqual
        equal = kind(whitespace_before=sign.whitespace_before, whitespace_after=sign.whitespace_after)
        return self._edited(updated_node.with_changes(comparisons=[target.with_changes(operator=equal)]))

    def _is_constant(self, node: cst.BaseExpression) -> bool:
        """Return whether it is a literal, or a name of NKI."""
        if isinstance(node, cst.Integer | cst.Float | cst.SimpleString):
            return True
        if isinstance(node, cst.Name):
            return node.value in ("True", "False")
        return _dotted(node).partition(".")[0] in self._modules

    # -- lists as defaults ---------------------------------------------------------------------------------------------

    def leave_List(self, original_node: cst.List, updated_node: cst.List) -> cst.BaseExpression:
        """`[2, 2]` is `(2, 2)`."""
        if self._at("NKI114", original_node) is None:
            return updated_node
        elements = list(updated_node.elements)
        if len(elements) == 1 and isinstance(elements[0].comma, cst.MaybeSentinel):
            elements = [elements[0].with_changes(comma=cst.Comma())]
        opening = cst.LeftParen(whitespace_after=updated_node.lbracket.whitespace_after)
        closing = cst.RightParen(whitespace_before=updated_node.rbracket.whitespace_before)
        made = cst.Tuple(elements, lpar=[*updated_node.lpar, opening], rpar=[closing, *updated_node.rpar])
        return self._edited(made)

    # -- indices and shapes --------------------------------------------------------------------------------------------

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> cst.BaseExpression:
        """`t[nl.arange(96), 0]` is `t[nl.arange(96)[:, None], 0]`."""
        found = self._at("NKI304", original_node)
        if found is None or "flat index" not in found.message:
            return updated_node
        flat = []
        for i, item in enumerate(updated_node.slice):
            value = item.slice.value if isinstance(item.slice, cst.Index) else None
            if isinstance(value, cst.Call) and _last(value.func) == "arange":
                flat.append(i)
            elif not isinstance(value, cst.Integer):
                return updated_node
        if len(flat) != 1:
            return updated_node
        parts = list(updated_node.slice)
        index = parts[flat[0]].slice
        assert isinstance(index, cst.Index)
        column = cst.parse_expression("x[:, None]").with_changes(value=index.value)
        parts[flat[0]] = parts[flat[0]].with_changes(slice=index.with_changes(value=column))
        return self._edited(updated_node.with_changes(slice=parts))

    def leave_Tuple(self, original_node: cst.Tuple, updated_node: cst.Tuple) -> cst.BaseExpression:
        """`(nl.par_dim(128), 512)` is `(128, 512)`: the first size is the partitions'."""
        first = original_node.elements[0].value if original_node.elements else None
        if not isinstance(first, cst.Call) or len(first.args) != 1 or first.args[0].keyword or first.args[0].star:
            return updated_node
        if _last(first.func) != "par_dim" or self._at("NKI603", first.func) is None:
            return updated_node
        made = updated_node.elements[0].with_changes(value=first.args[0].value)
        return self._edited(updated_node.with_changes(elements=[made, *updated_node.elements[1:]]))

    # -- names ---------------------------------------------------------------------------------------------------------

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        """`nl.tile_size.psum_fmax` is `nl.tile_size.psum_bank_fmax`."""
        found = self._at("NKI601", original_node)
        successor = None if found is None else _SUCCESSOR.fullmatch(found.help)
        if successor is None:
            return updated_node
        return self._edited(updated_node.with_changes(attr=updated_node.attr.with_changes(value=successor[1])))

    # -- arguments -----------------------------------------------------------------------------------------------------

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        """`dge_mode=3` is `dge_mode=nisa.dge_mode.none`; a keyword without effect goes."""
        arguments = list(updated_node.args)
        module = _dotted(original_node.func)
        for i, argument in reversed(list(enumerate(original_node.args))):
            for changes in (self._member(argument, module), self._respelt(argument, module)):
                if changes:
                    arguments[i] = self._edited(arguments[i].with_changes(**changes))
            if self._goes(argument, original_node.args[i - 1 : i]):
                self.count += 1
                _drop(arguments, i)
        return self._called(original_node, updated_node.with_changes(args=arguments))

    def _called(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        """Return the call by another name, or what it was a call of: `range`, a kernel without a grid, a plain size."""
        plain = not any(item.keyword or item.star for item in original.args)
        if plain and self._at("NKI127", original.func) and not _RANGE.search(self._text):
            return self._edited(updated.with_changes(func=cst.Name("range")))
        if isinstance(original.func, cst.Subscript) and self._at("NKI016", original):
            assert isinstance(updated.func, cst.Subscript)
            return self._edited(updated.with_changes(func=updated.func.value))
        return updated

    def _member(self, argument: cst.Arg, module: str) -> dict[str, cst.CSTNode]:
        """Return the changes to a literal that stands for a member, a memory or another number."""
        node = argument.value
        if not isinstance(node, cst.Integer | cst.Float | cst.SimpleString):
            return {}
        text = ""
        if found := self._at("NKI606", node):
            named, number = _MEMBER.fullmatch(found.help), _NUMBER.fullmatch(found.help)
            text = f"{module}.{named[1]}" if named and module else number[1] if number else ""
        elif found := self._at("NKI311", node):
            memory = _MEMORY.fullmatch(found.help)
            text = f"{module}.{memory[1]}" if memory and module else ""
        return {"value": cst.parse_expression(text).with_changes(lpar=node.lpar, rpar=node.rpar)} if text else {}

    def _respelt(self, argument: cst.Arg, module: str) -> dict[str, cst.CSTNode]:
        """Return the changes to a removed keyword that another keyword replaces exactly."""
        found = self._at("NKI602", argument.value)
        name = argument.keyword.value if argument.keyword else ""
        if found is None or found.operand != name or not module:
            return {}
        value = cst.Module([]).code_for_node(argument.value)
        choices = _RESPELT.get(name, {})
        spelt = choices.get(value, choices.get(""))
        if spelt is None:
            return {}
        keyword, _, text = spelt.format(module=module, value=value).partition("=")
        return {"keyword": cst.Name(keyword), "value": cst.parse_expression(text)}

    # -- parameters ----------------------------------------------------------------------------------------------------

    def leave_Parameters(self, original_node: cst.Parameters, updated_node: cst.Parameters) -> cst.Parameters:
        """`def k(x, *, flag=True)` is `def k(x, flag=True)`, where that is a signature."""
        star = original_node.star_arg
        if not isinstance(star, cst.ParamStar) or not self._starts("NKI109", star):
            return updated_node
        if "#" in cst.Module([]).code_for_node(star):
            return updated_node
        free = [*updated_node.params, *updated_node.kwonly_params]
        defaults = [item.default is not None for item in (*updated_node.posonly_params, *free)]
        if defaults != sorted(defaults) or updated_node.star_kwarg is not None:
            return updated_node
        changed = updated_node.with_changes(params=free, kwonly_params=(), star_arg=cst.MaybeSentinel.DEFAULT)
        return self._edited(changed)

    def _goes(self, argument: cst.Arg, before: Sequence[cst.Arg]) -> bool:
        """Return whether an argument has no effect, and neither a comment nor a call in it."""
        found = self._at("NKI604", argument.value)
        if found is None or not _HARMLESS.search(found.message) or argument.keyword is None:
            return False
        around = "".join(cst.Module([]).code_for_node(item) for item in (argument, *before))
        return argument.keyword.value in (found.operand, "mode") and "#" not in around and "(" not in around


def _last(function: cst.BaseExpression) -> str:
    """Return the name of `name` and of `module.name`."""
    if isinstance(function, cst.Attribute):
        return function.attr.value
    return function.value if isinstance(function, cst.Name) else ""


def _dotted(function: cst.BaseExpression) -> str:
    """Return the module in `module.name`, in dots; empty where the function is another expression."""
    names: list[str] = []
    node = function.value if isinstance(function, cst.Attribute) else None
    while isinstance(node, cst.Attribute):
        names.append(node.attr.value)
        node = node.value
    return ".".join([node.value, *reversed(names)]) if isinstance(node, cst.Name) else ""


def _drop(arguments: list[cst.Arg], i: int) -> None:
    """Take an argument out; the last that stays ends as the last one did."""
    dropped = arguments.pop(i)
    if i == len(arguments) and i > 0:
        arguments[i - 1] = arguments[i - 1].with_changes(
            comma=dropped.comma, whitespace_after_arg=dropped.whitespace_after_arg
        )
