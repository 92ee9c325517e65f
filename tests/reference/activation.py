"""activation by its documentation: op(data * scale + bias), and the sums in the Scalar Engine's registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.reference.grid import Array, Operand, Result, Rounded, single, wide
from tests.reference.reduce import total

_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def sigmoid(x: Array) -> Array:
    fall = np.exp(-np.abs(x))
    return np.where(x < 0, fall, 1.0) / (1 + fall)


def softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def normal(x: Array) -> Array:
    """The normal distribution function."""
    return 0.5 * _erfc(-x / math.sqrt(2))


def sine(x: Array) -> Array:
    """sin inside [-pi, pi]; outside the cubic of which the documentation gives the point sin(9.0) = 27.65."""
    beyond = np.abs(x) - math.pi
    return np.where(beyond > 0, np.sign(x) * (beyond**3 / 6 - beyond), np.sin(x))


SLOPE = 1.702
TANH = 2 * math.sqrt(2 / math.pi)

FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "copy": lambda x: x,
    "square": lambda x: x * x,
    "relu": lambda x: np.maximum(x, 0),
    "prelu": lambda x: np.maximum(x, 0),
    "abs": np.abs,
    "sign": np.sign,
    "exp": np.exp,
    "log": np.log,
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
    "silu_dx": lambda x: sigmoid(x) + x * sigmoid(x) * sigmoid(-x),
    "tanh": np.tanh,
    "softplus": softplus,
    "mish": lambda x: x * np.tanh(softplus(x)),
    "erf": _erf,
    "erf_dx": lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x),
    "gelu": lambda x: x * normal(x),
    "gelu_dx": lambda x: normal(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi),
    "gelu_apprx_tanh": lambda x: x * sigmoid(TANH * (x + 0.044715 * x**3)),
    "gelu_apprx_sigmoid": lambda x: x * sigmoid(SLOPE * x),
    "gelu_apprx_sigmoid_dx": lambda x: sigmoid(SLOPE * x) + SLOPE * x * sigmoid(SLOPE * x) * sigmoid(-SLOPE * x),
    "sin": sine,
    "arctan": np.arctan,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
}
EXACT = frozenset({"copy", "square", "relu", "abs", "sign", "sqrt", "reciprocal"})
# What a float32 evaluation may be off, over the larger of 1 and the result; the tests of isa.activation are tighter.
ERROR = 2.0**-20


class Registers:
    """The accumulation registers of 128 lanes: the Scalar Engine's, and apart from them the Vector Engine's.

    `random` are the words of each engine's random generators, lane by lane.
    """

    def __init__(self) -> None:
        self.value = np.zeros(128)
        self.slack = np.zeros(128)
        self.vector = np.zeros(128)
        self.vector_slack = np.zeros(128)
        self.random: dict[str, list[list[int]]] = {}

    def include(self, other: Registers) -> None:
        """Have the slack of the sums hold what other registers may have in their place."""
        with np.errstate(all="ignore"):
            self.slack = np.fmax(self.slack, np.abs(other.value - self.value) + other.slack)
            self.vector_slack = np.fmax(self.vector_slack, np.abs(other.vector - self.vector) + other.vector_slack)


def apply(op: str, z: Array) -> Rounded:
    """An activation function of float32 numbers."""
    with np.errstate(all="ignore"):
        value = np.asarray(FUNCTIONS[op](z), np.float64)
        if op in EXACT:
            return Rounded(single(value))
        return Rounded(value, ERROR * np.maximum(1, np.abs(value)))


def activation(ins: Mapping[str, Any], attrs: Mapping[str, Any], state: Registers) -> dict[str, Result]:
    data = ins["data"]
    rows = data.array.shape[0]
    with np.errstate(all="ignore"):
        z = wide(data.array.reshape(rows, -1), data.dtype)
        if "scale" in ins:
            z = single(z * column(ins["scale"]))
        if ins.get("bias") is not None:
            z = single(z + column(ins["bias"]))
    out: dict[str, Result] = {"dst": apply(attrs["op"], z)}
    command = attrs.get("reduce_cmd", "idle")
    lanes = slice(data.start, data.start + rows)
    if command in ("reset", "reset_reduce"):
        state.value[lanes] = 0
        state.slack[lanes] = 0
    if command in ("reduce", "reset_reduce"):
        _accumulate(state, lanes, out["dst"])
    if "reduce_res" in ins:
        out["reduce_res"] = Rounded(state.value[lanes].copy(), state.slack[lanes].copy())
    return out


def _accumulate(state: Registers, lanes: slice, results: Rounded) -> None:
    with np.errstate(all="ignore"):
        added = total(results.value, (1,))
        slack = added.slack + np.broadcast_to(results.slack, results.value.shape).sum(axis=1)
        state.value[lanes] += added.value
        state.slack[lanes] += slack + 2.0**-23 * np.abs(state.value[lanes])


def column(given: Any) -> Array:
    """A number, or a tile of one column, against the free dimension."""
    if isinstance(given, Operand):
        return wide(given.array, given.dtype).reshape(-1, 1)
    return single(np.float64(given))


def activation_reduce(ins: Mapping[str, Any], attrs: Mapping[str, Any], state: Registers) -> dict[str, Result]:
    return activation(ins, {**attrs, "reduce_cmd": "reset_reduce"}, state)
