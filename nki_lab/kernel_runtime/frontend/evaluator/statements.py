"""Statements: each becomes a function of a frame that says how its block goes on."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from nki_lab.diagnostic import NkiError, error_of
from nki_lab.kernel_runtime.frontend.evaluator import (
    calls,
    conditions,
    definitions,
    expressions,
    failures,
    objects,
    skipping,
    targets,
)
from nki_lab.kernel_runtime.frontend.evaluator.annotations import compare_shape, declared_shape
from nki_lab.kernel_runtime.frontend.evaluator.comprehensions import iterated
from nki_lab.kernel_runtime.frontend.evaluator.values import (
    UNKNOWN,
    Frame,
    Function,
    Instance,
    NativeMethod,
    has_unknown,
)
from nki_lab.kernel_runtime.issue.iterations import is_plain, way_out
from nki_lab.kernel_runtime.language import control
from nki_lab.kernel_runtime.tensor import NkiTensor, VirtualRegister
from nki_lab.source.positions import iteration_place, jump_place
from nki_lab.source.scopes import Scope

Signal = str | None
Statement = Callable[[Frame], Signal]

BREAK: Final = "break"
CONTINUE: Final = "continue"
RETURN: Final = "return"
LOST: Final = "lost"
"""An unknown condition may have left the loop: its later trips are not evaluated."""


def build_block(body: list[ast.stmt], scope: Scope) -> Statement:
    """The function that runs statements in order; None is falling off the end. They are prepared when first run."""
    rows: list[tuple[Statement, int, ast.stmt]] = []

    def run(frame: Frame) -> Signal:
        meter = frame.m.meter
        if not rows:
            rows.extend([(_build(node, scope), _cost(node), node) for node in body])
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
    """Steps of a statement: one, and more for one with a long text."""
    if isinstance(node, ast.If | ast.For | ast.While | ast.With | ast.Try):
        return 1
    lines = (node.end_lineno or node.lineno) - node.lineno
    return 1 + lines + ((node.end_col_offset or 0) - node.col_offset) // 128 if not lines else 1 + lines


def _build(node: ast.stmt, scope: Scope) -> Statement:
    maker = _makers().get(type(node))
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
    declared = declared_shape(node.annotation, scope)

    def run(frame: Frame) -> Signal:
        found = value(frame)
        frame.m.computed(node.value)
        place(frame, found)
        if declared is not None and type(found) is NkiTensor and not frame.m.host:
            compare_shape(frame, node, found, declared(frame))
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


_IN_PLACE: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.iadd,
    ast.Sub: operator.isub,
    ast.Mult: operator.imul,
    ast.Div: operator.itruediv,
}


def _changed(frame: Frame, node: ast.AugAssign, kind: type[ast.operator], old: Any, new: Any) -> Any:
    """`old <operator>= new`: lists grow in place, and so do the tiles of Beta 1."""
    m = frame.m
    if kind is ast.Add and type(old) is list:
        calls.call(m, frame, node, NativeMethod(old, "extend"), [new], {})
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
    test = conditions.condition(node.test, node, scope)
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
    variable, place = _first_name(node.target), iteration_place(node.iter, node)

    def run(frame: Frame) -> Signal:
        builder = frame.m.builder
        if builder is None:
            return walk(frame, -1)
        around = builder.pinned_iteration
        try:
            return walk(frame, around)
        finally:
            builder.pinned_iteration = around

    def walk(frame: Frame, around: int) -> Signal:
        m = frame.m
        walked = source(frame)
        if isinstance(walked, control.DynamicRange):
            return _once(frame, node, target, body, walked) or orelse(frame)
        stream = iterated(frame, place, walked)
        if stream is UNKNOWN:
            m.unevaluated("what the loop walks is not known here: its body is not evaluated", node.iter, frame)
            skip(frame)
            return None
        number = -1
        if type(walked) is range and isinstance(node.target, ast.Name):
            m.note_range(node.target, frame, walked)
        while True:
            try:
                item = next(stream)
            except StopIteration:
                break
            except Exception as error:  # noqa: BLE001 - a dictionary that changed while it was walked
                m.fault(error, node, frame)
                break
            m.meter.node = node
            m.meter.spend(1)
            number += 1
            m.step(node, frame, variable, item if item.__class__ is int else number, around)
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


def _first_name(target: ast.expr) -> str:
    """The first name that the target of a loop binds; empty without one."""
    while isinstance(target, ast.Tuple | ast.List) and target.elts:
        target = target.elts[0]
    return target.id if isinstance(target, ast.Name) else ""


def _once(
    frame: Frame, node: ast.For, target: Callable[[Frame, Any], None], body: Statement, loop: control.DynamicRange
) -> Signal:
    """The body of a device loop, evaluated once. A loop that is left early stays open, as in the tracer."""
    m = frame.m
    assert m.builder is not None  # nl.dynamic_range asked it
    m.meter.node = node
    m.meter.spend(1)
    try:
        register, region = loop.open(_first_name(node.target))
    except Exception as error:  # noqa: BLE001 - a place where no loop can be, reported at the loop
        m.fault(error, node, frame)
        return None
    signal: Signal = LOST
    try:
        target(frame, register)
        signal = body(frame)
        if signal is None or signal is CONTINUE:
            loop.close(region)
    except NkiError as error:
        m.fault(error, node, frame)
    finally:
        if signal not in (BREAK, RETURN):
            control.abandon(m.builder, region)
    return signal if signal is RETURN else None


def _while(node: ast.While, scope: Scope) -> Statement:
    body, orelse = build_block(node.body, scope), build_block(node.orelse, scope)
    skip = skipping.build_skip([*node.body, *node.orelse], scope)
    value_of = expressions.build(node.test, scope) if is_plain(node.test) else None
    test = conditions.condition(node.test, node, scope) if value_of is None else None

    def run(frame: Frame) -> Signal:
        m = frame.m
        while True:
            m.meter.node = node
            m.meter.spend(1)
            if value_of is None:
                assert test is not None  # one of both is there
                answer = test(frame)
            else:
                value = value_of(frame)
                if isinstance(value, VirtualRegister):
                    return _while_register(frame, node, value, value_of, body) or orelse(frame)
                answer = conditions.truth(frame, jump_place(node.test, node), value)
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


def _while_register(
    frame: Frame, node: ast.While, register: VirtualRegister, value_of: Callable[[Frame], Any], body: Statement
) -> Signal:
    """The body of `while register:`, evaluated once."""
    m = frame.m
    builder = m.builder
    way = way_out(node)
    if way is not None or builder is None:
        error = error_of(control.left_early("a `break` or `return`"))
        m.fault(error, way or node, frame)
        return LOST
    m.pin(node.test, frame)
    test = node.test
    name = test.id if isinstance(test, ast.Name) else test.attr if isinstance(test, ast.Attribute) else ""
    try:
        region = control.open_while(builder, register, builder.site(), name)
    except NkiError as error:
        m.fault(error, node, frame)
        return None
    try:
        signal = body(frame)
        if signal is None or signal is CONTINUE:
            again = value_of(frame)
            m.pin(node.test, frame)
            control.close_while(builder, region, again if isinstance(again, VirtualRegister) else register)
    except NkiError as error:
        m.fault(error, node, frame)
    finally:
        control.abandon(builder, region)
    return None


def _return(node: ast.Return, scope: Scope) -> Statement:
    value = None if node.value is None else expressions.build(node.value, scope)

    def run(frame: Frame) -> Signal:
        frame.result = None if value is None else value(frame)
        return RETURN

    return run


def _with(node: ast.With, scope: Scope) -> Statement:
    managers = []
    for item in node.items:
        name = item.optional_vars
        store = None if name is None else targets.build_target(name, scope)
        managers.append((expressions.build(item.context_expr, scope), store))
    body = build_block(node.body, scope)

    def run(frame: Frame) -> Signal:
        opened: list[Any] = []
        for make, store in managers:
            manager = make(frame)
            if type(manager).__module__.startswith(("nki_lab.kernel_runtime.", "contextlib")):
                enter = getattr(manager, "__enter__", None)
                if enter is not None and type(manager).__module__ != Frame.__module__:
                    frame.m.pin(node, frame)
                    try:
                        enter()
                    except Exception as error:  # noqa: BLE001 - it stands outside of every kernel
                        frame.m.fault(error, node, frame)
                    else:
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
    removals = [targets.build_removal(item, scope) for item in node.targets]

    def run(frame: Frame) -> Signal:
        for remove in removals:
            remove(frame)
        return None

    return run


def _jump(signal: str) -> Callable[[ast.stmt, Scope], Statement]:
    return lambda node, scope: lambda frame: signal


@cache
def _makers() -> dict[type[ast.stmt], Callable[[Any, Scope], Statement]]:
    """Which function prepares which node; made late, for the modules need each other."""
    return {
        ast.Expr: _expression,
        ast.Assign: _assign,
        ast.AnnAssign: _annotated,
        ast.AugAssign: _augmented,
        ast.If: _if,
        ast.For: _for,
        ast.While: _while,
        ast.Return: _return,
        ast.Assert: failures.build_assert,
        ast.Raise: failures.build_raise,
        ast.Try: failures.build_try,
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
