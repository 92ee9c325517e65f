"""Scalar Engine: activation functions with fused scale, bias and accumulation."""


# mypy: disable-error-code="misc"

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from nki_lab.isa import enums
from nki_lab.isa.alu import ALU, AluOp, identity_of
from nki_lab.isa.arch import Arch
from nki_lab.isa.dtype import BF16, F16, F32, FP8_E4M3, FP8_E5M2, INT8, INT16, INT32, TF32, UINT8, UINT16, UINT32
from nki_lab.isa.ops.cycles import DOC_226, engine_cost, free_size
from nki_lab.isa.ops.elementwise import stage
from nki_lab.isa.ops.registers import commanded, commands_registers, initial_given, lanes_of, started
from nki_lab.isa.spec import ONCHIP, Cost, Implicit, Legacy, Unmodelled, Use, arg, attr, instruction, out, predicate

_COLUMNS: Final = {"bias": (F32, F16, BF16), "scale": (F32,)}
"""Columns that Beta 1 does not convert."""


def _known_function(use: Use) -> str | None:
    op = use.attrs["op"]
    if op.since > use.arch.generation:
        return f"op=nl.{op.name} needs NeuronCore-v{op.since}, the target is {use.arch.name}"
    return None


def _bias_kind(use: Use) -> str | None:
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
    """Without a bias tile the engine adds a column of constants."""
    if use.types["bias"] is not None:
        return ()
    text = f"{use.instruction.name} has no bias tile"
    return (Implicit(operand="bias", text=text, help="pass a column of zeros as bias"),)


def _reduce_op(use: Use) -> str | None:
    op = use.attrs["reduce_op"]
    return None if op is None or op.name == "add" else f"reduce_op=nl.{op.name}, the accumulator adds"


def _activate(dst: Any, ins: Any, use: Use) -> None:
    """dst = op(data * scale + bias)."""
    source = ins.data
    if use.value("scale") != 1.0:
        np.multiply(source, ins.scale, out=dst)
        source = dst
    if use.value("bias") not in (None, 0):
        np.add(source, ins.bias, out=dst)
        source = dst
    use.attrs["op"].apply(source, dst)


def _accumulate(out: Any, use: Use, state: Any, command: enums.reduce_cmd) -> None:
    """Sum the results into the registers as told, and write the registers to reduce_res where it is given."""
    dst = out.dst
    registers = lanes_of(state.scalar_accumulators, use, "data")
    if command in (enums.reduce_cmd.reset, enums.reduce_cmd.reset_reduce):
        registers[...] = 0
    if command in (enums.reduce_cmd.reduce, enums.reduce_cmd.reset_reduce):
        registers += dst.sum(axis=tuple(range(1, dst.ndim)), dtype=np.float32)
    if out.reduce_res is not None:
        out.reduce_res[...] = registers.reshape(out.reduce_res.shape)


_BIAS: Final = arg("P 1", ONCHIP, "tile of one column (NeuronCore-v3: or a number) added before the function",
                   scalar=True, optional=True)  # fmt: skip
_SCALE: Final = arg("P 1", ONCHIP, "number or float32 tile of one column multiplied first", scalar=True, dtypes=(F32,),
                    default=1.0)  # fmt: skip
_KNOWN: Final = predicate("NKI221", "op exists on the target", _known_function, operand="op", target="trn2",
                          help="use a function that the target has", accepts={"op": "gelu"},
                          refuses={"op": "prelu"})  # fmt: skip
_BIAS_KIND: Final = predicate(
    "NKI221", "bias: not tfloat32; on NeuronCore-v2 a tile, and none with reciprocal", _bias_kind, operand="bias",
    help="memset a tile of one column and pass that", target="trn1", accepts={"bias": "sbuf float32 128x1"},
    refuses={"bias": 1.5},
)  # fmt: skip
_ADDS: Final = predicate("NKI215", "reduce_op is nl.add", _reduce_op, operand="reduce_op",
                         help="use nisa.tensor_reduce for other reductions", accepts={"reduce_op": "add"},
                         refuses={"reduce_op": "maximum"})  # fmt: skip


