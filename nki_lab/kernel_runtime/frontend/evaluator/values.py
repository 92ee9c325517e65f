"""Values of the interpreter that Python has no safe object for: unknowns, classes and objects of the user's code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, Final

Value = Any
"""A value of the interpreted program: an object of Python's, an NKI tensor, or an object of a class below."""
Names = dict[str, Value]
"""Variables, fields or keyword arguments by name."""


class Unknown:
    """A value that the interpreter does not know; every result computed from it is unknown too."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<unknown>"

    def __bool__(self) -> bool:
        raise RuntimeError("the truth of an unknown value is unknown")


UNKNOWN: Final = Unknown()


class BoundMethod:
    """A function of the user's with its object."""

    __slots__ = ("function", "instance")

    def __init__(self, function: Value, instance: Value) -> None:
        self.function = function
        self.instance = instance


class NativeMethod:
    """A method of a list, dict, str, tensor, ... taken as a value."""

    __slots__ = ("name", "value")

    def __init__(self, value: Value, name: str) -> None:
        self.value = value
        self.name = name


class Partial:
    """`functools.partial`."""

    __slots__ = ("args", "function", "kwargs")

    def __init__(self, function: Value, args: list[Value], kwargs: Names) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs


class UserClass:
    """A class of the user's. `kind` is "object", "nki" (an NKIObject), "enum", "intenum", "strenum" or "unknown"."""

    __slots__ = ("annotations", "attributes", "bases", "dataclass", "kind", "members", "mro", "name")

    def __init__(self, name: str, bases: tuple[UserClass, ...], kind: str, attributes: Names) -> None:
        self.name = name
        self.bases = bases
        self.kind = kind
        self.attributes = attributes
        self.annotations: dict[str, str] = {}
        self.dataclass: Mapping[str, Value] | None = None
        self.members: dict[str, EnumMember] = {}
        self.mro: tuple[UserClass, ...] = (self, *_unique(base for parent in bases for base in parent.mro))

    def find(self, name: str, after: UserClass | None = None) -> Value:
        """The class attribute `name`, of the classes after `after` where that is given; `MISSING` without one."""
        start = 0 if after is None or after not in self.mro else self.mro.index(after) + 1
        for cls in self.mro[start:]:
            if name in cls.attributes:
                return cls.attributes[name]
        return MISSING

    def __repr__(self) -> str:
        return f"<class {self.name}>"


def _unique(classes: Iterable[UserClass]) -> tuple[UserClass, ...]:
    return tuple(dict.fromkeys(classes))


class _Missing:
    __slots__ = ()

    def __repr__(self) -> str:
        return "<missing>"


MISSING: Final = _Missing()


class Instance:
    """An object of a class of the user's."""

    __slots__ = ("cls", "fields")

    def __init__(self, cls: UserClass, fields: Names) -> None:
        self.cls = cls
        self.fields = fields

    def __repr__(self) -> str:
        return f"<{self.cls.name} object>"


class EnumMember:
    """A member of an enumeration of the user's."""

    __slots__ = ("cls", "fields", "name", "value")

    def __init__(self, cls: UserClass, name: str, value: Value) -> None:
        self.cls = cls
        self.name = name
        self.value = value
        self.fields: Names = {}  # what `__init__` has set

    def __repr__(self) -> str:
        return f"{self.cls.name}.{self.name}"


class Super:
    """`super()` inside a method."""

    __slots__ = ("after", "instance")

    def __init__(self, instance: Value, after: UserClass) -> None:
        self.instance = instance
        self.after = after


class Field:
    """`dataclasses.field(...)`."""

    __slots__ = ("default", "factory", "init", "kw_only")

    def __init__(
        self,
        default: Value = MISSING,
        default_factory: Value = MISSING,
        init: bool = True,
        kw_only: bool = False,
        **_: Value,
    ) -> None:
        self.default = default
        self.factory = default_factory
        self.init = init
        self.kw_only = kw_only


class Namespace:
    """A module as interpreted code sees it: `names` is all there is.

    `closed` namespaces (`nki.language`, `nki.isa`) refuse other names; in others they are unknown, but for names that
    the module `real` does not have either. `place` is the file or folder of a module of the user's.
    """

    __slots__ = ("closed", "name", "names", "place", "real")

    def __init__(
        self,
        name: str,
        names: Mapping[str, Value],
        *,
        closed: bool = False,
        real: ModuleType | None = None,
        place: str = "",
    ) -> None:
        self.name = name
        self.place = place
        self.names = names
        self.closed = closed
        self.real = real

    def __repr__(self) -> str:
        return f"<module {self.name}>"


class Special:
    """A function with a meaning of the interpreter's own: `run(site, args, kwargs)` carries it out at a call site."""

    __slots__ = ("name", "run")

    def __init__(self, name: str, run: Callable[..., Value] = lambda *_: UNKNOWN) -> None:
        self.name = name
        self.run = run

    def __repr__(self) -> str:
        return f"<function {self.name}>"


class Raisable:
    """An exception object that the kernel made."""

    __slots__ = ("args", "kind")

    def __init__(self, kind: type[BaseException], args: list[Value]) -> None:
        self.kind = kind
        self.args = args


class Annotation:
    """`nki.typing.tensor[...]`: the shape, and the dtype where one is written."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple[Value, ...], dtype: Value = None) -> None:
        self.shape = shape
        self.dtype = dtype


def has_unknown(value: Value, depth: int = 4) -> bool:
    """Whether `value`, or something in its containers, is unknown."""
    if value is UNKNOWN:
        return True
    kind = type(value)
    if kind is slice:
        return value.start is UNKNOWN or value.stop is UNKNOWN or value.step is UNKNOWN
    if kind is dict:
        value = value.values()
    elif kind is not tuple and kind is not list:
        return False
    if depth:
        for item in value:
            if item is UNKNOWN or (type(item) in _PARTED and has_unknown(item, depth - 1)):
                return True
    return False


_PARTED: Final = frozenset((tuple, list, dict, slice))
