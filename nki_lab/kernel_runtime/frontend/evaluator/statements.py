"""Statements: each becomes a function of a frame that says how its block goes on."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any, Final

from nki_lab.kernel_runtime.frontend.evaluator import calls, definitions, expressions, objects, skipping, targets
from nki_lab.kernel_runtime.frontend.evaluator.comprehensions import iterated
from nki_lab.kernel_runtime.frontend.evaluator.machine import Left, Thrown
from nki_lab.kernel_runtime.frontend.evaluator.natives import Raisable
from nki_lab.kernel_runtime.frontend.evaluator.positions import assertion_place
from nki_lab.kernel_runtime.frontend.evaluator.scopes import Scope
from nki_lab.kernel_runtime.frontend.evaluator.values import UNKNOWN, Frame, Function, Instance, has_unknown
from nki_lab.kernel_runtime.tensor import NkiTensor

Signal = str | None
Statement = Callable[[Frame], Signal]

BREAK: Final = "break"
CONTINUE: Final = "continue"
RETURN: Final = "return"
LOST: Final = "lost"
"""An unknown condition may have left the loop: its later trips are not evaluated."""


def build_block(body: list[ast.stmt], scope: Scope) -> Statement:
    """The function that runs statements in order; None is falling off the end."""
    rows = [(_build(node, scope), _cost(node), node) for node in body]

    def run(frame: Frame) -> Signal:
        meter = frame.m.meter
        for statement, cost, node in rows:
            meter.steps += cost
            if meter.steps >= meter.look_at:
                meter.node = node
                meter.look()
            signal = statement(frame)
            if signal is not None:
                return signal
        return None

    return run


def _cost(node: ast.stmt) -> int:
    """Steps of a statement: one, and more for long expressions."""
    fields = (item for _, item in ast.iter_fields(node) if isinstance(item, ast.AST))
    return 1 + sum(sum(1 for _ in ast.walk(item)) for item in fields) // 16


def _build(node: ast.stmt, scope: Scope) -> Statement:
    maker = _MAKERS.get(type(node))
    return maker(node, scope) if maker is not None else skipping.build_skip([node], scope)


def body_of(function: Function) -> Callable[[Frame], Any]:
    """The function that runs a function's body in its frame and leaves the result there."""
    node = function.node
    if isinstance(node, ast.Lambda):
        value = expressions.build(node.body, function.scope)

        def give(frame: Frame) -> None:
            frame.result = value(frame)

        return give
    return build_block(node.body, function.scope)


def _expression(node: ast.Expr, scope: Scope) -> Statement:
    if isinstance(node.value, ast.Constant):
        return lambda frame: None
    value = expressions.build(node.value, scope)

    def run(frame: Frame) -> Signal:
        value(frame)
        return None

    return run


def _assign(node: ast.Assign, scope: Scope) -> Statement:
    value, places = expressions.build(node.value, scope), [targets.build_target(item, scope) for item in node.targets]

    made = node.value if len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript) else None

    def run(frame: Frame) -> Signal:
        found = value(frame)
        frame.m.computed(made)
        for place in places:
            place(frame, found)
        return None

    return run


def _annotated(node: ast.AnnAssign, scope: Scope) -> Statement:
    if node.value is None:
        return lambda frame: None
    value, place = expressions.build(node.value, scope), targets.build_target(node.target, scope)

    def run(frame: Frame) -> Signal:
        found = value(frame)
        frame.m.computed(node.value)
        place(frame, found)
        return None

    return run


def _augmented(node: ast.AugAssign, scope: Scope) -> Statement:
    kind, value, target = type(node.op), expressions.build(node.value, scope), node.target
    if isinstance(target, ast.Subscript):
        owner, key = expressions.build(target.value, scope), expressions.build(target.slice, scope)

        def change_item(frame: Frame) -> Signal:
            container, place = owner(frame), key(frame)
            old = objects.item(frame.m, frame, target, container, place)
            new = _changed(frame, node, kind, old, value(frame))
            frame.m.computed(None)
            targets.store_item(frame.m, frame, target, container, place, new)
            return None

        return change_item
    loaded = ast.copy_location(_as_load(target), target)
    load, store = expressions.build(loaded, scope), targets.build_target(target, scope)

    def run(frame: Frame) -> Signal:
        old = load(frame)
        store(frame, _changed(frame, node, kind, old, value(frame)))
        return None

    return run


