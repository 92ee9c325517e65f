"""Builtin functions and those of `math` that are computed: an allow-list, each with a bound on its cost."""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.interpreter import attributes
from nki_lab.kernel_runtime.interpreter.builtins.methods import sorted_values
from nki_lab.kernel_runtime.interpreter.calls import CallSite, native
from nki_lab.kernel_runtime.interpreter.interpreter import EXCEPTIONS, Function
from nki_lab.kernel_runtime.interpreter.limits import TooLarge, Unobservable
from nki_lab.kernel_runtime.interpreter.operators import (
    apply,
    bound_numpy,
    fits,
    formatted,
    iterate,
    text_of,
    truth,
    unwrapped,
)
from nki_lab.kernel_runtime.interpreter.values import (
    MISSING,
    UNKNOWN,
    BoundMethod,
    EnumMember,
    Instance,
    NativeMethod,
    Partial,
    Raisable,
    Special,
    Super,
    UserClass,
    Value,
)

# -- numbers -----------------------------------------------------------------------------------------------------------


_MATH: Final = [value for name, value in vars(math).items() if name[0] != "_" and callable(value)]
_UNBOUNDED: Final = (math.factorial, math.comb, math.perm, math.lcm, math.prod)


@native(
    abs, divmod, chr, ord, float, bin, hex, *(item for item in _MATH if item not in _UNBOUNDED), each=True, deep=True
)
def _plain(function: Callable[..., Value], site: CallSite, *args: Value, **kwargs: Value) -> Value:
    """Call a function as it is, on known arguments whose containers are paid for."""
    values = [
        site.meter.items(value) if isinstance(value, range) or hasattr(value, "__next__") else unwrapped(value)
        for value in args
    ]
    for value in map(site.meter.walked, values):
        if isinstance(value, np.ndarray):
            bound_numpy(site.meter, value)
    if not fits(*values):
        raise TooLarge("a large array")
    return function(*values, **kwargs)


@native(math.lcm, deep=True)
def _lcm(site: CallSite, *numbers: Value) -> Value:
    site.meter.bits(sum(number.bit_length() for number in numbers if isinstance(number, int)))
    return math.lcm(*numbers)


@native(math.prod)
def _prod(site: CallSite, values: Value, *, start: Value = 1) -> Value:
    items = site.meter.items(values)
    result = start
    for item in items:
        if isinstance(result, int) and isinstance(item, int):
            site.meter.bits(result.bit_length() + item.bit_length())
        elif not isinstance(item, int | float | np.generic):
            return UNKNOWN
        result = result * item
    return result


@native(int, deep=True)
def _int(site: CallSite, *args: Value, **kwargs: Value) -> Value:
    value = int(*(site.meter.walked(unwrapped(item)) for item in args), **kwargs)
    site.meter.bits(value.bit_length())
    return value


@native(round, deep=True)
def _round(site: CallSite, number: Value, ndigits: Value = None) -> Value:
    if isinstance(ndigits, int) and abs(ndigits) > 400:
        raise TooLarge("a rounding beyond any digit")
    return round(number, ndigits)


@native(pow, deep=True)
def _pow(site: CallSite, base: Value, exp: Value, mod: Value = None) -> Value:
    if mod is None:
        return apply(ast.Pow, base, exp, site.meter)
    return pow(base, exp, mod) if all(isinstance(item, int) for item in (base, exp, mod)) else UNKNOWN


@native(bool, own=True)
def _bool(site: CallSite, value: Value = False) -> Value:
    return truth(site.frame, site.node, value)


# -- texts -------------------------------------------------------------------------------------------------------------


@native(str, format, deep=True, own=True)
def _str(site: CallSite, value: Value, *more: Value) -> Value:
    if isinstance(value, Instance | EnumMember):
        return UNKNOWN if more else text_of(value)
    if not more:
        return formatted(value, ord("s"), "", site.meter)
    return formatted(value, -1, more[0], site.meter) if isinstance(more[0], str) else UNKNOWN