def _read_out(arch: Arch, use: Use, base: Cost) -> Cost:
    """The cost with the time in which the registers are written to reduce_res, where it is given."""
    extra = 0 if use.types["reduce_res"] is None else arch.act_read_accumulator_cycles
    return replace(base, interval=base.interval + extra, latency=base.latency + extra)


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
    reduce_cmd = attr(
        "enum", "what happens to the accumulation registers", default=enums.reduce_cmd.idle, enum=enums.reduce_cmd
    )

    known = _KNOWN
    bias_kind = _BIAS_KIND
    adds = _ADDS
    command = commanded("idle", "reset", "reduce", "reset_reduce")

    example = {"dst": "sbuf float32 128x512", "op": "exp", "data": "sbuf float32 128x512"}
    history = {"activation_table": "op"}
    keeps_state = commands_registers

    elementwise = True
    implicit_operands = _bias_constant

    def exact(use: Use) -> bool:
        plain = use.value("scale") == 1.0 and use.value("bias") in (None, 0)
        plain = plain and use.types["reduce_res"] is None
        return plain and use.attrs["op"].name in ("copy", "relu", "abs")

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        _activate(out.dst, ins, use)
        command = use.attrs["reduce_cmd"]
        if command is not enums.reduce_cmd.idle or out.reduce_res is not None:
            _accumulate(out, use, state, command)

    def cost(arch: Arch, use: Use) -> Cost:
        return _read_out(arch, use, engine_cost(arch, use, free_size(use, "dst")))

    legacy = Legacy(order=("op", "data"), dtypes=_COLUMNS)


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
    reduce_res = out("P 1", ONCHIP, "tile of one column that receives the sums", optional=True)
    bias = _BIAS
    scale = _SCALE

    known = _KNOWN
    bias_kind = _BIAS_KIND
    adds = _ADDS

    example = {"dst": "sbuf float32 128x512", "op": "exp", "data": "sbuf float32 128x512", "reduce_op": "add",
               "reduce_res": "sbuf float32 128x1"}  # fmt: skip
    history = {"activation_table": "op"}

    implicit_operands = _bias_constant

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        _activate(out.dst, ins, use)
        _accumulate(out, use, state, enums.reduce_cmd.reset_reduce)

    def cost(arch: Arch, use: Use) -> Cost:
        base = engine_cost(arch, use, free_size(use, "dst"))
        extra = arch.act_read_accumulator_cycles  # even without a reduce_res
        return replace(base, interval=base.interval + extra, latency=base.latency + extra)

    legacy = Legacy(order=("op", "data"), dtypes=_COLUMNS)


_PAIRS = frozenset(
    {
        ("multiply", "add"), ("multiply", "subtract"), ("multiply", "bypass"), ("add", "bypass"),
        ("subtract", "bypass"), ("bypass", "bypass"),
    }
)  # fmt: skip
_REDUCTIONS2 = ("add", "maximum", "minimum", "abs_max", "abs_min")


def _named(use: Use, name: str) -> str:
    op: AluOp | None = use.attrs[name]
    return "bypass" if op is None else op.name


def _pair(use: Use) -> str | None:
    pair = (_named(use, "op0"), _named(use, "op1"))
    return None if pair in _PAIRS else f"(op0, op1) is (nl.{pair[0]}, nl.{pair[1]})"


def _swaps(use: Use) -> str | None:
    for place in "01":
        if use.attrs[f"reverse{place}"] and _named(use, f"op{place}") == "bypass":
            return f"reverse{place}=True and op{place} is skipped"
    return None


def _one_kind(use: Use) -> str | None:
    first, second = use.dtypes["imm0"], use.dtypes["imm1"]
    if first is None or second is None or first is second:
        return None
    return f"imm0 is {first.name} and imm1 is {second.name}"


def _reduction2(use: Use) -> str | None:
    op: AluOp | None = use.attrs["reduce_op"]
    reduces = use.attrs["reduce_cmd"] is not enums.reduce_cmd.idle
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
    imm0 = arg("P 1", ONCHIP, "operand of op0: a number or a tile of one column", scalar=True, optional=True)
    imm1 = arg("P 1", ONCHIP, "operand of op1: a number or a tile of one column", scalar=True, optional=True)
    op0 = attr("alu", "multiply, add, subtract or bypass", default=ALU["bypass"])
    op1 = attr("alu", "add, subtract or bypass", default=ALU["bypass"])
    relu_param = arg("P 1", ONCHIP, "parameter of the function: a number or a tile of one column", scalar=True,
                     default=0.0)  # fmt: skip
    reverse0 = attr("bool", "compute imm0 op0 data", default=False)
    reverse1 = attr("bool", "compute imm1 op1 (result of op0)", default=False)
    reduce_op = attr("alu", "add, maximum, minimum, abs_max, abs_min, or None", default=None)
    reduce_res = out("P 1", ONCHIP, "tile of one column that receives the registers", optional=True)
    reduce_cmd = attr("enum", "what happens to the registers", default=enums.reduce_cmd.idle, enum=enums.reduce_cmd)

    pair = predicate("NKI215", "op0 and op1 are one of the six combinations", _pair, operand="op0",
                     help="use multiply-add, multiply-subtract, or one operator and nl.bypass",
                     accepts={"op0": "add", "op1": "bypass"}, refuses={"op0": "add", "op1": "add"})  # fmt: skip
    swaps = predicate("NKI218", "reverse0 and reverse1 belong to stages that run", _swaps, operand="reverse1",
                      help="leave it out", accepts={"reverse0": True},
                      refuses={"op1": "bypass", "reverse1": True})  # fmt: skip
    one_kind = predicate("NKI207", "imm0 and imm1 tiles have one dtype", _one_kind, operand="imm1",
                         help="keep both in float32", accepts={"imm0": "sbuf float32 128x1",
                                                               "imm1": "sbuf float32 128x1"},
                         refuses={"imm0": "sbuf float32 128x1", "imm1": "sbuf bfloat16 128x1"})  # fmt: skip
    reduction = predicate("NKI215", "reduce_op is add, maximum, minimum, abs_max or abs_min", _reduction2,
                          operand="reduce_op", help="use one of the five",
                          accepts={"reduce_op": "maximum", "reduce_cmd": enums.reduce_cmd.reset_reduce},
                          refuses={"reduce_op": "multiply", "reduce_cmd": enums.reduce_cmd.reset_reduce})  # fmt: skip
    command = commanded("idle", "reset", "reduce", "reset_reduce", refuses={"reduce_op": "add"})

    example = {"dst": "sbuf float32 128x512", "op": "exp", "data": "sbuf float32 128x512", "imm0": 0.5, "imm1": 1.0,
               "op0": "multiply", "op1": "add"}  # fmt: skip
    history = {"activation_table": "op"}
    keeps_state = commands_registers

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        attrs, source, dst = use.attrs, ins.data, out.dst
        for place, given in (("0", ins.imm0), ("1", ins.imm1)):
            if _named(use, f"op{place}") != "bypass":
                operand = np.float32(0) if given is None else given
                source = stage(source, attrs[f"op{place}"], operand, attrs[f"reverse{place}"], dst)
        if attrs["op"].parameter:
            attrs["op"].apply(source, dst, ins.relu_param)
        else:
            attrs["op"].apply(source, dst)
        _reduce2(out, use, state)

    def cost(arch: Arch, use: Use) -> Cost:
        base = engine_cost(arch, use, free_size(use, "dst"), source="as activation, " + DOC_226, confidence="inferred")
        return _read_out(arch, use, base)

    legacy = Unmodelled("Beta 1 has no NeuronCore-v4")


