"""Functions and decorators of the standard library with a meaning of their own here; none of their code runs."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable
from typing import Final

from nki_lab.kernel_runtime.interpreter import classes
from nki_lab.kernel_runtime.interpreter.calls import CallSite, adapted, library_function
from nki_lab.kernel_runtime.interpreter.interpreter import Function
from nki_lab.kernel_runtime.interpreter.namespaces import special
from nki_lab.kernel_runtime.interpreter.operators import iterate
from nki_lab.kernel_runtime.interpreter.values import (
    MISSING,
    UNKNOWN,
    BoundMethod,
    EnumMember,
    Field,
    Instance,
    Partial,
    Special,
    UserClass,
    Value,
)

for _name in (*classes.BASES, "typing.NamedTuple"):
    special(_name)

# -- classes -----------------------------------------------------------------------------------------------------------


@library_function("dataclasses.dataclass")
def _dataclass(site: CallSite, *cls: Value, **options: Value) -> Value:
    def decorate(site: CallSite, cls: Value) -> Value:
        _note_changed(site)
        return classes.decorate_dataclass(cls, options)

    return decorate(site, cls[0]) if cls else Special("dataclass", adapted(decorate))


def _note_changed(site: CallSite) -> None:
    """Take note that a call inside a function changes a class or function, which may be its module's."""
    site.interpreter.shared_changes += site.frame.function is not None


@library_function("dataclasses.field")
def _field(
    site: CallSite,
    *,
    default: Value = MISSING,
    default_factory: Value = MISSING,
    init: Value = True,
    kw_only: Value = False,
    **_: Value,
) -> Value:
    return Field(default, default_factory, init, kw_only)


@library_function("dataclasses.replace")
def _replace(site: CallSite, instance: Value, **changes: Value) -> Value:
    known = isinstance(instance, Instance) and not site.interpreter.is_doubtful(instance)
    return classes.replace_fields(site, instance, changes) if known else UNKNOWN


@library_function("dataclasses.asdict")
def _asdict(site: CallSite, instance: Value) -> Value:
    if not isinstance(instance, Instance) or site.interpreter.is_doubtful(instance):
        return UNKNOWN
    deep = any(isinstance(value, list | dict | tuple | Instance) for value in instance.fields.values())
    return UNKNOWN if deep else dict(instance.fields)


@library_function("enum.auto")
def _auto(site: CallSite) -> Value:
    return classes.AUTO


@library_function("collections.namedtuple")
def _namedtuple(site: CallSite, name: Value, fields: Value, *, defaults: Value = ()) -> Value:
    if site.interpreter.holds_unknown(name, fields, defaults):
        return UNKNOWN
    names = fields.replace(",", " ").split() if isinstance(fields, str) else site.meter.items(fields)
    values = list(defaults or ())
    cls = UserClass(name, (), "namedtuple", dict(zip(names[len(names) - len(values) :], values, strict=True)))
    cls.annotations = dict.fromkeys(names, "")
    cls.dataclass = {"frozen": True}
    return cls


# -- decorators --------------------------------------------------------------------------------------------------------


_TYPING: Final = ("cast", "override", "final", "runtime_checkable", "no_type_check")


@library_function("abc.abstractmethod", "enum.unique", "functools.cache", *(f"typing.{name}" for name in _TYPING))
def _unchanged(site: CallSite, *args: Value) -> Value:
    """Return the last argument, which is not changed."""
    return args[-1] if args else UNKNOWN


@library_function("functools.lru_cache")
def _cached(site: CallSite, function: Value = None, typed: Value = False, **_: Value) -> Value:
    return function if isinstance(function, Function | BoundMethod) else Special("lru_cache", adapted(_unchanged))


@library_function("functools.wraps")
def _wraps(site: CallSite, wrapped: Value = UNKNOWN, *_: Value, **__: Value) -> Value:
    def decorate(site: CallSite, function: Value) -> Value:
        if isinstance(function, Function):
            if function.closure.function is None:
                _note_changed(site)
            function.wrapped = wrapped
        return function

    return Special("wraps", adapted(decorate))


@library_function("functools.cached_property")
def _cached_property(site: CallSite, function: Value) -> Value:
    if not isinstance(function, Function):
        return UNKNOWN
    _note_changed(site)
    function.kind = "property"
    return function


# -- functions ---------------------------------------------------------------------------------------------------------


@library_function("functools.partial")
def _partial(site: CallSite, function: Value, *args: Value, **kwargs: Value) -> Value:
    return UNKNOWN if function is UNKNOWN else Partial(function, list(args), kwargs)


@library_function("functools.reduce")
def _reduce(site: CallSite, function: Value, values: Value, *initial: Value) -> Value:
    items = [*initial[:1], *site.meter.items(iterate(site.frame, values))]
    return functools.reduce(lambda found, item: site.call(function, found, item), items)


@library_function("itertools.product")
def _product(site: CallSite, *values: Value, repeat: Value = 1) -> Value:
    parts = [iterate(site.frame, item) for item in values]
    if type(repeat) is not int:
        return UNKNOWN
    rows = [site.meter.items(part) for part in parts] * min(max(repeat, 0), 64)
    site.meter.sized(math.prod(map(len, rows)))
    return list(itertools.product(*rows))


@library_function("itertools.chain")
def _chain(site: CallSite, *values: Value) -> Value:
    return [item for part in [iterate(site.frame, item) for item in values] for item in site.meter.items(part)]


@library_function("copy.copy")
def _copy(site: CallSite, value: Value) -> Value:
    if site.interpreter.is_doubtful(value):
        return UNKNOWN
    if isinstance(value, list | dict | set):
        site.meter.sized(len(value))
        return value.copy()
    if type(value) is Instance and value.cls.kind in ("object", "nki", "namedtuple"):
        return Instance(value.cls, dict(value.fields))
    return value if isinstance(value, int | float | str | tuple | bool | None | EnumMember) else UNKNOWN


@library_function("os.getenv")
def _getenv(site: CallSite, key: Value, default: Value = None) -> Value:
    """Return the default of an environment variable: switches for debugging are not set where nothing runs."""
    return default if isinstance(key, str) else UNKNOWN


def _enter_operator(name: str, function: Callable[[Value, Value], Value]) -> None:
    @library_function(name)
    def run(site: CallSite, a: Value, b: Value) -> Value:
        if not isinstance(a, int | float) or not isinstance(b, int | float):
            return UNKNOWN
        if isinstance(a, int) and isinstance(b, int):
            site.meter.bits(a.bit_length() + b.bit_length())
        return function(a, b)


for _function in (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.truediv):
    _enter_operator(f"operator.{_function.__name__}", _function)
