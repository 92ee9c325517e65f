"""Operators, comparisons, truth and iteration within bounds; objects of the user's classes have their own methods."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

import numpy as np

from nki_lab.kernel_runtime.interpreter import array_shapes
from nki_lab.kernel_runtime.interpreter.calls import call_function
from nki_lab.kernel_runtime.interpreter.classes import ENUMS, fields_of
from nki_lab.kernel_runtime.interpreter.interpreter import Frame, Function
from nki_lab.kernel_runtime.interpreter.limits import Meter, TooLarge, Unobservable
from nki_lab.kernel_runtime.interpreter.values import MISSING, UNKNOWN, EnumMember, Instance, Super, UserClass, Value
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.kernel_runtime.tensor import NkiTensor

_ARRAYS: Final = (np.ndarray, np.generic)
_TEXTS: Final = (str, bytes)
_SEQUENCES: Final = (str, bytes, list, tuple)
_TABLES: Final = (set, frozenset, dict)
_VIEWS: Final[tuple[type, ...]] = (type({}.keys()), type({}.items()))
_COMBINING: Final = (ast.Sub, ast.BitAnd, ast.BitOr, ast.BitXor)
"""Operators with which views of a table take any iterable, an endless one too."""
_WIDTH: Final = re.compile(r"\d{4,}|\*")  # a width or precision that makes a format specification a memory bomb
LARGEST_ARRAY: Final = 1 << 16
"""Elements of an array that is computed: constants of kernels are small."""


_WIDEST: Final = 16
"""Bytes of the widest element that NumPy is asked for: a dtype can have gigabytes."""


_LONGEST: Final = 64
"""Characters of a text that may be a dtype."""


def bound_numpy(meter: Meter, *values: Value) -> None:
    """Raise TooLarge for arguments with which NumPy takes more time or memory than the budget allows.

    It makes arrays of nested lists, computes with large integers as Python does, without bounds, and reads texts as
    dtypes; an array without elements may have any number of rows, one of objects any integers. Whatever is computed
    with NumPy is held against this first, and arrays are paid for by their elements.
    """
    stack = list(map(meter.walked, values))
    texts: set[int] = set()
    while stack:
        value = stack.pop()
        if isinstance(value, list | tuple | set | frozenset | dict):
            stack.extend((*value.keys(), *value.values()) if isinstance(value, dict) else value)
        elif isinstance(value, np.ndarray):
            if extent(value.shape) > LARGEST_ARRAY:
                raise TooLarge("a large array")
            if value.dtype.hasobject:
                raise TooLarge("an array of objects")
            meter.spend(value.size >> 3)
        elif isinstance(value, int):
            if value.bit_length() > 64:
                raise TooLarge("an integer that NumPy has no number for")
        elif isinstance(value, str | bytes | np.dtype) and id(value) not in texts:
            texts.add(id(value))
            if _width(value) > _WIDEST:
                raise TooLarge("an array of wide elements")


def extent(shape: Iterable[float]) -> float:
    """Return the elements of an array with one element where a size is 0: what a fold along that axis makes."""
    return math.prod(max(abs(size), 1) for size in shape)


def bound_index(meter: Meter, array: Value, key: Value, *values: Value) -> None:
    """Raise TooLarge for an index of an array, and values that are stored there, that `bound_numpy` refuses.

    An index of lists and arrays may name each element any number of times.
    """
    bound_numpy(meter, array, key, *values)
    basic: list[Value] = []
    shapes: list[tuple[int, ...]] = []
    for part in key if type(key) is tuple else (key,):
        if not isinstance(part, list | np.ndarray):
            basic.append(part)
            continue
        named = np.asarray(part)
        flags = named.dtype.kind == "b"
        basic += [0] * (named.ndim if flags else 1)
        shapes.append((int(np.count_nonzero(named)),) if flags else named.shape)
    if shapes:
        with suppress(IndexError, ValueError):  # the index itself says so
            rest = np.broadcast_to(np.int8(0), np.shape(array))[tuple(basic)].shape
            if extent((*np.broadcast_shapes(*shapes), *rest)) > LARGEST_ARRAY:
                raise TooLarge("a large array")


def _width(dtype: str | bytes | np.dtype[Any]) -> int:
    """Return the bytes of an element of a dtype; 0 for what is none."""
    if isinstance(dtype, str | bytes) and len(dtype) > _LONGEST:
        return len(dtype)  # of an array of texts
    try:
        return np.dtype(dtype).itemsize  # type: ignore[arg-type]
    except (TypeError, ValueError, SyntaxError):
        return 0


def _bound(kind: type[ast.operator], a: Value, b: Value, meter: Meter) -> None:
    """Raise TooLarge where `a <operator> b` is beyond the budget."""
    if kind is ast.Mult and isinstance(a, _SEQUENCES) and isinstance(b, np.integer):
        b = int(b)  # NumPy's integers repeat sequences as Python's do
    elif kind is ast.Mult and isinstance(a, np.integer) and isinstance(b, _SEQUENCES):
        a = int(a)
    if isinstance(a, _ARRAYS) or isinstance(b, _ARRAYS):
        bound_numpy(meter, a, b)
        if not fits(a, b):
            raise TooLarge("a large array")
        return
    if isinstance(a, int) and isinstance(b, int):
        bits = a.bit_length()
        match kind:
            case ast.Add:
                meter.bits(max(bits, b.bit_length()))
            case ast.Mult:
                meter.bits(bits + b.bit_length() - 1)
            case ast.Pow if b > 0:
                meter.bits((bits - 1) * b + 1)  # the least that it can have; at most twice as many
            case ast.LShift if b > 0:
                meter.bits(bits + b)
        return
    pay = meter.text if isinstance(a, _TEXTS) or isinstance(b, _TEXTS) else meter.sized
    match kind:
        case ast.Add if isinstance(a, _SEQUENCES) and isinstance(b, _SEQUENCES):
            pay(len(a) + len(b))
        case ast.Mult if isinstance(a, _SEQUENCES) and isinstance(b, int):
            pay(len(a) * max(b, 0))
        case ast.Mult if isinstance(a, int) and isinstance(b, _SEQUENCES):
            pay(len(b) * max(a, 0))
        case ast.Mod if isinstance(a, _TEXTS):
            if _WIDTH.search(a if isinstance(a, str) else a.decode("latin-1")):
                raise TooLarge("a text of formatted width")
            meter.walked(a)
            _pay_for_text(b, meter)
        case ast.BitOr if isinstance(a, _TABLES) and isinstance(b, _TABLES):
            pay(len(a) + len(b))


BINARY: Final[dict[type[ast.operator], Callable[[Value, Value], Value]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    ast.MatMult: operator.matmul,
}  # fmt: skip
UNARY: Final[dict[type[ast.unaryop], Callable[[Value], Value]]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
}  # fmt: skip
ORDER: Final[dict[type[ast.cmpop], Callable[[Value, Value], Value]]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip


def apply(kind: type[ast.operator], a: Value, b: Value, meter: Meter) -> Value:
    """Return `a <operator> b`; TooLarge where the result is beyond the budget."""
    if isinstance(a, NkiTensor) or isinstance(b, NkiTensor):
        meter.walked(a)  # a refusal shows what no tensor takes
        meter.walked(b)
    if kind in _COMBINING and (isinstance(a, _VIEWS) or isinstance(b, _VIEWS)):
        a, b = (item if isinstance(item, _TABLES) else meter.walked(meter.items(item)) for item in (a, b))
        a = dict.fromkeys(a).keys() if isinstance(a, list) else a
    _bound(kind, a, b, meter)
    return BINARY[kind](a, b)


def contains(container: Value, item: Value, meter: Meter) -> Value:
    """Return `item in container`; a range is asked by arithmetic only, never walked."""
    kind = type(container)
    if kind is range and type(item) is not int:
        number = getattr(item, "__index__", None)
        return number is not None and number() in container
    meter.walked(container)
    meter.walked(item)
    return item in container


def unwrapped(value: Value) -> Value:
    """Return a member of an integer or text enumeration as its value."""
    if type(value) is EnumMember and value.cls.kind in ("intenum", "strenum"):
        return value.value
    return value


_CONVERSIONS: Final[dict[int, Callable[[Value], Value]]] = {ord("r"): repr, ord("s"): str, ord("a"): ascii}


def formatted(value: Value, conversion: int, specification: str, meter: Meter) -> str:
    """Return `f"{value!conversion:specification}"`."""
    if _WIDTH.search(specification):
        raise TooLarge("a text of formatted width")
    _pay_for_text(value, meter)
    text = format(_CONVERSIONS.get(conversion, lambda value: value)(value), specification)
    meter.text(len(text))
    return text


def _pay_for_text(value: Value, meter: Meter) -> None:
    """Pay for the text of a value; NumPy shows at most `_SHOWN` elements of each array."""
    stack = [meter.walked(value)]
    while stack:
        item = stack.pop()
        if isinstance(item, np.ndarray):
            meter.spend(min(item.size, _SHOWN) + item.ndim)
        elif isinstance(item, list | tuple | set | frozenset | dict):
            stack.extend(item.values() if isinstance(item, dict) else item)


_SHOWN: Final = 1000


def fits(*values: Value) -> bool:
    """Return whether an operator makes a small array of small ones."""
    try:
        shape = np.broadcast_shapes(
            *(np.shape(value) for value in values if isinstance(value, (*_ARRAYS, list, tuple)))
        )
    except ValueError:
        return True  # the operator itself says so
    return math.prod(shape) <= LARGEST_ARRAY


# -- arithmetic --------------------------------------------------------------------------------------------------------


def binary(frame: Frame, node: ast.AST, kind: type[ast.operator], a: Value, b: Value) -> Value:
    """Return `a <operator> b`; a fault is reported at `node`."""
    if a is UNKNOWN or b is UNKNOWN:
        return UNKNOWN
    interpreter = frame.interpreter
    if isinstance(a, TensorSpec) or isinstance(b, TensorSpec):
        return array_shapes.operate(kind, a, b)
    if isinstance(a, Instance) or isinstance(b, Instance):
        return _operate(frame, node, kind, a, b)
    if isinstance(a, EnumMember) and isinstance(b, EnumMember) and a.cls.kind == "flag":
        return _combine_flags(kind, a, b)
    if isinstance(a, NkiTensor) or isinstance(b, NkiTensor):
        interpreter.pin(node, frame)
    elif (interpreter.doubtful and not interpreter.doubtful.keys().isdisjoint((id(a), id(b)))) or _is_large(kind, a, b):
        return UNKNOWN
    return frame.attempt(node, apply, kind, unwrapped(a), unwrapped(b), frame.meter)


def _is_large(kind: type[ast.operator], a: Value, b: Value) -> bool:
    """Return whether an operator would make a large array, or take long."""
    return np.ndarray in (type(a), type(b)) and kind is ast.MatMult


def _operate(frame: Frame, node: ast.AST, kind: type[ast.operator], a: Value, b: Value) -> Value:
    """Return a binary operator's result with an object of the user's on one side."""
    name = BINARY[kind].__name__.rstrip("_")
    for value, other, method in ((a, b, f"__{name}__"), (b, a, f"__r{name}__")):
        found = value.cls.find(method) if isinstance(value, Instance) else MISSING
        if isinstance(found, Function):
            return call_function(frame, node, found, [value, other], {})
        if isinstance(value, Instance) and (frame.interpreter.is_doubtful(value) or value.cls.kind == "unknown"):
            return UNKNOWN
    if isinstance(a, NkiTensor) or isinstance(b, NkiTensor):
        frame.interpreter.pin(node, frame)
        return frame.attempt(node, BINARY[kind], a, b)  # a tensor's own answer to an object that is none
    names = _kinds(a, b)
    return frame.fault(TypeError(f"unsupported operand type(s) for {name}: {names[0]!r} and {names[1]!r}"), node)


def _kinds(a: Value, b: Value) -> list[str]:
    return [value.cls.name if isinstance(value, Instance) else type(value).__name__ for value in (a, b)]


def _combine_flags(kind: type[ast.operator], a: EnumMember, b: EnumMember) -> Value:
    """Return `a | b`, `a & b` or `a ^ b` of members of one flag enumeration."""
    operation = {ast.BitOr: operator.or_, ast.BitAnd: operator.and_, ast.BitXor: operator.xor}.get(kind)
    if operation is None or a.cls is not b.cls or not isinstance(a.value, int) or not isinstance(b.value, int):
        return UNKNOWN
    value = operation(a.value, b.value)
    same = next((item for item in a.cls.members.values() if item.value == value), None)
    if same is None:
        name = "|".join(key for key, item in a.cls.members.items() if item.value and item.value & value == item.value)
        same = a.cls.members.setdefault(f"<{value}>", EnumMember(a.cls, name, value))
    return same


# -- comparisons -------------------------------------------------------------------------------------------------------


def compare(frame: Frame, node: ast.AST, kind: type[ast.cmpop], a: Value, b: Value) -> Value:
    """Return `a <comparison> b`; a fault is reported at `node`."""
    if type(a) is int and type(b) is int and kind in ORDER:
        return ORDER[kind](a, b)
    if a is UNKNOWN or b is UNKNOWN:
        return UNKNOWN
    if kind is ast.Is or kind is ast.IsNot:
        return (a is b) is (kind is ast.Is)
    return frame.attempt(node, _compare_known, frame, node, kind, a, b)


def _compare_known(frame: Frame, node: ast.AST, kind: type[ast.cmpop], a: Value, b: Value) -> Value:
    """Return a comparison of two known values; what they raise is raised."""
    interpreter = frame.interpreter
    if (
        interpreter.is_doubtful(a)
        or interpreter.is_doubtful(b)
        or interpreter.holds_unknown(a, b)
        or isinstance(a, TensorSpec)
        or isinstance(b, TensorSpec)
    ):
        return UNKNOWN
    if kind is ast.In or kind is ast.NotIn:
        answer = _within(frame, node, b, a)
        return answer if answer is UNKNOWN else bool(answer) is (kind is ast.In)
    if isinstance(a, Instance) or isinstance(b, Instance):
        return _compare_objects(frame, node, kind, a, b)
    if isinstance(a, NkiTensor) or isinstance(b, NkiTensor):
        interpreter.pin(node, frame)
    frame.meter.walked(a)
    frame.meter.walked(b)
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        bound_numpy(frame.meter, a, b)
        if not fits(a, b):
            raise TooLarge("a large array")
    return ORDER[kind](unwrapped(a), unwrapped(b))


_REFLECTED: Final = {"__lt__": "__gt__", "__le__": "__ge__", "__gt__": "__lt__", "__ge__": "__le__"}


def _compare_objects(frame: Frame, node: ast.AST, kind: type[ast.cmpop], a: Value, b: Value) -> Value:
    """Return a comparison with an object of the user's on one side."""
    method = f"__{ORDER[kind].__name__}__"
    for value, other, name in ((a, b, method), (b, a, _REFLECTED.get(method, method))):
        found = value.cls.find(name) if isinstance(value, Instance) else MISSING
        if isinstance(found, Function):
            return call_function(frame, node, found, [value, other], {})
    if method in _REFLECTED:
        ordered = _ordered(a, b)
        if ordered is not None:
            return compare(frame, node, kind, *ordered)
        known = [value for value in (a, b) if isinstance(value, Instance)]
        if any(value.cls.inherits("unknown") or value.cls.is_dataclass for value in known):
            return UNKNOWN
        if isinstance(a, NkiTensor) or isinstance(b, NkiTensor):
            frame.interpreter.pin(node, frame)
            return ORDER[kind](a, b)
        names = _kinds(a, b)
        raise TypeError(f"{method} not supported between instances of {names[0]!r} and {names[1]!r}")
    if _is_named_tuple(a) or _is_named_tuple(b):
        return compare(frame, node, kind, plain_tuple(a), plain_tuple(b))
    same: Value = a is b
    if isinstance(a, Instance) and isinstance(b, Instance) and a.cls is b.cls and not same:
        equal = a.cls.find("__eq__") if kind is ast.NotEq else MISSING
        if isinstance(equal, Function):
            same = call_function(frame, node, equal, [a, b], {})
        elif a.cls.dataclass is not None and a.cls.dataclass.get("eq", True) is not False:
            same = _equal_fields(frame, node, a, b)
    return UNKNOWN if same is UNKNOWN else bool(same) is (kind is ast.Eq)