def _reduce2(out: Any, use: Use, state: Any) -> None:
    op: AluOp | None = use.attrs["reduce_op"]
    command = use.attrs["reduce_cmd"]
    registers = lanes_of(state.scalar_accumulators, use, "data")
    if op is not None and command is not enums.reduce_cmd.idle:
        if command is not enums.reduce_cmd.reduce:
            # guess: abs_max starts from 0 and abs_min from infinity; the documentation names no identity for them.
            apart = {"abs_max": np.float32(0), "abs_min": np.float32(np.inf)}.get(op.name)
            registers[...] = identity_of(op, np.dtype(np.float32)) if apart is None else apart
        if command is not enums.reduce_cmd.reset:
            by_element = op.name.startswith("abs")
            for column in out.dst.reshape(len(registers), -1).T if by_element else (_folded(op, out.dst),):
                op.apply(registers, column, registers)
    if out.reduce_res is not None:
        out.reduce_res[...] = registers.reshape(out.reduce_res.shape)


def _folded(op: AluOp, results: Any) -> Any:
    reduced = np.empty(results.shape[0], np.float32)
    return op.reduce(results, tuple(range(1, results.ndim)), reduced)


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
    max_value = arg("P 1", ONCHIP, "subtracted first: a number or a float32 tile of one column", scalar=True,
                    dtypes=(F32,), default=0.0)  # fmt: skip
    reduce_res = out("P 1", ONCHIP, "tile of one column that receives the sum",
                     dtypes=(FP8_E4M3, FP8_E5M2, F16, BF16, F32, TF32), optional=True)  # fmt: skip
    reduce_cmd = attr("enum", "how the sum starts", default=enums.reduce_cmd.idle, enum=enums.reduce_cmd)
    reduce_init = arg("P 1", ONCHIP, "start of the sum, with load_reduce only", scalar=True, dtypes=(F32,),
                      default=0.0)  # fmt: skip

    command = commanded("idle", "reset_reduce", "reduce", "load_reduce")
    initial = initial_given("reduce_init", 0.0)

    example = {"dst": "sbuf float32 128x512", "src": "sbuf float32 128x512"}
    keeps_state = commands_registers

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        attrs, dst = use.attrs, out.dst
        np.subtract(ins.src, ins.max_value, out=dst)
        np.exp(dst, out=dst)
        registers = lanes_of(state.vector_accumulators, use, "src")
        if attrs["reduce_cmd"] is enums.reduce_cmd.idle:
            registers[...] = np.nan
        else:
            first = started(registers, attrs["reduce_cmd"], 0, ins.reduce_init)
            registers[...] = first + dst.sum(axis=tuple(range(1, dst.ndim)), dtype=np.float32)
        if out.reduce_res is not None:
            out.reduce_res[...] = registers.reshape(out.reduce_res.shape)

    def cost(arch: Arch, use: Use) -> Cost:
        return engine_cost(arch, use, free_size(use, "dst") / 4, confidence="documented",
                           source="Trainium3 architecture guide: four times the Scalar Engine's exp")  # fmt: skip

    legacy = Unmodelled("Beta 1 has no NeuronCore-v4")
