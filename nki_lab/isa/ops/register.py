"""Registers of the engines' sequencers: constants, loads and stores of single numbers.

A virtual register stands for one register in each sequencer that needs its value; the compiler places them. Nothing is
computed in registers: kernels compute in SBUF and load the result. An integer is kept as it is, a float32 as a number:
it can be stored and tested, and as a loop bound or an address it is refused.
"""


# mypy: disable-error-code="misc"

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from nki_lab.diagnostic import coded_error
from nki_lab.isa.dtype import F32, INT8, INT16, INT32, UINT8, UINT16, UINT32
from nki_lab.isa.spec import (
    HBM,
    SBUF,
    Arrays,
    Cost,
    EngineState,
    Fault,
    Predicate,
    Register,
    RegisterValues,
    Unmodelled,
    Use,
    arg,
    attr,
    content_of,
    instruction,
    limit,
    out,
)

_DTYPES: Final = (INT32, UINT32, INT16, UINT16, INT8, UINT8, F32)
_SEE: Final = "NKI API, nki.isa.{}; NKI language guide, Dynamic Control Flow"
_BETA1: Final = Unmodelled("Beta 1 has no registers")


def value_of(values: Mapping[int, int | float], source: Register | int) -> int | float:
    """Return the number in a register, or the constant itself; NKI301 where nothing has been written to it.

    `values` are the registers' contents by number, where there is any.
    """
    if not isinstance(source, Register):
        return source
    value = values.get(source.number)
    if value is None:
        raise coded_error(
            "NKI301",
            f"register {source!r} is read and nothing has written it",
            limit="a register is undefined until register_alloc(value), register_move or register_load writes it",
            help="allocate it with its first value: nisa.register_alloc(0)",
        )
    return value


def integer_of(values: Mapping[int, int | float], source: Register | int, what: str) -> int:
    """Return the same where a loop bound or an address needs an integer; NKI319 for a float32 there."""
    value = value_of(values, source)
    if isinstance(value, int):
        return value
    raise coded_error(
        "NKI319",
        f"{what} is register {source!r}, which holds {value} as float32",
        limit="loop bounds and addresses are integers: a float32 in a register is its bits",
        help="convert it on the chip first: nisa.tensor_copy into an int32 tile, then register_load that",
    )


def _cost(use: Use) -> Cost:
    """Return the same time for all; guess for tensors: as long as other register instructions, wherever they are."""
    fact = use.arch.fact("sequencer_ns")
    cycles = fact.value * use.arch.ghz("sync")
    return Cost(
        interval=cycles, latency=cycles, source=fact.source, confidence="guess" if use.types else fact.confidence
    )


def _fits(use: Use) -> Fault:
    value = use.attrs["src"]
    if isinstance(value, Register) or -(2**31) <= value < 2**32:
        return None
    return f"src is {value}, a register has 32 bits"


@instruction(engine="sync", see=_SEE.format("register_move"))
class register_move:
    """dst = src between registers, or from a constant; also what register_alloc(value) records."""

    dst = attr("register_out", "register to write")
    src = attr("register_or_int", "register, or an integer constant of 32 bits")

    bits = Predicate(
        "NKI012",
        "a constant has 32 bits",
        _fits,
        operand="src",
        help="registers hold 32-bit numbers",
        accepts={"src": 2**32 - 1},
        refuses={"src": 2**32},
    )

    example = {"dst": "register", "src": 7}

    precision = "native"

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        state.values[use.attrs["dst"].number] = value_of(state.values, use.attrs["src"])

    def register_value(use: Use, values: RegisterValues) -> int | None:
        return content_of(values, use.attrs["src"])

    cost = _cost

    beta1 = _BETA1


@instruction(engine="sync", see=_SEE.format("register_load"))
class register_load:
    """dst = the one element of a tensor in SBUF or HBM."""

    dst = attr("register_out", "register to write")
    src = arg("N", (SBUF, HBM), "tensor of one element", dtypes=_DTYPES, indirect=True)

    single = limit("N <= 1", "NKI210", operand="src", help="load one element: slice the tensor to shape (1, 1)")

    example = {"dst": "register", "src": "sbuf int32 1x1"}

    precision = "native"

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        state.values[use.attrs["dst"].number] = ins.src.reshape(-1)[0].item()

    cost = _cost

    beta1 = _BETA1


@instruction(engine="sync", see=_SEE.format("register_store"))
class register_store:
    """dst, a tensor of one element in SBUF or HBM, = the number in a register.

    The 32 bits are stored as they are; guess: a narrower dst gets the low ones.
    """

    dst = out("N", (SBUF, HBM), "tensor of one element", dtypes=_DTYPES, indirect=True)
    src = attr("register", "register to read")

    single = limit("N <= 1", "NKI210", operand="dst", help="store into one element: slice the tensor to shape (1, 1)")

    example = {"dst": "sbuf int32 1x1", "src": "register 7"}

    precision = "native"

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        value = value_of(state.values, use.attrs["src"])
        bits = np.float32(value).view(np.uint32) if isinstance(value, float) else np.uint32(value & 0xFFFFFFFF)
        dtype = use.types["dst"].dtype
        out.dst[...] = bits.view(np.float32) if dtype is F32 else bits.astype(f"u{dtype.nbytes}").view(dtype.storage)

    cost = _cost

    beta1 = _BETA1
