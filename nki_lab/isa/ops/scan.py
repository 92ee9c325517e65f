"""Vector Engine scans: recurrences and running reductions along the free dimension."""


# mypy: disable-error-code="misc"

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nki_lab.isa.alu import AluOp, Array, identity_of
from nki_lab.isa.dtype import (
    BF16,
    F16,
    F32,
    FP8_E4M3,
    FP8_E4M3FN,
    FP8_E5M2,
    INT8,
    INT16,
    UINT8,
    UINT16,
)
from nki_lab.isa.enums import reduce_cmd as commands
from nki_lab.isa.ops.cycles import DOC_226, streaming
from nki_lab.isa.ops.elementwise import alu_ops, stage, two_inputs
from nki_lab.isa.ops.registers import commanded, commands_registers, initial_given, lanes_of, started
from nki_lab.isa.ops.shapes import one_in_sbuf, only
from nki_lab.isa.spec import (
    ONCHIP,
    Arrays,
    Beta1,
    EngineState,
    Predicate,
    Use,
    arg,
    attr,
    choice,
    column,
    instruction,
    out,
)
from nki_lab.kernel_runtime.compiled_code import WhenWorthwhile, compilable


def _states(first: AluOp, second: AluOp, left: Array, right: Array, start: Array, reverse: tuple[bool, bool]) -> Array:
    """Return every state of the recurrence, (P, F) as `left` and `right`, from a start of (P,)."""
    codes = tuple(_CODES.get((op.name, bool(swaps)), -1) for op, swaps in zip((first, second), reverse, strict=True))
    if min(codes) < 0 or start.dtype != np.float32:
        return _by_columns(first, second, left, right, start, reverse)
    compiled = _COMPILED.get()
    if compiled is None:
        with _COMPILED.replaced():
            return _by_columns(first, second, left, right, start, reverse)
    result = np.empty(left.shape, start.dtype)
    compiled(*map(np.ascontiguousarray, (left, right)), start, *codes, result)
    if np.isnan(result[:, -1]).any():  # the sides of an operator decide which NaN it is, and compilers swap them
        return _by_columns(first, second, left, right, start, reverse)
    return result


_CODES: Final = {
    ("add", False): 0, ("add", True): 0, ("multiply", False): 1, ("multiply", True): 1,
    ("subtract", False): 2, ("subtract", True): 3,
}  # fmt: skip
"""The operators of `recurrence`, by name and whether their sides are swapped."""


def recurrence(left: Array, right: Array, start: Array, first: int, second: int, result: Array) -> None:
    """Compute the recurrence row by row; arrays are (P, F) and dense."""
    for row in range(left.shape[0]):
        state = start[row]
        for at in range(left.shape[1]):
            if first == 0:
                state = left[row, at] + state
            elif first == 1:
                state = left[row, at] * state
            elif first == 2:
                state = left[row, at] - state
            else:
                state = state - left[row, at]
            if second == 0:
                state = state + right[row, at]
            elif second == 1:
                state = state * right[row, at]
            elif second == 2:
                state = state - right[row, at]
            else:
                state = right[row, at] - state
            result[row, at] = state


_COMPILED: Final = WhenWorthwhile(compilable(recurrence))


def _by_columns(
    first: AluOp, second: AluOp, left: Array, right: Array, start: Array, reverse: tuple[bool, bool]
) -> Array:
    """Return every state, (P, F): a column of all rows at a time."""
    sides = _by_element(left), _by_element(right)
    result = np.empty(sides[0].shape, start.dtype)
    _scan(first, second, *sides, start, reverse, result)
    return result.T


def _scan(
    first: AluOp, second: AluOp, left: Array, right: Array, start: Array, reverse: tuple[bool, bool], out: Array
) -> None:
    """Compute the recurrence over rows: `left`, `right` and `out` are (F, P), `start` is (P,)."""
    before, after = first.apply, second.apply
    former, between = start, np.empty_like(start)
    for a, b, result in zip(left, right, out, strict=True):
        if reverse[0]:
            before(former, a, between)
        else:
            before(a, former, between)
        if reverse[1]:
            after(b, between, result)
        else:
            after(between, b, result)
        former = result


def _running(op: AluOp, given: Array, start: Array) -> Array:
    """Return every state of a reduction of rows that starts from a column, (P, F): given[:, i] op the state before."""
    result = np.empty_like(given, order="C")
    if op.name in _ACCUMULATED and given.size:
        first = np.empty_like(start, given.dtype)
        op.apply(given[:, 0], start, first)
        result[...] = given
        result[:, 0] = first
        getattr(np, op.name).accumulate(result, axis=1, out=result)
        # NumPy has the state on the left: that decides which NaN, and which of two zeros, is the result.
        if not np.isnan(result[:, -1]).any() and not (op.selects and _has_negative_zero(given, start)):
            return result
    former = start
    moving, states = _by_element(given), np.empty(given.shape[::-1], given.dtype)
    for element, now in zip(moving, states, strict=True):
        former = op.apply(element, former, now)
    np.copyto(result, states.T)
    return result


def _has_negative_zero(*arrays: Array) -> bool:
    """Check the bits: a sign and nothing else."""
    kinds = [np.dtype(f"i{array.itemsize}") for array in arrays]
    return any(bool((array.view(kind) == np.iinfo(kind).min).any()) for array, kind in zip(arrays, kinds, strict=True))


def _by_element(tile: Array) -> Array:
    """Return a tile as a dense (elements, partitions) array."""
    return np.ascontiguousarray(tile.reshape(len(tile), -1).T)


