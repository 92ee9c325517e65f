"""Scalar Engine: activation functions with fused scale, bias and accumulation."""


# mypy: disable-error-code="misc"

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from nki_lab.isa.alu import AluOp, Array, identity_of
from nki_lab.isa.dtype import BF16, F16, F32, FP8_E4M3, FP8_E5M2, INT8, INT16, INT32, TF32, UINT8, UINT16, UINT32
from nki_lab.isa.enums import reduce_cmd as commands
from nki_lab.isa.ops.cycles import DOC_226, engine_cost, free_size
from nki_lab.isa.ops.elementwise import stage
from nki_lab.isa.ops.registers import commanded, commands_registers, initial_given, lanes_of, started, summed, write_out
from nki_lab.isa.ops.shapes import one_dtype, only
from nki_lab.isa.spec import (
    ONCHIP,
    Arrangement,
    Arrays,
    Beta1,
    Cost,
    EngineState,
    Fault,
    Fold,
    Implicit,
    Predicate,
    Unmodelled,
    Use,
    arg,
    attr,
    choice,
    column,
    instruction,
    out,
)

_COLUMNS: Final = {"bias": (F32, F16, BF16), "scale": (F32,)}
"""Columns that Beta 1 does not convert."""


def _known_function(use: Use) -> Fault:
    op = use.attrs["op"]
    return use.before(op.since, f"op=nl.{op.name} needs")


def _bias_kind(use: Use) -> Fault:
    bias = use.dtypes["bias"]
    if bias is TF32:
        return "bias is tfloat32"
    if use.arch.generation == 2:
        if bias is None and use.value("bias") not in (None, 0):
            return f"bias is the number {use.value('bias')}, {use.arch.name} takes a tile of one column"
        if use.attrs["op"].name == "reciprocal" and bias is not None:
            return f"reciprocal takes no bias on {use.arch.name}"
    return None


def _bias_constant(use: Use) -> tuple[Implicit, ...]:
    """Return the column of constants that the engine adds where a call gives no bias tile."""
    zeros = Implicit(operand="bias", text=f"{use.name} has no bias tile", help="pass a column of zeros as bias")
    return (zeros,) if use.types["bias"] is None else ()


def _activate(dst: Array, ins: Arrays, use: Use) -> None:
    """Compute dst = op(data * scale + bias)."""
    source = ins.data
    if use.value("scale") != 1.0:
        np.multiply(source, ins.scale, out=dst)
        source = dst
    if use.value("bias") not in (None, 0):
        np.add(source, ins.bias, out=dst)
        source = dst
    use.attrs["op"].apply(source, dst)


def _accumulate(out: Arrays, use: Use, state: EngineState, command: commands) -> None:
    """Sum the results into the registers as the command says, and write these to reduce_res where it is given."""
    registers = lanes_of(state.scalar_accumulators, use, "data")
    if command in (commands.reset, commands.reset_reduce):
        registers[...] = 0
    if command in (commands.reduce, commands.reset_reduce):
        registers += summed(out.dst)
    write_out(registers, out)


_BIAS: Final = column("tile of one column (NeuronCore-v3: or a number) added before the function", optional=True)
_SCALE: Final = column("number or float32 tile of one column multiplied first", dtypes=(F32,), default=1.0)
_KNOWN: Final = Predicate(
    "NKI221",
    "op exists on the target",
    _known_function,
    operand="op",
    target="trn2",
    help="use a function that the target has",
    accepts={"op": "gelu"},
    refuses={"op": "prelu"},
)
_BIAS_KIND: Final = Predicate(
    "NKI221",
    "bias: not tfloat32; on NeuronCore-v2 a tile, and none with reciprocal",
    _bias_kind,
    operand="bias",
    help="memset a tile of one column and pass that",
    target="trn1",
    accepts={"bias": "sbuf float32 128x1"},
    refuses={"bias": 1.5},
)
_ADDS: Final = Predicate(
    "NKI215",
    "reduce_op is nl.add",
    only("reduce_op", "add", "None", why=", the accumulator adds"),
    operand="reduce_op",
    help="use nisa.tensor_reduce for other reductions",
    accepts={"reduce_op": "add"},
    refuses={"reduce_op": "maximum"},
)


