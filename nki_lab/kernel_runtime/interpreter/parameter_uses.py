"""How functions use their parameters, as far as the text of these and of the functions that they call tells."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final
from weakref import WeakKeyDictionary

from nki_lab.isa.spec import TABLE
from nki_lab.kernel_runtime.interpreter.compiler import compile_expression
from nki_lab.kernel_runtime.interpreter.interpreter import Frame, Function, Launch
from nki_lab.kernel_runtime.interpreter.limits import PendingException
from nki_lab.source.trees import FunctionNode, last_name, without_constants

TENSORS: Final = frozenset({"ndarray", "tensor", "Tensor", "NkiTensor", "hbm_tensor"})
"""Last names of annotations that stand for tensors."""
_OF_HBM: Final = frozenset({"load", "store", "load_transpose2d"})
"""Functions of nki.language whose first argument is a tensor in HBM."""
_ATTRIBUTES: Final = frozenset({"shape", "dtype", "ndim", "ap", "reshape", "buffer", "broadcast_to", "expand_dim"})
_DEPTH: Final = 4
"""Calls of calls that are followed."""


@dataclass(slots=True)
class Use:
    """A parameter as it is used: a tensor, in the memory `space` where that is told, or a number.

    An `is_ambiguous` one may be a list of tensors, or another value than its name stands for later. `unpacked` is into
    how many names its shape is unpacked, `indexed` how many dimensions are indexed.
    """

    is_tensor: bool = False
    is_number: bool = False
    is_ambiguous: bool = False
    unpacked: int = 0
    indexed: int = 2
    space: str = ""

    @property
    def rank(self) -> int:
        return self.unpacked or self.indexed

    def add(self, other: Use) -> None:
        """Enter how a called function uses the same value."""
        self.is_tensor |= other.is_tensor
        self.is_number |= other.is_number
        self.is_ambiguous |= other.is_ambiguous
        self.unpacked = self.unpacked or other.unpacked
        self.indexed = max(self.indexed, other.indexed)
        self.space = self.space or other.space


@dataclass(slots=True)
class _Text:
    """The uses in a function's own text, and the calls that it passes parameters to."""

    uses: dict[str, Use]
    calls: list[ast.Call] = field(default_factory=list)


_TEXTS: Final[WeakKeyDictionary[ast.AST, _Text]] = WeakKeyDictionary()


def uses_of(function: Function, depth: int = _DEPTH) -> dict[str, Use]:
    """Return the uses of a function's parameters by name."""
    node = function.node
    text = _text_of(node)
    uses = {name: replace(use) for name, use in text.uses.items()}
    for call in text.calls if depth else ():
        callee = _callee(call.func, function.closure)
        if callee is not None and callee.node is not node:
            inner = uses_of(callee, depth - 1)
            for name, passed in _bound(call, callee):
                if name in inner and passed in uses:
                    uses[passed].add(inner[name])
    return uses


def _text_of(node: FunctionNode | ast.Lambda) -> _Text:
    text = _TEXTS.get(node)
    if text is None:
        text = _TEXTS[node] = _read(node)
    return text


def _callee(node: ast.expr, frame: Frame) -> Function | None:
    """Return the function of the user's that a call names, where that is known by now."""
    if not isinstance(node, ast.Name) and not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
        return None
    try:
        found = compile_expression(node, frame.module.source.scope)(frame)
    except PendingException:
        return None
    found = found.function if isinstance(found, Launch) else found
    return found if isinstance(found, Function) else None


def _bound(call: ast.Call, callee: Function) -> Iterator[tuple[str, str]]:
    """Yield the parameters of a called function with the names that are passed to them."""
    given = dict(zip(callee.positional, call.args, strict=False))
    given |= {item.arg: item.value for item in call.keywords if item.arg is not None}
    for name, value in given.items():
        if isinstance(value, ast.Name):
            yield name, value.id


def _read(node: FunctionNode | ast.Lambda) -> _Text:
    names = {arg.arg for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
    uses = {name: Use() for name in names}
    for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
        if arg.annotation is not None:
            kind = last_name(arg.annotation)
            uses[arg.arg].is_tensor, uses[arg.arg].is_number = kind in TENSORS, kind == "int"
    found = _Text(uses)
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    for item in (inner for statement in body for inner in without_constants([statement])):
        match item:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Attribute(ast.Name(name), "shape")) if (
                name in uses and not any(isinstance(target, ast.Starred) for target in targets)
            ):
                uses[name].unpacked = len(targets)
            case ast.Subscript(value=ast.Attribute(ast.Name(name), "shape"), slice=ast.Constant(int(number))) if (
                name in uses and type(number) is int
            ):
                uses[name].indexed = max(uses[name].indexed, number + 1 if number >= 0 else -number)
            case ast.Attribute(value=ast.Name(name), attr=attribute) if name in uses:
                uses[name].is_tensor |= attribute in _ATTRIBUTES
            case ast.Assign(targets=[ast.Name(name)], value=value) if name in uses and not _mentions(value, name):
                uses[name].is_ambiguous = True
            case ast.For(target=ast.Name(name)) if name in uses:
                uses[name].is_ambiguous = True
            case ast.Subscript(value=ast.Subscript(value=ast.Name(name))) if name in uses:
                uses[name].is_ambiguous = True
            case ast.Subscript(value=ast.Name(name), slice=key) if name in uses:
                uses[name].is_tensor |= isinstance(key, ast.Tuple)
                if isinstance(key, ast.Tuple) and not any(_is_ellipsis(part) for part in key.elts):
                    uses[name].indexed = max(uses[name].indexed, len(key.elts))
            case ast.BinOp(left=left, right=right):
                for side in (left, right):
                    if isinstance(side, ast.Name) and side.id in uses:
                        uses[side.id].is_number = True
            case ast.Call():
                operands = list(_operands(item))
                for name, space in operands:
                    if name in uses:
                        uses[name].is_tensor, uses[name].space = True, uses[name].space or space
                if not operands and any(_is_name(value, names) for value in _values(item)):
                    found.calls.append(item)
    return found


def tensor_parameters(node: FunctionNode) -> dict[str, int]:
    """Return the parameters of a function that its text takes for tensors, with as many dimensions as it tells."""
    uses, arguments = _text_of(node).uses, node.args
    found = {}
    for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        use = uses[arg.arg]
        named = arg.annotation is not None and last_name(arg.annotation) in TENSORS
        if named or (arg.annotation is None and use.is_tensor):
            found[arg.arg] = use.rank
    return found


def _mentions(value: ast.expr, name: str) -> bool:
    return any(isinstance(item, ast.Name) and item.id == name for item in ast.walk(value))


def _values(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(item.value for item in node.keywords)]


def _is_name(node: ast.expr, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _operands(node: ast.Call) -> Iterator[tuple[str, str]]:
    """Yield the names that a call passes as tensors to an instruction, with the memory of the operand."""
    name = last_name(node.func)
    if name in _OF_HBM and node.args:
        value = node.args[0]
        if isinstance(value, ast.Subscript):
            value = value.value
        if isinstance(value, ast.Name):
            yield value.id, "hbm"
    instruction = TABLE.get(name)
    if instruction is None:
        return
    positional = dict(zip(instruction.operands, node.args, strict=False))
    for key, value in (positional | {item.arg: item.value for item in node.keywords if item.arg}).items():
        operand = instruction.operands.get(key)
        if isinstance(value, ast.Subscript):
            value = value.value  # noqa: PLW2901
        if operand is not None and operand.is_tensor and not operand.scalar and isinstance(value, ast.Name):
            yield value.id, "" if "hbm" in operand.spaces else operand.spaces[0]
