"""Conditions: truth, comparisons, `and`, `or`, `not`, conditional expressions; an unknown answer is UNKNOWN."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from nki_lab.kernel_runtime.frontend.evaluator import expressions, objects
from nki_lab.kernel_runtime.frontend.evaluator.machine import Machine
from nki_lab.kernel_runtime.frontend.evaluator.operations import ORDER, ORDER_METHODS, contains, unwrapped
from nki_lab.kernel_runtime.frontend.evaluator.values import UNKNOWN, EnumMember, Frame, Instance
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.source.positions import after
from nki_lab.source.scopes import Scope

Expression = Callable[[Frame], Any]


def truth(frame: Frame, node: ast.AST, value: Any) -> Any:
    """Whether a value counts as true: True, False, or UNKNOWN; refusals are reported at `node`."""
    if value is True or value is False or value is None:
        return bool(value)
    if value is UNKNOWN or frame.m.is_doubtful(value) or isinstance(value, TensorSpec):
        return UNKNOWN
    if isinstance(value, EnumMember) and value.cls.kind == "flag" and isinstance(value.value, int):
        return bool(value.value)
    if isinstance(value, Instance):
        return objects.truth(frame.m, frame, node, value)
    try:
        return bool(unwrapped(value))
    except Exception as error:  # noqa: BLE001 - a tensor's refusal, reported at the condition
        return frame.m.fault(error, node, frame)


def decided(frame: Frame, node: ast.AST, value: Any) -> Any:
    """The same of a value that Python branches on: what is true to be an operand of `and` is refused here."""
    refusal = getattr(value, "refuse_condition", None)
    return truth(frame, node, value) if refusal is None else frame.m.fault(refusal(), node, frame)


def condition(test: ast.expr, owner: ast.AST, scope: Scope) -> Expression:
    """A test as Python jumps on it: True, False or UNKNOWN; `owner` is the statement or expression that jumps."""
    match test:
        case ast.BoolOp(op=op, values=values):
            parts, place = [], owner
            for value in values:
                parts.append(condition(value, place, scope))
                place = after(value, place)
            stop = isinstance(op, ast.Or)

            def several(frame: Frame) -> Any:
                for part in parts:
                    answer = part(frame)
                    if answer is UNKNOWN or answer is stop:
                        return answer
                return not stop

            return several
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = condition(operand, owner, scope)

            def inverted(frame: Frame) -> Any:
                answer = inner(frame)
                return UNKNOWN if answer is UNKNOWN else not answer

            return inverted
        case ast.IfExp(test=first, body=body, orelse=orelse):
            choice = condition(first, owner, scope)
            taken = condition(body, place := after(first, owner), scope)
            other = condition(orelse, after(body, place), scope)

            def chosen(frame: Frame) -> Any:
                answer = choice(frame)
                return UNKNOWN if answer is UNKNOWN else taken(frame) if answer else other(frame)

            return chosen
        case ast.Compare():
            compare = expressions.build(test, scope)
            return lambda frame: decided(frame, test, compare(frame))
        case _:
            value_of = expressions.build(test, scope)
            return lambda frame: decided(frame, owner, value_of(frame))


def build_boolean(node: ast.BoolOp, scope: Scope) -> Expression:
    """`and` and `or` as values."""
    parts, stop = [expressions.build(value, scope) for value in node.values], isinstance(node.op, ast.Or)

    def run(frame: Frame) -> Any:
        value: Any = UNKNOWN
        for part in parts[:-1]:
            value = part(frame)
            answer = truth(frame, node, value)
            if answer is UNKNOWN:
                return UNKNOWN
            if answer is stop:
                return value
        return parts[-1](frame)

    return run


def build_conditional(node: ast.IfExp, scope: Scope) -> Expression:
    """`a if test else b`."""
    test, body, orelse = (
        condition(node.test, node, scope),
        expressions.build(node.body, scope),
        expressions.build(node.orelse, scope),
    )

    def run(frame: Frame) -> Any:
        answer = test(frame)
        if answer is UNKNOWN:
            return UNKNOWN
        return body(frame) if answer else orelse(frame)

    return run


def build_compare(node: ast.Compare, scope: Scope) -> Expression:
    """A comparison, chained or not."""
    first = expressions.build(node.left, scope)
    rest = [(type(op), expressions.build(item, scope)) for op, item in zip(node.ops, node.comparators, strict=True)]

    def run(frame: Frame) -> Any:
        left, result = first(frame), True
        for position, (kind, operand) in enumerate(rest):
            right = operand(frame)
            result = compare(frame, node, kind, left, right)
            if position + 1 < len(rest):
                answer = truth(frame, node, result)
                if answer is UNKNOWN or answer is False:
                    return UNKNOWN if answer is UNKNOWN else result
            left = right
        return result

    return run


def compare(frame: Frame, node: ast.AST, kind: type[ast.cmpop], a: Any, b: Any) -> Any:
    """`a <comparison> b`, reported at `node`."""
    if type(a) is int and type(b) is int and kind in ORDER:
        return ORDER[kind](a, b)
    if a is UNKNOWN or b is UNKNOWN:
        return UNKNOWN
    m = frame.m
    if kind is ast.Is or kind is ast.IsNot:
        return (a is b) is (kind is ast.Is)
    if m.is_doubtful(a) or m.is_doubtful(b) or m.lacks(a, b):
        return UNKNOWN
    if isinstance(a, TensorSpec) or isinstance(b, TensorSpec):
        return UNKNOWN
    try:
        if kind is ast.In or kind is ast.NotIn:
            answer = objects.member(m, frame, node, a, b) if isinstance(b, Instance) else _within(m, b, a)
            return answer if answer is UNKNOWN else bool(answer) is (kind is ast.In)
        if isinstance(a, Instance) or isinstance(b, Instance):
            return objects.compare(m, frame, node, ORDER_METHODS[kind], a, b)
        if isinstance(a, NkiTensor) or isinstance(b, NkiTensor):
            m.pin(node, frame)
        else:
            m.meter.walked(a)
            m.meter.walked(b)
        return ORDER[kind](unwrapped(a), unwrapped(b))
    except Exception as error:  # noqa: BLE001 - reported at the comparison
        return m.fault(error, node, frame)


def _within(m: Machine, container: Any, item: Any) -> Any:
    if not isinstance(container, _SIZED):
        if type(container) is type and isinstance(item, EnumMember):
            return UNKNOWN
        if objects.is_enum(container):
            return isinstance(item, EnumMember) and item in container.members.values()
        if not hasattr(container, "__contains__") and not hasattr(container, "__iter__"):
            raise TypeError(f"argument of type {type(container).__name__!r} is not iterable")
        return item in container if isinstance(container, NkiTensor) else UNKNOWN
    return contains(container, unwrapped(item), m.meter)


_SIZED: Final[tuple[type, ...]] = (
    list,
    tuple,
    dict,
    set,
    frozenset,
    str,
    range,
    *map(type, ({}.keys(), {}.values(), {}.items())),
)
