"""`NKIObject`: the base of classes that kernels may use."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from nki_lab.late_annotations import annotations_of


class NKIObject:
    """Base of classes that kernels use: fields from annotations, constructed by position or keyword.

    Annotated fields without a value default to None; class attributes without annotation are keywords as well.
    `@dataclass` on top changes nothing.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = cls.__dict__
        annotations = annotations_of(cls)
        for name, value in list(own.items()):
            of_class = isinstance(value, (property, staticmethod, classmethod, functools.cached_property))
            if not (name.startswith("_") or name in annotations or callable(value) or of_class):
                annotations[name] = type(value)
        for name in annotations:
            if name not in own:
                setattr(cls, name, None)
        cls.__annotations__ = annotations
        if "__init__" not in own and not any("__init__" in base.__dict__ for base in cls.__mro__[1:-2]):
            cls.__init__ = _init_from_fields  # type: ignore[assignment, method-assign]

    def __post_init__(self) -> None:
        """Called after the fields are set."""


def _fields_of(cls: type) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        for name, annotation in annotations_of(base).items():
            if name.startswith("__") or "ClassVar" in (annotation if isinstance(annotation, str) else repr(annotation)):
                continue  # of the class, and no field
            declared = getattr(cls, "__dataclass_fields__", {}).get(name)
            fields[name] = getattr(cls, name, None) if declared is None or name in vars(base) else declared
    return fields


def _init_from_fields(self: NKIObject, *args: Any, **kwargs: Any) -> None:
    fields = _fields_of(type(self))
    names = list(fields)
    if len(args) > len(names):
        raise TypeError(f"{type(self).__name__}() takes {len(names)} arguments, {len(args)} were given")
    for name, default in fields.items():
        object.__setattr__(self, name, _fresh(default))
    for name, value in (dict(zip(names, args, strict=False)) | kwargs).items():
        if name not in fields:
            raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument {name!r}")
        object.__setattr__(self, name, value)
    self.__post_init__()


def _fresh(default: Any) -> Any:
    """A default of its own for each object, where it is a container or made by a function."""
    if isinstance(default, dataclasses.Field):
        if default.default_factory is not dataclasses.MISSING:
            return default.default_factory()
        return None if default.default is dataclasses.MISSING else default.default
    return type(default)(default) if isinstance(default, (list, dict, set)) else default
