"""Values for arguments of which only the shape is given: `randn(seed=0)`, `uniform`, `ones`, `zeros`, `arange`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

import numpy as np

from nki_lab.diagnostic import coded_error
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.session.arrays import Array

Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]

_DRAWS: Final[dict[str, Draw]] = {
    "randn": lambda generator, shape: generator.standard_normal(shape, np.float32),
    "uniform": lambda generator, shape: generator.random(shape, np.float32),
    "ones": lambda _, shape: np.ones(shape, np.float32),
    "zeros": lambda _, shape: np.zeros(shape, np.float32),
    "arange": lambda _, shape: np.arange(np.prod(shape), dtype=np.float32).reshape(shape),
}
NAMES: Final = tuple(_DRAWS)
_WIDEST: Final = 8  # integers are drawn from a range that every integer dtype has


def maker(text: str) -> Callable[[TensorSpec], Array]:
    """The function that makes an array for a spec; one after the other, they differ. NKI012 for an unknown `text`."""
    name, seed = _read(text)
    generator = np.random.default_rng(seed)

    def make(spec: TensorSpec) -> Array:
        kind = np.dtype(spec.dtype.host)
        if name in ("randn", "uniform") and kind.kind in "iub":
            low = 0 if kind.kind in "ub" or name == "uniform" else -_WIDEST
            return generator.integers(low, 2 if kind.kind == "b" else _WIDEST, spec.shape).astype(kind)
        return _DRAWS[name](generator, spec.shape).astype(kind)

    return make


def _read(text: str) -> tuple[str, int]:
    """Name and seed of `randn(seed=3)`; the seed is 0 where none is given."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise _unknown(text) from None
    name, seed = node, 0
    if isinstance(node, ast.Call):
        name = node.func
        given = [*node.args, *(item.value for item in node.keywords if item.arg == "seed")]
        if len(given) != len(node.args) + len(node.keywords) or len(given) > 1:
            raise _unknown(text)
        for value in given:
            if not (isinstance(value, ast.Constant) and type(value.value) is int and value.value >= 0):
                raise _unknown(text)
            seed = value.value
    if not isinstance(name, ast.Name) or name.id not in _DRAWS:
        raise _unknown(text)
    return name.id, seed


def _unknown(text: str) -> Exception:
    return coded_error(
        "NKI012",
        f"inputs are {text!r}",
        operand="inputs",
        help=did_you_mean(text.partition("(")[0], NAMES) or "for example randn(seed=0)",
        limit=f"inputs: {', '.join(NAMES)}, the first two with a seed",
    )
