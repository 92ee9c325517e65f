"""What stands left of `=`: names, tuples, subscripts, attributes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from nki_lab.kernel_runtime.frontend.evaluator import attributes, comprehensions, expressions, objects
from nki_lab.kernel_runtime.frontend.evaluator.machine import Machine
from nki_lab.kernel_runtime.frontend.evaluator.values import UNKNOWN, Frame, Instance, has_unknown
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.source.scopes import Scope

Target = Callable[[Frame, Any], None]


def build_target(node: ast.expr, scope: Scope) -> Target:
    """The function that stores a value into `node`."""
    match node:
        case ast.Name():
            return expressions.name_store(node, scope)
        case ast.Tuple() | ast.List():
            return _unpacking(node, scope)
        case ast.Starred():
            return build_target(node.value, scope)
        case ast.Subscript():
            value, key = expressions.build(node.value, scope), expressions.build(node.slice, scope)
            return lambda frame, what: store_item(frame.m, frame, node, value(frame), key(frame), what)
        case ast.Attribute():
            owner = expressions.build(node.value, scope)
            return lambda frame, what: attributes.store(frame.m, frame, node, owner(frame), node.attr, what)
        case _:
            return lambda frame, what: None


def _unpacking(node: ast.Tuple | ast.List, scope: Scope) -> Target:
    parts = [build_target(item, scope) for item in node.elts]
    star = next((i for i, item in enumerate(node.elts) if isinstance(item, ast.Starred)), None)
    least = len(parts) - (star is not None)

    def store(frame: Frame, value: Any) -> None:
        found = UNKNOWN if value is UNKNOWN else comprehensions.listed(frame, node, value)
        if found is not UNKNOWN and (len(found) < least or (star is None and len(found) > least)):
            found = frame.m.fault(ValueError(_misfit(len(found), least, star is not None)), node, frame)
        if found is UNKNOWN:
            found = [UNKNOWN] * len(parts)
        elif star is not None:
            end = star + len(found) - least
            found = [*found[:star], found[star:end], *found[end:]]
        for part, item in zip(parts, found, strict=True):
            part(frame, item)

    return store


def _misfit(found: int, wanted: int, starred: bool) -> str:
    if found > wanted:
        return f"too many values to unpack (expected {wanted})"
    return f"not enough values to unpack (expected {'at least ' if starred else ''}{wanted}, got {found})"


def store_item(m: Machine, frame: Frame, node: ast.AST, value: Any, key: Any, what: Any) -> None:
    """`value[key] = what`, reported at `node`."""
    if value is UNKNOWN:
        return
    if isinstance(value, Instance):
        objects.store_item(m, frame, node, value, key, what)
        return
    if has_unknown(key):
        m.doubt([value])
        return
    if m.is_doubtful(value):
        return
    try:
        if isinstance(value, NkiTensor):
            if has_unknown(what):
                m.doubt([value])
                return
            m.pin(node, frame)
            m.meter.node = node
        elif isinstance(value, list) and isinstance(key, slice):
            if what is UNKNOWN or m.is_doubtful(what):
                m.doubt([value])
                return
            what = m.meter.items(what)
            m.meter.sized(len(value) + len(what))
        elif isinstance(value, dict):
            m.meter.walked(key)
        value[key] = what
    except Exception as error:  # noqa: BLE001 - what the user's values raise is reported at the target
        if isinstance(value, NkiTensor):
            m.doubt([value], contents=False)
        m.fault(error, node, frame)


def build_removal(node: ast.expr, scope: Scope) -> Callable[[Frame], None]:
    """The function that carries out `del node`."""
    match node:
        case ast.Name():
            load = expressions.build(ast.copy_location(ast.Name(id=node.id, ctx=ast.Load()), node), scope)

            def remove_name(frame: Frame) -> None:
                load(frame)  # reported where there is none
                names = frame.home.globals if scope.place(node.id) is None else frame.locals
                names.pop(node.id, None)

            return remove_name
        case ast.Subscript():
            owner, key = expressions.build(node.value, scope), expressions.build(node.slice, scope)

            def remove_item(frame: Frame) -> None:
                value, place = owner(frame), key(frame)
                if type(value) not in (list, dict) or has_unknown(place) or frame.m.is_doubtful(value):
                    frame.m.doubt([value])
                    return
                try:
                    del value[frame.m.meter.walked(place)]
                except Exception as error:  # noqa: BLE001 - no such item
                    frame.m.fault(error, node, frame)

            return remove_item
        case ast.Tuple() | ast.List():
            parts = [build_removal(item, scope) for item in node.elts]

            def remove_several(frame: Frame) -> None:
                for part in parts:
                    part(frame)

            return remove_several
        case _:
            part = expressions.build(node.value, scope) if isinstance(node, ast.Attribute) else None
            return lambda frame: None if part is None else frame.m.doubt([part(frame)])