def _ordered(a: Value, b: Value) -> tuple[Value, Value] | None:
    """Return the tuples that objects are ordered by: named tuples themselves, fields of dataclasses with an order."""
    if _is_named_tuple(a) or _is_named_tuple(b):
        return plain_tuple(a), plain_tuple(b)
    if not isinstance(a, Instance) or not isinstance(b, Instance) or a.cls is not b.cls:
        return None
    if a.cls.dataclass is None or a.cls.dataclass.get("order") is not True:
        return None
    names = list(fields_of(a.cls))
    return tuple(a.fields.get(name, UNKNOWN) for name in names), tuple(b.fields.get(name, UNKNOWN) for name in names)


def _is_named_tuple(value: Value) -> bool:
    return type(value) is Instance and value.cls.kind == "namedtuple"


def plain_tuple(value: Value) -> Value:
    """Return a named tuple as a plain one; other values as they are."""
    return tuple(value.fields.values()) if _is_named_tuple(value) else value


def _equal_fields(frame: Frame, node: ast.AST, a: Instance, b: Instance) -> Value:
    answer: Value = True
    frame.meter.spend(len(a.fields))
    for name in fields_of(a.cls):
        same = compare(frame, node, ast.Eq, a.fields.get(name, UNKNOWN), b.fields.get(name, UNKNOWN))
        if same is False:
            return False
        answer = UNKNOWN if same is UNKNOWN else answer
    return answer


