"""Expressions: each node of the tree becomes a function of a frame, made once and called for every evaluation."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Final

from nki_lab.kernel_runtime.interpreter.attributes import get
from nki_lab.kernel_runtime.interpreter.builtins import methods
from nki_lab.kernel_runtime.interpreter.calls import call
from nki_lab.kernel_runtime.interpreter.compiler import (
    Expression,
    compile_binding,
    compile_defaults,
    compile_expression,
    compile_optional,
    expression,
    frame_at,
)
from nki_lab.kernel_runtime.interpreter.displays import compile_items
from nki_lab.kernel_runtime.interpreter.interpreter import Frame, Function
from nki_lab.kernel_runtime.interpreter.operations import UNARY, unwrapped
from nki_lab.kernel_runtime.interpreter.operators import binary, decide
from nki_lab.kernel_runtime.interpreter.subscripts import load_item
from nki_lab.kernel_runtime.interpreter.values import MISSING, UNKNOWN, Instance, Names, Value
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.source.scopes import Scope, function_scope

_FAST: Final = 1 << 62  # integers below this take Python's operators without a look at their size
_QUICK: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


@expression(ast.Constant)
def _constant(node: ast.Constant, scope: Scope) -> Expression:
    value: Value = node.value
    if isinstance(value, int) and value.bit_length() > 1024:
        value = UNKNOWN
    return lambda frame: value


@expression(ast.Name)
def _name(node: ast.Name, scope: Scope) -> Expression:
    name, hops = node.id, scope.place(node.id)
    if hops is None:
        return lambda frame: frame.interpreter.global_value(name, node, frame)
    if hops == 0:

        def local(frame: Frame) -> Value:
            try:
                return frame.locals[name]
            except KeyError:
                if scope.kind == "class":
                    return outer(frame)
                return frame.interpreter.undefined(name, node, frame, local=True)

        def outer(frame: Frame) -> Value:
            return _name(node, scope.parent)(frame.parent) if scope.parent and frame.parent else UNKNOWN

        return local

    def free(frame: Frame) -> Value:
        place = frame_at(frame, hops)
        if place is None:
            return UNKNOWN
        found = place.locals.get(name, MISSING)
        return found if found is not MISSING else frame.interpreter.undefined(name, node, frame, local=True)

    return free


# -- operators ---------------------------------------------------------------------------------------------------------


@expression(ast.BinOp)
def _binary(node: ast.BinOp, scope: Scope) -> Expression:
    left, right, kind = compile_expression(node.left, scope), compile_expression(node.right, scope), type(node.op)
    quick = _QUICK.get(kind)

    def run(frame: Frame) -> Value:
        a, b = left(frame), right(frame)
        if quick is not None and type(a) is int and type(b) is int and b and -_FAST < a < _FAST and -_FAST < b < _FAST:
            return quick(a, b)
        return binary(frame, node, kind, a, b)

    return run


@expression(ast.UnaryOp)
def _unary(node: ast.UnaryOp, scope: Scope) -> Expression:
    operand = compile_expression(node.operand, scope)
    if isinstance(node.op, ast.Not):

        def negate(frame: Frame) -> Value:
            truth_of = decide(frame, node, operand(frame))
            return UNKNOWN if truth_of is UNKNOWN else not truth_of

        return negate
    operation = UNARY[type(node.op)]

    def run(frame: Frame) -> Value:
        value = operand(frame)
        if value is UNKNOWN or isinstance(value, Instance | TensorSpec):
            return value if isinstance(value, TensorSpec) else UNKNOWN
        if isinstance(value, NkiTensor):
            frame.interpreter.pin(node, frame)
        return frame.attempt(node, operation, unwrapped(value))

    return run


@expression(ast.Slice)
def _slice(node: ast.Slice, scope: Scope) -> Expression:
    lower, upper, step = (compile_optional(part, scope) for part in (node.lower, node.upper, node.step))
    return lambda frame: slice(lower(frame), upper(frame), step(frame))


@expression(ast.Subscript)
def _subscript(node: ast.Subscript, scope: Scope) -> Expression:
    value, key = compile_expression(node.value, scope), compile_expression(node.slice, scope)
    noted = False

    def run(frame: Frame) -> Value:
        nonlocal noted
        found = load_item(frame, node, value(frame), key(frame))
        if not noted and type(found) is NkiTensor:
            noted = True
            frame.interpreter.note_tensor(node, frame, found)
        return found

    return run


@expression(ast.Attribute)
def _attribute(node: ast.Attribute, scope: Scope) -> Expression:
    value, name = compile_expression(node.value, scope), node.attr
    return lambda frame: get(frame, node, value(frame), name)


@expression(ast.Call)
def _call(node: ast.Call, scope: Scope) -> Expression:
    values = compile_items(node.args, scope, node)
    keywords = [(item.arg, compile_expression(item.value, scope)) for item in node.keywords]
    method = node.func if isinstance(node.func, ast.Attribute) else None
    callee = compile_expression(node.func if method is None else method.value, scope)
    noted = False

    def run(frame: Frame) -> Value:
        nonlocal noted
        function = callee(frame)
        if method is not None:
            kind = type(function)
            direct = method.attr in methods.PLAIN.get(kind, ()) or (kind, method.attr) in methods.GUARDED
            if not direct:
                function = get(frame, method, function, method.attr)
        args = values(frame)
        kwargs: Names = {}
        for name, part in keywords:
            value = part(frame)
            if name is not None:
                kwargs[name] = value
            elif (
                isinstance(value, dict)
                and not frame.interpreter.is_doubtful(value)
                and all(isinstance(key, str) for key in value)
            ):
                kwargs.update(value)
            else:
                args = UNKNOWN
        if args is UNKNOWN:
            return frame.interpreter.doubt(kwargs.values())
        frame.meter.node = node
        frame.meter.spend(1)
        if method is not None and direct:
            return methods.call_method(frame, node, function, method.attr, args, kwargs)
        found = call(frame, node, function, args, kwargs)
        if not noted and type(found) is NkiTensor:
            noted = True
            frame.interpreter.note_tensor(node, frame, found)
        return found

    return run


@expression(ast.Lambda)
def _lambda(node: ast.Lambda, scope: Scope) -> Expression:
    inner, defaults = function_scope(node, "<lambda>", scope), compile_defaults(node.args, scope)
    return lambda frame: Function(node, "<lambda>", inner, defaults(frame), frame)


@expression(ast.NamedExpr)
def _walrus(node: ast.NamedExpr, scope: Scope) -> Expression:
    value, store = compile_expression(node.value, scope), compile_binding(node.target.id, node.target, scope)

    def run(frame: Frame) -> Value:
        found = value(frame)
        store(frame, found)
        return found

    return run
