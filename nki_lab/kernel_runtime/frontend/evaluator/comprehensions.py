"""Comprehensions and whatever walks an iterable: each item costs a step."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from nki_lab.kernel_runtime.frontend.evaluator import conditions, expressions, natives, targets
from nki_lab.kernel_runtime.frontend.evaluator.values import UNKNOWN, Frame, has_unknown
from nki_lab.source.scopes import Scope, comprehension_scope


def iterated(frame: Frame, node: ast.AST, value: Any) -> Any:
    """An iterator over `value`; UNKNOWN where it cannot be known, or is none (reported at `node`)."""
    try:
        return natives.iterate(frame.m, value)
    except Exception as error:  # noqa: BLE001 - not iterable, reported at the loop
        return frame.m.fault(error, node, frame)


def listed(frame: Frame, node: ast.AST, value: Any) -> Any:
    """The items of `value` as a list, or UNKNOWN."""
    stream = iterated(frame, node, value)
    if stream is UNKNOWN:
        return UNKNOWN
    try:
        return frame.m.meter.items(stream)
    except Exception as error:  # noqa: BLE001 - too many, or a stream that fails
        return frame.m.fault(error, node, frame)


def build_comprehension(
    node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: Scope
) -> Callable[[Frame], Any]:
    """The function that evaluates a comprehension; a generator expression gives its items at once."""
    inner = comprehension_scope(node, node.generators, scope)
    outermost = expressions.build(node.generators[0].iter, scope)
    loops = [
        (
            expressions.build(part.iter, inner),
            targets.build_target(part.target, inner),
            [conditions.condition(test, node, inner) for test in part.ifs],
        )
        for part in node.generators
    ]
    if isinstance(node, ast.DictComp):
        row = [expressions.build(node.key, inner), expressions.build(node.value, inner)]
    else:
        row = [expressions.build(node.elt, inner)]

    def run(frame: Frame) -> Any:
        first = outermost(frame)
        own = Frame(frame.m, frame, frame.function, {})
        found: list[Any] = []
        unknown = False
        for values in _rows(own, node, loops, first, row):
            frame.m.meter.node = node
            frame.m.meter.spend(1)
            if values is UNKNOWN:
                unknown = True
            else:
                found.append(values)
        if unknown or any(part.is_async for part in node.generators):
            return UNKNOWN
        return _gathered(frame, node, found)

    return run


def _rows(own: Frame, node: ast.expr, loops: list[Any], first: Any, row: list[Any]) -> Iterator[Any]:
    """The element values of each trip; UNKNOWN for a trip that may or may not be made."""
    (_, target, tests), rest = loops[0], loops[1:]
    stream = iterated(own, node, first)
    if stream is UNKNOWN:
        yield UNKNOWN
        return
    for item in stream:
        own.m.meter.spend(1)
        target(own, item)
        answer: Any = True
        for test in tests:
            answer = test(own)
            if answer is UNKNOWN or answer is False:
                break
        if answer is UNKNOWN:
            yield UNKNOWN
        elif answer is False:
            continue
        elif rest:
            yield from _rows(own, node, rest, rest[0][0](own), row)
        else:
            yield [part(own) for part in row]


def _gathered(frame: Frame, node: ast.expr, found: list[Any]) -> Any:
    frame.m.meter.sized(len(found))
    try:
        if isinstance(node, ast.DictComp):
            keys = frame.m.meter.walked([key for key, _ in found])
            return UNKNOWN if has_unknown(keys) else dict(found)
        items = [values[0] for values in found]
        if isinstance(node, ast.SetComp):
            return UNKNOWN if has_unknown(frame.m.meter.walked(items)) else set(items)
    except Exception as error:  # noqa: BLE001 - an unhashable item
        return frame.m.fault(error, node, frame)
    return items
