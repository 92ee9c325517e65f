"""Subscripts: items, launch grids, shapes in annotations; and assignment targets: names, tuples, items, attributes."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable

import numpy as np

from nki_lab.kernel_runtime.interpreter import array_shapes
from nki_lab.kernel_runtime.interpreter.attributes import store
from nki_lab.kernel_runtime.interpreter.compiler import Store, compile_binding, compile_expression
from nki_lab.kernel_runtime.interpreter.interpreter import Frame, Function, Launch
from nki_lab.kernel_runtime.interpreter.limits import Meter
from nki_lab.kernel_runtime.interpreter.namespaces import TENSOR_TYPE
from nki_lab.kernel_runtime.interpreter.operators import bound_index, call_method_of, is_enum, listed, plain_tuple
from nki_lab.kernel_runtime.interpreter.values import (
    UNKNOWN,
    Annotation,
    Instance,
    Special,
    UserClass,
    Value,
)
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.source.scopes import Scope


def _part(tensor: NkiTensor, key: Value, meter: Meter) -> Value:
    return tensor[meter.walked(key)]  # a refusal shows the key


def load_item(frame: Frame, node: ast.AST, value: Value, key: Value) -> Value:
    """Return `value[key]`; a fault is reported at `node`."""
    kind = type(value)
    if kind is NkiTensor and not frame.interpreter.holds_unknown(key):
        return frame.located(frame.attempt(node, _part, value, key, frame.meter), node)
    if value is TENSOR_TYPE:
        return _annotation(key)
    if value is UNKNOWN or frame.interpreter.holds_unknown(key):
        return _launch(frame, node, value, None) if kind is Launch or (kind is Function and value.entry) else UNKNOWN
    if kind is Function or kind is Launch:
        return _launch(frame, node, value, key if type(key) is tuple else (key,))
    if kind is Instance:
        if value.cls.kind == "namedtuple":
            return load_item(frame, node, plain_tuple(value), key)
        return call_method_of(frame, node, value, "__getitem__", [key])
    if kind is UserClass:
        if is_enum(value) and isinstance(key, str):
            return value.members[key] if key in value.members else frame.fault(KeyError(key), node)
        return UNKNOWN
    if kind is TensorSpec:
        paid = frame.attempt(node, frame.meter.walked, key)
        return UNKNOWN if paid is UNKNOWN else array_shapes.item(value, key)
    if kind is Special or isinstance(value, type) or frame.interpreter.is_doubtful(value):
        return UNKNOWN
    try:
        if kind is dict:
            frame.meter.walked(key)
        elif isinstance(value, np.ndarray | np.generic):
            bound_index(frame.meter, value, key)
        elif isinstance(key, slice) and not isinstance(value, NkiTensor) and hasattr(value, "__len__"):
            frame.meter.spend(len(value) >> 6)
        return value[key]
    except Exception as error:  # noqa: BLE001 - what the user's values raise is reported at the subscript
        return frame.fault(error, node)


def _launch(frame: Frame, node: ast.AST, kernel: Function | Launch, grid: tuple[Value, ...] | None) -> Value:
    """Return `kernel[grid]`; None stands for a grid that is not known."""
    launch = kernel if isinstance(kernel, Launch) else Launch(kernel)
    if not launch.function.entry:
        return frame.fault(TypeError("'function' object is not subscriptable"), node)
    known = grid is None or all(type(size) is int and 0 < size < 1 << 31 for size in grid)
    return Launch(launch.function, grid, launch.schedule) if known else UNKNOWN


def _annotation(key: Value) -> Annotation:
    parts = key if type(key) is tuple else (key,)
    shape = [part for part in parts if part is UNKNOWN or isinstance(part, int)]
    others = [part for part in parts if part is not UNKNOWN and not isinstance(part, int)]
    if others and type(others[0]) in (tuple, list) and not shape:
        shape, others = list(others[0]), others[1:]
    return Annotation(tuple(shape), others[0] if others else None)


def store_item(frame: Frame, node: ast.AST, container: Value, key: Value, value: Value) -> None:
    """Carry out `container[key] = value`; a fault is reported at `node`."""
    interpreter, meter = frame.interpreter, frame.meter
    if container is UNKNOWN:
        return
    if isinstance(container, Instance):
        call_method_of(frame, node, container, "__setitem__", [key, value])
        return
    if interpreter.holds_unknown(key):
        interpreter.doubt([container])
        return
    if interpreter.is_doubtful(container):
        return
    try:
        if isinstance(container, NkiTensor):
            if interpreter.holds_unknown(value):
                interpreter.doubt([container])
                return
            interpreter.pin(node, frame)
            meter.node = node
            meter.walked(value)  # it is a key, and a refusal shows it
        elif isinstance(container, list) and isinstance(key, slice):
            if value is UNKNOWN or interpreter.is_doubtful(value):
                interpreter.doubt([container])
                return
            value = meter.items(value)
            meter.sized(len(container) + len(value))
        elif isinstance(container, dict):
            meter.walked(key)
        elif isinstance(container, np.ndarray | np.generic):
            bound_index(meter, container, key, value)
        container[key] = value
    except Exception as error:  # noqa: BLE001 - what the user's values raise is reported at the target
        if isinstance(container, NkiTensor):
            interpreter.doubt([container], contents=False)
        frame.fault(error, node)


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
                if names is frame.module.globals and frame.function is not None:
                    frame.interpreter.shared_changed()

            return remove_name
        case ast.Subscript():
            owner, key = compile_expression(node.value, scope), compile_expression(node.slice, scope)

            def remove_item(frame: Frame) -> None:
                value, place = owner(frame), key(frame)
                interpreter = frame.interpreter
                if (
                    type(value) not in (list, dict)
                    or interpreter.holds_unknown(place)
                    or interpreter.is_doubtful(value)
                ):
                    interpreter.doubt([value])
                else:
                    frame.attempt(node, lambda: operator.delitem(value, frame.meter.walked(place)))

            return remove_item
        case ast.Tuple() | ast.List():
            return compile_removals(node.elts, scope)
        case _:
            part = compile_expression(node.value, scope) if isinstance(node, ast.Attribute) else None
            return lambda frame: None if part is None else frame.interpreter.doubt([part(frame)])
