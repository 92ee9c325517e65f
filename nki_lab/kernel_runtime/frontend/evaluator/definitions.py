"""`def`, `class` and `import`: they bind records of the evaluator's, and load nothing."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from nki_lab.kernel_runtime.frontend.evaluator import classes, expressions, imports, specials, statements
from nki_lab.kernel_runtime.frontend.evaluator.modules import public_names
from nki_lab.kernel_runtime.frontend.evaluator.values import UNKNOWN, Frame, Function, Namespace
from nki_lab.source.scopes import Scope, class_scope, function_scope

Statement = Callable[[Frame], Any]


def build_function(node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> Statement:
    """A `def` statement."""
    inner, defaults = function_scope(node, node.name, scope), expressions.defaults_of(node.args, scope)
    decorators = [(item, expressions.build(item, scope)) for item in reversed(node.decorator_list)]
    store = _binding(node, scope)

    def run(frame: Frame) -> None:
        value: Any = Function(node, node.name, inner, defaults(frame), frame)
        for place, decorator in decorators:
            value = specials.decorated(frame.m, frame, place, decorator(frame), value)
        store(frame, value)

    return run


def _binding(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, scope: Scope) -> Callable[[Frame, Any], None]:
    return expressions.name_store(ast.copy_location(ast.Name(id=node.name, ctx=ast.Store()), node), scope)


def build_class(node: ast.ClassDef, scope: Scope) -> Statement:
    """A `class` statement: its body is evaluated, in a frame whose names become the attributes."""
    inner = class_scope(node, scope)
    bases = [expressions.build(item, scope) for item in node.bases]
    decorators = [(item, expressions.build(item, scope)) for item in reversed(node.decorator_list)]
    body, store = statements.build_block(node.body, inner), _binding(node, scope)

    def run(frame: Frame) -> None:
        parents = [base(frame) for base in bases]
        own = Frame(frame.m, frame, frame.function, {})
        body(own)
        if node.keywords:
            parents.append(UNKNOWN)
        value: Any = classes.make_class(frame.m, frame, node, parents, own.locals)
        for place, decorator in decorators:
            value = specials.decorated(frame.m, frame, place, decorator(frame), value)
        store(frame, value)

    return run


def build_import(node: ast.Import, scope: Scope) -> Statement:
    """`import a.b as c`."""
    stores = []
    for item in node.names:
        bound = item.asname or item.name.partition(".")[0]
        name = ast.copy_location(ast.Name(id=bound, ctx=ast.Store()), node)
        stores.append((item.name, item.asname is not None, expressions.name_store(name, scope)))

    def run(frame: Frame) -> None:
        for module, renamed, store in stores:
            store(frame, imports.whole(frame, module) if renamed else imports.top(frame, module))

    return run


def build_import_from(node: ast.ImportFrom, scope: Scope) -> Statement:
    """`from a.b import c`."""
    stores = []
    for item in node.names:
        name = ast.copy_location(ast.Name(id=item.asname or item.name, ctx=ast.Store()), node)
        stores.append((item.name, expressions.name_store(name, scope)))
    level, module = node.level, node.module or ""

    def run(frame: Frame) -> None:
        source = imports.source(frame, level, module)
        for name, store in stores:
            if name != "*":
                store(frame, imports.part(frame, node, source, "" if level else module, name))
            elif isinstance(source, Namespace):
                frame.home.open_stars.discard("." * level + module)
                frame.home.globals.update({key: source.names[key] for key in public_names(source.names)})

    return run
