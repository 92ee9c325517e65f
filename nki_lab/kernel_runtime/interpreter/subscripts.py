"""Subscripts: items read and stored, launch grids, and shapes in annotations."""

from __future__ import annotations

import ast
import operator

from nki_lab.kernel_runtime.interpreter import array_shapes
from nki_lab.kernel_runtime.interpreter.interpreter import Frame, Function, Launch
from nki_lab.kernel_runtime.interpreter.namespaces import TENSOR_TYPE
from nki_lab.kernel_runtime.interpreter.operators import call_method_of, is_enum, plain_tuple
from nki_lab.kernel_runtime.interpreter.values import (
    UNKNOWN,
    Annotation,
    Instance,
    Special,
    UserClass,
    Value,
    has_unknown,
)
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.kernel_runtime.tensor import NkiTensor


def load_item(frame: Frame, node: ast.AST, value: Value, key: Value) -> Value:
    """Return `value[key]`; a fault is reported at `node`."""
    kind = type(value)
    if kind is NkiTensor and not has_unknown(key):
        return frame.located(frame.attempt(node, operator.getitem, value, key), node)
    if value is TENSOR_TYPE:
        return _annotation(key)
    if value is UNKNOWN or has_unknown(key):
        return Launch(value) if kind is Function and value.entry else UNKNOWN
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
        return array_shapes.item(value, key)
    if kind is Special or isinstance(value, type) or frame.interpreter.is_doubtful(value):
        return UNKNOWN
    try:
        if kind is dict:
            frame.meter.walked(key)
        elif isinstance(key, slice) and not isinstance(value, NkiTensor) and hasattr(value, "__len__"):
            frame.meter.spend(len(value) >> 6)
        return value[key]
    except Exception as error:  # noqa: BLE001 - what the user's values raise is reported at the subscript
        return frame.fault(error, node)


def _launch(frame: Frame, node: ast.AST, kernel: Function | Launch, grid: tuple[Value, ...]) -> Value:
    """Return `kernel[grid]`."""
    launch = kernel if isinstance(kernel, Launch) else Launch(kernel)
    if not launch.function.entry:
        return frame.fault(TypeError("'function' object is not subscriptable"), node)
    known = all(type(size) is int and 0 < size < 1 << 31 for size in grid)
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
    if has_unknown(key):
        interpreter.doubt([container])
        return
    if interpreter.is_doubtful(container):
        return
    try:
        if isinstance(container, NkiTensor):
            if has_unknown(value):
                interpreter.doubt([container])
                return
            interpreter.pin(node, frame)
            meter.node = node
        elif isinstance(container, list) and isinstance(key, slice):
            if value is UNKNOWN or interpreter.is_doubtful(value):
                interpreter.doubt([container])
                return
            value = meter.items(value)
            meter.sized(len(container) + len(value))
        elif isinstance(container, dict):
            meter.walked(key)
        container[key] = value
    except Exception as error:  # noqa: BLE001 - what the user's values raise is reported at the target
        if isinstance(container, NkiTensor):
            interpreter.doubt([container], contents=False)
        frame.fault(error, node)
