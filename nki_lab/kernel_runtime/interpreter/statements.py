"""Statements: each becomes a function of a frame that says how its block goes on."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from itertools import groupby
from typing import Final

from nki_lab.diagnostic import diagnose
from nki_lab.kernel_runtime.interpreter.calls import call
from nki_lab.kernel_runtime.interpreter.compiler import (
    BREAK,
    CONTINUE,
    RETURN,
    Expression,
    Signal,
    Statement,
    compile_block,
    compile_expression,
    compile_optional,
    compiles,
)
from nki_lab.kernel_runtime.interpreter.expressions import compile_condition
from nki_lab.kernel_runtime.interpreter.interpreter import Frame
from nki_lab.kernel_runtime.interpreter.limits import OverBudget, budget_reached
from nki_lab.kernel_runtime.interpreter.operators import binary
from nki_lab.kernel_runtime.interpreter.skipped import compile_skip
from nki_lab.kernel_runtime.interpreter.targets import compile_removals, compile_target, load_item, store_item
from nki_lab.kernel_runtime.interpreter.values import (
    UNKNOWN,
    Annotation,
    Instance,
    NativeMethod,
    Value,
)
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.source.scopes import Scope
from nki_lab.source.uses import item_value


@compiles(ast.Expr)
def _expression(node: ast.Expr, scope: Scope) -> Statement:
    if isinstance(node.value, ast.Constant):
        return lambda frame: None
    value = compile_expression(node.value, scope)

    def run(frame: Frame) -> Signal:
        value(frame)
        return None

    return run


@compiles(ast.Assign)
def _assign(node: ast.Assign, scope: Scope) -> Statement:
    value, places = compile_expression(node.value, scope), [compile_target(item, scope) for item in node.targets]
    made = item_value(node)

    def run(frame: Frame) -> Signal:
        found = value(frame)
        frame.interpreter.mark_temporary(made)
        for place in places:
            place(frame, found)
        return None

    return run


@compiles(ast.AnnAssign)
def _annotated(node: ast.AnnAssign, scope: Scope) -> Statement:
    if node.value is None:
        return lambda frame: None
    value, place = compile_expression(node.value, scope), compile_target(node.target, scope)
    declared = _declared_shape(node.annotation, scope)

    def run(frame: Frame) -> Signal:
        found = value(frame)
        frame.interpreter.mark_temporary(node.value)
        place(frame, found)
        if declared is not None and type(found) is NkiTensor and not frame.interpreter.host:
            _compare_shape(frame, node, found, declared(frame))
        return None

    return run


def _declared_shape(annotation: ast.expr, scope: Scope) -> Expression | None:
    """Return the function that evaluates `nt.tensor[...]`; None for annotations of other types."""
    base = annotation.value if isinstance(annotation, ast.Subscript) else None
    name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
    return compile_expression(annotation, scope) if name == "tensor" else None


def _compare_shape(frame: Frame, node: ast.AnnAssign, tensor: NkiTensor, declared: Value) -> None:
    """Report a tensor of another shape than the annotation has; sizes that are no numbers are not compared."""
    shape = tuple(declared.shape) if isinstance(declared, Annotation) else ()
    if shape and all(type(size) is int for size in shape) and shape != tuple(tensor._shape):
        name = ast.unparse(node.target)
        frame.interpreter.record(
            diagnose(
                "NKI123",
                f"{name} is annotated with the shape {shape} and bound to a tensor of shape {tuple(tensor._shape)}",
                limit="the annotation of a local tensor is its shape",
                help="correct the annotation or the expression",
            ),
            node.annotation,
            frame,
        )


@compiles(ast.AugAssign)
def _augmented(node: ast.AugAssign, scope: Scope) -> Statement:
    kind, value, target = type(node.op), compile_expression(node.value, scope), node.target
    if isinstance(target, ast.Subscript):
        owner, key = compile_expression(target.value, scope), compile_expression(target.slice, scope)

        def change_item(frame: Frame) -> Signal:
            container, place = owner(frame), key(frame)
            old = load_item(frame, target, container, place)
            new = _changed(frame, node, kind, old, value(frame))
            frame.interpreter.mark_temporary(None)
            store_item(frame, target, container, place, new)
            return None

        return change_item
    load, store = compile_expression(target, scope), compile_target(target, scope)

    def run(frame: Frame) -> Signal:
        old = load(frame)
        store(frame, _changed(frame, node, kind, old, value(frame)))
        return None

    return run


_IN_PLACE: Final[dict[type[ast.operator], Callable[[Value, Value], Value]]] = {
    ast.Add: operator.iadd,
    ast.Sub: operator.isub,
    ast.Mult: operator.imul,
    ast.Div: operator.itruediv,
}


def _changed(frame: Frame, node: ast.AugAssign, kind: type[ast.operator], old: Value, new: Value) -> Value:
    """Return `old <operator>= new`: lists grow in place, and so do the tiles of Beta 1."""
    if kind is ast.Add and type(old) is list:
        call(frame, node, NativeMethod(old, "extend"), [new], {})
        return old
    if isinstance(old, NkiTensor) and kind in _IN_PLACE:
        if frame.interpreter.holds_unknown(new) or isinstance(new, Instance):
            return frame.interpreter.doubt([old, new])
        frame.interpreter.pin(node, frame)
        frame.interpreter.mark_temporary(node.value)
        try:
            return _IN_PLACE[kind](old, new)
        except Exception as error:  # noqa: BLE001 - reported at the statement
            frame.interpreter.doubt([old], contents=False)
            return frame.fault(error, node)
    return binary(frame, node, kind, old, new)


@compiles(ast.If)
def _if(node: ast.If, scope: Scope) -> Statement:
    test, local = compile_condition(node.test, node, scope), scope.reads_local(node.test)
    body, orelse = compile_block(node.body, scope), compile_block(node.orelse, scope)
    skip = compile_skip([*node.body, *node.orelse], scope)

    def run(frame: Frame) -> Signal:
        answer = frame.interpreter.decided(test(frame), node.test, local=local)
        if answer is UNKNOWN:
            return skip(frame, node.test, "the condition is not known here: neither branch is evaluated")
        return body(frame) if answer else orelse(frame)

    return run


@compiles(ast.Return)
def _return(node: ast.Return, scope: Scope) -> Statement:
    value = compile_optional(node.value, scope)

    def run(frame: Frame) -> Signal:
        frame.result = value(frame)
        return RETURN

    return run


@compiles(ast.With)
def _with(node: ast.With, scope: Scope) -> Statement:
    managers = [
        (
            compile_expression(item.context_expr, scope),
            None if item.optional_vars is None else compile_target(item.optional_vars, scope),
        )
        for item in node.items
    ]
    body = compile_block(node.body, scope)

    def run(frame: Frame) -> Signal:
        opened: list[Value] = []
        interpreter, assumed = frame.interpreter, frame.interpreter.assumed
        for make, store in managers:
            manager = make(frame)
            interpreter.assumed += manager is UNKNOWN  # it may catch what is raised inside
            if type(manager).__module__.startswith(("nki_lab.kernel_runtime.", "contextlib")):
                enter = getattr(manager, "__enter__", None)
                if enter is not None:
                    frame.interpreter.pin(node, frame)
                    if frame.attempt(node, enter) is not UNKNOWN:  # a fault where it stands outside of every kernel
                        opened.append(manager)
            if store is not None:
                store(frame, UNKNOWN)
        try:
            return body(frame)
        finally:
            interpreter.assumed = assumed
            for manager in reversed(opened):
                manager.__exit__(None, None, None)

    return run


@compiles(ast.Delete)
def _delete(node: ast.Delete, scope: Scope) -> Statement:
    return compile_removals(node.targets, scope)


@compiles(ast.Break, ast.Continue, ast.Pass, ast.Global, ast.Nonlocal)
def _jump(node: ast.stmt, scope: Scope) -> Statement:
    signal = {ast.Break: BREAK, ast.Continue: CONTINUE}.get(type(node))
    return lambda frame: signal


@compiles(ast.stmt)
def _compile_unknown(node: ast.stmt, scope: Scope) -> Statement:
    """Skip a statement of a type that has no meaning here."""
    return compile_skip([node], scope)


# -- modules -----------------------------------------------------------------------------------------------------------

_STEPS: Final = 160_000
"""Steps of one statement of a module, half as many after each that takes more: endless ones leave steps for the
functions that are defined after them."""
_LONG: Final = (ast.For, ast.While, ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign)


def run_module(frame: Frame) -> None:
    """Run the statements of a module in its frame."""
    source = frame.module.source
    source.once("compiled", lambda: _compile_module(source.tree.body, source.scope))(frame)


def _compile_module(body: list[ast.stmt], scope: Scope) -> Statement:
    """Return the function that runs the statements of a module, skipping what is left of those that take too long."""
    parts: list[Statement] = []
    for is_long, group in groupby(body, lambda node: isinstance(node, _LONG) and not _is_constant(node)):
        nodes = list(group)
        parts += [_bounded(node, scope) for node in nodes] if is_long else [compile_block(nodes, scope)]

    def run(frame: Frame) -> Signal:
        return next((signal for part in parts if (signal := part(frame)) is not None), None)

    return run


def _is_constant(node: ast.stmt) -> bool:
    return isinstance(getattr(node, "value", None), ast.Constant | ast.Name | ast.Attribute)


def _bounded(node: ast.stmt, scope: Scope) -> Statement:
    block, skip = compile_block([node], scope), compile_skip([node], scope)

    def run(frame: Frame) -> Signal:
        meter, interpreter = frame.meter, frame.interpreter
        guards, steps = interpreter.guards, _STEPS >> interpreter.skipped_statements
        try:
            with meter.limited(steps):
                return block(frame)
        except OverBudget as end:
            if meter.steps >= meter.most:
                raise
            interpreter.guards = guards
            interpreter.skipped_statements += 1
            message = f"the statement is evaluated up to {steps} steps: what it binds is unknown"
            interpreter.record(budget_reached(message), end.node or node, frame)
            return skip(frame)

    return run
