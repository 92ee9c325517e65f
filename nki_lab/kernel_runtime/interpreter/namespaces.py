"""Modules that interpreted code can import: namespaces of this package's own, and nothing that has to be loaded."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
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


MODULES: Final = (
    "nki.collectives", "nki.compiler", "nki.meta", "nki.experimental", "nki.language", "nki.isa", "nki.isa.constants",
    "nki.typing", "nki.tensor", "nki.meta.tensor", "nki.dtype", f"{BETA1}.typing", f"{BETA1}.tensor",
    f"{BETA1}.language", f"{BETA1}.isa", f"{BETA1}.isa.constants", f"{BETA1}.compiler",
)  # fmt: skip
"""The modules of NKI that have a namespace here."""


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
        hosts = {key: kind.host for key, kind in DTYPES.items()}
        match name:
            case "neuronxcc.nki":
                return Namespace(name, {key: special(f"nki.{key}") for key in ENTRIES})
            case "nki":
                own = {key: special(f"nki.{key}") for key in ("jit", "simulate")}
                return Namespace(name, own | {"Kernel": UNKNOWN, "__version__": UNKNOWN}, closed=True)
            case "nki.collectives":
                return self._closed(name, collective_names())
            case "nki.compiler":
                return Namespace(name, {}, closed=True)
            case "nki.meta" | "nki.experimental":
                return Namespace(name, {})
            case "nki.language":
                return self._closed(name, namespaces.language_names())
            case "nki.isa":
                return self._closed(name, namespaces.instruction_names())
            case "nki.isa.constants":
                return Namespace(name, self.module("nki.isa").names)
            case "nki.typing" | "neuronxcc.nki.typing":
                return Namespace(name, {"tensor": TENSOR_TYPE, "mutable_tensor": TENSOR_TYPE})
            case "nki.tensor" | "nki.meta.tensor" | "neuronxcc.nki.tensor":
                return Namespace(name, {"tensor": TENSOR_TYPE, "NkiTensor": NkiTensor})
            case "nki.dtype":
                return Namespace(name, hosts | {"bool": hosts["bool_"]})
            case "ml_dtypes":
                return Namespace(name, hosts)
            case "neuronxcc":
                return Namespace(name, {})
            case "torch_neuronx" | "torch_neuronx.xla_impl.ops":
                return Namespace(name, {"nki_jit": special("nki.jit")})
            case "jax_neuronx":
                return Namespace(name, {"nki_call": special("nki.simulate_kernel")})
            case _ if name.startswith(f"{BETA1}."):
                return self._beta1(name)
            case _:
                return _library(name)

    def _closed(self, name: str, names: Names) -> Namespace:
        self.functions |= {id(value): value for value in names.values() if callable(value)}
        return Namespace(name, names, closed=True)

    def _beta1(self, name: str) -> Value:
        dialect = beta1_dialect()
        if dialect is None:
            return UNKNOWN
        tables = {
            "language": dialect.names,
            "isa": dialect.instruction_names,
            "isa.constants": dialect.constant_names,
            "compiler": dialect.compiler_names,
        }
        names = tables.get(name.removeprefix(f"{BETA1}."))
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


_CONSTANTS: Final[dict[str, Names]] = {"typing": {"TYPE_CHECKING": False}, "collections": {"OrderedDict": dict}}