def _cost(use: Use, *, always: bool = False, confidence: str = "documented") -> Cost:
    """Return the cost with the time in which the registers are written to reduce_res, where it is given."""
    base = engine_cost(
        use,
        free_size(use, "dst"),
        source=DOC_226 if confidence == "documented" else "as activation, " + DOC_226,
        confidence=confidence,
    )
    extra = use.arch.act_read_accumulator_cycles if always or use.types["reduce_res"] is not None else 0
    return replace(base, interval=base.interval + extra, latency=base.latency + extra, apart=base.apart + extra)


@instruction(engine="scalar", see="NKI API, nki.isa.activation")
class activation:
    """dst = op(data * scale + bias), in float32, with an optional sum along the free dimension.

    Each of the engine's 128 lanes has one float32 accumulation register, shared with activation_reduce and
    activate2. `reduce_cmd` reset clears it, reduce adds this call's results to it, reset_reduce does both, idle (the
    default) leaves it alone. `reduce_res`, when given, receives the registers after the update. The sum is taken
    over the float32 results before they are cast to dst.
    """

    dst = out("P F", ONCHIP, "result, cast on write", indirect=True)
    op = attr("activation", "activation function")
    data = arg("P F", ONCHIP, "input tile", indirect=True)
    bias = _BIAS
    scale = _SCALE
    reduce_op = attr("alu", "nl.add, or None", default=None)
    reduce_res = out("P 1", ONCHIP, "tile of one column that receives the registers", optional=True)
    reduce_cmd = choice("what happens to the accumulation registers", commands.idle)

    known = _KNOWN
    bias_kind = _BIAS_KIND
    adds = _ADDS
    command = commanded("idle", "reset", "reduce", "reset_reduce")

    example = {"dst": "sbuf float32 128x512", "op": "exp", "data": "sbuf float32 128x512"}
    history = {"activation_table": "op"}
    keeps_state = commands_registers

    elementwise = True
    folds = Fold("reduce_res", "reduce_op", {"reduce_cmd": commands.reset_reduce})
    implicit_operands = _bias_constant

    def exact(use: Use) -> bool:
        plain = use.value("scale") == 1.0 and use.value("bias") in (None, 0) and use.types["reduce_res"] is None
        return plain and use.attrs["op"].name in ("copy", "relu", "abs")

    def moves(use: Use) -> Arrangement:
        copies = activation.exact(use) and use.attrs["op"].name == "copy"
        return "in order" if copies and use.attrs["reduce_cmd"] is commands.idle else ""

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        _activate(out.dst, ins, use)
        command = use.attrs["reduce_cmd"]
        if command is not commands.idle or out.reduce_res is not None:
            _accumulate(out, use, state, command)

    cost = _cost

    beta1 = Beta1(order="op data", dtypes=_COLUMNS)


@instruction(engine="scalar", see="NKI API, nki.isa.activation_reduce")
class activation_reduce:
    """dst = op(data * scale + bias), and reduce_res = the sum of that along the free dimension, in float32.

    The same as activation with reduce_cmd=reset_reduce and a reduce_res: it uses, and leaves its sums in, the Scalar
    Engine's accumulation registers.
    """

    dst = out("P F", ONCHIP, "element-wise result, cast on write", indirect=True)
    op = attr("activation", "activation function")
    data = arg("P F", ONCHIP, "input tile", indirect=True)
    reduce_op = attr("alu", "nl.add")
    reduce_res = out("P 1", ONCHIP, "tile of one column that receives the sums, or None", optional=True, explicit=True)
    bias = _BIAS
    scale = _SCALE

    known = _KNOWN
    bias_kind = _BIAS_KIND
    adds = _ADDS

    example = {
        "dst": "sbuf float32 128x512",
        "op": "exp",
        "data": "sbuf float32 128x512",
        "reduce_op": "add",
        "reduce_res": "sbuf float32 128x1",
    }
    history = {"activation_table": "op"}

    def keeps_state(use: Use) -> bool:
        """Return True: the sums stay in the registers, with and without a `reduce_res`."""
        return True

    implicit_operands = _bias_constant

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        _activate(out.dst, ins, use)
        _accumulate(out, use, state, commands.reset_reduce)

    def cost(use: Use) -> Cost:
        return _cost(use, always=True)  # even without a reduce_res

    beta1 = Beta1(order="op data", dtypes=_COLUMNS)


_PAIRS = frozenset(
    {
        ("multiply", "add"),
        ("multiply", "subtract"),
        ("multiply", "bypass"),
        ("add", "bypass"),
        ("subtract", "bypass"),
        ("bypass", "bypass"),
    }
)
_REDUCTIONS2 = ("add", "maximum", "minimum", "abs_max", "abs_min")


