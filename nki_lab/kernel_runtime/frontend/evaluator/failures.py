"""`assert`, `raise` and `try`: how the user's own code fails, and what catches it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from nki_lab.kernel_runtime.frontend.evaluator import conditions, expressions, statements
from nki_lab.kernel_runtime.frontend.evaluator.machine import Left, Thrown
from nki_lab.kernel_runtime.frontend.evaluator.natives import Raisable
from nki_lab.kernel_runtime.frontend.evaluator.values import UNKNOWN, Frame
from nki_lab.source.positions import assertion_place
from nki_lab.source.scopes import Scope

Signal = str | None
Statement = Callable[[Frame], Signal]


def build_assert(node: ast.Assert, scope: Scope) -> Statement:
    """An assert: a false one is reported, and leaves the function."""
    test, place = conditions.condition(node.test, node, scope), assertion_place(node)
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


def build_raise(node: ast.Raise, scope: Scope) -> Statement:
    """A raise: it is reported, and leaves the function."""
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


def build_try(node: ast.Try, scope: Scope) -> Statement:
    """A try: faults in its body go to the handlers that would catch them in a run."""
    body, orelse, final = (statements.build_block(part, scope) for part in (node.body, node.orelse, node.finalbody))
    handlers = [_handler(item, scope) for item in node.handlers]
    expected = any(_is_refusal(item.type) for item in node.handlers)

    def run(frame: Frame) -> Signal:
        m = frame.m
        m.guards += bool(handlers)
        signal: Signal = None
        thrown: Thrown | None = None
        launched = m.launched
        if expected and launched is not None:
            m.launched = lambda *_: None  # a kernel that is launched in there is meant to be refused
        try:
            signal = body(frame)
        except Thrown as caught:
            thrown = caught
        finally:
            m.guards -= bool(handlers)
            m.launched = launched
        if thrown is None:
            signal = orelse(frame) if signal is None else signal
        else:
            signal = _handled(frame, node, handlers, thrown)
        return final(frame) or signal

    return run


def _is_refusal(kinds: ast.expr | None) -> bool:
    """Whether a handler names an error with which kernels are refused; whoever catches all of them expects none."""
    if isinstance(kinds, ast.Tuple):
        return any(_is_refusal(item) for item in kinds.elts)
    name = kinds.attr if isinstance(kinds, ast.Attribute) else getattr(kinds, "id", "")
    return name in _REFUSALS


_REFUSALS = frozenset(("AssertionError", "IndexError", "NkiError", "RuntimeError", "SyntaxError", "TypeError",
                       "ValueError"))  # fmt: skip


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
    return kinds, store, statements.build_block(node.body, scope)
