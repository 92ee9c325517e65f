"""Vector Engine reductions along the free dimension."""


# mypy: disable-error-code="misc"

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from nki_lab.isa.alu import AluOp, identity_of
from nki_lab.isa.dtype import BF16, F32, INTEGERS
from nki_lab.isa.enums import reduce_cmd as commands
from nki_lab.isa.ops.cycles import engine_cost, free_size
from nki_lab.isa.ops.elementwise import alu_ops, operand_given, stage, unary_stage
from nki_lab.isa.ops.registers import commanded, commands_registers, initial_given, lanes_of, started, write_out
from nki_lab.isa.ops.shapes import by_partition, float32_or_bits, only
from nki_lab.isa.spec import (
    ONCHIP,
    SBUF,
    Arrays,
    Beta1,
    Cost,
    EngineState,
    Fault,
    Predicate,
    Use,
    Values,
    arg,
    attr,
    choice,
    column,
    instruction,
    out,
)


def _axes_of(axis: int | tuple[int, ...] | list[int], rank: int) -> tuple[int, ...]:
    """Return the reduced axes, sorted and non-negative."""
    given = axis if isinstance(axis, tuple | list) else (axis,)
    return tuple(sorted(a + rank if a < 0 else a for a in given))


def _axes(use: Use) -> Fault:
    shape = use.types["data"].shape
    rank = len(shape)
    axes = _axes_of(use.attrs["axis"], rank)
    if not axes:
        return "axis is empty"
    if axes[0] <= 0:
        return f"axis {use.attrs['axis']} includes the partition dimension of data {tuple(shape)}"
    if axes != tuple(range(axes[0], rank)):
        return f"axis {use.attrs['axis']} of data {tuple(shape)} is not the last {len(axes)} dimension(s)"
    return None


def _kept(use: Use) -> tuple[int, ...]:
    shape = use.types["data"].shape
    return tuple(shape[: _axes_of(use.attrs["axis"], len(shape))[0]])


def _reduction(use: Use) -> Fault:
    op = use.attrs["op"]
    # nl.average belongs to tensor_partition_reduce.
    return None if op.reduction and op.name != "average" else f"op=nl.{op.name} is not a reduction operator"


def _result_size(use: Use) -> Fault:
    if _axes(use):
        return None
    kept, dst = int(np.prod(_kept(use)[1:], dtype=int)), use.types["dst"]
    if kept == dst.free_size and dst.shape[0] == use.dims["P"]:
        return None
    return (
        f"dst is {tuple(dst.shape)}, reducing data {tuple(use.types['data'].shape)} over axis "
        f"{use.attrs['axis']} gives {use.dims['P']} partitions of {kept} element(s)"
    )


REDUCED_LAST: Final = (
    "permute the free dimensions so that the reduced ones come last; over partitions sum with a matmul by ones, or "
    "transpose the tile first"
)
"""The remedy for dimensions that the Vector Engine does not reduce."""


def _integers(text: str, result: str) -> Predicate:
    """Limit: bit operators work on integers; `result` is a dst of the example in int32."""

    def test(use: Use) -> Fault:
        if use.attrs["op"].category != "bitvec":
            return None
        for name, dtype in use.dtypes.items():
            if dtype is not None and dtype not in INTEGERS:
                return f"op=nl.{use.attrs['op'].name} works on bits of integers, {name} is {dtype.name}"
        return "negate is arithmetic and op is a bit operator" if use.attrs.get("negate") else None

    return Predicate(
        "NKI202",
        text,
        test,
        operand="op",
        help="reinterpret the tile with .view(nl.int32), or use an arithmetic operator",
        accepts={"op": "bitwise_or", "data": "sbuf int32 128x512", "dst": result},
        refuses={"op": "bitwise_or"},
    )


def _beta1_shape(values: Values) -> tuple[int, ...]:
    shape = tuple(values["data"].shape)
    axes = [axis for axis in _axes_of(values["axis"], len(shape)) if axis]  # the partition dimension is refused later
    if values.get("keepdims"):
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    kept = tuple(n for i, n in enumerate(shape) if i not in axes)
    return kept if len(kept) > 1 else (*kept, 1)


def _beta1_order(values: dict[str, Any]) -> None:
    """Walk the dimensions that are kept before those that are reduced, wherever these are among the free ones.

    The documentation asks for the last ones in a row. AWS's max pooling reduces dimensions 2 and 4 of 5 with `nl.max`,
    and public convolutions 1 and 3 of 4 with this instruction: Beta 1's compiler orders the access pattern itself.
    """
    rank = len(values["data"].shape)
    axes = _axes_of(values["axis"], rank)
    if not axes or axes[0] <= 0 or axes[-1] >= rank or len(set(axes)) < len(axes):
        return  # refused as they are
    kept = [k for k in range(rank) if k not in axes]
    if axes[0] < len(kept):
        values["data"] = values["data"].permute((*kept, *axes))
        values["axis"] = tuple(range(len(kept), rank))


