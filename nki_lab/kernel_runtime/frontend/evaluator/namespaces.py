"""What imports give inside an evaluation: this package's own namespaces, and nothing that would have to be loaded."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Any, Final

from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.dtype import DTYPES
from nki_lab.kernel_runtime.frontend import collectives, language, published
from nki_lab.kernel_runtime.frontend.evaluator.values import UNKNOWN, Instance, Namespace, Special, UserClass
from nki_lab.kernel_runtime.tensor import NkiTensor

CURRENT: Final = "nki"
LEGACY: Final = "neuronxcc.nki"
ENTRIES: Final = frozenset({"jit", "baremetal", "benchmark", "profile", "trace", "simulate", "simulate_kernel"})
_LEGACY_FRONT_END: Final = "nki_lab.kernel_runtime.frontend.legacy"


@cache
def legacy_dialect() -> ModuleType | None:
    """The front end of `neuronxcc.nki`; None where this installation has none."""
    try:
        return importlib.import_module(_LEGACY_FRONT_END)
    except ModuleNotFoundError as error:
        if error.name != _LEGACY_FRONT_END:
            raise
        return None


class Imports:
    """The modules one evaluation can import, by dotted name; their contents are made when first asked for."""

    def __init__(self, numpy: Namespace, host: Mapping[str, Any]) -> None:
        self._made: dict[str, Any] = {"numpy": numpy, **host}
        self.doors: dict[int, Any] = {}

    def module(self, name: str) -> Any:
        """The namespace of a module, UNKNOWN for one that is not ours to show."""
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def missing(self, module: Namespace, name: str) -> Diagnostic:
        """What is wrong with asking a closed module for a name that it does not have."""
        dialect = legacy_dialect() if module.name.startswith(f"{LEGACY}.") else published
        found: Diagnostic = (dialect or published).missing(module.name, name, module.names)
        return found

    def _make(self, name: str) -> Any:
        hosts = {key: kind.host for key, kind in DTYPES.items()}
        match name:
            case "neuronxcc.nki":
                return Namespace(name, {key: _marker(f"nki.{key}") for key in ENTRIES})
            case "nki":
                own = {key: _marker(f"nki.{key}") for key in ("jit", "simulate")}
                return Namespace(name, own | {"Kernel": UNKNOWN, "__version__": UNKNOWN}, closed=True)
            case "nki.collectives":
                return self._closed(name, collectives.names())
            case "nki.compiler":
                return Namespace(name, {}, closed=True)
            case "nki.meta" | "nki.experimental":
                return Namespace(name, {})
            case "nki.language":
                return self._closed(name, language.names())
            case "nki.isa":
                return self._closed(name, language.instruction_names())
            case "nki.isa.constants":
                return Namespace(name, self.module("nki.isa").names)
            case "nki.typing" | "neuronxcc.nki.typing":
                return Namespace(name, {"tensor": _TENSOR, "mutable_tensor": _TENSOR})
            case "nki.tensor" | "nki.meta.tensor" | "neuronxcc.nki.tensor":
                return Namespace(name, {"tensor": _TENSOR, "NkiTensor": NkiTensor})
            case "nki.dtype":
                return Namespace(name, hosts | {"bool": hosts["bool_"]})
            case "ml_dtypes":
                return Namespace(name, hosts)
            case "neuronxcc":
                return Namespace(name, {})
            case "torch_neuronx" | "torch_neuronx.xla_impl.ops":
                return Namespace(name, {"nki_jit": _marker("nki.jit")})
            case "jax_neuronx":
                return Namespace(name, {"nki_call": _marker("nki.simulate_kernel")})
            case _ if name.startswith(f"{LEGACY}."):
                return self._legacy(name)
            case _:
                return _library(name)

    def _closed(self, name: str, names: dict[str, Any]) -> Namespace:
        self.doors |= {id(value): value for value in names.values() if callable(value)}
        return Namespace(name, names, closed=True)

    def _legacy(self, name: str) -> Any:
        dialect = legacy_dialect()
        if dialect is None:
            return UNKNOWN
        match name.removeprefix(f"{LEGACY}."):
            case "language":
                return self._closed(name, dict(dialect.names()))
            case "isa":
                return self._closed(name, dict(dialect.instruction_names()))
            case "isa.constants":
                return self._closed(name, dict(dialect.constant_names()))
            case "compiler":
                return self._closed(name, dict(dialect.compiler_names()))
            case _:
                return UNKNOWN


SPECIALS: Final[dict[str, Special]] = {}
"""Names that the evaluator gives a meaning of its own; `specials` says which."""


def _marker(name: str) -> Special:
    return SPECIALS.setdefault(name, Special(name, lambda *_: UNKNOWN))


def _library(name: str) -> Any:
    """A module of the standard library: the part of it that is pure, and the decorators that kernels' classes use."""
    if name == "os":
        variables = UserClass("environ", (), "unknown", {"get": _marker("os.getenv")})
        return Namespace(name, {"environ": Instance(variables, {}), "getenv": _marker("os.getenv")})
    if name == "math":
        return Namespace(name, {key: getattr(math, key) for key in _MATH}, real=math)
    if name in _MARKED:
        home = "typing" if name == "typing_extensions" else name
        marked = {key: _marker(f"{home}.{key}") for key in _MARKED[name]}
        more: dict[str, dict[str, Any]] = {
            "typing": {"TYPE_CHECKING": False}, "collections": {"OrderedDict": dict},
        }  # fmt: skip
        return Namespace(name, {**marked, **more.get(name, {})})
    return UNKNOWN


_TENSOR: Final = _marker("nki.typing.tensor")
_MARKED: Final = {
    "dataclasses": ("dataclass", "field", "replace", "asdict"),
    "enum": ("Enum", "IntEnum", "StrEnum", "Flag", "auto", "unique"),
    "functools": ("partial", "lru_cache", "cache", "cached_property", "reduce", "wraps"),
    "typing": ("cast", "NamedTuple", "Protocol", "Generic", "override", "final", "runtime_checkable", "no_type_check"),
    "typing_extensions": ("NamedTuple", "Protocol", "Generic", "override", "final"),
    "abc": ("ABC", "abstractmethod"),
    "collections": ("namedtuple",),
    "itertools": ("product", "chain"),
    "copy": ("copy",),
    "operator": ("add", "sub", "mul", "floordiv", "mod", "truediv"),
}
_MATH: Final = (
    "acos", "asin", "atan", "atan2", "ceil", "copysign", "cos", "cosh", "degrees", "dist", "e", "erf", "erfc", "exp",
    "expm1", "fabs", "floor", "fmod", "frexp", "gamma", "gcd", "hypot", "inf", "isclose", "isfinite", "isinf", "isnan",
    "isqrt", "lcm", "lgamma", "log", "log10", "log1p", "log2", "modf", "nan", "pi", "pow", "prod", "radians", "sin",
    "sinh", "sqrt", "tan", "tanh", "tau", "trunc", "fsum", "factorial", "comb", "perm",
)  # fmt: skip
