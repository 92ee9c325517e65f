"""Vector Engine scans: recurrences and running reductions along the free dimension."""


# mypy: disable-error-code="misc"

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.isa import enums
from nki_lab.isa.alu import AluOp, identity_of
from nki_lab.isa.arch import Arch
from nki_lab.isa.dtype import F32, INT32, UINT32
from nki_lab.isa.ops.cycles import DOC_226, engine_cost, free_size
from nki_lab.isa.ops.elementwise import alu_ops, stage
from nki_lab.isa.ops.registers import commanded, commands_registers, initial_given, lanes_of, started
from nki_lab.isa.ops.shapes import one_in_sbuf
from nki_lab.isa.spec import ONCHIP, Cost, Legacy, Use, arg, attr, instruction, out, predicate


def _two_inputs(use: Use) -> str | None:
    for name in ("op0", "op1"):
        op: AluOp = use.attrs[name]
        if op.category == "bitvec" or op.arity == 1 or op.name in ("average", "bypass"):
            return f"{name}=nl.{op.name} is no arithmetic operator of two inputs"
    return None


def _scan(first: AluOp, second: AluOp, left: Any, right: Any, start: Any, reverse: tuple[bool, bool], out: Any) -> None:
    """The recurrence over rows: `left`, `right` and `out` are (F, P), `start` is (P,)."""
    before, after = first.apply, second.apply
    held, between = start, np.empty_like(start)
    for a, b, result in zip(left, right, out, strict=True):
        if reverse[0]:
            before(held, a, between)
        else:
            before(a, held, between)
        if reverse[1]:
            after(b, between, result)
        else:
            after(between, b, result)
        held = result


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
    initial = arg("P 1", ONCHIP, "state before the first element: a number, or a float32 tile of one column",
                  scalar=True, dtypes=(F32,))  # fmt: skip
    op0 = attr("alu", "operator of data0 and the state")
    op1 = attr("alu", "operator of that and data1")
    reverse0 = attr("bool", "compute state op0 data0", default=False)
    reverse1 = attr("bool", "compute data1 op1 (result of op0)", default=False)

    operators = predicate("NKI215", "op0 and op1 are arithmetic operators of two inputs", _two_inputs, operand="op0",
                          help="use operators such as nl.multiply, nl.add, nl.maximum",
                          accepts={"op0": "maximum"}, refuses={"op0": "bitwise_and"})  # fmt: skip
    known = alu_ops("op0", "op1")
    psum = one_in_sbuf("data0", "data1")

    example = {"dst": "sbuf float32 128x512", "data0": "sbuf float32 128x512", "data1": "sbuf float32 128x512",
               "initial": 0.0, "op0": "multiply", "op1": "add"}  # fmt: skip

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        attrs, rows = use.attrs, out.dst.shape[0]
        left = np.ascontiguousarray(ins.data0.reshape(rows, -1).T)
        right = np.ascontiguousarray(ins.data1.reshape(rows, -1).T)
        start = np.empty(rows, np.float32)
        start[...] = np.reshape(ins.initial, -1)
        result = np.empty(left.shape, np.float32)
        reverse = (bool(attrs["reverse0"]), bool(attrs["reverse1"]))
        _scan(attrs["op0"], attrs["op1"], left, right, start, reverse, result)
        out.dst[...] = result.T.reshape(out.dst.shape)

    def cost(arch: Arch, use: Use) -> Cost:
        return engine_cost(arch, use, 2 * free_size(use, "dst"))

    legacy = Legacy(order=("data0", "data1", "initial", "op0", "op1", "reverse0", "reverse1"))


_RUNNING = ("add", "subtract", "multiply", "maximum", "minimum")


def _running(use: Use) -> str | None:
    op: AluOp = use.attrs["op1"]
    return None if op.name in _RUNNING else f"op1=nl.{op.name} is no running reduction"


def _arithmetic(use: Use) -> str | None:
    op: AluOp = use.attrs["op0"]
    if op.category == "bitvec" or op.arity == 1 or op.name in ("average", "bypass"):
        return f"op0=nl.{op.name} is no arithmetic operator of two inputs"
    return None


