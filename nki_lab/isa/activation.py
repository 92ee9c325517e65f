"""The functions of the scalar engine's activation unit.

Source of names and valid ranges: the table "Supported Activation Functions" of the NKI API reference. The hardware
evaluates piecewise polynomials; their coefficients are not published. The numerics here is the ideal function rounded
to float32, outside the valid range too, computed in float32: within a few units in the last place where the result is
of the argument's order, relatively less accurate in vanishing tails and beside zeros of derivatives (the bounds are in
the tests). The exception is `sin`, whose behaviour outside [-pi, pi] is documented by an example; see `_sin`.

`apply(x, out)` writes f(x) into `out` and returns it; both are float32 arrays of at least one dimension, and `out` may
be `x` itself. `prelu` takes its slope as third argument. NumPy's floating-point warnings are the caller's to silence,
as in `isa.alu`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki_lab.diagnostic import coded_error
from nki_lab.isa.arch import Confidence
from nki_lab.isa.spelling import did_you_mean
from nki_lab.printable import shown

Array = NDArray[Any]

# Constants are arrays of no dimension, which NumPy takes faster than its scalars; and `clip` is three times as fast as
# `maximum` with a constant.
_ONE: Final = np.array(1, np.float32)
_ZERO: Final = np.array(0, np.float32)
# -x is x times this: np.negative of NumPy 2.4 gives wrong numbers where elements lie 16 bytes apart (AVX-512).
_MINUS: Final = np.array(-1, np.float32)
_LOWEST: Final = np.array(-(2 - 2**-23) * 2.0**127, np.float32)
_INFINITY: Final = np.array(np.inf, np.float32)
_FAR: Final = np.array(20, np.float32)  # where every function built from the normal distribution has reached its limit
# Elements a block of the functions with many temporaries: half a dozen of 64 KiB stay in a core's level-2 cache.
_BLOCK: Final = 1 << 14


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Activation:
    """One activation function; the only instances are those of `ACTIVATIONS`.

    `valid` bounds the inputs (inclusive) for which the hardware's result means something; with `valid_by_magnitude`
    they bound |x|. `parameter` names the extra argument of `apply`, where there is one.
    A function that `decides` jumps where its argument changes sign.
    `table_set` names the coefficient table the function needs: following activations of the same set cost no load,
    None needs none. `table_source` and `table_confidence` say how far to trust that.
    """

    name: str
    formula: str
    apply: Callable[..., Array]
    table_set: str | None = None
    valid: tuple[float, float] = (float("-inf"), float("inf"))
    valid_by_magnitude: bool = False
    since: int = 2
    parameter: str = ""
    table_source: str = "grouped by what a function is built from; which functions share a table is not published"
    table_confidence: Confidence = "guess"
    decides: bool = False

    @property
    def nki_op(self) -> str:
        """Name in nki.language, which kernels write."""
        return self.name

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return (activation_of, (self.name,))


def _copy(x: Array, out: Array) -> Array:
    if out is not x:
        np.copyto(out, x)
    return out


def _prelu(x: Array, out: Array, relu_param: Any = 0.0) -> Array:
    """x where x > 0, else `relu_param` times x; the slope is a number or an array that broadcasts against x."""
    np.copyto(out, np.where(x > 0, x, np.multiply(x, relu_param, dtype=x.dtype)))
    return out


def _rsqrt(x: Array, out: Array) -> Array:
    np.sqrt(x, out=out)
    return _reciprocal(out, out)


def _reciprocal(x: Array, out: Array) -> Array:
    return np.divide(_ONE, x, out=out)


def _sin(x: Array, out: Array) -> Array:
    """sin x inside [-pi, pi]; outside, the cubic that the hardware's last polynomial piece continues with.

    The documentation gives one point: sin(9.0) is about 27.65. The Taylor cubic of sin around pi, -d + d**3/6 with
    d = x - pi, gives 27.652 there and meets sin at pi with its slope and curvature; odd symmetry gives the other side.
    Inferred from that point: the true coefficients are a fit and may differ in later digits.
    """
    beyond = np.absolute(x) > np.float32(math.pi)
    if not beyond.any():
        np.sin(x, out=out)
        return out
    outside = x[beyond].astype(np.float64)
    distance = np.absolute(outside) - math.pi
    cubic = distance * (distance * distance / 6 - 1)
    np.sin(x, out=out)
    out[beyond] = np.copysign(1, outside) * cubic
    return out


def _sigmoid(x: Array, out: Array) -> Array:
    """1 / (1 + e**-x); what would be below 2**-128 flushes to zero, because e**-x overflows there."""
    np.multiply(x, _MINUS, out=out)
    np.exp(out, out=out)
    np.add(out, _ONE, out=out)
    return _reciprocal(out, out)


def _gate(x: Array, exponent: Array, out: Array) -> Array:
    """x / (1 + e**exponent), and 0 where x is -inf; `exponent` is spent.

    Results smaller than 89 * 2**-128 flush to zero, as in `_sigmoid`.
    """
    np.exp(exponent, out=exponent)
    np.add(exponent, _ONE, out=exponent)
    x.clip(_LOWEST, _INFINITY, out=out)
    return np.divide(out, exponent, out=out)


def _gated(rate: NDArray[np.float32] | np.float32) -> Callable[[Array, Array], Array]:
    """x * sigmoid(-rate * x)."""
    return lambda x, out: _gate(x, np.multiply(x, rate), out)


def _gelu_apprx_tanh(x: Array, out: Array) -> Array:
    # 0.5 (1 + tanh t) is sigmoid(2 t): no cancellation where t is very negative.
    exponent = np.multiply(x, x)
    np.multiply(exponent, np.float32(-2 * math.sqrt(2 / math.pi) * 0.044715), out=exponent)
    np.subtract(exponent, np.float32(2 * math.sqrt(2 / math.pi)), out=exponent)
    np.multiply(exponent, x, out=exponent)
    return _gate(x, exponent, out)


def _softplus(x: Array, out: Array) -> Array:
    tail = np.absolute(x)
    np.multiply(tail, _MINUS, out=tail)
    np.exp(tail, out=tail)
    np.log1p(tail, out=tail)
    x.clip(_ZERO, _INFINITY, out=out)
    return np.add(out, tail, out=out)


def _mish(x: Array, out: Array) -> Array:
    # tanh(ln(1 + t)) = n / (n + 2) with n = t (t + 2), t = e**x; long before x = 20 it is 1 in float32.
    ratio = x.clip(-_INFINITY, _FAR)
    np.exp(ratio, out=ratio)
    np.multiply(ratio, ratio + np.float32(2), out=ratio)
    np.divide(ratio, ratio + np.float32(2), out=ratio)
    x.clip(_LOWEST, _INFINITY, out=out)
    np.multiply(out, ratio, out=out)
    return out


def _in_blocks(function: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    """`function`, which makes many temporaries, applied to one block at a time so that they stay in the cache."""

    def apply(x: Array, out: Array) -> Array:
        source = np.ascontiguousarray(x).reshape(-1)
        target = out.reshape(-1) if out.flags.c_contiguous else np.empty(source.size, out.dtype)
        for start in range(0, source.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            target[block] = function(source[block])
        if not out.flags.c_contiguous:
            np.copyto(out, target.reshape(out.shape))
        return out

    return apply


def _gaussian(x: Array, rate: float) -> Array:
    """e**(-rate * x**2) for a `rate` that is a power of two.

    The square is taken exactly, as head**2 + (x - head) * (x + head) with 12 bits in head: rounding it would cost as
    many units in the last place as the exponent is large.
    """
    if x.dtype != np.float32:  # wider: the square needs no parts
        wide: Array = np.exp(x * x * -rate)
        return wide
    head: Array = np.bitwise_and(x.view(np.uint32), _HEAD).view(np.float32)
    rest = x - head
    rest *= x + head
    rest *= np.float32(-rate)
    np.exp(rest, out=rest)
    head *= head
    head *= np.float32(-rate)
    np.exp(head, out=head)
    head *= rest
    return head


# -ln(erfc(z)) / z - z for z in [0, 10.5] as a polynomial in u = (z - 4) / (z + 4), highest power first: our own
# Chebyshev fit to the C library's erfc, within 1.04e-9.
_LOG_ERFC: Final = tuple(
    np.array(coefficient, np.float32)
    for coefficient in (
        -0.0001381595269976, -0.001212047660408, -0.002516764791246, -0.001177887965959,
        -0.002571181684879, -0.00669567157565, 0.00335005101261, -0.01435345209311,
        -0.03561330557729, 0.0962489238212, -0.5211353643139, 0.4969445773139,
    )
)  # fmt: skip
_FIT_END: Final = np.array(10.5, np.float32)
_FOUR: Final = np.array(4, np.float32)
_HEAD: Final = np.array(0xFFFFF000, np.uint32)


def _log_erfcx(z: Array) -> Array:
    """ln(e**(z**2) * erfc(z)) for z in [0, 10.5], where erfc(z) is not yet below float32."""
    u = z - _FOUR
    u /= z + _FOUR
    value: Array = u * _LOG_ERFC[0]
    value += _LOG_ERFC[1]
    for coefficient in _LOG_ERFC[2:]:
        value *= u
        value += coefficient
    value *= z
    return np.multiply(value, _MINUS, out=value)


def _erf(x: Array) -> Array:
    z = np.absolute(x)
    z.clip(_ZERO, _FIT_END, out=z)
    log_erfc = _log_erfcx(z)
    z *= z
    log_erfc -= z
    np.expm1(log_erfc, out=log_erfc)
    np.copysign(log_erfc, x, out=log_erfc)
    return log_erfc


def _normal_tail(distance: Array) -> tuple[Array, Array]:
    """The share of the standard normal distribution beyond `distance` >= 0, and e**(-distance**2 / 2).

    Both are accurate relative to their own size.
    """
    gaussian = _gaussian(distance, 0.5)
    z = distance * np.float32(math.sqrt(0.5))
    z.clip(_ZERO, _FIT_END, out=z)
    tail = _log_erfcx(z)
    np.exp(tail, out=tail)
    tail *= gaussian
    tail *= np.float32(0.5)
    return tail, gaussian


def _gelu(x: Array) -> Array:
    # x * Phi(x) is max(x, 0) less |x| times the share beyond |x|: no select, and no inf * 0 with |x| held.
    distance = np.absolute(x)
    distance.clip(_ZERO, _FAR, out=distance)
    tail, _ = _normal_tail(distance)
    tail *= distance
    np.subtract(x.clip(_ZERO, _INFINITY), tail, out=tail)
    return tail


def _gelu_dx(x: Array) -> Array:
    x = x.clip(-_FAR, _FAR)
    tail, density = _normal_tail(np.absolute(x))
    density *= x
    density *= np.float32(1 / math.sqrt(2 * math.pi))
    density += np.where(x > 0, _ONE - tail, tail)
    return density


def _erf_dx(x: Array) -> Array:
    density = _gaussian(x.clip(-_FAR, _FAR), 1.0)
    density *= np.float32(2 / math.sqrt(math.pi))
    return density


def _logistic_gate_dx(slope: float) -> Callable[[Array], Array]:
    """The derivative of x * sigmoid(slope * x): s + slope * x * s * (1 - s)."""
    factor, far = np.array(slope, np.float32), np.array(200, np.float32)

    def derivative(x: Array) -> Array:
        scaled = x * factor
        scaled.clip(-far, far, out=scaled)
        fall = np.exp(-np.absolute(scaled))
        share = _ONE / (_ONE + fall)
        low = fall * share
        sigmoid = np.where(scaled < 0, low, share)
        scaled *= low
        scaled *= share
        sigmoid += scaled
        return sigmoid

    return derivative


ACTIVATIONS: Final[Mapping[str, Activation]] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            Activation("copy", "x", _copy),
            Activation("square", "x^2", np.square),
            Activation("relu", "max(x, 0)", lambda x, out: x.clip(_ZERO, _INFINITY, out=out)),
            # since: inferred from activate2, the only instruction with a slope.
            Activation("prelu", "x if x > 0 else relu_param * x", _prelu, since=4, parameter="relu_param"),
            Activation("abs", "|x|", np.absolute),
            Activation("sign", "-1, 0 or 1", np.sign, decides=True),
            Activation("exp", "e^x", np.exp, table_set="exp"),
            Activation("log", "ln x", np.log, table_set="log", valid=(2.0**-64, 2.0**64)),
            Activation("sigmoid", "1 / (1 + e^-x)", _sigmoid, table_set="sigmoid"),
            Activation("silu", "x * sigmoid(x)", _gated(_MINUS), table_set="silu"),
            Activation(
                "silu_dx", "s * (1 + x * (1 - s)), s = sigmoid(x)", _in_blocks(_logistic_gate_dx(1.0)), table_set="silu"
            ),
            Activation("tanh", "tanh x", np.tanh, table_set="tanh"),
            Activation("softplus", "ln(1 + e^x)", _softplus, table_set="softplus"),
            Activation("mish", "x * tanh(softplus(x))", _mish, table_set="softplus"),
            Activation("erf", "erf x", _in_blocks(_erf), table_set="erf"),
            Activation("erf_dx", "2 / sqrt(pi) * e^(-x^2)", _in_blocks(_erf_dx), table_set="erf"),
            Activation("gelu", "0.5 * x * (1 + erf(x / sqrt(2)))", _in_blocks(_gelu), table_set="gelu"),
            Activation(
                "gelu_dx", "Phi(x) + x * phi(x), the normal distribution", _in_blocks(_gelu_dx), table_set="gelu"
            ),
            Activation(
                "gelu_apprx_tanh",
                "0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))",
                _gelu_apprx_tanh,
                table_set="gelu_apprx_tanh",
            ),
            Activation(
                "gelu_apprx_sigmoid",
                "x * sigmoid(1.702 * x)",
                _gated(np.float32(-1.702)),
                table_set="gelu_apprx_sigmoid",
            ),
            Activation(
                "gelu_apprx_sigmoid_dx",
                "s + 1.702 * x * s * (1 - s), s = sigmoid(1.702 * x)",
                _in_blocks(_logistic_gate_dx(1.702)),
                table_set="gelu_apprx_sigmoid",
            ),
            Activation("sin", "sin x", _sin, table_set="trigonometric", valid=(-math.pi, math.pi)),
            Activation("arctan", "atan x", np.arctan, table_set="trigonometric", valid=(-math.pi / 2, math.pi / 2)),
            Activation("sqrt", "sqrt x", np.sqrt, table_set="sqrt", valid=(2.0**-116, 2.0**118)),
            Activation("rsqrt", "1 / sqrt x", _rsqrt, table_set="rsqrt", valid=(2.0**-87, 2.0**97)),
            Activation(
                "reciprocal",
                "1 / x",
                _reciprocal,
                table_set="reciprocal",
                valid=(2.0**-42, 2.0**42),
                valid_by_magnitude=True,
            ),
        )
    }
)


# NumPy functions that older kernels pass in place of nl.<name>.
_ALIASES: Final = {"absolute": "abs"}


def activation_of(spelling: object) -> Activation:
    """Return the function that a user means: an Activation, a name, or a function with one (`np.exp`, `nl.gelu`).

    Raises NKI012 for anything else.
    """
    if isinstance(spelling, Activation):
        return spelling
    name = spelling if isinstance(spelling, str) else getattr(spelling, "__name__", None)
    found = ACTIVATIONS.get(_ALIASES.get(name, name)) if isinstance(name, str) else None
    if found is not None:
        return found
    raise coded_error(
        "NKI012",
        f"{name or shown(spelling)} is no activation function",
        operand="op",
        limit="one of the functions of the NKI API reference, Supported Activation Functions",
        help=did_you_mean(name, ACTIVATIONS) if name else "",
    )
