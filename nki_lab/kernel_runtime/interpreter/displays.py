"""Displays, comprehensions and texts: lists, tuples, sets, dictionaries, f-strings."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from nki_lab.kernel_runtime.interpreter.compiler import Expression, Store, compile_expression, expression
from nki_lab.kernel_runtime.interpreter.conditions import compile_condition
from nki_lab.kernel_runtime.interpreter.interpreter import Frame
from nki_lab.kernel_runtime.interpreter.iteration import iterated, listed
from nki_lab.kernel_runtime.interpreter.operations import formatted
from nki_lab.kernel_runtime.interpreter.operators import text_of
from nki_lab.kernel_runtime.interpreter.targets import compile_target
from nki_lab.kernel_runtime.interpreter.values import UNKNOWN, EnumMember, Instance, Value, has_unknown
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.source.positions import iteration_place
from nki_lab.source.scopes import Scope, comprehension_scope


def compile_items(nodes: list[ast.expr], scope: Scope, owner: ast.AST) -> Expression:
    """Return the function that lists the values of expressions, starred ones spread; UNKNOWN where one of those is."""
    parts = [
        (
            isinstance(node, ast.Starred),
            compile_expression(node.value if isinstance(node, ast.Starred) else node, scope),
        )
        for node in nodes
    ]
    if not any(starred for starred, _ in parts):
        plain = [part for _, part in parts]
        return lambda frame: [part(frame) for part in plain]

    def run(frame: Frame) -> Value:
        groups = [listed(frame, owner, part(frame)) if starred else [part(frame)] for starred, part in parts]
        return UNKNOWN if any(group is UNKNOWN for group in groups) else list(chain.from_iterable(groups))

    return run


@expression(ast.List, ast.Tuple, ast.Set)
def _display(node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> Expression:
    """Compile a list, tuple or set."""
    values, kind = compile_items(node.elts, scope, node), {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)]

    def run(frame: Frame) -> Value:
        found = values(frame)
        if found is UNKNOWN or (kind is set and has_unknown(frame.attempt(node, frame.meter.walked, found))):
            return UNKNOWN
        frame.meter.spend(len(found) >> 3)
        return frame.attempt(node, kind, found)

    return run


@expression(ast.Dict)
def _dict(node: ast.Dict, scope: Scope) -> Expression:
    """Compile a dictionary."""
    parts = [
        (None if key is None else compile_expression(key, scope), compile_expression(value, scope))
        for key, value in zip(node.keys, node.values, strict=True)
    ]

    def run(frame: Frame) -> Value:
        made: dict[Value, Value] = {}
        unknown = False
        try:
            for key, value in parts:
                where = UNKNOWN if key is None else key(frame)
                what = value(frame)
                if key is None and isinstance(what, dict) and not frame.interpreter.is_doubtful(what):
                    made.update(what)
                elif where is UNKNOWN or has_unknown(where):
                    unknown = True
                else:
                    made[frame.meter.walked(where)] = what
        except Exception as error:  # noqa: BLE001 - an unhashable key
            return frame.fault(error, node)
        return UNKNOWN if unknown else made

    return run


@expression(ast.JoinedStr)
def _text(node: ast.JoinedStr, scope: Scope) -> Expression:
    """Compile an f-string."""
    parts = [compile_expression(value, scope) for value in node.values]

    def run(frame: Frame) -> Value:
        texts = [part(frame) for part in parts]
        if any(text is UNKNOWN for text in texts):
            return UNKNOWN
        length = frame.attempt(node, frame.meter.text, sum(map(len, texts)))
        return UNKNOWN if length is UNKNOWN else "".join(texts)

    return run


@expression(ast.FormattedValue)
def _part(node: ast.FormattedValue, scope: Scope) -> Expression:
    """Compile one `{...}` of an f-string."""
    value, spec = (
        compile_expression(node.value, scope),
        None if node.format_spec is None else compile_expression(node.format_spec, scope),
    )

    def run(frame: Frame) -> Value:
        found, how, conversion = value(frame), "" if spec is None else spec(frame), node.conversion
        if isinstance(found, Instance) and how is not UNKNOWN and not how:
            found = text_of(found)
        elif isinstance(found, EnumMember) and found.cls.kind not in ("intenum", "strenum"):
            found, conversion = text_of(found, conversion), -1
        if (
            how is UNKNOWN
            or isinstance(found, Instance | TensorSpec)
            or frame.interpreter.is_doubtful(found)
            or frame.interpreter.holds_unknown(found)
        ):
            return UNKNOWN
        return frame.attempt(node, formatted, found, conversion, how, frame.meter)

    return run


# -- comprehensions ----------------------------------------------------------------------------------------------------


class _Loop(NamedTuple):
    """One `for ... in ... if ...` of a comprehension."""

    source: Expression
    target: Store
    tests: list[Expression]
    place: ast.AST


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
            iteration_place(part.iter, node),
        )
        for part in node.generators
    ]
    parts = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
    row = [compile_expression(part, inner) for part in parts]

    def run(frame: Frame) -> Value:
        first = outermost(frame)
        own = Frame(frame.interpreter, frame, frame.function, {})
        found: list[Value] = []
        for values in _rows(own, loops, first, row):
            frame.meter.node = node
            frame.meter.spend(1)
            found.append(values)
        if any(values is UNKNOWN for values in found) or any(part.is_async for part in node.generators):
            return UNKNOWN
        return _gathered(frame, node, found)

    return run


def _rows(own: Frame, loops: list[_Loop], first: Value, row: list[Expression]) -> Iterator[Value]:
    """Yield the element values of each trip; UNKNOWN for a trip that may or may not be made."""
    (_, target, tests, place), rest = loops[0], loops[1:]
    stream = iterated(own, place, first)
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
            yield from _rows(own, rest, rest[0].source(own), row)
        else:
            yield [part(own) for part in row]


def _gathered(frame: Frame, node: ast.expr, found: list[Value]) -> Value:
    frame.meter.sized(len(found))
    items = [values[0] for values in found]
    if not isinstance(node, ast.DictComp | ast.SetComp):
        return items
    if has_unknown(frame.attempt(node, frame.meter.walked, items)):
        return UNKNOWN
    return frame.attempt(node, dict, found) if isinstance(node, ast.DictComp) else frame.attempt(node, set, items)