def _pair(use: Use) -> Fault:
    pair = (use.attrs["op0"].name, use.attrs["op1"].name)
    return None if pair in _PAIRS else f"(op0, op1) is (nl.{pair[0]}, nl.{pair[1]})"


def _swaps(use: Use) -> Fault:
    for place in "01":
        if use.attrs[f"reverse{place}"] and use.attrs[f"op{place}"].name == "bypass":
            return f"reverse{place}=True and op{place} is skipped"
    return None


def _reduction2(use: Use) -> Fault:
    op: AluOp | None = use.attrs["reduce_op"]
    reduces = use.attrs["reduce_cmd"] is not commands.idle
    if op is None:
        return f"reduce_cmd.{use.attrs['reduce_cmd'].name} without reduce_op" if reduces else None
    return None if op.name in _REDUCTIONS2 else f"reduce_op=nl.{op.name}"


@instruction(engine="scalar", since=4, see="NKI API, nki.isa.activate2")
class activate2:
    """dst = op((data op0 imm0) op1 imm1), in float32, with an optional reduction along the free dimension.

    Stages are multiply, add, subtract or nl.bypass, in six combinations. `relu_param` is the parameter of functions
    that have one. `reduce_op` folds the float32 results into the accumulation registers that activation and
    activation_reduce use; `reduce_cmd` reset clears them, reduce adds this call's results, reset_reduce does both,
    idle (the default) leaves them. `reduce_res` receives them.
    """

    dst = out("P F", ONCHIP, "result, cast on write", indirect=True)
    op = attr("activation", "activation function")
    data = arg("P F", ONCHIP, "input tile", indirect=True)
    imm0 = column("operand of op0: a number or a tile of one column; any number for nl.bypass")
    imm1 = column("operand of op1: a number or a tile of one column; any number for nl.bypass")
    op0 = attr("alu", "multiply, add, subtract or bypass")
    op1 = attr("alu", "add, subtract or bypass")
    relu_param = column("parameter of the function: a number or a tile of one column", default=0.0)
    reverse0 = attr("bool", "compute imm0 op0 data", default=False)
    reverse1 = attr("bool", "compute imm1 op1 (result of op0)", default=False)
    reduce_op = attr("alu", "add, maximum, minimum, abs_max, abs_min, or None", default=None)
    reduce_res = out("P 1", ONCHIP, "tile of one column that receives the registers", optional=True)
    reduce_cmd = choice("what happens to the registers", commands.idle)

    pair = Predicate(
        "NKI215",
        "op0 and op1 are one of the six combinations",
        _pair,
        operand="op0",
        help="use multiply-add, multiply-subtract, or one operator and nl.bypass",
        accepts={"op0": "add", "op1": "bypass"},
        refuses={"op0": "add", "op1": "add"},
    )
    swaps = Predicate(
        "NKI218",
        "reverse0 and reverse1 belong to stages that run",
        _swaps,
        operand="reverse1",
        help="leave it out",
        accepts={"reverse0": True},
        refuses={"op1": "bypass", "reverse1": True},
    )
    one_kind = Predicate(
        "NKI207",
        "imm0 and imm1 tiles have one dtype",
        one_dtype("imm1", "imm0"),
        operand="imm1",
        help="keep both in float32",
        accepts={"imm0": "sbuf float32 128x1", "imm1": "sbuf float32 128x1"},
        refuses={"imm0": "sbuf float32 128x1", "imm1": "sbuf bfloat16 128x1"},
    )
    reduction = Predicate(
        "NKI215",
        "reduce_op is add, maximum, minimum, abs_max or abs_min",
        _reduction2,
        operand="reduce_op",
        help="use one of the five",
        accepts={"reduce_op": "maximum", "reduce_cmd": commands.reset_reduce},
        refuses={"reduce_op": "multiply", "reduce_cmd": commands.reset_reduce},
    )
    command = commanded("idle", "reset", "reduce", "reset_reduce", refuses={"reduce_op": "add"})

    example = {
        "dst": "sbuf float32 128x512",
        "op": "exp",
        "data": "sbuf float32 128x512",
        "imm0": 0.5,
        "imm1": 1.0,
        "op0": "multiply",
        "op1": "add",
    }
    history = {"activation_table": "op"}
    keeps_state = commands_registers

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        attrs, source, dst = use.attrs, ins.data, out.dst
        for place, given in (("0", ins.imm0), ("1", ins.imm1)):
            if attrs[f"op{place}"].name != "bypass":
                source = stage(source, attrs[f"op{place}"], given, attrs[f"reverse{place}"], dst)
        parameters = (ins.relu_param,) if attrs["op"].parameter else ()
        attrs["op"].apply(source, dst, *parameters)
        _reduce2(out, use, state)

    def cost(use: Use) -> Cost:
        return _cost(use, confidence="inferred")

    beta1 = Unmodelled("Beta 1 has no NeuronCore-v4")


