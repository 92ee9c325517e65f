"""Selecting elements by a predicate, by their place, or by an affine function of it."""


# mypy: disable-error-code="misc"

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from nki_lab.isa.alu import ALU, Array
from nki_lab.isa.dtype import F32, FLOATS, FP8_E8M0, INT8, INT16, INT32, TF32, UINT8, UINT16, UINT32
from nki_lab.isa.enums import reduce_cmd as commands
from nki_lab.isa.ops.cycles import engine_cost, free_size, streaming
from nki_lab.isa.ops.masks import blend
from nki_lab.isa.ops.move import affine_limits, affine_values
from nki_lab.isa.ops.registers import commanded, commands_registers, lanes_of, started, write_out
from nki_lab.isa.ops.shapes import by_partition, one_in_sbuf, only, same_dtype
from nki_lab.isa.spec import (
    ONCHIP,
    PSUM,
    SBUF,
    Arrays,
    Beta1,
    Cost,
    EngineState,
    Fault,
    Predicate,
    Use,
    arg,
    attr,
    choice,
    column,
    instruction,
    out,
)

FP32_MIN: Final = -3.4028235e38
"""What range_select gives where the condition fails: the lowest float32."""

_LOWEST: Final = np.float32(FP32_MIN)
_FLOATS: Final = tuple(sorted(FLOATS - {FP8_E8M0}, key=lambda dtype: dtype.name))
_RANGE_OPS: Final = ("equal", "less", "less_equal", "greater", "greater_equal")
_COMPARISONS: Final = (*_RANGE_OPS, "not_equal")


def _false_value(use: Use) -> Fault:
    value = float(use.attrs["on_false_value"])
    return None if np.float32(value) == _LOWEST else f"on_false_value is {value}"


def _range(use: Use) -> Fault:
    start = use.attrs["range_start"]
    if start != start // 1:
        return f"range_start is {start}"
    end = start + use.types["on_true_tile"].free_size
    return None if start >= -(2**24) and end <= 2**24 else f"indices run from {start} to {end - 1}"


def _select_max(out: Arrays, chosen: Array, use: Use, state: EngineState, operand: str) -> None:
    """Write the chosen elements, and take their maximum into the Vector Engine's registers."""
    np.copyto(out.dst, chosen)
    registers = lanes_of(state.vector_accumulators, use, operand)
    command = use.attrs["reduce_cmd"]
    if command in (commands.idle, commands.reset):
        registers[...] = np.nan if command is commands.idle else -np.inf
    else:
        first = started(registers, command, -np.inf)
        registers[...] = np.maximum(first, chosen.reshape(len(first), -1).max(axis=1))
    write_out(registers, out)


def _number_for(value: Any, kind: np.dtype[Any]) -> Any:
    """Return a number as a tile of a dtype gets it: to an integer one rounded to nearest even, up to its ends."""
    if kind.kind not in "iu":
        return value
    info = np.iinfo(kind)
    return int(np.clip(np.rint(np.nan_to_num(float(value))), info.min, info.max))


_MAXIMUM: Final = Predicate(
    "NKI215",
    "reduce_op is nl.maximum",
    only("reduce_op", "maximum"),
    operand="reduce_op",
    help="reduce dst with nisa.tensor_reduce instead",
    refuses={"reduce_op": "add"},
)


