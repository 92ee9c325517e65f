"""What imports give inside an evaluation: this package's own namespaces, and nothing that would have to be loaded."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable
from functools import cache
from types import ModuleType
from typing import Any, Final

from nki_lab.diagnostic import NkiError, diagnose, error_of
from nki_lab.isa.dtype import DTYPES
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.frontend import language
from nki_lab.kernel_runtime.frontend.evaluator.values import UNKNOWN, Namespace, Special

LEGACY_ROOT: Final = "neuronxcc.nki"
_LEGACY_MODULE: Final = "nki_lab.kernel_runtime.frontend.legacy"
ENTRIES: Final = frozenset({"jit", "baremetal", "benchmark", "profile", "trace", "simulate", "simulate_kernel"})


def missing_name(module: str, name: str, known: Iterable[str]) -> NkiError:
    """The error of a name that a closed NKI module does not have, with the closest ones it has."""
    short = {"nki.language": "nl", "nki.isa": "nisa"}.get(module, module)
    return error_of(
        diagnose(
            "NKI006",
            f"{short} has no {name}",
            limit=f"the names of {module}",
            help=did_you_mean(name, known),
        )
    )


@cache
def legacy_dialect() -> ModuleType | None:
    """The front end of `neuronxcc.nki`; None where this installation has none."""
    try:
        return importlib.import_module(_LEGACY_MODULE)
    except ModuleNotFoundError as error:
        if error.name != _LEGACY_MODULE:
            raise
        return None


class Imports:
    """The modules one evaluation can import, by dotted name; their contents are made when first asked for."""

    def __init__(self, numpy: Namespace, host: dict[str, Namespace]) -> None:
        self._made: dict[str, Any] = {"numpy": numpy, **host}
        self.doors: dict[int, Any] = {}

    def module(self, name: str) -> Any:
        """The namespace of a module, UNKNOWN for one that is not ours to show."""
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> Any:
        match name:
            case "nki":
                return Namespace(name, self._package(name))
            case "nki.language":
                return self._closed(name, {"no_reorder": _NO_REORDER} | language.names())
            case "nki.isa":
                return self._closed(name, language.instruction_names())
            case "nki.isa.constants":
                return Namespace(name, self.module("nki.isa").names)
            case "nki.typing" | "neuronxcc.nki.typing":
                return Namespace(name, {"tensor": _TENSOR, "mutable_tensor": _TENSOR})
            case "nki.dtype":
                return Namespace(name, {key: kind.host for key, kind in DTYPES.items()})
            case "ml_dtypes":
                return Namespace(name, {key: kind.host for key, kind in DTYPES.items()})
            case "math":
                return Namespace(name, {key: getattr(math, key) for key in _MATH})
            case "dataclasses":
                return Namespace(name, {key: _marker(f"dataclasses.{key}") for key in ("dataclass", "field", "replace", "asdict", "astuple")})
            case "enum":
                return Namespace(name, {key: _marker(f"enum.{key}") for key in _ENUM})
            case "functools":
                return Namespace(name, {key: _marker(f"functools.{key}") for key in _FUNCTOOLS})
            case "typing":
                return Namespace(name, {"TYPE_CHECKING": False, "cast": _marker("typing.cast")})
            case _:
                return self._legacy(name)

    def _package(self, name: str) -> dict[str, Any]:
        inner = ("language", "isa", "typing", "dtype")
        return {key: _marker(f"nki.{key}") for key in ENTRIES} | {key: self.module(f"{name}.{key}") for key in inner}

    def _closed(self, name: str, names: dict[str, Any]) -> Namespace:
        self.doors |= {id(value): value for value in names.values() if callable(value)}
        return Namespace(name, names, closed=True)

    def _legacy(self, name: str) -> Any:
        if name not in (LEGACY_ROOT, f"{LEGACY_ROOT}.language", f"{LEGACY_ROOT}.isa"):
            return UNKNOWN
        dialect = legacy_dialect()
        if name == LEGACY_ROOT:
            own = {key: _marker(f"nki.{key}") for key in ENTRIES}
            return Namespace(name, own | {key: self.module(f"{name}.{key}") for key in ("language", "isa", "typing")})
        if dialect is None:
            return UNKNOWN
        names = dialect.names() if name.endswith("language") else dialect.instruction_names()
        return self._closed(name, dict(names))


SPECIALS: Final[dict[str, Special]] = {}
"""Names that the evaluator gives a meaning of its own; `specials` says which."""


def _marker(name: str) -> Special:
    return SPECIALS.setdefault(name, Special(name, lambda *_: UNKNOWN))


_TENSOR: Final = _marker("nki.typing.tensor")
_NO_REORDER: Final = _marker("nki.language.no_reorder")
_ENUM: Final = ("Enum", "IntEnum", "StrEnum", "auto", "unique")
_FUNCTOOLS: Final = ("partial", "lru_cache", "cache", "wraps", "cached_property")
# Of constant cost, or bounded by the size of their arguments, which are bounded.
_MATH: Final = (
    "acos", "asin", "atan", "atan2", "ceil", "copysign", "cos", "cosh", "degrees", "dist", "e", "erf", "erfc", "exp",
    "expm1", "fabs", "floor", "fmod", "frexp", "gamma", "gcd", "hypot", "inf", "isclose", "isfinite", "isinf", "isnan",
    "isqrt", "lcm", "lgamma", "log", "log10", "log1p", "log2", "modf", "nan", "pi", "pow", "prod", "radians", "sin",
    "sinh", "sqrt", "tan", "tanh", "tau", "trunc", "fsum", "factorial", "comb", "perm",
)  # fmt: skip
