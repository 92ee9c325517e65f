"""Assignment targets: names, tuples, subscripts, attributes."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable

from nki_lab.kernel_runtime.interpreter.attributes import store
from nki_lab.kernel_runtime.interpreter.compiler import Store, compile_binding, compile_expression
from nki_lab.kernel_runtime.interpreter.interpreter import Frame
from nki_lab.kernel_runtime.interpreter.operators import listed
from nki_lab.kernel_runtime.interpreter.subscripts import store_item
from nki_lab.kernel_runtime.interpreter.values import UNKNOWN, Value, has_unknown
from nki_lab.source.scopes import Scope


def compile_target(node: ast.expr, scope: Scope) -> Store:
    """Return the function that stores a value into `node`."""
    match node:
        case ast.Name():
            return compile_binding(node.id, node, scope)
        case ast.Tuple() | ast.List():
            return _compile_unpacking(node, scope)
        case ast.Starred():
            return compile_target(node.value, scope)
        case ast.Subscript():
            value, key = compile_expression(node.value, scope), compile_expression(node.slice, scope)
            return lambda frame, what: store_item(frame, node, value(frame), key(frame), what)
        case ast.Attribute():
            owner = compile_expression(node.value, scope)
            return lambda frame, what: store(frame, node, owner(frame), node.attr, what)
        case _:
            return lambda frame, what: None


def _compile_unpacking(node: ast.Tuple | ast.List, scope: Scope) -> Store:
    parts = [compile_target(item, scope) for item in node.elts]
    star = next((i for i, item in enumerate(node.elts) if isinstance(item, ast.Starred)), None)
    least = len(parts) - (star is not None)

    def unpack(frame: Frame, value: Value) -> None:
        found = UNKNOWN if value is UNKNOWN else listed(frame, node, value)
        if found is not UNKNOWN and (len(found) < least or (star is None and len(found) > least)):
            found = frame.fault(ValueError(_misfit(len(found), least, star is not None)), node)
        if found is UNKNOWN:
            found = [UNKNOWN] * len(parts)
        elif star is not None:
            end = star + len(found) - least
            found = [*found[:star], found[star:end], *found[end:]]
        for part, item in zip(parts, found, strict=True):
            part(frame, item)

    return unpack


def _misfit(found: int, wanted: int, starred: bool) -> str:
    if found > wanted:
        return f"too many values to unpack (expected {wanted})"
    return f"not enough values to unpack (expected {'at least ' if starred else ''}{wanted}, got {found})"


def compile_removals(nodes: list[ast.expr], scope: Scope) -> Callable[[Frame], None]:
    """Return the function that carries out `del` of several targets."""
    parts = [_compile_removal(node, scope) for node in nodes]

    def remove(frame: Frame) -> None:
        for part in parts:
            part(frame)

    return remove


def _compile_removal(node: ast.expr, scope: Scope) -> Callable[[Frame], object]:
    """Return the function that carries out `del node`."""
    match node:
        case ast.Name():
            load = compile_expression(node, scope)

            def remove_name(frame: Frame) -> None:
                load(frame)  # reported where there is none
                names = frame.module.globals if scope.place(node.id) is None else frame.locals
                names.pop(node.id, None)

            return remove_name
        case ast.Subscript():
            owner, key = compile_expression(node.value, scope), compile_expression(node.slice, scope)

            def remove_item(frame: Frame) -> None:
                value, place = owner(frame), key(frame)
                if type(value) not in (list, dict) or has_unknown(place) or frame.interpreter.is_doubtful(value):
                    frame.interpreter.doubt([value])
                else:
                    frame.attempt(node, lambda: operator.delitem(value, frame.meter.walked(place)))

            return remove_item
        case ast.Tuple() | ast.List():
            return compile_removals(node.elts, scope)
        case _:
            part = compile_expression(node.value, scope) if isinstance(node, ast.Attribute) else None
            return lambda frame: None if part is None else frame.interpreter.doubt([part(frame)])
