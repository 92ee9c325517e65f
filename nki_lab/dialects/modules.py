"""Modules made of names: what `import nki.language` finds after `activate()`."""

from __future__ import annotations

import dis
import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any, Final, NamedTuple

from nki_lab.diagnostic import Diagnostic, NkiError, error_class, error_of
from nki_lab.kernel_runtime.issue.nki_api_names import unknown_name

Missing = Callable[[str, str, Iterable[str]], "Diagnostic"]
"""What is wrong with asking module (first argument) for a name (second) that is not among its names (third)."""

MARK: Final = "__nki_lab__"
"""Attribute of every module made here."""


class DialectModule(ModuleType):
    """A module of a dialect. A name that it does not have is a coded error with near misses."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        own = vars(self)
        later = own[MARK].get(name)
        if later is not None:
            own[name] = value = later()
            return value
        raise self._refusal(name)

    def _refusal(self, name: str) -> NkiError:
        own = vars(self)
        names = [key for key in (*own, *own[MARK]) if not key.startswith("_")]
        diagnostic = own["__nki_missing__"](self.__name__, name, names)
        if _is_import(sys._getframe(2)):
            # `from nki.language import x` keeps the text of an ImportError, and drops that of an AttributeError.
            return error_class(ImportError)((diagnostic,))
        return error_of(diagnostic)

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *vars(self)[MARK]} - {MARK, "__nki_missing__"})

    def __reduce__(self) -> tuple[Any, ...]:
        return (importlib.import_module, (self.__name__,))


class TypeModule(DialectModule):
    """A module that kernels use as a type too: `x: nki.tensor`, `nki.dtype | None`, `isinstance(x, nki.dtype)`."""

    def __or__(self, other: Any) -> Any:
        return self._type | _meant(other)

    def __ror__(self, other: Any) -> Any:
        return _meant(other) | self._type

    def __getitem__(self, key: Any) -> Any:
        return self._type[key]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._type(*args, **kwargs)

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, self._type)

    @property
    def _type(self) -> Any:
        return vars(self)["__nki_type__"]


def _meant(value: Any) -> Any:
    """The class that a module stands for in an annotation; other values are what they are."""
    return value._type if isinstance(value, TypeModule) else value


def _is_import(frame: FrameType) -> bool:
    """Whether the frame is executing `from module import name`."""
    code = frame.f_code.co_code
    return 0 <= frame.f_lasti < len(code) and dis.opname[code[frame.f_lasti]] == "IMPORT_FROM"


def make_module(
    name: str,
    names: Mapping[str, Any],
    *,
    doc: str,
    missing: Missing | None = None,
    later: Mapping[str, Callable[[], Any]] | None = None,
    stands_for: Any = None,
) -> DialectModule:
    """A module called `name` with `names` in it.

    `later` are names whose values are made when they are asked for; `missing` says what is wrong with any other name;
    `stands_for` is the class that the module means where it is used as a type.
    """
    module = DialectModule(name, doc) if stands_for is None else TypeModule(name, doc)
    spec = ModuleSpec(name, None, origin="nki_lab", is_package=True)
    module.__spec__ = spec
    module.__package__ = name
    module.__path__ = []
    own = vars(module)
    own[MARK] = dict(later or {})
    own["__nki_missing__"] = missing or unknown_name
    if stands_for is not None:
        own["__nki_type__"] = stands_for
    own["__all__"] = [key for key in names if not key.startswith("_")]
    own.update(names)
    return module


class Description(NamedTuple):
    """A module to make: its names, its documentation, and the class that it means where it is used as a type."""

    names: Mapping[str, Any]
    doc: str
    stands_for: object = None


def make_modules(descriptions: Mapping[str, Description], missing: Missing) -> dict[str, DialectModule]:
    """Return the described modules by name, each an attribute of its parent."""
    table = {
        name: make_module(name, item.names, doc=item.doc, missing=missing, stands_for=item.stands_for)
        for name, item in descriptions.items()
    }
    for name, module in table.items():
        parent, _, last = name.rpartition(".")
        if parent in table:
            vars(table[parent]).setdefault(last, module)
    return table


def is_ours(module: Any) -> bool:
    """Whether a module was made here."""
    return isinstance(module, DialectModule)