@instruction(engine="vector", see="NKI API, nki.isa.tensor_reduce")
class tensor_reduce:
    """dst = reduction of data over its last free dimension(s), in float32.

    `axis` names the trailing dimensions of data as the user sees it, never the partition dimension. `negate`
    multiplies the result by -1. A reduction with subtract folds from the left.
    """

    dst = out("P R", ONCHIP, "kept elements of each partition", indirect=True)
    op = attr("alu", "reduction operator: add, subtract, multiply, maximum, minimum, logical or bit and/or/xor")
    data = arg("P F", ONCHIP, "input tile", indirect=True)
    axis = attr("axis", "a trailing free dimension, or a list of them")
    negate = attr("bool", "multiply the result by -1", default=False)
    keepdims = attr("bool", "keep reduced dimensions at size 1", default=False)

    trailing = Predicate(
        "NKI217",
        "axis names the last free dimensions in a row",
        _axes,
        operand="axis",
        help=REDUCED_LAST,
        accepts={"axis": [1]},
        refuses={"axis": 0},
    )
    reduction = Predicate(
        "NKI215",
        "op is a reduction operator",
        _reduction,
        operand="op",
        help="use add, subtract, multiply, maximum, minimum or a logical or bit and/or/xor",
        accepts={"op": "minimum"},
        refuses={"op": "equal"},
    )
    result = Predicate(
        "NKI203",
        "dst holds the kept elements",
        _result_size,
        operand="dst",
        help="allocate dst with one element for each kept one",
        refuses={"dst": "sbuf float32 128x2"},
    )
    integers = _integers("bit operators reduce integers, without negate", "sbuf int32 128x1")

    example = {"dst": "sbuf float32 128x1", "op": "add", "data": "sbuf float32 128x512", "axis": 1}

    precision = float32_or_bits("op")
    rowwise = "axis"

    def exact(use: Use) -> bool:
        return use.attrs["op"].selects and not use.attrs["negate"]

    def stacked(use: Use) -> Mapping[str, Any]:
        return {"axis": tuple(axis + 1 for axis in _axes_of(use.attrs["axis"], len(use.types["data"].shape)))}

    def shapes(use: Use) -> Mapping[str, tuple[int, ...]]:
        return {"dst": _kept(use), "data": tuple(use.types["data"].shape)}

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        axes = tuple(range(out.dst.ndim, ins.data.ndim))
        if out.dst.dtype.kind != "f" and ins.data.dtype != out.dst.dtype:
            # guess: a bit reduction works at the width of data; dst takes its low bits, or zeros in front.
            np.copyto(
                out.dst,
                use.attrs["op"].reduce(ins.data, axes, np.empty(out.dst.shape, ins.data.dtype)),
                casting="unsafe",
            )
            return
        use.attrs["op"].reduce(ins.data, axes, out.dst)
        if use.attrs["negate"]:
            np.multiply(out.dst, np.float32(-1), out=out.dst)

    def cost(use: Use) -> Cost:
        n = free_size(use, "data")
        fast = all(d is BF16 for d in use.dtypes.values()) and use.attrs["op"].name in ("add", "maximum")
        return engine_cost(use, n / 2 if fast else n)

    beta1 = Beta1(shape=_beta1_shape, order="op data axis", arrange=_beta1_order)


_FOLDS = ("add", "multiply", "maximum", "minimum")


def _folds(use: Use) -> Fault:
    """Test the operator; Beta 1 documents subtract too."""
    allowed = (*_FOLDS, "subtract") if use.dialect == "beta1" else _FOLDS
    return only("reduce_op", *allowed, why=" is not what the registers can do")(use)


def _no_bits(use: Use) -> Fault:
    op: AluOp | None = use.attrs["op0"]
    bits = op is not None and (op.category == "bitvec" or op.name in ("average", "bypass"))
    return f"op0=nl.{op} is no arithmetic operator" if bits else None


