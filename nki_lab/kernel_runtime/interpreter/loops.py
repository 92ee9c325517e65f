"""Loops: iterations over known values, and bodies of device loops, which are evaluated once."""

from __future__ import annotations

import ast

from nki_lab.diagnostic import NkiError, error_of
from nki_lab.kernel_runtime.interpreter.compiler import (
    BREAK,
    CONTINUE,
    LOST,
    RETURN,
    Expression,
    Signal,
    Statement,
    Store,
    compile_block,
    compile_expression,
    compiles,
)
from nki_lab.kernel_runtime.interpreter.expressions import compile_condition
from nki_lab.kernel_runtime.interpreter.interpreter import Frame
from nki_lab.kernel_runtime.interpreter.operators import iterated, truth
from nki_lab.kernel_runtime.interpreter.skipped import compile_skip
from nki_lab.kernel_runtime.interpreter.targets import compile_target
from nki_lab.kernel_runtime.interpreter.values import UNKNOWN
from nki_lab.kernel_runtime.issue.iterations import is_plain, way_out
from nki_lab.kernel_runtime.language import control
from nki_lab.kernel_runtime.tensor import VirtualRegister
from nki_lab.source.positions import iteration_place, jump_place
from nki_lab.source.scopes import Scope


@compiles(ast.For)
def _for(node: ast.For, scope: Scope) -> Statement:
    source, target = compile_expression(node.iter, scope), compile_target(node.target, scope)
    body, orelse = compile_block(node.body, scope), compile_block(node.orelse, scope)
    skip = compile_skip([*node.body, *node.orelse], scope, node.target, of_loop=not node.orelse)
    variable, place = _first_name(node.target), iteration_place(node.iter, node)

    def run(frame: Frame) -> Signal:
        builder = frame.interpreter.builder
        if builder is None:
            return walk(frame, -1)
        around = builder.pinned_iteration
        try:
            return walk(frame, around)
        finally:
            builder.pinned_iteration = around

    def walk(frame: Frame, around: int) -> Signal:
        interpreter, meter, walked = frame.interpreter, frame.meter, source(frame)
        if isinstance(walked, control.DynamicRange):
            return _once(frame, node, target, body, walked) or orelse(frame)
        stream = iterated(frame, place, walked)
        if stream is UNKNOWN and interpreter.assumptions is not None:
            stream = iter((UNKNOWN,))  # one iteration, of which nothing is known
        if stream is UNKNOWN:
            return skip(frame, node.iter, "what the loop walks is not known here: its body is not evaluated")
        number = -1
        if type(walked) is range and isinstance(node.target, ast.Name):
            interpreter.note_range(node.target, frame, walked)
        while True:
            try:
                item = next(stream)
            except StopIteration:
                break
            except Exception as error:  # noqa: BLE001 - a dictionary that changed while it was walked
                frame.fault(error, node)
                break
            meter.node = node
            meter.spend(1)
            number += 1
            index = item if item.__class__ is int else number
            interpreter.start_iteration(node, frame, variable, index, around, later=number > 0)
            target(frame, item)
            signal = body(frame)
            if signal is None or signal is CONTINUE:
                continue
            if signal is LOST:
                return skip(frame)
            return None if signal is BREAK else signal
        return orelse(frame)

    return run


def _first_name(target: ast.expr) -> str:
    """Return the first name that the target of a loop binds; empty without one."""
    while isinstance(target, ast.Tuple | ast.List) and target.elts:
        target = target.elts[0]
    return target.id if isinstance(target, ast.Name) else ""


def _once(frame: Frame, node: ast.For, target: Store, body: Statement, loop: control.DynamicRange) -> Signal:
    """Evaluate the body of a device loop once. A loop that is left early stays open, as in the tracer."""
    assert frame.interpreter.builder is not None  # nl.dynamic_range asked it
    frame.meter.node = node
    frame.meter.spend(1)
    try:
        register, region = loop.open(_first_name(node.target))
    except Exception as error:  # noqa: BLE001 - a place where no loop can be, reported at the loop
        frame.fault(error, node)
        return None
    signal: Signal = LOST
    try:
        target(frame, register)
        signal = body(frame)
        if signal is None or signal is CONTINUE:
            loop.close(region)
    except NkiError as error:
        frame.fault(error, node)
    finally:
        if signal not in (BREAK, RETURN):
            control.abandon(frame.interpreter.builder, region)
    return signal if signal is RETURN else None


@compiles(ast.While)
def _while(node: ast.While, scope: Scope) -> Statement:
    body, orelse = compile_block(node.body, scope), compile_block(node.orelse, scope)
    skip = compile_skip([*node.body, *node.orelse], scope, of_loop=not node.orelse)
    value_of = compile_expression(node.test, scope) if is_plain(node.test) else None
    test = compile_condition(node.test, node, scope) if value_of is None else None

    def run(frame: Frame) -> Signal:
        while True:
            frame.meter.node = node
            frame.meter.spend(1)
            if value_of is None:
                assert test is not None  # one of both is there
                answer = test(frame)
            else:
                value = value_of(frame)
                if isinstance(value, VirtualRegister):
                    return _while_register(frame, node, value, value_of, body) or orelse(frame)
                answer = truth(frame, jump_place(node.test, node), value)
            if answer is UNKNOWN and frame.interpreter.assumptions is not None:
                body(frame)
                return None
            if answer is UNKNOWN:
                skip(frame, node.test, "the condition is not known here: the loop is not evaluated")
                return None
            if not answer:
                return orelse(frame)
            signal = body(frame)
            if signal is LOST:
                skip(frame)
            if signal not in (None, CONTINUE):
                return signal if signal is RETURN else None

    return run


def _while_register(
    frame: Frame, node: ast.While, register: VirtualRegister, value_of: Expression, body: Statement
) -> Signal:
    """Evaluate the body of `while register:` once."""
    builder = frame.interpreter.builder
    way = way_out(node)
    if way is not None or builder is None:
        frame.fault(error_of(control.left_early("a `break` or `return`")), way or node)
        return LOST
    frame.interpreter.pin(node.test, frame)
    test = node.test
    name = test.id if isinstance(test, ast.Name) else test.attr if isinstance(test, ast.Attribute) else ""
    try:
        region = control.open_while(builder, register, builder.site(), name)
    except NkiError as error:
        frame.fault(error, node)
        return None
    try:
        signal = body(frame)
        if signal is None or signal is CONTINUE:
            again = value_of(frame)
            frame.interpreter.pin(node.test, frame)
            control.close_while(builder, region, again if isinstance(again, VirtualRegister) else register)
    except NkiError as error:
        frame.fault(error, node)
    finally:
        control.abandon(builder, region)
    return None