def _within(frame: Frame, node: ast.AST, container: Value, item: Value) -> Value:
    """Return whether `item in container`."""
    if isinstance(container, Instance):
        answer = call_method_of(frame, node, container, "__contains__", [item])
        return UNKNOWN if answer is UNKNOWN else truth(frame, node, answer)
    if isinstance(container, _SIZED):
        return contains(container, unwrapped(item), frame.meter)
    if type(container) is type and isinstance(item, EnumMember):
        return UNKNOWN
    if is_enum(container):
        return isinstance(item, EnumMember) and item in container.members.values()
    if not hasattr(container, "__contains__") and not hasattr(container, "__iter__"):
        raise TypeError(f"argument of type {type(container).__name__!r} is not iterable")
    return item in container if isinstance(container, NkiTensor) else UNKNOWN


_SIZED: Final = (list, tuple, dict, set, frozenset, str, range, *map(type, ({}.keys(), {}.values(), {}.items())))


def is_enum(value: Value) -> bool:
    """Return whether `value` is an enumeration of the user's."""
    return isinstance(value, UserClass) and value.kind in ENUMS


def call_method_of(frame: Frame, node: ast.AST, value: Instance, name: str, args: list[Value]) -> Value:
    """Return the result of an object's special method; a class without it refuses."""
    method = value.cls.find(name)
    if isinstance(method, Function):
        return call_function(frame, node, method, [value, *args], {})
    if frame.interpreter.is_doubtful(value) or value.cls.kind == "unknown":
        return UNKNOWN
    lack = {"__getitem__": "subscriptable", "__setitem__": "open to item assignment"}.get(name, f"fit for {name}")
    return frame.fault(TypeError(f"{value.cls.name!r} object is not {lack}"), node)


