"""Modules made of names: what `import nki.language` finds after `activate()`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any, Final, NamedTuple

from nki_lab import codes, session
from nki_lab.diagnostic import Diagnostic, error_class
from nki_lab.dialects.kernel import announce, as_kernel
from nki_lab.kernel_runtime.ir import Program


def compile_kernel(
    fn: Callable[..., Any],
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    compile_opts: Any = None,
    **hyperparameters: Any,
) -> Program:
    """The program of a function for arrays of these shapes; nothing is computed, and no array is changed.

    `inputs` and `outputs` are arrays by parameter; `hyperparameters` go to the function as they are, functions too. Of
    `compile_opts` the target counts, where it names one. Faults raise, other findings go to the error stream.
    """
    kernel = as_kernel(fn)
    arch = kernel.target(getattr(compile_opts, "target", None))
    program, found = session.specialise(
        session.Launch(kernel.function, arch, grid=kernel.grid),
        (),
        {**(inputs or {}), **(outputs or {}), **hyperparameters},
    )
    announce(found)
    return program


Missing = Callable[[str, str, Iterable[str]], "Diagnostic"]
"""Gives the finding of asking a module (first argument) for a name (second) that is not among its names (third)."""

MARK: Final = "__nki_lab__"
"""Attribute of every module made here: its function of type Missing."""


class DialectModule(ModuleType):
    """A module of a dialect. A name that it does not have is a coded error with near misses."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = self._elsewhere(name)
        if found is not None:
            return found
        own = vars(self)
        diagnostic = own[MARK](self.__name__, name, [key for key in own if not key.startswith("_")])
        if _is_import(sys._getframe(1)) and f"{self.__name__}.{name}" not in sys.modules:
            # `from nki.language import x` keeps the text of an ImportError, and drops that of an AttributeError.
            raise error_class(ImportError)((diagnostic,))
        kind = codes.get(diagnostic.code).exception
        # Tools ask all loaded modules for names: without an AttributeError, hasattr fails.
        raise error_class(kind if issubclass(kind, AttributeError) else _absent(kind))((diagnostic,))  # type: ignore[arg-type]

    def _elsewhere(self, name: str) -> Any:
        """Return the value of a name that another package has; None for other names."""
        return None

    def __dir__(self) -> list[str]:
        return sorted({*vars(self)} - {MARK})

    def __reduce__(self) -> tuple[Any, ...]:
        return (importlib.import_module, (self.__name__,))


class SampleModule(DialectModule):
    """A module of packaged kernels: its names are those of `nki_samples.reference`, where that can be imported."""

    def _elsewhere(self, name: str) -> Any:
        _, _, inner = self.__name__.partition(".kernels")
        try:
            return getattr(importlib.import_module(f"nki_samples.reference{inner}"), name, None)
        except ModuleNotFoundError as error:
            if str(error.name).partition(".")[0] != "nki_samples":
                raise
            return None


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


@cache
def _absent(kind: type[Exception]) -> type[Exception]:
    """Return the exception that is a `kind` and an AttributeError."""
    return type(kind.__name__, (kind, AttributeError), {"__module__": __name__})


def _meant(value: Any) -> Any:
    """The class that a module stands for in an annotation; other values are what they are."""
    return value._type if isinstance(value, TypeModule) else value


def _is_import(frame: FrameType) -> bool:
    """Whether the frame is that of Python's import system, which asks for the names of `from module import name`."""
    return frame.f_code.co_name == "_handle_fromlist" and frame.f_globals.get("__name__") == "importlib._bootstrap"


def _make_module(name: str, described: Description, missing: Missing) -> DialectModule:
    """Return the described module; `missing` says what is wrong with any other name."""
    kind = described.kind if described.stands_for is None else TypeModule
    module = kind(name, described.doc)
    module.__spec__ = ModuleSpec(name, None, origin="nki_lab", is_package=True)
    module.__package__ = name
    module.__path__ = []
    own = vars(module)
    own[MARK] = missing
    if described.stands_for is not None:
        own["__nki_type__"] = described.stands_for
    own["__all__"] = [key for key in described.names if not key.startswith("_")]
    own.update(described.names)
    return module


class Description(NamedTuple):
    """A module to make: its names, its documentation, the class that it means where it is used as a type, its class."""

    names: Mapping[str, Any]
    doc: str
    stands_for: object = None
    kind: type[DialectModule] = DialectModule


def make_modules(descriptions: Mapping[str, Description], missing: Missing) -> dict[str, DialectModule]:
    """Return the described modules by name, each an attribute of its parent."""
    table = {name: _make_module(name, item, missing) for name, item in descriptions.items()}
    for name, module in table.items():
        parent, _, last = name.rpartition(".")
        if parent in table:
            vars(table[parent]).setdefault(last, module)
    return table


def is_ours(module: Any) -> bool:
    """Whether a module was made here."""
    return isinstance(module, DialectModule)