@instruction(engine="vector", since=3, see="NKI API, nki.isa.range_select")
class range_select:
    """dst = on_true_tile where its free index + range_start passes both comparisons, else the lowest float32.

    The index counts the free elements in row-major order and is compared in float32. The maximum of the float32
    results goes into the Vector Engine's accumulation registers (`reduce_cmd`: reset_reduce starts them from minus
    infinity, reduce goes on, reset sets them to minus infinity only, idle leaves them undefined) and to `reduce_res`
    where that is given. In a dst of 16 bits the lowest float32 becomes
    minus infinity; reduce_res in float32 keeps it.
    """

    dst = out("P F", ONCHIP, "selected elements, cast on write", dtypes=_FLOATS)
    on_true_tile = arg("P F", ONCHIP, "tile to select from", dtypes=_FLOATS)
    comp_op0 = attr("alu", "comparison of the index with bound0")
    comp_op1 = attr("alu", "comparison of the index with bound1")
    bound0 = arg("P 1", ONCHIP, "first bound of each partition", dtypes=(F32,))
    bound1 = arg("P 1", ONCHIP, "second bound of each partition", dtypes=(F32,))
    reduce_cmd = choice("how the registers start", commands.reset_reduce)
    reduce_res = out("P 1", ONCHIP, "tile of one column that receives the maximum", optional=True)
    reduce_op = attr("alu", "nl.maximum", default=ALU["maximum"])
    range_start = attr("number", "index of the first element", default=0)
    on_false_value = attr("number", "the lowest float32, -3.4028235e38", default=FP32_MIN)

    comparisons = Predicate(
        "NKI215",
        "comp_op0 and comp_op1 are equal, less, less_equal, greater or greater_equal",
        lambda use: only("comp_op0", *_RANGE_OPS)(use) or only("comp_op1", *_RANGE_OPS)(use),
        operand="comp_op0",
        help="use one of the five comparisons",
        accepts={"comp_op0": "greater"},
        refuses={"comp_op0": "not_equal"},
    )
    maximum = _MAXIMUM
    fill = Predicate(
        "NKI012",
        "on_false_value is the lowest float32",
        _false_value,
        operand="on_false_value",
        help="leave it out, or use nisa.select_reduce for other values",
        accepts={"on_false_value": -3.4028235e38},
        refuses={"on_false_value": 0.0},
    )
    indices = Predicate(
        "NKI220",
        "indices are integers that float32 holds: up to 2^24",
        _range,
        operand="range_start",
        help="shift the bounds instead",
        accepts={"range_start": 2**24 - 512},
        refuses={"range_start": 2**24 - 511},
    )
    command = commanded("reset_reduce", "reduce", "reset", "idle")

    example = {
        "dst": "sbuf float32 128x512",
        "on_true_tile": "sbuf float32 128x512",
        "comp_op0": "greater_equal",
        "comp_op1": "less",
        "bound0": "sbuf float32 128x1",
        "bound1": "sbuf float32 128x1",
    }
    keeps_state = commands_registers

    shapes = by_partition

    continuous = True  # it compares places with bounds

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        attrs = use.attrs
        index = (attrs["range_start"] + np.arange(out.dst.shape[1])).astype(np.float32)[None, :]
        passes = np.ones(out.dst.shape, bool)
        for number in "01":
            result = np.empty(out.dst.shape, np.float32)
            attrs[f"comp_op{number}"].apply(
                np.broadcast_to(index, result.shape), getattr(ins, f"bound{number}"), result
            )
            passes &= result != 0
        _select_max(out, np.where(passes, ins.on_true_tile, _LOWEST), use, state, "on_true_tile")

    cost = streaming("dst")

    beta1 = Beta1()


_NARROW: Final = tuple(dtype for dtype in (*_FLOATS, INT8, INT16, UINT8, UINT16) if dtype is not TF32)


@instruction(engine="vector", see="NKI API, nki.isa.select_reduce")
class select_reduce:
    """dst = on_true where the predicate is not zero, else on_false, with an optional maximum, in float32.

    `reverse_pred` swaps the sides. The maximum of the float32 results goes into the Vector Engine's accumulation
    registers (reset_reduce starts them from minus infinity, reduce goes on; idle leaves them undefined) and to
    `reduce_res` where that is given.
    """

    maximum = _MAXIMUM
    command = commanded("idle", "reset_reduce", "reduce")
    psum = one_in_sbuf("on_true", "predicate", "uint8")

    dst = out("P F", ONCHIP, "selected elements, cast on write")
    predicate = arg("P F", ONCHIP, "selects on_true where it is not zero", dtypes=(INT8, UINT8, INT16, UINT16))
    on_true = arg("P F", ONCHIP, "tile to select from", dtypes=_NARROW)
    on_false = column("a number, or a tile of one column")
    reduce_res = out("P 1", ONCHIP, "tile of one column that receives the maximum", dtypes=_FLOATS, optional=True)
    reduce_cmd = choice("how the registers start", commands.idle)
    reduce_op = attr("alu", "nl.maximum", default=ALU["maximum"])
    reverse_pred = attr("bool", "select on_true where the predicate is zero", default=False)

    example = {
        "dst": "sbuf float32 128x512",
        "predicate": "sbuf uint8 128x512",
        "on_true": "sbuf float32 128x512",
        "on_false": 0.0,
    }
    keeps_state = commands_registers

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        chosen = np.empty(out.dst.shape, out.dst.dtype)
        blend((ins.predicate != 0) != use.attrs["reverse_pred"], ins.on_true, ins.on_false, chosen)
        _select_max(out, chosen, use, state, "on_true")

    cost = streaming("dst", source="not published: as range_select", confidence="inferred")

    beta1 = Beta1(returns="")


def _float32(use: Use) -> Fault:
    value = use.attrs["on_false_value"]
    with np.errstate(over="ignore"):
        fits = not math.isfinite(value) or np.isfinite(np.float32(value))
    return None if fits else f"on_false_value is {value}"