def _not_wide(use: Use) -> str | None:
    wide = [name for name in ("dst", "src") if use.dtypes[name] in (INT32, UINT32)]
    dtype = use.dtypes[wide[0]] if wide else None
    return None if dtype is None else f"{wide[0]} is {dtype.name}"


def _only_loaded_start(values: dict[str, Any]) -> None:
    """AWS's Beta 1 kernels pass a start with every command; only load_reduce reads it."""
    if values.get("reduce_cmd") is not enums.reduce_cmd.load_reduce:
        values.pop("imm1", None)


@instruction(engine="vector", see="NKI API, nki.isa.tensor_scalar_cumulative")
class tensor_scalar_cumulative:
    """dst[i] = (src[i] op0 imm0) op1 dst[i - 1]: a scalar operation, then a running reduction, in float32.

    The reduction starts from the Vector Engine's accumulation registers, one per partition and shared with
    tensor_scalar_reduce, range_select, select_reduce and exponential: `reduce_cmd` reset_reduce starts them from the
    operator's identity (0 for subtract), load_reduce from imm1, reduce from what they hold. The new element is the
    left side of op1.
    """

    dst = out("P F", ONCHIP, "every state of the reduction, cast on write", indirect=True)
    src = arg("P F", ONCHIP, "input tile", indirect=True)
    op0 = attr("alu", "operator of the scalar stage")
    op1 = attr("alu", "running reduction: add, subtract, multiply, maximum or minimum")
    imm0 = arg("P 1", ONCHIP, "a number, or a float32 tile of one column", scalar=True, dtypes=(F32,))
    imm1 = arg("P 1", ONCHIP, "start of the reduction, with load_reduce only", scalar=True, dtypes=(F32,),
               optional=True)  # fmt: skip
    reduce_cmd = attr("enum", "how the registers start", default=enums.reduce_cmd.reset_reduce, enum=enums.reduce_cmd)

    running = predicate("NKI215", "op1 is add, subtract, multiply, maximum or minimum", _running, operand="op1",
                        help="use one of the five", accepts={"op1": "maximum"}, refuses={"op1": "power"})  # fmt: skip
    scalar_stage = predicate("NKI215", "op0 is an arithmetic operator of two inputs", _arithmetic, operand="op0",
                             help="use nisa.tensor_scalar for bit operators", accepts={"op0": "subtract"},
                             refuses={"op0": "bitwise_or"})  # fmt: skip
    known = alu_ops("op0")
    narrow = predicate("NKI202", "src and dst are no 32-bit integers", _not_wide, operand="src",
                       help="copy the tile to float32 first", accepts={"src": "sbuf int16 128x512"},
                       refuses={"src": "sbuf int32 128x512"})  # fmt: skip
    command = commanded("reset_reduce", "reduce", "load_reduce")
    start = initial_given("imm1")

    example = {"dst": "sbuf float32 128x512", "src": "sbuf float32 128x512", "op0": "multiply", "op1": "add",
               "imm0": 2.0}  # fmt: skip
    keeps_state = commands_registers

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        attrs, rows = use.attrs, out.dst.shape[0]
        given = stage(ins.src, attrs["op0"], ins.imm0, False, np.empty(ins.src.shape, np.float32))
        op: AluOp = attrs["op1"]
        registers = lanes_of(state.vector_accumulators, use, "src")
        origin = np.float32(0) if op.name == "subtract" else identity_of(op, np.dtype(np.float32))
        first = started(registers, attrs["reduce_cmd"], origin, ins.imm1)
        moving = np.ascontiguousarray(given.reshape(rows, -1).T)
        result = np.empty(moving.shape, np.float32)
        held = first
        for element, now in zip(moving, result, strict=True):
            op.apply(element, held, now)
            held = now
        registers[...] = held
        out.dst[...] = result.T.reshape(out.dst.shape)

    def cost(arch: Arch, use: Use) -> Cost:
        return engine_cost(arch, use, 2 * free_size(use, "dst"), source="not published: as tensor_tensor_scan, "
                           + DOC_226, confidence="guess")  # fmt: skip

    legacy = Legacy(returns="", adapt=_only_loaded_start)
