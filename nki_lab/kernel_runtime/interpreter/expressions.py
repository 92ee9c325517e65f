"""Expressions: each node of the tree becomes a function of a frame, made once and called for every evaluation."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final

from nki_lab.kernel_runtime.interpreter.attributes import get
from nki_lab.kernel_runtime.interpreter.builtins import methods
from nki_lab.kernel_runtime.interpreter.calls import call
from nki_lab.kernel_runtime.interpreter.compiler import (
    Expression,
    Store,
    compile_binding,
    compile_defaults,
    compile_expression,
    compile_optional,
    compiles,
    frame_at,
)
from nki_lab.kernel_runtime.interpreter.host_code import is_host_call
from nki_lab.kernel_runtime.interpreter.interpreter import Frame, Function
from nki_lab.kernel_runtime.interpreter.limits import Meter
from nki_lab.kernel_runtime.interpreter.observing import is_watched
from nki_lab.kernel_runtime.interpreter.operators import (
    BINARY,
    UNARY,
    binary,
    bound_numpy,
    compare,
    decide,
    formatted,
    iterated,
    listed,
    text_of,
    truth,
    unwrapped,
)
from nki_lab.kernel_runtime.interpreter.skipped import Lost, compile_lost
from nki_lab.kernel_runtime.interpreter.targets import compile_target, load_item
from nki_lab.kernel_runtime.interpreter.values import MISSING, SIMPLE, UNKNOWN, EnumMember, Instance, Names, Value
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.source.positions import after, iteration_place, jump_place
from nki_lab.source.scopes import Scope, comprehension_scope, function_scope
from nki_lab.source.tables import Table


def compile_condition(test: ast.expr, owner: ast.AST, scope: Scope) -> Expression:
    """Return the function that decides a test: True, False or UNKNOWN; `owner` is the node that jumps on it."""
    match test:
        case ast.BoolOp(op=op, values=values):
            parts, place, lost = [], owner, compile_lost(values, scope)
            for value in values:
                parts.append(compile_condition(value, place, scope))
                place = after(value, place)
            stop = isinstance(op, ast.Or)

            def several(frame: Frame) -> Value:
                for number, part in enumerate(parts):
                    answer = part(frame)
                    if answer is UNKNOWN:
                        return lost(frame, number + 1)
                    if answer is stop:
                        return answer
                return not stop

            return several
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _inverted(compile_condition(operand, owner, scope))
        case ast.IfExp(test=first, body=body, orelse=orelse):
            place = after(first, owner)
            taken, other = compile_condition(body, place, scope), compile_condition(orelse, after(body, place), scope)
            return _choice(first, owner, scope, taken, other, compile_lost([body, orelse], scope))
        case ast.Compare():
            compare = compile_expression(test, scope)
            return lambda frame: decide(frame, test, compare(frame))
        case _:
            value_of, place = compile_expression(test, scope), jump_place(test, owner)
            return lambda frame: decide(frame, place, value_of(frame))


def _inverted(test: Expression) -> Expression:
    """Return the function that decides `not test`."""

    def run(frame: Frame) -> Value:
        answer = test(frame)
        return UNKNOWN if answer is UNKNOWN else not answer

    return run


def _choice(
    test: ast.expr, owner: ast.AST, scope: Scope, taken: Expression, other: Expression, lost: Lost
) -> Expression:
    """Return the function that evaluates one of two parts by a test, and `lost` where that is not known."""
    value, local = compile_condition(test, owner, scope), scope.reads_local(test)

    def run(frame: Frame) -> Value:
        answer = frame.interpreter.decided(value(frame), test, local=local)
        return lost(frame) if answer is UNKNOWN else taken(frame) if answer else other(frame)

    return run


@compiles(ast.BoolOp)
def _boolean(node: ast.BoolOp, scope: Scope) -> Expression:
    """Compile `and` and `or` as values."""
    parts, stop = [compile_expression(value, scope) for value in node.values], isinstance(node.op, ast.Or)
    lost = compile_lost(node.values, scope)

    def run(frame: Frame) -> Value:
        for number, part in enumerate(parts[:-1]):
            value = part(frame)
            answer = truth(frame, node, value)
            if answer is UNKNOWN:
                return lost(frame, number)  # it may be the value itself
            if answer is stop:
                return value
        return parts[-1](frame)

    return run


@compiles(ast.IfExp)
def _conditional(node: ast.IfExp, scope: Scope) -> Expression:
    """Compile `a if test else b`."""
    body, orelse = compile_expression(node.body, scope), compile_expression(node.orelse, scope)
    return _choice(node.test, node, scope, body, orelse, compile_lost([node.body, node.orelse], scope))


@compiles(ast.Compare)
def _compare(node: ast.Compare, scope: Scope) -> Expression:
    """Compile a comparison, chained or not."""
    first = compile_expression(node.left, scope)
    rest = [(type(op), compile_expression(item, scope)) for op, item in zip(node.ops, node.comparators, strict=True)]

    def run(frame: Frame) -> Value:
        left, result = first(frame), True
        for position, (kind, operand) in enumerate(rest):
            right = operand(frame)
            result = compare(frame, node, kind, left, right)
            if (assumptions := frame.interpreter.assumptions) is not None:
                assumptions.compared = (kind, left, right, result)
            if position + 1 < len(rest):
                answer = truth(frame, node, result)
                if answer is UNKNOWN or answer is False:
                    return UNKNOWN if answer is UNKNOWN else result
            left = right
        return result

    return run


def compile_items(nodes: list[ast.expr], scope: Scope, owner: ast.AST) -> Expression:
    """Return the function that lists the values of expressions, starred ones spread; UNKNOWN where one of those is."""
    values = _table(nodes, owner)
    if values is not None:
        return lambda frame: values.copy()
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

    tables = [isinstance(node, ast.Starred) and type(node.value) is Table for node in nodes]

    def run(frame: Frame) -> Value:
        groups = [
            (part(frame) if whole else listed(frame, owner, part(frame))) if starred else [part(frame)]
            for (starred, part), whole in zip(parts, tables, strict=True)
        ]
        return UNKNOWN if any(group is UNKNOWN for group in groups) else list(chain.from_iterable(groups))

    return run


@compiles(ast.List, ast.Tuple, ast.Set)
def _display(node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> Expression:
    """Compile a list, tuple or set."""
    values, kind = compile_items(node.elts, scope, node), {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)]

    def run(frame: Frame) -> Value:
        found = values(frame)
        if found is UNKNOWN or (
            kind is set and frame.interpreter.holds_unknown(frame.attempt(node, frame.meter.walked, found))
        ):
            return UNKNOWN
        frame.meter.spend(len(found) >> 3)
        return frame.attempt(node, kind, found)

    return run


@compiles(ast.Dict)
def _dict(node: ast.Dict, scope: Scope) -> Expression:
    """Compile a dictionary."""
    keys = _table(node.keys, node)
    if keys is not None and UNKNOWN not in keys:
        values = compile_items(node.values, scope, node)
        return lambda frame: dict(zip(keys, values(frame), strict=True))
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
                elif where is UNKNOWN or frame.interpreter.holds_unknown(where):
                    unknown = True
                else:
                    made[frame.meter.walked(where)] = what
        except Exception as error:  # noqa: BLE001 - an unhashable key
            return frame.fault(error, node)
        return UNKNOWN if unknown else made

    return run


@compiles(ast.JoinedStr)
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


@compiles(ast.FormattedValue)
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


_Loop = tuple[Expression, Store, list[Expression], ast.AST]
"""One `for ... in ... if ...` of a comprehension: iterable, target, tests, and the place of failures."""


@compiles(ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
def _comprehension(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: Scope) -> Expression:
    """Compile a comprehension; a generator expression gives its items at once."""
    inner = comprehension_scope(node, node.generators, scope)
    outermost = compile_expression(node.generators[0].iter, scope)
    loops = [
        (
            compile_expression(part.iter, inner) if number else outermost,
            compile_target(part.target, inner),
            [compile_condition(test, node, inner) for test in part.ifs],
            iteration_place(part.iter, node),
        )
        for number, part in enumerate(node.generators)
    ]
    parts = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
    row = [compile_expression(part, inner) for part in parts]
    walked = [part.iter for part in node.generators[1:]]
    lost = compile_lost([*walked, *(test for part in node.generators for test in part.ifs), *parts], inner)

    def run(frame: Frame) -> Value:
        first = outermost(frame)
        own = Frame(frame.interpreter, frame, frame.function, {})
        found: list[Value] = []
        for values in _rows(own, loops, first, row):
            frame.meter.node = node
            frame.meter.spend(1)
            found.append(values)
            if values is UNKNOWN:
                lost(own)
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
        elif answer and rest:
            yield from _rows(own, rest, rest[0][0](own), row)
        elif answer:
            yield [part(own) for part in row]


def _gathered(frame: Frame, node: ast.expr, found: list[Value]) -> Value:
    frame.meter.sized(len(found))
    items = [values[0] for values in found]
    if not isinstance(node, ast.DictComp | ast.SetComp):
        return items
    if frame.interpreter.holds_unknown(frame.attempt(node, frame.meter.walked, items)):
        return UNKNOWN
    return frame.attempt(node, dict, found) if isinstance(node, ast.DictComp) else frame.attempt(node, set, items)


_FAST: Final = 1 << 62  # integers below this take Python's operators without a look at their size
_QUICK: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    kind: BINARY[kind] for kind in (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
}


@compiles(ast.Constant)
def _constant(node: ast.Constant, scope: Scope) -> Expression:
    value = _plain(node.value)
    return lambda frame: value


@compiles(Table)
def _items(node: Table, scope: Scope) -> Expression:
    return lambda frame: node.items()


def _plain(value: Value) -> Value:
    """Return the value of a constant; UNKNOWN for an integer that is too large."""
    return UNKNOWN if isinstance(value, int) and value.bit_length() > 1024 else value


_LONG: Final = 64
"""Constants of a table, which are then one part and not a part each: there are tables of a million numbers."""


def _table(nodes: Sequence[ast.expr | None], owner: ast.AST) -> list[Value] | None:
    """Return the values of many constants; None where there are few, other expressions, or an observer of each."""
    if len(nodes) < _LONG or is_watched(owner):
        return None
    signed = set(map(type, nodes)) - {ast.Constant}
    if not signed:
        values = [node.value for node in nodes if isinstance(node, ast.Constant)]
    elif signed == {ast.UnaryOp}:
        values = list(map(_number, nodes))
        if MISSING in values:
            return None
    else:
        return None
    return [_plain(value) if type(value) is int else value for value in values]


def _number(node: ast.expr | None) -> Value:
    """Return the value of a constant, or of a number with a minus; MISSING for other expressions."""
    if isinstance(node, ast.Constant):
        return node.value
    operand = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else None
    value = operand.value if isinstance(operand, ast.Constant) else None
    return -value if isinstance(value, int | float) and not isinstance(value, bool) else MISSING


@compiles(ast.Name)
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


@compiles(ast.BinOp)
def _binary(node: ast.BinOp, scope: Scope) -> Expression:
    left, right, kind = compile_expression(node.left, scope), compile_expression(node.right, scope), type(node.op)
    quick = _QUICK.get(kind)
    divides = kind in (ast.FloorDiv, ast.Mod)

    def run(frame: Frame) -> Value:
        a, b = left(frame), right(frame)
        if quick is not None and type(a) is int and type(b) is int and -_FAST < a < _FAST and -_FAST < b < _FAST:
            return quick(a, b) if b or not divides else binary(frame, node, kind, a, b)
        return binary(frame, node, kind, a, b)

    return run


@compiles(ast.UnaryOp)
def _unary(node: ast.UnaryOp, scope: Scope) -> Expression:
    operand = compile_expression(node.operand, scope)
    if isinstance(node.op, ast.Not):
        return _inverted(lambda frame: decide(frame, node, operand(frame)))
    operation = UNARY[type(node.op)]

    def run(frame: Frame) -> Value:
        value = operand(frame)
        if value is UNKNOWN or isinstance(value, Instance | TensorSpec):
            return value if isinstance(value, TensorSpec) else UNKNOWN
        if isinstance(value, NkiTensor):
            frame.interpreter.pin(node, frame)
        return frame.attempt(node, _apply_unary, operation, unwrapped(value), frame.meter)

    return run


def _apply_unary(operation: Callable[[Value], Value], value: Value, meter: Meter) -> Value:
    if not isinstance(value, int | float | NkiTensor):
        bound_numpy(meter, value)
    return operation(value)


@compiles(ast.Slice)
def _slice(node: ast.Slice, scope: Scope) -> Expression:
    lower, upper, step = (compile_optional(part, scope) for part in (node.lower, node.upper, node.step))
    return lambda frame: slice(lower(frame), upper(frame), step(frame))


@compiles(ast.Subscript)
def _subscript(node: ast.Subscript, scope: Scope) -> Expression:
    value, key = compile_expression(node.value, scope), compile_expression(node.slice, scope)

    def run(frame: Frame) -> Value:
        found = load_item(frame, node, value(frame), key(frame))
        if type(found) is NkiTensor:
            frame.interpreter.note_tensor(node, frame, found)
        return found

    return run


@compiles(ast.Attribute)
def _attribute(node: ast.Attribute, scope: Scope) -> Expression:
    value, name = compile_expression(node.value, scope), node.attr
    return lambda frame: get(frame, node, value(frame), name)


@compiles(ast.Call)
def _call(node: ast.Call, scope: Scope) -> Expression:
    values = compile_items(node.args, scope, node)
    keywords = [(item.arg, compile_expression(item.value, scope)) for item in node.keywords]
    method = node.func if isinstance(node.func, ast.Attribute) else None
    callee = compile_expression(node.func if method is None else method.value, scope)

    def run(frame: Frame) -> Value:
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
        if function is UNKNOWN and not frame.interpreter.host:
            given = [value for value in (*args, *kwargs.values()) if type(value) not in SIMPLE]
            if given and is_host_call(frame, scope, node.func, given):
                return UNKNOWN
        found = call(frame, node, function, args, kwargs)
        if type(found) is NkiTensor:
            frame.interpreter.note_tensor(node, frame, found)
        return found

    return run


@compiles(ast.Lambda)
def _lambda(node: ast.Lambda, scope: Scope) -> Expression:
    inner, defaults = function_scope(node, "<lambda>", scope), compile_defaults(node.args, scope)
    return lambda frame: Function(node, "<lambda>", inner, defaults(frame), frame)


@compiles(ast.NamedExpr)
def _walrus(node: ast.NamedExpr, scope: Scope) -> Expression:
    value, store = compile_expression(node.value, scope), compile_binding(node.target.id, node.target, scope)

    def run(frame: Frame) -> Value:
        found = value(frame)
        store(frame, found)
        return found

    return run