@instruction(engine="vector", see="NKI API, nki.isa.tensor_tensor_scan")
class tensor_tensor_scan:
    """dst[i] = (data0[i] op0 dst[i - 1]) op1 data1[i] along the free dimension, starting from initial.

    The recurrence is computed in float32 and its state stays in float32 between the elements; only what is written to
    dst is cast. `reverse0` and `reverse1` swap the sides of an operator. With op0=nl.multiply and op1=nl.add it is a
    first-order linear recurrence. Tiles of several free dimensions are scanned in their row-major order.
    """

    dst = out("P F", ONCHIP, "every state of the recurrence, cast on write")
    data0 = arg("P F", ONCHIP, "first input, combined with the state")
    data1 = arg("P F", ONCHIP, "second input, combined with what op0 gives")
    initial = column("state before the first element: a number, or a tile of one column")
    op0 = attr("alu", "operator of data0 and the state")
    op1 = attr("alu", "operator of that and data1")
    reverse0 = attr("bool", "compute state op0 data0", default=False)
    reverse1 = attr("bool", "compute data1 op1 (result of op0)", default=False)

    operators = Predicate(
        "NKI215",
        "op0 and op1 are arithmetic operators of two inputs",
        lambda use: two_inputs(use, "op0", "op1"),
        operand="op0",
        help="use operators such as nl.multiply, nl.add, nl.maximum",
        accepts={"op0": "maximum"},
        refuses={"op0": "bitwise_and"},
    )
    known = alu_ops("op0", "op1")
    psum = one_in_sbuf("data0", "data1")

    example = {
        "dst": "sbuf float32 128x512",
        "data0": "sbuf float32 128x512",
        "data1": "sbuf float32 128x512",
        "initial": 0.0,
        "op0": "multiply",
        "op1": "add",
    }

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        attrs = use.attrs
        left, right = (tile.reshape(len(tile), -1) for tile in (ins.data0, ins.data1))
        start = np.empty(len(out.dst), out.dst.dtype)
        start[...] = np.reshape(ins.initial, -1)
        result = _states(attrs["op0"], attrs["op1"], left, right, start, (attrs["reverse0"], attrs["reverse1"]))
        out.dst[...] = result.reshape(out.dst.shape)

    cost = streaming("dst", 2)

    beta1 = Beta1(order="data0 data1 initial op0 op1 reverse0 reverse1")


_ACCUMULATED = ("add", "multiply", "maximum", "minimum")
_RUNNING = ("add", "subtract", "multiply", "maximum", "minimum")
_CUMULATIVE: Final = (BF16, F16, F32, FP8_E4M3, FP8_E4M3FN, FP8_E5M2, UINT8, UINT16, INT8, INT16)


def _only_loaded_start(values: dict[str, Any]) -> None:
    """Drop a start that no load_reduce reads: AWS's Beta 1 kernels pass one with every command."""
    if values.get("reduce_cmd") is not commands.load_reduce:
        values.pop("imm1", None)


@instruction(engine="vector", see="NKI API, nki.isa.tensor_scalar_cumulative")
class tensor_scalar_cumulative:
    """dst[i] = (src[i] op0 imm0) op1 dst[i - 1]: a scalar operation, then a running reduction, in float32.

    The reduction starts from the Vector Engine's accumulation registers, one per partition and shared with
    tensor_scalar_reduce, range_select, select_reduce and exponential: `reduce_cmd` reset_reduce starts them from the
    operator's identity (0 for subtract), load_reduce from imm1, reduce from what they hold. The new element is the
    left side of op1.
    """

    dst = out("P F", ONCHIP, "every state of the reduction, cast on write", dtypes=_CUMULATIVE, indirect=True)
    src = arg("P F", ONCHIP, "input tile", dtypes=_CUMULATIVE, indirect=True)
    op0 = attr("alu", "operator of the scalar stage")
    op1 = attr("alu", "running reduction: add, subtract, multiply, maximum or minimum")
    imm0 = column("a number, or a float32 tile of one column", dtypes=(F32,))
    imm1 = column("start of the reduction, with load_reduce only", dtypes=(F32,), optional=True)
    reduce_cmd = choice("how the registers start", commands.reset_reduce)

    running = Predicate(
        "NKI215",
        "op1 is add, subtract, multiply, maximum or minimum",
        only("op1", *_RUNNING, why=" is no running reduction"),
        operand="op1",
        help="use one of the five",
        accepts={"op1": "maximum"},
        refuses={"op1": "power"},
    )
    scalar_stage = Predicate(
        "NKI215",
        "op0 is an arithmetic operator of two inputs",
        lambda use: two_inputs(use, "op0"),
        operand="op0",
        help="use nisa.tensor_scalar for bit operators",
        accepts={"op0": "subtract"},
        refuses={"op0": "bitwise_or"},
    )
    known = alu_ops("op0")
    command = commanded("reset_reduce", "reduce", "load_reduce")
    start = initial_given("imm1")

    example = {
        "dst": "sbuf float32 128x512",
        "src": "sbuf float32 128x512",
        "op0": "multiply",
        "op1": "add",
        "imm0": 2.0,
    }
    keeps_state = commands_registers

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        attrs = use.attrs
        given = stage(ins.src, attrs["op0"], ins.imm0, False, np.empty(ins.src.shape, out.dst.dtype))
        op: AluOp = attrs["op1"]
        registers = lanes_of(state.vector_accumulators, use, "src")
        origin = np.float32(0) if op.name == "subtract" else identity_of(op, np.dtype(np.float32))
        former = started(registers, attrs["reduce_cmd"], origin, ins.imm1)
        result = _running(op, given.reshape(len(given), -1), former)
        registers[...] = result[:, -1]
        out.dst[...] = result.reshape(out.dst.shape)

    cost = streaming("dst", 2, source="not published: as tensor_tensor_scan, " + DOC_226, confidence="guess")

    beta1 = Beta1(returns="", adapt=_only_loaded_start)
