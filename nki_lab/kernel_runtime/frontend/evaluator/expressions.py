"""Expressions: each node of the tree becomes a function of a frame, made once and called for every evaluation."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

from nki_lab.kernel_runtime.frontend.evaluator import (
    attributes,
    calls,
    comprehensions,
    conditions,
    displays,
    host,
    host_arrays,
    libraries,
    methods,
    objects,
)
from nki_lab.kernel_runtime.frontend.evaluator.operations import BINARY, UNARY, fits, unwrapped
from nki_lab.kernel_runtime.frontend.evaluator.values import MISSING, UNKNOWN, EnumMember, Frame, Function, Instance
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.source.scopes import Scope, function_scope

Expression = Callable[[Frame], Any]

_FAST: Final = 1 << 62  # integers below this take Python's operators without a look at their size
_QUICK: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def build(node: ast.expr, scope: Scope) -> Expression:
    """The function that evaluates `node` in a frame of `scope`."""
    maker = _makers().get(type(node))
    return _nothing if maker is None else maker(node, scope)


def _nothing(frame: Frame) -> Any:
    return UNKNOWN


def _nil(frame: Frame) -> Any:
    return None


def _constant(node: ast.Constant, scope: Scope) -> Expression:
    value: Any = node.value
    if isinstance(value, int) and value.bit_length() > 1024:
        value = UNKNOWN
    return lambda frame: value


def _name(node: ast.Name, scope: Scope) -> Expression:
    name, hops = node.id, scope.place(node.id)
    if hops is None:
        return lambda frame: frame.m.global_value(name, node, frame)
    if hops == 0:

        def local(frame: Frame) -> Any:
            try:
                return frame.locals[name]
            except KeyError:
                if scope.kind == "class":
                    return outer(frame)
                return frame.m.undefined(name, node, frame, local=True)

        def outer(frame: Frame) -> Any:
            return _name(node, scope.parent)(frame.parent) if scope.parent and frame.parent else UNKNOWN

        return local

    def free(frame: Frame) -> Any:
        place: Frame | None = frame
        for _ in range(hops):
            place = place.parent if place is not None else None
        if place is None:
            return UNKNOWN
        found = place.locals.get(name, MISSING)
        return found if found is not MISSING else frame.m.undefined(name, node, frame, local=True)

    return free


# -- operators ---------------------------------------------------------------------------------------------------------


def _binary(node: ast.BinOp, scope: Scope) -> Expression:
    left, right, kind = build(node.left, scope), build(node.right, scope), type(node.op)
    quick = _QUICK.get(kind)

    def run(frame: Frame) -> Any:
        a, b = left(frame), right(frame)
        if quick is not None and type(a) is int and type(b) is int and b and -_FAST < a < _FAST and -_FAST < b < _FAST:
            return quick(a, b)
        return binary(frame, node, kind, a, b)

    return run


def binary(frame: Frame, node: ast.AST, kind: type[ast.operator], a: Any, b: Any) -> Any:
    """`a <operator> b`, reported at `node`."""
    if a is UNKNOWN or b is UNKNOWN:
        return UNKNOWN
    m = frame.m
    if isinstance(a, TensorSpec) or isinstance(b, TensorSpec):
        if kind is ast.MatMult:
            return host_arrays.matmul(a, b)
        return host.arithmetic(a, b, divides=kind is ast.Div)
    if isinstance(a, Instance) or isinstance(b, Instance):
        return objects.operate(m, frame, node, kind, a, b)
    if isinstance(a, EnumMember) and isinstance(b, EnumMember) and a.cls.kind == "flag":
        return libraries.flags(kind, a, b)
    if isinstance(a, NkiTensor) or isinstance(b, NkiTensor):
        m.pin(node, frame)
    elif m.is_doubtful(a) or m.is_doubtful(b) or _is_large(kind, a, b):
        return UNKNOWN
    try:
        return BINARY[kind](unwrapped(a), unwrapped(b), m.meter)
    except Exception as error:  # noqa: BLE001 - what the user's values raise is reported at the operator
        return m.fault(error, node, frame)


def _is_large(kind: type[ast.operator], a: Any, b: Any) -> bool:
    """Whether an operator would make a large array, or take long."""
    return np.ndarray in (type(a), type(b)) and (kind is ast.MatMult or not fits(a, b))


def _unary(node: ast.UnaryOp, scope: Scope) -> Expression:
    operand = build(node.operand, scope)
    if isinstance(node.op, ast.Not):

        def negate(frame: Frame) -> Any:
            truth_of = conditions.decided(frame, node, operand(frame))
            return UNKNOWN if truth_of is UNKNOWN else not truth_of

        return negate
    operation = UNARY[type(node.op)]

    def run(frame: Frame) -> Any:
        value = operand(frame)
        if value is UNKNOWN or isinstance(value, Instance | TensorSpec):
            return value if isinstance(value, TensorSpec) else UNKNOWN
        if isinstance(value, NkiTensor):
            frame.m.pin(node, frame)
        try:
            return operation(unwrapped(value))
        except Exception as error:  # noqa: BLE001 - reported at the operator
            return frame.m.fault(error, node, frame)

    return run


def _slice(node: ast.Slice, scope: Scope) -> Expression:
    lower = _nil if node.lower is None else build(node.lower, scope)
    upper = _nil if node.upper is None else build(node.upper, scope)
    step = _nil if node.step is None else build(node.step, scope)

    def run(frame: Frame) -> Any:
        return slice(lower(frame), upper(frame), step(frame))

    return run


def _subscript(node: ast.Subscript, scope: Scope) -> Expression:
    value, key = build(node.value, scope), build(node.slice, scope)
    noted = False

    def run(frame: Frame) -> Any:
        nonlocal noted
        found = objects.item(frame.m, frame, node, value(frame), key(frame))
        if not noted and type(found) is NkiTensor:
            noted = True
            frame.m.note_tensor(node, frame, found)
        return found

    return run


def _attribute(node: ast.Attribute, scope: Scope) -> Expression:
    value, name = build(node.value, scope), node.attr
    return lambda frame: attributes.get(frame.m, frame, node, value(frame), name)


def _call(node: ast.Call, scope: Scope) -> Expression:
    values = displays.items_of(node.args, scope, node)
    keywords = [(item.arg, build(item.value, scope)) for item in node.keywords]
    method = node.func if isinstance(node.func, ast.Attribute) else None
    callee = build(node.func if method is None else method.value, scope)
    noted = False

    def run(frame: Frame) -> Any:
        nonlocal noted
        m = frame.m
        function = callee(frame)
        if method is not None:
            kind = type(function)
            direct = method.attr in methods.PLAIN.get(kind, ()) or (kind, method.attr) in methods.GUARDED
            if not direct:
                function = attributes.get(m, frame, method, function, method.attr)
        args = values(frame)
        kwargs: dict[str, Any] = {}
        for name, part in keywords:
            value = part(frame)
            if name is not None:
                kwargs[name] = value
            elif isinstance(value, dict) and not m.is_doubtful(value) and all(isinstance(key, str) for key in value):
                kwargs.update(value)
            else:
                args = UNKNOWN
        if args is UNKNOWN:
            m.doubt(kwargs.values())
            return UNKNOWN
        m.meter.node = node
        m.meter.spend(1)
        if method is not None and direct:
            return methods.call_method(m, frame, node, function, method.attr, args, kwargs)
        found = calls.call(m, frame, node, function, args, kwargs)
        if not noted and type(found) is NkiTensor:
            noted = True
            m.note_tensor(node, frame, found)
        return found

    return run


def _lambda(node: ast.Lambda, scope: Scope) -> Expression:
    inner, defaults = function_scope(node, "<lambda>", scope), defaults_of(node.args, scope)
    return lambda frame: Function(node, "<lambda>", inner, defaults(frame), frame)


def defaults_of(arguments: ast.arguments, scope: Scope) -> Callable[[Frame], dict[str, Any]]:
    """The default values of a function's parameters, evaluated where it is defined."""
    positional = [*arguments.posonlyargs, *arguments.args]
    late = positional[len(positional) - len(arguments.defaults) :]
    parts = [(arg.arg, build(value, scope)) for arg, value in zip(late, arguments.defaults, strict=True)]
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    parts += [(arg.arg, build(value, scope)) for arg, value in named if value is not None]
    return lambda frame: {name: part(frame) for name, part in parts}


