"""`def` and `class`: they bind functions and classes of the interpreter's own."""

from __future__ import annotations

import ast

from nki_lab.kernel_runtime.frontend.evaluator.builtins.decorators import decorated
from nki_lab.kernel_runtime.frontend.evaluator.classes import make_class
from nki_lab.kernel_runtime.frontend.evaluator.compiler import (
    Statement,
    compile_binding,
    compile_block,
    compile_defaults,
    compile_expression,
    statement,
)
from nki_lab.kernel_runtime.frontend.evaluator.interpreter import Frame, Function
from nki_lab.kernel_runtime.frontend.evaluator.scopes import Scope, class_scope, function_scope
from nki_lab.kernel_runtime.frontend.evaluator.values import UNKNOWN, Value


@statement(ast.FunctionDef, ast.AsyncFunctionDef)
def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> Statement:
    """Compile a `def` statement."""
    inner, defaults = function_scope(node, node.name, scope), compile_defaults(node.args, scope)
    decorators = [(item, compile_expression(item, scope)) for item in reversed(node.decorator_list)]
    store = compile_binding(node.name, node, scope)

    def run(frame: Frame) -> None:
        value: Value = Function(node, node.name, inner, defaults(frame), frame)
        for place, decorator in decorators:
            value = decorated(frame, place, decorator(frame), value)
        store(frame, value)

    return run


@statement(ast.ClassDef)
def _class(node: ast.ClassDef, scope: Scope) -> Statement:
    """Compile a `class` statement: its body runs in a frame whose names become the attributes."""
    inner = class_scope(node, scope)
    bases = [compile_expression(item, scope) for item in node.bases]
    decorators = [(item, compile_expression(item, scope)) for item in reversed(node.decorator_list)]
    body, store = compile_block(node.body, inner), compile_binding(node.name, node, scope)

    def run(frame: Frame) -> None:
        parents = [base(frame) for base in bases]
        own = Frame(frame.interpreter, frame, frame.function, {})
        body(own)
        if node.keywords:
            parents.append(UNKNOWN)
        value: Value = make_class(frame, node, parents, own.locals)
        for place, decorator in decorators:
            value = decorated(frame, place, decorator(frame), value)
        store(frame, value)

    return run