# -- truth and text ----------------------------------------------------------------------------------------------------


def truth(frame: Frame, node: ast.AST, value: Value) -> Value:
    """Return whether a value counts as true: True, False, or UNKNOWN; refusals are reported at `node`."""
    if value is True or value is False or value is None:
        return bool(value)
    if value is UNKNOWN or frame.interpreter.is_doubtful(value) or isinstance(value, TensorSpec):
        return UNKNOWN
    if isinstance(value, EnumMember) and value.cls.kind == "flag" and isinstance(value.value, int):
        return bool(value.value)
    if isinstance(value, Instance):
        return _object_truth(frame, node, value)
    if isinstance(value, NkiTensor):
        frame.interpreter.pin(node, frame)
    return frame.attempt(node, bool, unwrapped(value))


def _object_truth(frame: Frame, node: ast.AST, value: Instance) -> Value:
    if value.cls.kind == "namedtuple":
        return bool(value.fields)
    for name in ("__bool__", "__len__"):
        found = value.cls.find(name)
        if isinstance(found, Function):
            return truth(frame, node, call_function(frame, node, found, [value], {}))
    return UNKNOWN if value.cls.kind == "unknown" else True


def decide(frame: Frame, node: ast.AST, value: Value) -> Value:
    """Return the truth of a value that Python branches on; tensors, true as operands of `and`, refuse this."""
    refusal = getattr(value, "refuse_condition", None)
    return truth(frame, node, value) if refusal is None else frame.fault(refusal(), node)