def _reduce2(out: Arrays, use: Use, state: EngineState) -> None:
    op: AluOp | None = use.attrs["reduce_op"]
    command = use.attrs["reduce_cmd"]
    registers = lanes_of(state.scalar_accumulators, use, "data")
    if op is not None and command is not commands.idle:
        if command is not commands.reduce:
            # guess: abs_max starts from 0 and abs_min from infinity; the documentation names no identity for them.
            apart = {"abs_max": np.float32(0), "abs_min": np.float32(np.inf)}.get(op.name)
            registers[...] = identity_of(op, np.dtype(np.float32)) if apart is None else apart
        if command is not commands.reset:
            by_element = op.name.startswith("abs")
            for column in out.dst.reshape(len(registers), -1).T if by_element else (op.folded(out.dst),):
                op.apply(registers, column, registers)
    write_out(registers, out)


def _four_dimensions(operand: str) -> Predicate:
    """Limit: a tile has up to 4 dimensions, the partitions among them."""

    def test(use: Use) -> Fault:
        free = len(use.types[operand].shape) - 1
        return None if free <= 3 else f"{operand} has {free} free dimensions, {use.name} takes 3"

    return Predicate(
        "NKI205",
        f"{operand} has up to 3 free dimensions",
        test,
        operand=operand,
        target="trn3",
        help="merge free dimensions with .reshape()",
        accepts={operand: "sbuf float32 128x2x4x64"},
        refuses={operand: "sbuf float32 128x2x2x2x64"},
    )


_EXP_OUT = (FP8_E4M3, FP8_E5M2, F16, BF16, F32, TF32, INT8, INT16, INT32, UINT8, UINT16)
_EXP_IN = (FP8_E4M3, FP8_E5M2, F16, BF16, F32, INT8, INT16, INT32, UINT8, UINT16, UINT32)


@instruction(engine="vector", since=4, see="NKI API, nki.isa.exponential")
class exponential:
    """dst = exp(src - max_value), in float32 on the Vector Engine, with an optional running sum.

    `reduce_cmd` reset_reduce starts the sum from 0, load_reduce from reduce_init, reduce from the Vector Engine's
    accumulation registers; idle keeps no sum, and leaves the registers undefined. `reduce_res` receives the sum.
    """

    dst = out("P F", ONCHIP, "result, cast on write", dtypes=_EXP_OUT, indirect=True)
    src = arg("P F", ONCHIP, "input tile", dtypes=_EXP_IN, indirect=True)
    max_value = column("subtracted first: a number or a float32 tile of one column", dtypes=(F32,), default=0.0)
    reduce_res = out(
        "P 1",
        ONCHIP,
        "tile of one column that receives the sum",
        dtypes=(FP8_E4M3, FP8_E5M2, F16, BF16, F32, TF32),
        optional=True,
    )
    reduce_cmd = choice("how the sum starts", commands.idle)
    reduce_init = column("start of the sum, with load_reduce only", dtypes=(F32,), default=0.0)

    dst_rank, src_rank = _four_dimensions("dst"), _four_dimensions("src")
    command = commanded("idle", "reset_reduce", "reduce", "load_reduce")
    initial = initial_given("reduce_init", 0.0)

    example = {"dst": "sbuf float32 128x512", "src": "sbuf float32 128x512"}
    keeps_state = commands_registers

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        attrs, dst = use.attrs, out.dst
        np.subtract(ins.src, ins.max_value, out=dst)
        np.exp(dst, out=dst)
        registers = lanes_of(state.vector_accumulators, use, "src")
        if attrs["reduce_cmd"] is commands.idle:
            registers[...] = np.nan
        else:
            registers[...] = started(registers, attrs["reduce_cmd"], 0, ins.reduce_init) + summed(dst)
        write_out(registers, out)

    def cost(use: Use) -> Cost:
        return engine_cost(
            use,
            free_size(use, "dst") / use.arch.vector_fast_exponential,
            source="Trainium3 architecture guide: four times the Scalar Engine's exp",
        )

    beta1 = Unmodelled("Beta 1 has no NeuronCore-v4")
