"""`assert`, `raise` and `try`: failures that the user's own code raises, and the handlers that catch them."""

from __future__ import annotations

import ast
from contextlib import nullcontext
from typing import Final

from nki_lab.kernel_runtime.interpreter.compiler import (
    Expression,
    Signal,
    Statement,
    Store,
    compile_binding,
    compile_block,
    compile_expression,
    compile_optional,
    compiles,
)
from nki_lab.kernel_runtime.interpreter.expressions import compile_condition
from nki_lab.kernel_runtime.interpreter.interpreter import Frame
from nki_lab.kernel_runtime.interpreter.limits import FunctionExit, PendingException, kernel_raised
from nki_lab.kernel_runtime.interpreter.values import UNKNOWN, Raisable, Value
from nki_lab.kernel_runtime.issue.source_location import handed_over, span_of
from nki_lab.source.checks import failed_check
from nki_lab.source.positions import assertion_place
from nki_lab.source.scopes import Scope


@compiles(ast.Assert)
def _assert(node: ast.Assert, scope: Scope) -> Statement:
    """Report a false assert and leave the function."""
    test, place = compile_condition(node.test, node, scope), assertion_place(node)
    message = compile_optional(node.msg, scope)

    def run(frame: Frame) -> Signal:
        if test(frame) is not False:
            return None
        if (assumptions := frame.interpreter.assumptions) is not None:
            frame.interpreter.effects += 1
            assumptions.refuse()
            return None  # an assert about what is assumed holds
        text = message(frame)
        is_told = text is not None and text is not UNKNOWN and frame.meter.ends(text)
        error = AssertionError(text) if is_told else AssertionError()
        _report(frame, error, place)
        return _leave(frame)

    return run


def _report(frame: Frame, error: Exception, place: ast.AST) -> None:
    """Report a failure at the place that raises it, or in the call where a checking function does."""
    interpreter, function = frame.interpreter, frame.function
    if function is not None and interpreter.call_stack and not frame.doubtful:
        call, caller = interpreter.call_stack[-1]
        at_top = frame.module.source.function(function.name) is function.node
        check = failed_check(function.node, call, caller.locals.get) if at_top else None
        if check is not None and caller.function is not None:
            raised = span_of(interpreter.site(place, frame))
            item = handed_over(kernel_raised(error), raised, caller.module.file, check)
            interpreter.report(error, (item,), call, caller)
            return
    frame.fault(error, place)


def _leave(frame: Frame) -> Signal:
    """Leave the function after a fault that its own code raised."""
    if frame.function is None or frame.doubtful:
        return None
    raise FunctionExit


@compiles(ast.Raise)
def _raise(node: ast.Raise, scope: Scope) -> Statement:
    """Report a raise and leave the function."""
    value = compile_optional(node.exc, scope)

    def run(frame: Frame) -> Signal:
        made = value(frame)
        if (assumptions := frame.interpreter.assumptions) is not None:
            frame.interpreter.effects += 1
            assumptions.refuse()
            return None
        if isinstance(made, type) and issubclass(made, BaseException):
            made = Raisable(made, [])
        raised = made if isinstance(made, Raisable) else Raisable(RuntimeError, [])
        if issubclass(raised.kind, Exception):
            texts = [item for item in raised.args if item is not UNKNOWN and frame.meter.ends(item)]
            try:
                error = raised.kind(*texts)
            except TypeError:
                error = RuntimeError(*texts)
            _report(frame, error, node)
        return _leave(frame)

    return run


@compiles(ast.Try)
def _try(node: ast.Try, scope: Scope) -> Statement:
    """Hand faults in the body of a try to the handlers that would catch them in a run."""
    body, orelse, final = (compile_block(part, scope) for part in (node.body, node.orelse, node.finalbody))
    handlers = [_handler(item, scope) for item in node.handlers]
    expected = any(_is_refusal(item.type) for item in node.handlers)

    def run(frame: Frame) -> Signal:
        interpreter = frame.interpreter
        interpreter.guards += bool(handlers)
        signal: Signal = None
        pending: PendingException | None = None
        with interpreter.refusing() if expected else nullcontext():
            try:
                signal = body(frame)
            except PendingException as caught:
                pending = caught
            finally:
                interpreter.guards -= bool(handlers)
        if pending is not None:
            signal = _handle(frame, handlers, pending)
        elif signal is None:
            signal = orelse(frame)
        return final(frame) or signal

    return run


def _is_refusal(kinds: ast.expr | None) -> bool:
    """Return whether a handler names an error with which kernels are refused; one that catches all expects none."""
    if isinstance(kinds, ast.Tuple):
        return any(_is_refusal(item) for item in kinds.elts)
    name = kinds.attr if isinstance(kinds, ast.Attribute) else getattr(kinds, "id", "")
    return name in _REFUSALS


_REFUSALS: Final = frozenset(
    {"AssertionError", "IndexError", "NkiError", "RuntimeError", "SyntaxError", "TypeError", "ValueError"}
)


_Handler = tuple[Expression | None, Store, Statement]
"""The kinds that an `except` clause catches (None for all), and how it binds and handles the exception."""


def _handle(frame: Frame, handlers: list[_Handler], pending: PendingException) -> Signal:
    for kinds, store, body in handlers:
        if kinds is None or _catches(kinds(frame), pending.error):
            store(frame, UNKNOWN)
            return body(frame)
    if frame.interpreter.guards:
        raise pending
    frame.interpreter.record_all(pending.findings, None, frame)
    return None


def _catches(kinds: Value, error: Exception) -> bool:
    wanted = kinds if isinstance(kinds, tuple) else (kinds,)
    return any(not isinstance(kind, type) or isinstance(error, kind) for kind in wanted)


def _handler(node: ast.ExceptHandler, scope: Scope) -> _Handler:
    kinds = None if node.type is None else compile_expression(node.type, scope)
    store = (lambda frame, error: None) if node.name is None else compile_binding(node.name, node, scope)
    return kinds, store, compile_block(node.body, scope)