def _walrus(node: ast.NamedExpr, scope: Scope) -> Expression:
    value, store = build(node.value, scope), name_store(node.target, scope)

    def run(frame: Frame) -> Any:
        found = value(frame)
        store(frame, found)
        return found

    return run


def name_store(node: ast.Name, scope: Scope) -> Callable[[Frame, Any], None]:
    """The function that binds a name."""
    name, hops, key = node.id, scope.place(node.id), (node.lineno, node.col_offset)
    if hops is None:

        def store_global(frame: Frame, value: Any) -> None:
            frame.home.globals[name] = value

        return store_global

    def store(frame: Frame, value: Any) -> None:
        place: Frame | None = frame
        for _ in range(hops):
            place = place.parent if place is not None else None
        if place is not None:
            place.locals[name] = value
            types = frame.m.types
            if key not in types and frame.home is frame.m.home:
                types[key] = (name, value)

    return store


@cache
def _makers() -> dict[type[ast.expr], Callable[[Any, Scope], Expression]]:
    """Which function prepares which node; made late, for the modules need each other."""
    return {
        ast.Constant: _constant,
        ast.Name: _name,
        ast.BinOp: _binary,
        ast.UnaryOp: _unary,
        ast.BoolOp: conditions.build_boolean,
        ast.IfExp: conditions.build_conditional,
        ast.Compare: conditions.build_compare,
        ast.List: displays.build_display,
        ast.Tuple: displays.build_display,
        ast.Set: displays.build_display,
        ast.Dict: displays.build_dict,
        ast.Slice: _slice,
        ast.Subscript: _subscript,
        ast.Attribute: _attribute,
        ast.Call: _call,
        ast.JoinedStr: displays.build_text,
        ast.FormattedValue: displays.build_part,
        ast.Lambda: _lambda,
        ast.NamedExpr: _walrus,
        ast.ListComp: comprehensions.build_comprehension,
        ast.SetComp: comprehensions.build_comprehension,
        ast.GeneratorExp: comprehensions.build_comprehension,
        ast.DictComp: comprehensions.build_comprehension,
    }
