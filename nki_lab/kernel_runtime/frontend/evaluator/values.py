"""Values of the evaluator that Python has no safe object for: unknowns, the user's functions, classes and objects."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from nki_lab.kernel_runtime.frontend.evaluator.machine import Machine
    from nki_lab.kernel_runtime.frontend.evaluator.modules import Home
    from nki_lab.source.scopes import Scope


class Unknown:
    """A value that the evaluator does not know; whatever is computed from it is unknown too."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<unknown>"

    def __bool__(self) -> bool:
        raise RuntimeError("the truth of an unknown value is unknown")


UNKNOWN: Final = Unknown()


class Frame:
    """Names of one running function, comprehension, class body or module."""

    __slots__ = ("doubtful", "function", "home", "locals", "m", "owner", "parent", "result")

    home: Home  # the module that the code stands in; a module sets it for its own frame

    def __init__(self, m: Machine, parent: Frame | None, function: Function | None, names: dict[str, Any]) -> None:
        self.m = m
        self.parent = parent
        if parent is not None:
            self.home = parent.home
        self.function = function
        self.locals = names
        self.owner: UserClass | None = function.owner if function is not None else None
        self.result: Any = None
        self.doubtful = False  # an unknown condition may have left the function already


class Function:
    """A function of the user's: its tree, its defaults and the frame it was made in."""

    __slots__ = (
        "body", "closure", "defaults", "entry", "kind", "name", "node", "owner", "qualname", "scope", "setter",
    )  # fmt: skip

    def __init__(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        name: str,
        scope: Scope,
        defaults: dict[str, Any],
        closure: Frame | None,
    ) -> None:
        self.node = node
        self.name = name
        self.qualname = scope.qualname
        self.scope = scope
        self.defaults = defaults
        self.closure = closure
        self.kind = ""  # "static", "class", "property" in a class body
        self.owner: UserClass | None = None
        self.entry = False  # decorated as a kernel
        self.setter: Function | None = None  # of a property
        self.body: Callable[[Frame], Any] | None = None

    def __repr__(self) -> str:
        return f"<function {self.qualname}>"


class BoundMethod:
    """A function of the user's with its object."""

    __slots__ = ("function", "instance")

    def __init__(self, function: Any, instance: Any) -> None:
        self.function = function
        self.instance = instance


class NativeMethod:
    """A method of a list, dict, str, tensor, ... taken as a value."""

    __slots__ = ("name", "value")

    def __init__(self, value: Any, name: str) -> None:
        self.value = value
        self.name = name


class Partial:
    """`functools.partial`."""

    __slots__ = ("args", "function", "kwargs")

    def __init__(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs


class Launch:
    """A kernel with a launch grid and edges of `with_schedule`, or as `nki.simulate` and its kin give it."""

    __slots__ = ("function", "grid", "schedule")

    def __init__(self, function: Function, grid: tuple[int, ...] = (), schedule: tuple[Any, ...] = ()) -> None:
        self.function = function
        self.grid = grid
        self.schedule = schedule


class UserClass:
    """A class of the user's. `kind` is "object", "nki" (an NKIObject), "enum", "intenum", "strenum" or "unknown"."""

    __slots__ = ("annotations", "attributes", "bases", "dataclass", "kind", "members", "mro", "name")

    def __init__(self, name: str, bases: tuple[UserClass, ...], kind: str, attributes: dict[str, Any]) -> None:
        self.name = name
        self.bases = bases
        self.kind = kind
        self.attributes = attributes
        self.annotations: dict[str, str] = {}
        self.dataclass: Mapping[str, Any] | None = None
        self.members: dict[str, EnumMember] = {}
        self.mro: tuple[UserClass, ...] = (self, *_unique(base for parent in bases for base in parent.mro))

    def find(self, name: str, after: UserClass | None = None) -> Any:
        """The class attribute `name`, of the classes after `after` where that is given; `MISSING` without one."""
        start = 0 if after is None or after not in self.mro else self.mro.index(after) + 1
        for cls in self.mro[start:]:
            if name in cls.attributes:
                return cls.attributes[name]
        return MISSING

    def __repr__(self) -> str:
        return f"<class {self.name}>"


def _unique(classes: Any) -> tuple[UserClass, ...]:
    return tuple(dict.fromkeys(classes))


class _Missing:
    __slots__ = ()

    def __repr__(self) -> str:
        return "<missing>"


MISSING: Final = _Missing()


class Instance:
    """An object of a class of the user's."""

    __slots__ = ("cls", "fields")

    def __init__(self, cls: UserClass, fields: dict[str, Any]) -> None:
        self.cls = cls
        self.fields = fields

    def __repr__(self) -> str:
        return f"<{self.cls.name} object>"


class EnumMember:
    """A member of an enumeration of the user's."""

    __slots__ = ("cls", "fields", "name", "value")

    def __init__(self, cls: UserClass, name: str, value: Any) -> None:
        self.cls = cls
        self.name = name
        self.value = value
        self.fields: dict[str, Any] = {}  # what `__init__` has set

    def __repr__(self) -> str:
        return f"{self.cls.name}.{self.name}"


class Super:
    """`super()` inside a method."""

    __slots__ = ("after", "instance")

    def __init__(self, instance: Any, after: UserClass) -> None:
        self.instance = instance
        self.after = after


class Field:
    """`dataclasses.field(...)`."""

    __slots__ = ("default", "factory", "init", "kw_only")

    def __init__(
        self, default: Any = MISSING, default_factory: Any = MISSING, init: bool = True, kw_only: bool = False, **_: Any
    ) -> None:
        self.default = default
        self.factory = default_factory
        self.init = init
        self.kw_only = kw_only


class Namespace:
    """A module as the evaluator shows it: `names` is all there is.

    `closed` namespaces (`nki.language`, `nki.isa`) refuse other names; in others they are unknown, but for names that
    the module `real` does not have either. `place` is the file or folder of a module of the user's.
    """

    __slots__ = ("closed", "name", "names", "place", "real")

    def __init__(
        self, name: str, names: Mapping[str, Any], *, closed: bool = False, real: Any = None, place: str = ""
    ) -> None:
        self.name = name
        self.place = place
        self.names = names
        self.closed = closed
        self.real = real

    def __repr__(self) -> str:
        return f"<module {self.name}>"


class Special:
    """A function that the evaluator carries out itself: `run(m, frame, node, args, kwargs)`."""

    __slots__ = ("name", "run")

    def __init__(self, name: str, run: Callable[[Machine, Frame, ast.AST, list[Any], dict[str, Any]], Any]) -> None:
        self.name = name
        self.run = run

    def __repr__(self) -> str:
        return f"<function {self.name}>"


class Annotation:
    """`nki.typing.tensor[...]`: the shape, and the dtype where one is written."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple[Any, ...], dtype: Any = None) -> None:
        self.shape = shape
        self.dtype = dtype


def has_unknown(value: Any, depth: int = 4) -> bool:
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