@native(repr, deep=True, own=True)
def _repr(site: CallSite, value: Value) -> Value:
    if isinstance(value, EnumMember):
        return text_of(value, ord("r"))
    return UNKNOWN if isinstance(value, Instance) else formatted(value, ord("r"), "", site.meter)


@native(print, shallow=False, reads=False, own=True)
def _print(site: CallSite, *args: Value, **kwargs: Value) -> Value:
    return None


# -- containers and iteration ------------------------------------------------------------------------------------------


@native(len, own=True)
def _len(site: CallSite, value: Value) -> Value:
    if isinstance(value, UserClass):
        return len(value.members) if value.members else UNKNOWN
    if isinstance(value, Instance):
        if value.cls.kind == "namedtuple":
            return len(value.fields)
        method = value.cls.find("__len__")
        if method is MISSING and value.cls.kind != "unknown":
            raise TypeError(f"object of type {value.cls.name!r} has no len()")
        return UNKNOWN if method is MISSING else site.call(method, value)
    return len(value)


def _items(site: CallSite, value: Value) -> list[Value]:
    """Return the items of an iterable; raises as `iterate`."""
    return site.meter.items(iterate(site.frame, value))


@native(list, tuple, set, frozenset, each=True, own=True)
def _container(kind: type, site: CallSite, values: Value = ()) -> Value:
    found = _items(site, values)
    if kind in (set, frozenset) and site.interpreter.holds_unknown(site.meter.walked(found)):
        return UNKNOWN
    return kind(found)


@native(dict)
def _dict(site: CallSite, *args: Value, **kwargs: Value) -> Value:
    parts = [item if isinstance(item, dict) else site.meter.items(item) for item in args]
    site.meter.sized(sum(len(part) for part in parts))
    for part in parts:
        site.meter.walked(part)
    return dict(*parts, **kwargs)


@native(range, reversed, slice, each=True)
def _as_it_is(function: Callable[..., Value], site: CallSite, *args: Value, **kwargs: Value) -> Value:
    return function(*args, **kwargs)


@native(enumerate, own=True)
def _enumerate(site: CallSite, values: Value, start: Value = 0) -> Value:
    return enumerate(iterate(site.frame, values), start)


@native(zip, own=True)
def _zip(site: CallSite, *values: Value, strict: Value = False) -> Value:
    return zip(*(iterate(site.frame, item) for item in values), strict=strict)


@native(iter, own=True)
def _iter(site: CallSite, value: Value) -> Value:
    return iterate(site.frame, value)


@native(next, own=True)
def _next(site: CallSite, stream: Value, *default: Value) -> Value:
    node = site.node
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.GeneratorExp):
        stream = iterate(site.frame, stream)  # the items of a generator expression are given at once
    return UNKNOWN if isinstance(stream, Instance) else next(stream, *default)


@native(map, own=True)
def _map(site: CallSite, function: Value, *values: Value) -> Value:
    if not values:
        return UNKNOWN
    rows = site.meter.items(zip(*(iterate(site.frame, item) for item in values), strict=False))
    return [site.call(function, *row) for row in rows]


@native(filter, own=True)
def _filter(site: CallSite, function: Value, values: Value) -> Value:
    items = _items(site, values)
    kept = [item if function is None else site.call(function, item) for item in items]
    if site.interpreter.holds_unknown(kept):
        return UNKNOWN
    return [item for item, keep in zip(items, kept, strict=True) if keep]


@native(sorted, own=True)
def _sorted(site: CallSite, values: Value, /, *, key: Value = None, reverse: Value = False) -> Value:
    items = site.meter.walked(_items(site, values))
    return UNKNOWN if site.interpreter.holds_unknown(items) else sorted_values(site, items, key, reverse=reverse)


def _known_items(site: CallSite, values: Value) -> list[Value]:
    """Return the items of an iterable as plain values; Unobservable where one of them is not known."""
    items = [unwrapped(item) for item in _items(site, values)]
    if site.interpreter.holds_unknown(site.meter.walked(items)):
        raise Unobservable
    return items


