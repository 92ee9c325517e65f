"""Comprehensions: each item costs a step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from nki_lab.kernel_runtime.frontend.evaluator.compiler import Expression, Store, compile_expression, expression
from nki_lab.kernel_runtime.frontend.evaluator.conditions import compile_condition
from nki_lab.kernel_runtime.frontend.evaluator.interpreter import Frame
from nki_lab.kernel_runtime.frontend.evaluator.iteration import iterated
from nki_lab.kernel_runtime.frontend.evaluator.scopes import Scope, comprehension_scope
from nki_lab.kernel_runtime.frontend.evaluator.targets import compile_target
from nki_lab.kernel_runtime.frontend.evaluator.values import UNKNOWN, Value, has_unknown


class _Loop(NamedTuple):
    """One `for ... in ... if ...` of a comprehension."""

    source: Expression
    target: Store
    tests: list[Expression]


@expression(ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
def _comprehension(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: Scope) -> Expression:
    """Compile a comprehension; a generator expression gives its items at once."""
    inner = comprehension_scope(node, node.generators, scope)
    outermost = compile_expression(node.generators[0].iter, scope)
    loops = [
        _Loop(
            compile_expression(part.iter, inner),
            compile_target(part.target, inner),
            [compile_condition(test, node, inner) for test in part.ifs],
        )
        for part in node.generators
    ]
    if isinstance(node, ast.DictComp):
        row = [compile_expression(node.key, inner), compile_expression(node.value, inner)]
    else:
        row = [compile_expression(node.elt, inner)]

    def run(frame: Frame) -> Value:
        first = outermost(frame)
        own = Frame(frame.interpreter, frame, frame.function, {})
        found: list[Value] = []
        unknown = False
        for values in _rows(own, node, loops, first, row):
            frame.meter.node = node
            frame.meter.spend(1)
            if values is UNKNOWN:
                unknown = True
            else:
                found.append(values)
        if unknown or any(part.is_async for part in node.generators):
            return UNKNOWN
        return _gathered(frame, node, found)

    return run


def _rows(own: Frame, node: ast.expr, loops: list[_Loop], first: Value, row: list[Expression]) -> Iterator[Value]:
    """Yield the element values of each trip; UNKNOWN for a trip that may or may not be made."""
    (_, target, tests), rest = loops[0], loops[1:]
    stream = iterated(own, node, first)
    if stream is UNKNOWN:
        yield UNKNOWN
        return
    for item in stream:
        own.meter.spend(1)
        target(own, item)
        answer: Value = True
        for test in tests:
            answer = test(own)
            if answer is UNKNOWN or answer is False:
                break
        if answer is UNKNOWN:
            yield UNKNOWN
        elif answer is False:
            continue
        elif rest:
            yield from _rows(own, node, rest, rest[0].source(own), row)
        else:
            yield [part(own) for part in row]


def _gathered(frame: Frame, node: ast.expr, found: list[Value]) -> Value:
    frame.meter.sized(len(found))
    try:
        if isinstance(node, ast.DictComp):
            keys = frame.meter.walked([key for key, _ in found])
            return UNKNOWN if has_unknown(keys) else dict(found)
        items = [values[0] for values in found]
        if isinstance(node, ast.SetComp):
            return UNKNOWN if has_unknown(frame.meter.walked(items)) else set(items)
    except Exception as error:  # noqa: BLE001 - an unhashable item
        return frame.fault(error, node)
    return items
