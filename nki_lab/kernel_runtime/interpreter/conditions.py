"""Conditions: truth, comparisons, `and`, `or`, `not`, conditional expressions; an unknown answer is UNKNOWN."""

from __future__ import annotations

import ast

from nki_lab.kernel_runtime.interpreter.compiler import Expression, compile_expression, expression
from nki_lab.kernel_runtime.interpreter.interpreter import Frame
from nki_lab.kernel_runtime.interpreter.operators import compare, decide, truth
from nki_lab.kernel_runtime.interpreter.values import UNKNOWN, Value
from nki_lab.source.positions import after, jump_place
from nki_lab.source.scopes import Scope


def compile_condition(test: ast.expr, owner: ast.AST, scope: Scope) -> Expression:
    """Return the function that decides a test: True, False or UNKNOWN; `owner` is the node that jumps on it."""
    match test:
        case ast.BoolOp(op=op, values=values):
            parts, place = [], owner
            for value in values:
                parts.append(compile_condition(value, place, scope))
                place = after(value, place)
            stop = isinstance(op, ast.Or)

            def several(frame: Frame) -> Value:
                for part in parts:
                    answer = part(frame)
                    if answer is UNKNOWN or answer is stop:
                        return answer
                return not stop

            return several
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = compile_condition(operand, owner, scope)

            def inverted(frame: Frame) -> Value:
                answer = inner(frame)
                return UNKNOWN if answer is UNKNOWN else not answer

            return inverted
        case ast.IfExp(test=first, body=body, orelse=orelse):
            choice = compile_condition(first, owner, scope)
            taken = compile_condition(body, place := after(first, owner), scope)
            other = compile_condition(orelse, after(body, place), scope)

            def chosen(frame: Frame) -> Value:
                answer = choice(frame)
                return UNKNOWN if answer is UNKNOWN else taken(frame) if answer else other(frame)

            return chosen
        case ast.Compare():
            compare = compile_expression(test, scope)
            return lambda frame: decide(frame, test, compare(frame))
        case _:
            value_of, place = compile_expression(test, scope), jump_place(test, owner)
            return lambda frame: decide(frame, place, value_of(frame))


@expression(ast.BoolOp)
def _boolean(node: ast.BoolOp, scope: Scope) -> Expression:
    """Compile `and` and `or` as values."""
    parts, stop = [compile_expression(value, scope) for value in node.values], isinstance(node.op, ast.Or)

    def run(frame: Frame) -> Value:
        value: Value = UNKNOWN
        for part in parts[:-1]:
            value = part(frame)
            answer = truth(frame, node, value)
            if answer is UNKNOWN:
                return UNKNOWN
            if answer is stop:
                return value
        return parts[-1](frame)

    return run


@expression(ast.IfExp)
def _conditional(node: ast.IfExp, scope: Scope) -> Expression:
    """Compile `a if test else b`."""
    test, body, orelse = (
        compile_condition(node.test, node, scope),
        compile_expression(node.body, scope),
        compile_expression(node.orelse, scope),
    )

    def run(frame: Frame) -> Value:
        answer = test(frame)
        if answer is UNKNOWN:
            return UNKNOWN
        return body(frame) if answer else orelse(frame)

    return run


@expression(ast.Compare)
def _compare(node: ast.Compare, scope: Scope) -> Expression:
    """Compile a comparison, chained or not."""
    first = compile_expression(node.left, scope)
    rest = [(type(op), compile_expression(item, scope)) for op, item in zip(node.ops, node.comparators, strict=True)]

    def run(frame: Frame) -> Value:
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
