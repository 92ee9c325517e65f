"""Expressions: each node of the tree becomes a function of a frame, made once and called for every evaluation."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from nki_lab.kernel_runtime.frontend.arguments import TensorSpec
from nki_lab.kernel_runtime.frontend.evaluator import attributes, calls, comprehensions, host, methods, objects
from nki_lab.kernel_runtime.frontend.evaluator.machine import Machine
from nki_lab.kernel_runtime.frontend.evaluator.operations import (
    BINARY,
    METHODS,
    ORDER,
    ORDER_METHODS,
    UNARY,
    contains,
    formatted,
    unwrapped,
)
from nki_lab.kernel_runtime.frontend.evaluator.positions import after
from nki_lab.kernel_runtime.frontend.evaluator.scopes import Scope, function_scope
from nki_lab.kernel_runtime.frontend.evaluator.values import MISSING, UNKNOWN, EnumMember, Frame, Function, Instance, has_unknown
from nki_lab.kernel_runtime.tensor import NkiTensor, VirtualRegister

Expression = Callable[[Frame], Any]

_FAST: Final = 1 << 62  # integers below this take Python's operators without a look at their size


def build(node: ast.expr, scope: Scope) -> Expression:
    """The function that evaluates `node` in a frame of `scope`."""
    maker = _MAKERS.get(type(node))
    return _nothing if maker is None else maker(node, scope)


def _nothing(frame: Frame) -> Any:
    return UNKNOWN


def _constant(node: ast.Constant, scope: Scope) -> Expression:
    value = node.value
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
    operation = BINARY[kind]
    quick = kind in (ast.Add, ast.Sub, ast.FloorDiv, ast.Mod)
    product = kind is ast.Mult

    def run(frame: Frame) -> Any:
        a, b = left(frame), right(frame)
        if type(a) is int and type(b) is int:
            if quick and b and -_FAST < a < _FAST and -_FAST < b < _FAST:
                return operation(a, b, frame.m.meter)
            if product and -_FAST < a < _FAST and -_FAST < b < _FAST:
                return a * b
        return binary(frame, node, kind, a, b)

    return run


def binary(frame: Frame, node: ast.AST, kind: type[ast.operator], a: Any, b: Any) -> Any:
    """`a <operator> b`, reported at `node`."""
    if a is UNKNOWN or b is UNKNOWN:
        return UNKNOWN
    m = frame.m
    if isinstance(a, TensorSpec) or isinstance(b, TensorSpec):
        return host.arithmetic(a, b)
    if isinstance(a, Instance) or isinstance(b, Instance):
        return objects.operate(m, frame, node, METHODS[kind], a, b)
    if isinstance(a, NkiTensor) or isinstance(b, NkiTensor):
        m.pin(node, frame)
    elif m.is_doubtful(a) or m.is_doubtful(b):
        return UNKNOWN
    try:
        return BINARY[kind](unwrapped(a), unwrapped(b), m.meter)
    except Exception as error:  # noqa: BLE001 - what the user's values raise is reported at the operator
        return m.fault(error, node, frame)


def _unary(node: ast.UnaryOp, scope: Scope) -> Expression:
    operand = build(node.operand, scope)
    if isinstance(node.op, ast.Not):

        def negate(frame: Frame) -> Any:
            truth_of = truth(frame, node, operand(frame))
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


def truth(frame: Frame, node: ast.AST, value: Any) -> Any:
    """Whether a value counts as true: True, False, or UNKNOWN; refusals are reported at `node`."""
    if value is True or value is False or value is None:
        return bool(value)
    if value is UNKNOWN or frame.m.is_doubtful(value) or isinstance(value, TensorSpec):
        return UNKNOWN
    if isinstance(value, Instance):
        return objects.truth(frame.m, frame, node, value)
    try:
        return bool(unwrapped(value))
    except Exception as error:  # noqa: BLE001 - a tensor's refusal, reported at the condition
        return frame.m.fault(error, node, frame)


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
        case ast.Compare():
            compare = build(test, scope)
            return lambda frame: truth(frame, test, compare(frame))
        case _:
            value_of = build(test, scope)
            return lambda frame: truth(frame, owner, value_of(frame))


def _boolean(node: ast.BoolOp, scope: Scope) -> Expression:
    parts, stop = [build(value, scope) for value in node.values], isinstance(node.op, ast.Or)

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


def _conditional(node: ast.IfExp, scope: Scope) -> Expression:
    test, body, orelse = condition(node.test, node, scope), build(node.body, scope), build(node.orelse, scope)

    def run(frame: Frame) -> Any:
        answer = test(frame)
        if answer is UNKNOWN:
            return UNKNOWN
        return body(frame) if answer else orelse(frame)

    return run


def _compare(node: ast.Compare, scope: Scope) -> Expression:
    first = build(node.left, scope)
    rest = [(type(op), build(item, scope)) for op, item in zip(node.ops, node.comparators, strict=True)]

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
    if m.is_doubtful(a) or m.is_doubtful(b) or has_unknown(a) or has_unknown(b):
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
        if not hasattr(container, "__contains__"):
            raise TypeError(f"argument of type {type(container).__name__!r} is not iterable")
        return UNKNOWN if not isinstance(container, NkiTensor | VirtualRegister) else item in container
    return contains(container, unwrapped(item), m.meter)


_SIZED: Final = (list, tuple, dict, set, frozenset, str, range, type({}.keys()), type({}.values()), type({}.items()))


# -- displays, subscripts, attributes, calls ------------------------------------------------------------------------------


def items_of(nodes: list[ast.expr], scope: Scope, owner: ast.AST) -> Callable[[Frame], Any]:
    """The values of a row of expressions, starred ones spread; UNKNOWN where one of those is."""
    parts = [(isinstance(node, ast.Starred), build(node.value if isinstance(node, ast.Starred) else node, scope)) for node in nodes]
    if not any(starred for starred, _ in parts):
        plain = [part for _, part in parts]
        return lambda frame: [part(frame) for part in plain]

    def run(frame: Frame) -> Any:
        values: list[Any] = []
        unknown = False
        for starred, part in parts:
            value = part(frame)
            if not starred:
                values.append(value)
                continue
            spread = comprehensions.listed(frame, owner, value)
            unknown = unknown or spread is UNKNOWN
            values.extend([] if spread is UNKNOWN else spread)
        return UNKNOWN if unknown else values

    return run


def _display(node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> Expression:
    values, kind = items_of(node.elts, scope, node), {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)]

    def run(frame: Frame) -> Any:
        found = values(frame)
        if found is UNKNOWN or (kind is set and has_unknown(found)):
            return UNKNOWN
        frame.m.meter.spend(len(found) >> 3)
        try:
            return kind(found)
        except Exception as error:  # noqa: BLE001 - an unhashable member
            return frame.m.fault(error, node, frame)

    return run


def _dict(node: ast.Dict, scope: Scope) -> Expression:
    parts = [(None if key is None else build(key, scope), build(value, scope)) for key, value in zip(node.keys, node.values, strict=True)]

    def run(frame: Frame) -> Any:
        made: dict[Any, Any] = {}
        unknown = False
        try:
            for key, value in parts:
                where = UNKNOWN if key is None else key(frame)
                what = value(frame)
                if key is None and isinstance(what, dict) and not frame.m.is_doubtful(what):
                    made.update(what)
                elif where is UNKNOWN or has_unknown(where):
                    unknown = True
                else:
                    made[frame.m.meter.walked(where)] = what
        except Exception as error:  # noqa: BLE001 - an unhashable key
            return frame.m.fault(error, node, frame)
        return UNKNOWN if unknown else made

    return run


def _slice(node: ast.Slice, scope: Scope) -> Expression:
    parts = [None if part is None else build(part, scope) for part in (node.lower, node.upper, node.step)]

    def run(frame: Frame) -> Any:
        lower, upper, step = (None if part is None else part(frame) for part in parts)
        return slice(lower, upper, step)

    return run


def _subscript(node: ast.Subscript, scope: Scope) -> Expression:
    value, key = build(node.value, scope), build(node.slice, scope)
    return lambda frame: objects.item(frame.m, frame, node, value(frame), key(frame))


def _attribute(node: ast.Attribute, scope: Scope) -> Expression:
    value, name = build(node.value, scope), node.attr
    return lambda frame: attributes.get(frame.m, frame, node, value(frame), name)


def _call(node: ast.Call, scope: Scope) -> Expression:
    values = items_of(node.args, scope, node)
    keywords = [(item.arg, build(item.value, scope)) for item in node.keywords]
    method = node.func if isinstance(node.func, ast.Attribute) else None
    callee = build(node.func if method is None else method.value, scope)

    def run(frame: Frame) -> Any:
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
        m.meter.spend(1)
        if method is not None and direct:
            return methods.call_method(m, frame, node, function, method.attr, args, kwargs)
        return calls.call(m, frame, node, function, args, kwargs)

    return run


def _joined(node: ast.JoinedStr, scope: Scope) -> Expression:
    parts = [build(value, scope) for value in node.values]

    def run(frame: Frame) -> Any:
        texts = [part(frame) for part in parts]
        if any(text is UNKNOWN for text in texts):
            return UNKNOWN
        try:
            frame.m.meter.text(sum(len(text) for text in texts))
        except Exception as error:  # noqa: BLE001 - too long
            return frame.m.fault(error, node, frame)
        return "".join(texts)

    return run


def _formatted(node: ast.FormattedValue, scope: Scope) -> Expression:
    value, spec = build(node.value, scope), None if node.format_spec is None else build(node.format_spec, scope)

    def run(frame: Frame) -> Any:
        found, how = value(frame), "" if spec is None else spec(frame)
        if how is UNKNOWN or has_unknown(found) or isinstance(found, Instance | TensorSpec) or frame.m.is_doubtful(found):
            return UNKNOWN
        try:
            return formatted(found, node.conversion, how, frame.m.meter)
        except Exception as error:  # noqa: BLE001 - a bad format
            return frame.m.fault(error, node, frame)

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
            frame.m.globals[name] = value

        return store_global

    def store(frame: Frame, value: Any) -> None:
        place: Frame | None = frame
        for _ in range(hops):
            place = place.parent if place is not None else None
        if place is not None:
            place.locals[name] = value
            types = frame.m.types
            if key not in types:
                types[key] = (name, value)

    return store


_MAKERS: Final[dict[type[ast.expr], Callable[[Any, Scope], Expression]]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.IfExp: _conditional,
    ast.Compare: _compare,
    ast.List: _display,
    ast.Tuple: _display,
    ast.Set: _display,
    ast.Dict: _dict,
    ast.Slice: _slice,
    ast.Subscript: _subscript,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.JoinedStr: _joined,
    ast.FormattedValue: _formatted,
    ast.Lambda: _lambda,
    ast.NamedExpr: _walrus,
    ast.ListComp: comprehensions.build_comprehension,
    ast.SetComp: comprehensions.build_comprehension,
    ast.GeneratorExp: comprehensions.build_comprehension,
    ast.DictComp: comprehensions.build_comprehension,
}
