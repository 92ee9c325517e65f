"""Modules that interpreted code can import: namespaces of this package's own, and nothing that has to be loaded."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import Final

from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.dtype import DTYPES
from nki_lab.kernel_runtime.collectives.collective_names import collective_names
from nki_lab.kernel_runtime.interpreter.values import (
    UNKNOWN,
    Instance,
    Names,
    Namespace,
    Special,
    UserClass,
    Value,
)
from nki_lab.kernel_runtime.issue import nki_api_names
from nki_lab.kernel_runtime.language import namespaces
from nki_lab.kernel_runtime.tensor import NkiTensor

BETA1: Final = "neuronxcc.nki"
_UNKNOWN_NAME: Final = "NKI006"  # of a module without names only the removed ones are known
ENTRIES: Final = frozenset({"jit", "baremetal", "benchmark", "profile", "trace", "simulate", "simulate_kernel"})
_BETA1_FRONT_END: Final = "nki_lab.kernel_runtime.beta1"


@cache
def beta1_dialect() -> ModuleType | None:
    """Return the front end of `neuronxcc.nki`; None where this installation has none."""
    try:
        return importlib.import_module(_BETA1_FRONT_END)
    except ModuleNotFoundError as error:
        if error.name != _BETA1_FRONT_END:
            raise
        return None


SPECIALS: Final[dict[str, Special]] = {}
"""Functions and classes with a meaning of the interpreter's own, by dotted name; modules of `builtins` enter them."""


def special(name: str) -> Special:
    """Return the function or class of that name; it is a mere marker until a module enters its meaning."""
    return SPECIALS.setdefault(name, Special(name))


TENSOR_TYPE: Final = special("nki.typing.tensor")


class Imports:
    """Modules that one evaluation can import, by dotted name; their contents are made when first asked for.

    `functions` has every function of NKI that one of them offers, by id. `given` are modules made by the caller.
    """

    def __init__(self, given: Mapping[str, Value]) -> None:
        self._made: Names = dict(given)
        self.functions: dict[int, Value] = {}

    def module(self, name: str) -> Value:
        """Return the namespace of a module, UNKNOWN for one that has none here."""
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def missing(self, module: Namespace, name: str) -> Diagnostic | None:
        """Return the finding for a name that a closed module does not have; None where it may exist all the same."""
        if not module.closed or name.startswith("_"):
            return None
        dialect = beta1_dialect() if module.name.startswith(f"{BETA1}.") else nki_api_names
        found: Diagnostic = (dialect or nki_api_names).missing(module.name, name, module.names)
        return found if module.names or found.code != _UNKNOWN_NAME else None

    def _make(self, name: str) -> Value:
        if name in _OPEN:
            return Namespace(name, _OPEN[name])
        if name == "nki.isa.constants":
            return Namespace(name, self.module("nki.isa").names)
        if name in _CLOSED:
            return self._closed(name, _CLOSED[name]())
        return self._beta1(name) if name.startswith(f"{BETA1}.") else _library(name)

    def _closed(self, name: str, names: Names) -> Namespace:
        self.functions |= {id(value): value for value in names.values() if callable(value)}
        return Namespace(name, names, closed=True)

    def _beta1(self, name: str) -> Value:
        dialect = beta1_dialect()
        if dialect is None:
            return UNKNOWN
        names = dialect.MODULES.get(name.removeprefix(f"{BETA1}."))
        return UNKNOWN if names is None else self._closed(name, dict(names()))


def _library(name: str) -> Value:
    """Return a module of the standard library: its pure part, and the decorators that kernels' classes use."""
    if name == "os":
        variables = UserClass("environ", (), "unknown", {"get": special("os.getenv")})
        return Namespace(name, {"environ": Instance(variables, {}), "getenv": special("os.getenv")})
    if name == "math":
        return Namespace(name, vars(math), real=math)
    home = "typing" if name == "typing_extensions" else name
    names = {key.removeprefix(f"{home}."): value for key, value in SPECIALS.items() if key.rpartition(".")[0] == home}
    return Namespace(name, names | _CONSTANTS.get(home, {})) if names and "nki" not in home else UNKNOWN


_HOSTS: Final[Names] = {key: kind.host for key, kind in DTYPES.items()}
_TYPING: Final[Names] = {"tensor": TENSOR_TYPE, "mutable_tensor": TENSOR_TYPE}
_TENSOR: Final[Names] = {"tensor": TENSOR_TYPE, "NkiTensor": NkiTensor}
_OPEN: Final[dict[str, Names]] = {
    **{key: {} for key in ("nki.meta", "nki.experimental", "neuronxcc")},
    **dict.fromkeys(("nki.typing", "neuronxcc.nki.typing"), _TYPING),
    **dict.fromkeys(("nki.tensor", "nki.meta.tensor", "neuronxcc.nki.tensor"), _TENSOR),
    **{key: {"nki_jit": special("nki.jit")} for key in ("torch_neuronx", "torch_neuronx.xla_impl.ops")},
    BETA1: {key: special(f"nki.{key}") for key in ENTRIES},
    "nki.dtype": _HOSTS | {"bool": _HOSTS["bool_"]},
    "ml_dtypes": _HOSTS,
    "jax_neuronx": {"nki_call": special("nki.simulate_kernel")},
}
"""Modules whose other names are not known."""
_CLOSED: Final[dict[str, Callable[[], Names]]] = {
    "nki": lambda: {
        **{key: special(f"nki.{key}") for key in ("jit", "simulate")},
        "Kernel": UNKNOWN,
        "__version__": UNKNOWN,
    },
    "nki.collectives": collective_names,
    "nki.compiler": dict,
    "nki.language": namespaces.language_names,
    "nki.isa": namespaces.instruction_names,
}
"""Modules that have no other names."""
MODULES: Final = (
    *_OPEN,
    *_CLOSED,
    "nki.isa.constants",
    *(f"{BETA1}.{name}" for name in ("language", "isa", "isa.constants", "compiler")),
)
"""The modules of NKI, and of packages beside it, that have a namespace here."""
_CONSTANTS: Final[dict[str, Names]] = {"typing": {"TYPE_CHECKING": False}, "collections": {"OrderedDict": dict}}