@instruction(engine="vector", see="NKI API, nki.isa.tensor_scalar_reduce")
class tensor_scalar_reduce:
    """dst = data op0 operand0, and reduce_res = reduce_op over all free elements of that, in float32.

    The reduction runs in the Vector Engine's accumulation registers, one per partition and shared with
    tensor_scalar_cumulative, range_select, select_reduce and exponential. `reduce_cmd` reset_reduce starts them from
    the operator's identity, load_reduce from reduce_init, reduce from what they hold, so that a row longer than a
    tile is reduced in several calls. `reduce_res_negate` changes what is written, not the registers. The reduction
    sees the float32 results before they are cast to dst.
    """

    dst = out("P F", ONCHIP, "element-wise result, cast on write", indirect=True)
    data = arg("P F", ONCHIP, "input tile", indirect=True)
    op0 = attr("alu", "arithmetic operator")
    operand0 = column("a number, or a float32 tile of one column", dtypes=(F32,), optional=True, explicit=True)
    reduce_op = attr("alu", "add, multiply, maximum or minimum")
    reduce_res = out("P 1", ONCHIP, "tile of one column that receives the reduction", optional=True)
    reverse0 = attr("bool", "not supported by the hardware yet: False", default=False)
    reduce_cmd = choice("how the registers start", commands.reset_reduce)
    reduce_init = column("start of the reduction, with load_reduce only", dtypes=(F32,), optional=True)
    reduce_res_negate = attr("bool", "write the reduction times -1", default=False)

    arithmetic = Predicate(
        "NKI215",
        "op0 is an arithmetic operator",
        _no_bits,
        operand="op0",
        help="use nisa.tensor_scalar for bit operators",
        accepts={"op0": "subtract"},
        refuses={"op0": "bitwise_and"},
    )
    given = Predicate(
        "NKI218",
        "op0 comes with operand0",
        operand_given("op0", "operand0"),
        operand="operand0",
        help="give the operand of an operator with two inputs",
        accepts={"operand0": 1.0},
        refuses={"operand0": None},
    )
    known = alu_ops("op0")
    unary = unary_stage("use nisa.activation with reduce_op=nl.add", "square")
    fold = Predicate(
        "NKI215",
        "reduce_op is add, multiply, maximum or minimum",
        _folds,
        operand="reduce_op",
        help="use one of the four",
        accepts={"reduce_op": "maximum"},
        refuses={"reduce_op": "subtract"},
    )
    forward = Predicate(
        "NKI221",
        "reverse0 is not supported yet",
        lambda use: "reverse0=True" if use.attrs["reverse0"] else None,
        operand="reverse0",
        help="use nisa.tensor_scalar with reverse0 and nisa.tensor_reduce",
        accepts={"reverse0": False},
        refuses={"reverse0": True},
    )
    command = commanded("reset_reduce", "reduce", "load_reduce")
    initial = initial_given("reduce_init")

    example = {
        "dst": "sbuf float32 128x512",
        "data": "sbuf float32 128x512",
        "op0": "multiply",
        "operand0": 2.0,
        "reduce_op": "add",
        "reduce_res": "sbuf float32 128x1",
    }
    keeps_state = commands_registers

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        attrs = use.attrs
        result = stage(ins.data, attrs["op0"], ins.operand0, False, out.dst)
        if result is not out.dst:
            np.copyto(out.dst, result)
        op: AluOp = attrs["reduce_op"]
        registers = lanes_of(state.vector_accumulators, use, "data")
        identity = identity_of(op, np.dtype(np.float32))
        first = started(registers, attrs["reduce_cmd"], 0 if identity is None else identity, ins.reduce_init)
        folded = op.folded(out.dst)
        registers[...] = folded if identity is None else op.apply(first, folded, first)
        write_out(registers * np.float32(-1) if attrs["reduce_res_negate"] else registers, out)

    def cost(use: Use) -> Cost:
        least = use.arch.min_initiation_interval
        return engine_cost(use, max(free_size(use, "dst"), least) + least)

    beta1 = Beta1(without="reduce_cmd reduce_init reduce_res_negate")


_ACROSS = ("add", "average", "maximum", "bitwise_or", "bitwise_and")


@instruction(engine="gpsimd", see="NKI API, nki.isa.tensor_partition_reduce")
class tensor_partition_reduce:
    """dst[0, f] = op over the partitions of data[:, f], on GpSimd; slow, a matmul with ones is the fast way to add.

    Arithmetic is float32; bit operators fold raw integers. `nl.average` divides the sum by the number of partitions.
    """

    dst = out("1 F", (SBUF,), "one partition of results, cast on write")
    op = attr("alu", "add, average, maximum, bitwise_or or bitwise_and")
    data = arg("P F", (SBUF,), "input tile")

    across = Predicate(
        "NKI215",
        "op is add, average, maximum, bitwise_or or bitwise_and",
        only("op", *_ACROSS, why=" does not reduce across partitions"),
        operand="op",
        help="use one of the five",
        accepts={"op": "maximum"},
        refuses={"op": "minimum"},
    )
    integers = _integers("bit operators fold integers", "sbuf int32 1x512")

    example = {"dst": "sbuf float32 1x512", "op": "add", "data": "sbuf float32 128x512"}

    precision = float32_or_bits("op")

    def exact(use: Use) -> bool:
        return bool(use.attrs["op"].selects)

    shapes = by_partition

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        op: AluOp = use.attrs["op"]
        result = getattr(np, "add" if op.name == "average" else op.name).reduce(ins.data, axis=0)
        if op.name == "average":
            result = result / np.float32(ins.data.shape[0])
        np.copyto(out.dst[0], result, casting="unsafe")

    def cost(use: Use) -> Cost:
        return engine_cost(
            use,
            use.types["data"].shape[0] * free_size(use, "data"),
            source="not published, 'very slow': one element a cycle",
            confidence="guess",
        )

    beta1 = Beta1(shape=lambda v: (1, *v["data"].shape[1:]), order="op data")
