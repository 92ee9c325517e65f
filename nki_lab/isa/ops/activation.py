"""Scalar Engine: activation functions with fused scale, bias and accumulation."""


# mypy: disable-error-code="misc"

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.isa import enums
from nki_lab.isa.arch import Arch
from nki_lab.isa.dtype import F32, TF32
from nki_lab.isa.ops.cycles import DOC_226, engine_cost, free_size
from nki_lab.isa.spec import ONCHIP, Cost, Legacy, Use, arg, attr, instruction, out, predicate

_COMMANDS = tuple(enums.reduce_cmd(value) for value in range(4))


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
        if use.attrs["bias"] is not None and use.attrs["bias"] != 0:
            return f"bias is the number {use.attrs['bias']}, {use.arch.name} takes a tile of one column"
        if use.attrs["op"].name == "reciprocal" and bias is not None:
            return f"reciprocal takes no bias on {use.arch.name}"
    return None


def _reduce_op(use: Use) -> str | None:
    op = use.attrs["reduce_op"]
    return None if op is None or op.name == "add" else f"reduce_op=nl.{op.name}, the accumulator adds"


def _command(use: Use) -> str | None:
    command = use.attrs["reduce_cmd"]
    return None if command in _COMMANDS else f"reduce_cmd.{command.name} is not a command of activation"


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
    bias = arg("P 1", ONCHIP, "tile of one column (NeuronCore-v3: or a number) added before the function",
               scalar=True, optional=True)  # fmt: skip
    scale = arg("P 1", ONCHIP, "number or float32 tile of one column multiplied first", scalar=True, dtypes=(F32,),
                default=1.0)  # fmt: skip
    reduce_op = attr("alu", "nl.add, or None", default=None)
    reduce_res = out("P 1", ONCHIP, "tile of one column that receives the registers", optional=True)
    reduce_cmd = attr(
        "enum", "what happens to the accumulation registers", default=enums.reduce_cmd.idle, enum=enums.reduce_cmd
    )

    known = predicate("NKI221", "op exists on the target", _known_function, operand="op", target="trn2",
                      help="use a function that the target has", accepts={"op": "gelu"},
                      refuses={"op": "prelu"})  # fmt: skip
    bias_kind = predicate("NKI221", "bias: not tfloat32; on NeuronCore-v2 a tile, and none with reciprocal",
                          _bias_kind, operand="bias", help="memset a tile of one column and pass that", target="trn1",
                          accepts={"bias": "sbuf float32 128x1"}, refuses={"bias": 1.5})  # fmt: skip
    adds = predicate("NKI215", "reduce_op is nl.add", _reduce_op, operand="reduce_op",
                     help="use nisa.tensor_reduce for other reductions", accepts={"reduce_op": "add"},
                     refuses={"reduce_op": "maximum"})  # fmt: skip
    command = predicate("NKI012", "reduce_cmd is idle, reset, reduce or reset_reduce", _command, operand="reduce_cmd",
                        help="use one of the four commands", accepts={"reduce_cmd": enums.reduce_cmd.reduce},
                        refuses={"reduce_cmd": enums.reduce_cmd.load_reduce})  # fmt: skip

    example = {"dst": "sbuf float32 128x512", "op": "exp", "data": "sbuf float32 128x512"}
    history = {"activation_table": "op", "registers": "scalar"}

    def exact(use: Use) -> bool:
        plain = use.attrs["scale"] == 1.0 and use.types["bias"] is None and not use.attrs["bias"]
        plain = plain and use.types["reduce_res"] is None
        return plain and use.attrs["op"].name in ("copy", "relu", "abs")

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        attrs, dst = use.attrs, out.dst
        source = ins.data
        scale = ins.scale if ins.scale is not None else attrs["scale"]
        if ins.scale is not None or scale != 1.0:
            np.multiply(source, scale if ins.scale is not None else np.float32(scale), out=dst)
            source = dst
        bias = ins.bias if ins.bias is not None else attrs["bias"]
        if bias is not None and not (ins.bias is None and bias == 0):
            np.add(source, bias if ins.bias is not None else np.float32(bias), out=dst)
            source = dst
        attrs["op"].apply(source, dst)
        command = attrs["reduce_cmd"]
        if command is enums.reduce_cmd.idle and out.reduce_res is None:
            return
        lane = use.types["data"].start_partition
        registers = state.scalar_accumulators[lane : lane + dst.shape[0]]
        if command in (enums.reduce_cmd.reset, enums.reduce_cmd.reset_reduce):
            registers[...] = 0
        if command in (enums.reduce_cmd.reduce, enums.reduce_cmd.reset_reduce):
            registers += dst.sum(axis=tuple(range(1, dst.ndim)), dtype=np.float32)
        if out.reduce_res is not None:
            out.reduce_res[...] = registers.reshape(out.reduce_res.shape)

    def cost(arch: Arch, use: Use) -> Cost:
        base = engine_cost(arch, use, free_size(use, "dst"))
        if use.types["reduce_res"] is None:
            return base
        extra = arch.act_read_accumulator_cycles
        return Cost(
            interval=base.interval + extra, latency=base.latency + extra, source=DOC_226, confidence=base.confidence
        )

    legacy = Legacy(
        result=lambda v: (v["data"].shape, v["data"].dtype, "sbuf"),
        order=("op", "data"),
        keywords=("bias", "scale", "reduce_op", "reduce_res", "reduce_cmd"),
    )