@native(sum, own=True)
def _sum(site: CallSite, values: Value, start: Value = 0) -> Value:
    items = _known_items(site, values)
    if any(isinstance(item, list | tuple | Instance) for item in items):
        return UNKNOWN
    if any(isinstance(item, np.ndarray) for item in (start, *items)):
        return functools.reduce(lambda found, item: apply(ast.Add, found, item, site.meter), items, start)
    return sum(items, start)


@native(min, max, any, all, each=True, own=True)
def _fold(function: Callable[..., Value], site: CallSite, *values: Value, key: Value = None, **options: Value) -> Value:
    items = _known_items(site, values[0] if len(values) == 1 else values)
    if key is None or not items:
        site.interpreter.pin(site.node, site.frame)  # the tensors among the items refuse or record here
        return function(items, **options)
    keys = [site.call(key, item) for item in items]
    return UNKNOWN if site.interpreter.holds_unknown(keys) else items[function(range(len(keys)), key=keys.__getitem__)]


# -- classes and attributes --------------------------------------------------------------------------------------------


@native(issubclass, own=True)
def _issubclass(site: CallSite, inner: Value, outer: Value) -> Value:
    if not isinstance(inner, type | UserClass) or not isinstance(outer, type | UserClass):
        return UNKNOWN
    if isinstance(inner, type):
        return issubclass(inner, outer) if isinstance(outer, type) else UNKNOWN
    return outer is object or outer in inner.mro if inner.kind == "object" else UNKNOWN


@native(isinstance, own=True)
def _isinstance(site: CallSite, value: Value, wanted: Value) -> Value:
    answers = [attributes.is_a(value, item) for item in (wanted if type(wanted) is tuple else (wanted,))]
    return True if True in answers else UNKNOWN if UNKNOWN in answers else False


@native(getattr, shallow=False, reads=False, own=True)
def _getattr(site: CallSite, value: Value, name: Value, *default: Value) -> Value:
    if value is UNKNOWN or not isinstance(name, str):
        return UNKNOWN
    if default and attributes.has(site.frame, value, name) is False:
        return default[0]
    return attributes.get(site.frame, site.node, value, name)


@native(hasattr, reads=False, own=True)
def _hasattr(site: CallSite, value: Value, name: Value) -> Value:
    return attributes.has(site.frame, value, name) if isinstance(name, str) else UNKNOWN


@native(setattr, shallow=False, reads=False, own=True)
def _setattr(site: CallSite, value: Value, name: Value, item: Value) -> Value:
    if not isinstance(name, str):
        site.interpreter.doubt([value, item])
        return UNKNOWN
    attributes.store(site.frame, site.node, value, name, item)
    return None


@native(callable, reads=False, own=True)
def _callable(site: CallSite, value: Value) -> Value:
    if isinstance(value, Instance):
        return value.cls.find("__call__") is not MISSING
    own = (Function, BoundMethod, NativeMethod, Partial, UserClass, Special)
    return isinstance(value, own) or callable(value)


@native(type, reads=False, own=True)
def _type(site: CallSite, value: Value) -> Value:
    if isinstance(value, Instance | EnumMember):
        return value.cls
    kind = type(value)
    return kind if kind in (int, float, bool, str, tuple, list, dict, set, slice, range, type(None)) else UNKNOWN


@native(super)
def _super(site: CallSite) -> Value:
    frame, function = site.frame, site.frame.function
    if function is None or function.owner is None or not isinstance(function.node, ast.FunctionDef):
        return UNKNOWN
    first = function.positional[:1]
    return Super(frame.locals.get(first[0], UNKNOWN), function.owner) if first else UNKNOWN


@native(property, staticmethod, classmethod, shallow=False, own=True)
def _descriptor(site: CallSite, *args: Value, **kwargs: Value) -> Value:
    return UNKNOWN  # as decorators they are read off the tree


# -- exceptions --------------------------------------------------------------------------------------------------------


@native(*EXCEPTIONS.values(), each=True, shallow=False, reads=False, own=True)
def _exception(kind: type[BaseException], site: CallSite, *args: Value, **kwargs: Value) -> Value:
    return Raisable(kind, list(args))
