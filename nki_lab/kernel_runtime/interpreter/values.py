"""Values of the interpreter that Python has no safe object for: unknowns, classes and objects of the user's code."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
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
SIMPLE: Final = frozenset((int, float, bool, str, type(None), Unknown))
"""Kinds of values that nothing can change, and that lead to no others."""


@dataclass(slots=True, eq=False, repr=False)
class BoundMethod:
    """A function of the user's with its object."""

    function: Value
    instance: Value


@dataclass(slots=True, eq=False, repr=False)
class NativeMethod:
    """A method of a list, dict, str, tensor, ... taken as a value."""

    value: Value
    name: str


@dataclass(slots=True, eq=False, repr=False)
class Partial:
    """`functools.partial`."""

    function: Value
    args: list[Value]
    kwargs: Names


@dataclass(slots=True, eq=False, repr=False)
class UserClass:
    """A class of the user's. `kind` is "object", "nki" (an NKIObject), "enum", "intenum", "strenum" or "unknown"."""

    name: str
    bases: tuple[UserClass, ...]
    kind: str
    attributes: Names
    annotations: dict[str, str] = field(default_factory=dict)
    dataclass: Mapping[str, Value] | None = None
    members: dict[str, EnumMember] = field(default_factory=dict)
    node: ast.ClassDef | None = None
    mro: tuple[UserClass, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.mro = tuple(dict.fromkeys((self, *(base for parent in self.bases for base in parent.mro))))

    def find(self, name: str, after: UserClass | None = None) -> Value:
        """Return the class attribute `name`, of the classes after `after` where that is given, or `MISSING`."""
        start = 0 if after is None or after not in self.mro else self.mro.index(after) + 1
        for cls in self.mro[start:]:
            if name in cls.attributes:
                return cls.attributes[name]
        return MISSING

    def inherits(self, kind: str) -> bool:
        """Return whether the class, or one that it inherits from, is of a kind."""
        return any(cls.kind == kind for cls in self.mro)

    @property
    def is_dataclass(self) -> bool:
        """Return whether the class, or one that it inherits from, is a dataclass."""
        return any(cls.dataclass is not None for cls in self.mro)

    def __repr__(self) -> str:
        return f"<class {self.name}>"


MISSING: Final = object()
"""Stands for no value."""


@dataclass(slots=True, eq=False, repr=False)
class Instance:
    """An object of a class of the user's."""

    cls: UserClass
    fields: Names

    def __repr__(self) -> str:
        return f"<{self.cls.name} object>"


@dataclass(slots=True, eq=False, repr=False)
class EnumMember:
    """A member of an enumeration of the user's; its `__init__` sets `fields`."""

    cls: UserClass
    name: str
    value: Value
    fields: Names = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"{self.cls.name}.{self.name}"


@dataclass(slots=True, eq=False, repr=False)
class Super:
    """`super()` inside a method."""

    instance: Value
    after: UserClass


@dataclass(slots=True, eq=False, repr=False)
class Field:
    """`dataclasses.field(...)`."""

    default: Value = MISSING
    factory: Value = MISSING
    init: bool = True
    kw_only: bool = False


@dataclass(slots=True, eq=False, repr=False)
class Namespace:
    """A module as interpreted code sees it: `names` is all there is.

    `closed` namespaces (`nki.language`, `nki.isa`) refuse other names; in others they are unknown, but for names that
    the module `real` does not have either. `place` is the file or folder of a module of the user's.
    """

    name: str
    names: Mapping[str, Value]
    _: KW_ONLY
    closed: bool = False
    real: ModuleType | None = None
    place: str = ""

    def __repr__(self) -> str:
        return f"<module {self.name}>"


@dataclass(slots=True, eq=False, repr=False)
class Special:
    """A function with a meaning of the interpreter's own: `run(site, args, kwargs)` carries it out at a call site."""

    name: str
    run: Callable[..., Value] = lambda *_: UNKNOWN

    def __repr__(self) -> str:
        return f"<function {self.name}>"


@dataclass(slots=True, eq=False, repr=False)
class Raisable:
    """An exception object that the kernel made."""

    kind: type[BaseException]
    args: list[Value]


@dataclass(frozen=True, slots=True)
class Rows:
    """The values with which a test is called again and again: one of each of `rows` for each of `names`.

    They are `assumed` where nothing is known of the decorator but that it names parameters of the test.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    assumed: bool = False


@dataclass(slots=True, eq=False, repr=False)
class Annotation:
    """`nki.typing.tensor[...]`: the shape, and the dtype where one is written."""

    shape: tuple[Value, ...]
    dtype: Value = None


MOST_PARTS: Final = 125_000
"""Parts of an argument of a kernel: one with more of them, or that holds itself, counts as unknown."""


def modest(value: Value) -> tuple[Value, int]:
    """Return an argument of a kernel, UNKNOWN for one with more than `MOST_PARTS` parts, and the parts looked at.

    Parts count as often as they are held, and long texts as several.
    """
    stack, parts = [value], 0
    while stack and parts <= MOST_PARTS:
        item = stack.pop()
        inner: Any = ()
        if isinstance(item, list | tuple | set | frozenset):
            inner = item
        elif isinstance(item, dict):
            inner = (*item.keys(), *item.values())
        elif isinstance(item, Instance | EnumMember):
            inner = item.fields.values()
        elif isinstance(item, str | bytes):
            parts += len(item) >> 4
        parts += len(inner) + 1
        stack.extend(inner if parts <= MOST_PARTS else ())
    return value if parts <= MOST_PARTS else UNKNOWN, parts


PARTED: Final = frozenset((tuple, list, dict, slice))
"""Kinds of values that hold others."""
_DEPTH: Final = 4


def has_unknown(value: Value) -> bool:
    """Return whether `value`, or something in its containers, is unknown."""
    if value is UNKNOWN:
        return True
    return type(value) in PARTED and unknown_within(value)[0]


def unknown_within(container: Value) -> tuple[bool, int]:
    """Return whether something in a container is unknown, four containers deep, and the number of parts looked at.

    What is held in several places is looked at once: lists of one list are small in memory and endless to walk.
    """
    level, seen, looked = [container], {id(container)}, 0
    for _ in range(_DEPTH):
        below: list[Value] = []
        for whole in level:
            parts = whole
            if type(whole) is dict:
                parts = whole.values()
            elif type(whole) is slice:
                parts = (whole.start, whole.stop, whole.step)
            looked += len(parts)
            for part in parts:
                if part is UNKNOWN:
                    return True, looked
                if type(part) in PARTED and id(part) not in seen:
                    seen.add(id(part))
                    below.append(part)
        if not below:
            break
        level = below
    return False, looked