def text_of(value: Instance | EnumMember, conversion: int = ord("s")) -> Value:
    """Return `str(value)`, or `repr`: known to be some text where the class leaves it to Python."""
    own = any(value.cls.find(name) is not MISSING for name in ("__str__", "__repr__", "__format__"))
    if isinstance(value, EnumMember):
        if own or value.cls.kind != "enum":
            return UNKNOWN
        if conversion != ord("r"):
            return repr(value)
        is_container = isinstance(value.value, list | tuple | dict | set | frozenset)  # which may be endless to print
        return UNKNOWN if is_container else f"<{value!r}: {value.value!r}>"
    if own or value.cls.kind == "unknown" or value.cls.is_dataclass:
        return UNKNOWN
    return f"<{value.cls.name} object>"


def iterate(frame: Frame, value: Value) -> Iterator[Value]:
    """Return an iterator, which may be endless; Unobservable where it is not known, TypeError where there is none."""
    if value is UNKNOWN or frame.interpreter.is_doubtful(value):
        raise Unobservable
    match value:
        case UserClass(kind="enum" | "intenum" | "strenum"):
            return iter(list(dict.fromkeys(value.members.values())))  # of several names for one, the first
        case Instance(cls=UserClass(kind="namedtuple")):
            return iter(list(value.fields.values()))
        case UserClass() | Super():
            raise TypeError(f"{type(value).__name__!r} object is not iterable")
        case Instance():
            method = value.cls.find("__iter__")
            if isinstance(method, Function):
                made = call_function(frame.interpreter.base, frame.meter.node or method.node, method, [value], {})
                return iterate(frame, UNKNOWN if isinstance(made, Instance) else made)
            if method is not MISSING or value.cls.kind == "unknown":
                raise Unobservable
            raise TypeError(f"{value.cls.name!r} object is not iterable")
        case _:
            return iter(value)


def iterated(frame: Frame, node: ast.AST, value: Value) -> Value:
    """Return an iterator over `value`; UNKNOWN where it cannot be known, or is none (reported at `node`)."""
    return frame.attempt(node, iterate, frame, value)


def listed(frame: Frame, node: ast.AST, value: Value) -> Value:
    """Return the items of `value` as a list, or UNKNOWN."""
    stream = iterated(frame, node, value)
    return UNKNOWN if stream is UNKNOWN else frame.attempt(node, frame.meter.items, stream)