def _as_load(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.Name(id=target.id, ctx=ast.Load())
    assert isinstance(target, ast.Attribute)
    return ast.Attribute(value=target.value, attr=target.attr, ctx=ast.Load())


_IN_PLACE: Final = {ast.Add: operator.iadd, ast.Sub: operator.isub, ast.Mult: operator.imul, ast.Div: operator.itruediv}


def _changed(frame: Frame, node: ast.AugAssign, kind: type[ast.operator], old: Any, new: Any) -> Any:
    """`old <operator>= new`: lists grow in place, and so do the tiles of Beta 1."""
    m = frame.m
    if kind is ast.Add and type(old) is list:
        calls.call(m, frame, node, calls.NativeMethod(old, "extend"), [new], {})
        return old
    if isinstance(old, NkiTensor) and kind in _IN_PLACE:
        if has_unknown(new) or isinstance(new, Instance):
            m.doubt([old, new])
            return UNKNOWN
        m.pin(node, frame)
        m.computed(node.value)
        try:
            return _IN_PLACE[kind](old, new)
        except Exception as error:  # noqa: BLE001 - reported at the statement
            m.doubt([old], contents=False)
            return m.fault(error, node, frame)
    return expressions.binary(frame, node, kind, old, new)


def _if(node: ast.If, scope: Scope) -> Statement:
    test = expressions.condition(node.test, node, scope)
    body, orelse = build_block(node.body, scope), build_block(node.orelse, scope)
    skip = skipping.build_skip([*node.body, *node.orelse], scope)

    def run(frame: Frame) -> Signal:
        answer = test(frame)
        if answer is UNKNOWN:
            frame.m.unevaluated("the condition is not known here: neither branch is evaluated", node.test, frame)
            return skip(frame)
        return body(frame) if answer else orelse(frame)

    return run


def _for(node: ast.For, scope: Scope) -> Statement:
    source, target = expressions.build(node.iter, scope), targets.build_target(node.target, scope)
    body, orelse = build_block(node.body, scope), build_block(node.orelse, scope)
    skip = skipping.build_skip([*node.body, *node.orelse], scope, node.target)

    def run(frame: Frame) -> Signal:
        m = frame.m
        stream = iterated(frame, node, source(frame))
        if stream is UNKNOWN:
            m.unevaluated("what the loop walks is not known here: its body is not evaluated", node.iter, frame)
            skip(frame)
            return None
        while True:
            try:
                item = next(stream)
            except StopIteration:
                break
            except Exception as error:  # noqa: BLE001 - a dictionary that changed while it was walked
                m.fault(error, node, frame)
                break
            m.meter.spend(1)
            target(frame, item)
            signal = body(frame)
            if signal is None or signal is CONTINUE:
                continue
            if signal is LOST:
                skip(frame)
                return None
            return None if signal is BREAK else signal
        return orelse(frame)

    return run


def _while(node: ast.While, scope: Scope) -> Statement:
    test, body = expressions.condition(node.test, node, scope), build_block(node.body, scope)
    orelse, skip = build_block(node.orelse, scope), skipping.build_skip([*node.body, *node.orelse], scope)

    def run(frame: Frame) -> Signal:
        m = frame.m
        while True:
            m.meter.node = node
            m.meter.spend(1)
            answer = test(frame)
            if answer is UNKNOWN:
                m.unevaluated("the condition is not known here: the loop is not evaluated", node.test, frame)
                skip(frame)
                return None
            if not answer:
                return orelse(frame)
            signal = body(frame)
            if signal is LOST:
                skip(frame)
                return None
            if signal is BREAK:
                return None
            if signal is RETURN:
                return signal

    return run


def _return(node: ast.Return, scope: Scope) -> Statement:
    value = None if node.value is None else expressions.build(node.value, scope)

    def run(frame: Frame) -> Signal:
        frame.result = None if value is None else value(frame)
        return RETURN

    return run


def _assert(node: ast.Assert, scope: Scope) -> Statement:
    test, place = expressions.condition(node.test, node, scope), assertion_place(node)
    message = None if node.msg is None else expressions.build(node.msg, scope)

    def run(frame: Frame) -> Signal:
        if test(frame) is not False:
            return None
        text = None if message is None else message(frame)
        error = AssertionError() if text is None or text is UNKNOWN else AssertionError(text)
        frame.m.fault(error, place, frame)
        return _leave(frame)

    return run


def _leave(frame: Frame) -> Signal:
    """Leave the function after a fault that its own code raised."""
    if frame.function is None or frame.doubtful:
        return None
    raise Left


def _raise(node: ast.Raise, scope: Scope) -> Statement:
    value = None if node.exc is None else expressions.build(node.exc, scope)

    def run(frame: Frame) -> Signal:
        made = UNKNOWN if value is None else value(frame)
        kind: type[BaseException] = RuntimeError
        args: list[Any] = []
        if isinstance(made, Raisable):
            kind, args = made.kind, made.args
        elif isinstance(made, type) and issubclass(made, BaseException):
            kind = made
        texts = [item for item in args if item is not UNKNOWN]
        if not issubclass(kind, Exception):
            return _leave(frame)
        try:
            error = kind(*texts)
        except TypeError:
            error = RuntimeError(*texts)
        frame.m.fault(error, node, frame)
        return _leave(frame)

    return run


def _try(node: ast.Try, scope: Scope) -> Statement:
    body, orelse, final = (build_block(part, scope) for part in (node.body, node.orelse, node.finalbody))
    handlers = [_handler(item, scope) for item in node.handlers]

    def run(frame: Frame) -> Signal:
        m = frame.m
        m.guards += bool(handlers)
        signal: Signal = None
        thrown: Thrown | None = None
        try:
            signal = body(frame)
        except Thrown as caught:
            thrown = caught
        finally:
            m.guards -= bool(handlers)
        if thrown is None:
            signal = orelse(frame) if signal is None else signal
        else:
            signal = _handled(frame, node, handlers, thrown)
        return final(frame) or signal

    return run


def _handled(frame: Frame, node: ast.Try, handlers: list[Any], thrown: Thrown) -> Signal:
    for kinds, store, body in handlers:
        if kinds is None or _catches(kinds(frame), thrown.error):
            if store is not None:
                store(frame, UNKNOWN)
            signal: Signal = body(frame)
            return signal
    if frame.m.guards:
        raise thrown
    for item in thrown.found:
        frame.m.record(item, None, frame)
    return None


def _catches(kinds: Any, error: Exception) -> bool:
    wanted = kinds if isinstance(kinds, tuple) else (kinds,)
    return any(not isinstance(kind, type) or isinstance(error, kind) for kind in wanted)


def _handler(node: ast.ExceptHandler, scope: Scope) -> tuple[Any, Any, Statement]:
    kinds = None if node.type is None else expressions.build(node.type, scope)
    store = None
    if node.name is not None:
        store = expressions.name_store(ast.copy_location(ast.Name(id=node.name, ctx=ast.Store()), node), scope)
    return kinds, store, build_block(node.body, scope)


def _with(node: ast.With, scope: Scope) -> Statement:
    managers = [
        (expressions.build(item.context_expr, scope), item.optional_vars and targets.build_target(item.optional_vars, scope))
        for item in node.items
    ]
    body = build_block(node.body, scope)

    def run(frame: Frame) -> Signal:
        opened: list[Any] = []
        for make, store in managers:
            manager = make(frame)
            if type(manager).__module__.startswith(("nki_lab.kernel_runtime.frontend.", "contextlib")):
                enter = getattr(manager, "__enter__", None)
                if enter is not None and type(manager).__module__ != Frame.__module__:
                    frame.m.pin(node, frame)
                    enter()
                    opened.append(manager)
            if store is not None:
                store(frame, UNKNOWN)
        try:
            return body(frame)
        finally:
            for manager in reversed(opened):
                manager.__exit__(None, None, None)

    return run


def _delete(node: ast.Delete, scope: Scope) -> Statement:
    names = [item.id for item in node.targets if isinstance(item, ast.Name)]
    owners = [expressions.build(item.value, scope) for item in node.targets if isinstance(item, ast.Subscript | ast.Attribute)]

    def run(frame: Frame) -> Signal:
        frame.m.doubt(owner(frame) for owner in owners)
        for name in names:
            frame.locals.pop(name, None)
        return None

    return run


def _jump(signal: str) -> Callable[[ast.stmt, Scope], Statement]:
    return lambda node, scope: lambda frame: signal


_MAKERS: Final[dict[type[ast.stmt], Callable[[Any, Scope], Statement]]] = {
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.If: _if,
    ast.For: _for,
    ast.While: _while,
    ast.Return: _return,
    ast.Assert: _assert,
    ast.Raise: _raise,
    ast.Try: _try,
    ast.With: _with,
    ast.Delete: _delete,
    ast.Break: _jump(BREAK),
    ast.Continue: _jump(CONTINUE),
    ast.Pass: lambda node, scope: lambda frame: None,
    ast.Global: lambda node, scope: lambda frame: None,
    ast.Nonlocal: lambda node, scope: lambda frame: None,
    ast.FunctionDef: definitions.build_function,
    ast.AsyncFunctionDef: definitions.build_function,
    ast.ClassDef: definitions.build_class,
    ast.Import: definitions.build_import,
    ast.ImportFrom: definitions.build_import_from,
}