@instruction(engine="gpsimd", see="NKI API, nki.isa.affine_select")
class affine_select:
    """dst = on_true_tile where an affine function of the place compares true with 0, else on_false_value.

    The function is offset + p * channel_multiplier + the pattern of the free dimensions, in int32; `pattern` is
    [[step, num], ...], outermost first, and p counts from the first partition of dst. Causal masks are one call.
    Elements go to a dst of their dtype as they are, to another one through float32.
    """

    dst = out("P F", (SBUF,), "selected elements, cast on write")
    pattern = attr("pattern", "[[step, num], ...], outermost first")
    channel_multiplier = attr("number", "step from one partition to the next")
    on_true_tile = arg(
        "P F",
        (SBUF,),
        "tile to select from",
        former="pass offset by keyword: since NKI 0.3 channel_multiplier stands third",
    )
    on_false_value = attr("number", "number where the comparison fails")
    cmp_op = attr("alu", "comparison with 0", default=ALU["equal"])
    offset = attr("register_or_int", "value of the function at the first place, or a register that holds it", default=0)

    counts, fits = affine_limits("scale the function down; only its sign against 0 counts")
    compares = Predicate(
        "NKI215",
        "cmp_op is a comparison",
        only("cmp_op", *_COMPARISONS),
        operand="cmp_op",
        help="use nl.greater_equal, nl.less or another comparison",
        accepts={"cmp_op": "greater"},
        refuses={"cmp_op": "add"},
    )
    number = Predicate(
        "NKI012",
        "on_false_value is a float32 number",
        _float32,
        operand="on_false_value",
        help="the lowest float32 is -3.4028234663852886e38",
        accepts={"on_false_value": FP32_MIN},
        refuses={"on_false_value": -1.0e39},
    )

    example = {
        "dst": "sbuf float32 128x512",
        "pattern": [[-1, 512]],
        "channel_multiplier": 1,
        "on_true_tile": "sbuf float32 128x512",
        "on_false_value": -9984.0,
        "cmp_op": "greater_equal",
    }

    shapes = by_partition

    def precision(use: Use) -> str:
        # Of equal dtypes these alone have values that float32 has not.
        whole = use.dtypes["dst"] is use.dtypes["on_true_tile"] and use.dtypes["dst"] in (INT32, UINT32)
        return "native" if whole else "float32"

    continuous = True  # it compares places

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        attrs, kind = use.attrs, out.dst.dtype
        place = affine_values(out, use, state)
        mask = np.empty(place.shape, bool)
        attrs["cmp_op"].apply(place, np.int32(0), mask)
        number = _number_for(np.float32(attrs["on_false_value"]), kind)
        np.copyto(out.dst, np.where(mask, ins.on_true_tile, np.asarray(number, kind)))

    cost = streaming("dst")

    beta1 = Beta1(
        order="pred on_true_tile on_false_value",
        forms={"pred": "comparison"},
        without="pattern channel_multiplier cmp_op offset",
    )


def _number_kind(use: Use) -> Fault:
    dst = use.types["dst"].dtype
    number = use.types["src"] is None and dst.kind == "packed"
    return f"src is the number {use.attrs['src']} and dst is packed {dst}" if number else None


@instruction(engine="vector", see="NKI API, nki.isa.tensor_copy_predicated")
class tensor_copy_predicated:
    """dst = src where the predicate is not zero; other elements of dst keep their values. Copied bit by bit.

    `reverse_pred` copies where the predicate is zero. `src` may be one number for all elements.
    """

    one_dtype = same_dtype("dst", "src", refuses="sbuf bfloat16 128x512")
    psum = one_in_sbuf("src", "predicate", "uint8")

    number = Predicate(
        "NKI202",
        "a number goes into tiles of plain dtypes",
        _number_kind,
        operand="dst",
        help="copy from a tile of dst's dtype",
        accepts={"src": 1.0},
        refuses={"src": 0, "dst": "sbuf float8_e5m2_x4 128x512"},
        target="trn3",
    )

    dst = out("P F", ONCHIP, "tile whose elements are replaced", indirect=True)
    src = arg("P F", ONCHIP, "tile to copy from, or a number", scalar=True)
    predicate = arg("P F", ONCHIP, "copies where it is not zero", dtypes=(UINT8, UINT16, UINT32), indirect=True)
    reverse_pred = attr("bool", "copy where the predicate is zero", default=False)

    example = {"dst": "sbuf float32 128x512", "src": "sbuf float32 128x512", "predicate": "sbuf uint8 128x512"}

    precision = "native"

    def exact(use: Use) -> bool:
        return use.types["src"] is not None

    merges = True

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        mask = (ins.predicate != 0) != use.attrs["reverse_pred"]
        source = ins.src
        if use.types["src"] is None:
            source = _number_for(source, out.dst.dtype)
        blend(mask, np.asarray(source, out.dst.dtype), out.dst, out.dst)

    def cost(use: Use) -> Cost:
        mixed = PSUM in (use.space("src"), use.space("predicate"))
        return engine_cost(use, free_size(use, "dst") * (1 if mixed else 2))

    beta1 = Beta1(returns="")
