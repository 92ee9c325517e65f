"""Selecting elements by a predicate, by their place, or by an affine function of it."""


# mypy: disable-error-code="misc"

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nki_lab.isa import enums
from nki_lab.isa.alu import ALU, AluOp
from nki_lab.isa.arch import Arch
from nki_lab.isa.dtype import F32, FLOATS, FP8_E8M0, INT8, INT16, TF32, UINT8, UINT16, UINT32
from nki_lab.isa.ops.cycles import engine_cost, free_size
from nki_lab.isa.ops.register import integer_of
from nki_lab.isa.ops.registers import commanded, commands_registers, lanes_of, started
from nki_lab.isa.ops.shapes import by_partition, one_dtype, one_in_sbuf
from nki_lab.isa.spec import ONCHIP, PSUM, SBUF, Cost, Legacy, Register, Use, arg, attr, instruction, out
from nki_lab.isa.spec import predicate as rule

FP32_MIN: Final = -3.4028235e38
"""What range_select gives where the condition fails: the lowest float32."""

_LOWEST: Final = np.float32(FP32_MIN)
_FLOATS: Final = tuple(sorted(FLOATS - {FP8_E8M0}, key=lambda dtype: dtype.name))
_RANGE_OPS: Final = ("equal", "less", "less_equal", "greater", "greater_equal")
_COMPARISONS: Final = (*_RANGE_OPS, "not_equal")


def _only(name: str, *allowed: str) -> Callable[[Use], str | None]:
    def test(use: Use) -> str | None:
        op: AluOp | None = use.attrs[name]
        if op is not None and op.name in allowed:
            return None
        return f"{name}=nl.{op.name}" if op is not None else f"{name} is None"

    return test


def _both_range_ops(use: Use) -> str | None:
    return _only("comp_op0", *_RANGE_OPS)(use) or _only("comp_op1", *_RANGE_OPS)(use)


def _false_value(use: Use) -> str | None:
    value = float(use.attrs["on_false_value"])
    return None if np.float32(value) == _LOWEST else f"on_false_value is {value}"


def _range(use: Use) -> str | None:
    start = use.attrs["range_start"]
    if start != start // 1:
        return f"range_start is {start}"
    end = start + use.types["on_true_tile"].free_size
    return None if start >= -(2**24) and end <= 2**24 else f"indices run from {start} to {end - 1}"


def _select_max(out: Any, chosen: Any, use: Use, state: Any, operand: str) -> None:
    """Write what was chosen, and take its maximum into the Vector Engine's registers."""
    np.copyto(out.dst, chosen)
    registers = lanes_of(state.vector_accumulators, use, operand)
    command = use.attrs["reduce_cmd"]
    if command is enums.reduce_cmd.idle:
        registers[...] = np.nan
    else:
        first = started(registers, command, -np.inf, None)
        registers[...] = np.maximum(first, chosen.reshape(len(first), -1).max(axis=1))
    if out.reduce_res is not None:
        out.reduce_res[...] = registers.reshape(out.reduce_res.shape)


@instruction(engine="vector", since=3, see="NKI API, nki.isa.range_select")
class range_select:
    """dst = on_true_tile where its free index + range_start passes both comparisons, else the lowest float32.

    The index counts the free elements in row-major order and is compared in float32. The maximum of the float32
    results goes into the Vector Engine's accumulation registers (`reduce_cmd`: reset_reduce starts them from minus
    infinity, reduce goes on) and to `reduce_res` where that is given. In a dst of 16 bits the lowest float32 becomes
    minus infinity; reduce_res in float32 keeps it.
    """

    dst = out("P F", ONCHIP, "selected elements, cast on write", dtypes=_FLOATS)
    on_true_tile = arg("P F", ONCHIP, "tile to select from", dtypes=_FLOATS)
    comp_op0 = attr("alu", "comparison of the index with bound0")
    comp_op1 = attr("alu", "comparison of the index with bound1")
    bound0 = arg("P 1", ONCHIP, "first bound of each partition", dtypes=(F32,))
    bound1 = arg("P 1", ONCHIP, "second bound of each partition", dtypes=(F32,))
    reduce_cmd = attr("enum", "how the registers start", default=enums.reduce_cmd.reset_reduce, enum=enums.reduce_cmd)
    reduce_res = out("P 1", ONCHIP, "tile of one column that receives the maximum", optional=True)
    reduce_op = attr("alu", "nl.maximum", default=ALU["maximum"])
    range_start = attr("number", "index of the first element", default=0)
    on_false_value = attr("number", "the lowest float32, -3.4028235e38", default=FP32_MIN)

    comparisons = rule("NKI215", "comp_op0 and comp_op1 are equal, less, less_equal, greater or greater_equal",
                       _both_range_ops, operand="comp_op0", help="use one of the five comparisons",
                       accepts={"comp_op0": "greater"}, refuses={"comp_op0": "not_equal"})  # fmt: skip
    maximum = rule("NKI215", "reduce_op is nl.maximum", _only("reduce_op", "maximum"), operand="reduce_op",
                   help="reduce dst with nisa.tensor_reduce instead", accepts={"reduce_op": "maximum"},
                   refuses={"reduce_op": "add"})  # fmt: skip
    fill = rule("NKI012", "on_false_value is the lowest float32", _false_value, operand="on_false_value",
                help="leave it out, or use nisa.select_reduce for other values",
                accepts={"on_false_value": -3.4028235e38}, refuses={"on_false_value": 0.0})  # fmt: skip
    indices = rule("NKI220", "indices are integers that float32 holds: up to 2^24", _range, operand="range_start",
                   help="shift the bounds instead", accepts={"range_start": 2**24 - 512},
                   refuses={"range_start": 2**24 - 511})  # fmt: skip
    command = commanded("reset_reduce", "reduce")

    example = {"dst": "sbuf float32 128x512", "on_true_tile": "sbuf float32 128x512", "comp_op0": "greater_equal",
               "comp_op1": "less", "bound0": "sbuf float32 128x1", "bound1": "sbuf float32 128x1"}  # fmt: skip
    keeps_state = commands_registers

    shapes = by_partition

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        attrs = use.attrs
        index = (attrs["range_start"] + np.arange(out.dst.shape[1])).astype(np.float32)[None, :]
        first, second = np.empty(out.dst.shape, np.float32), np.empty(out.dst.shape, np.float32)
        attrs["comp_op0"].apply(np.broadcast_to(index, first.shape), ins.bound0, first)
        attrs["comp_op1"].apply(np.broadcast_to(index, second.shape), ins.bound1, second)
        chosen = np.where((first != 0) & (second != 0), ins.on_true_tile, _LOWEST)
        _select_max(out, chosen, use, state, "on_true_tile")

    def cost(arch: Arch, use: Use) -> Cost:
        return engine_cost(arch, use, free_size(use, "dst"))

    legacy = Legacy()


_NARROW: Final = tuple(dtype for dtype in (*_FLOATS, INT8, INT16, UINT8, UINT16) if dtype is not TF32)


@instruction(engine="vector", see="NKI API, nki.isa.select_reduce")
class select_reduce:
    """dst = on_true where the predicate is not zero, else on_false, with an optional maximum, in float32.

    `reverse_pred` swaps the sides. The maximum of the float32 results goes into the Vector Engine's accumulation
    registers (reset_reduce starts them from minus infinity, reduce goes on; idle leaves them undefined) and to
    `reduce_res` where that is given.
    """

    maximum = rule("NKI215", "reduce_op is nl.maximum", _only("reduce_op", "maximum"), operand="reduce_op",
                   help="reduce dst with nisa.tensor_reduce instead", accepts={"reduce_op": "maximum"},
                   refuses={"reduce_op": "add"})  # fmt: skip
    command = commanded("idle", "reset_reduce", "reduce")
    psum = one_in_sbuf("on_true", "predicate", "uint8")

    dst = out("P F", ONCHIP, "selected elements, cast on write")
    predicate = arg("P F", ONCHIP, "selects on_true where it is not zero", dtypes=(INT8, UINT8, INT16, UINT16))
    on_true = arg("P F", ONCHIP, "tile to select from", dtypes=_NARROW)
    on_false = arg("P 1", ONCHIP, "a number, or a float32 tile of one column", scalar=True, dtypes=(F32,))
    reduce_res = out("P 1", ONCHIP, "tile of one column that receives the maximum", dtypes=_FLOATS, optional=True)
    reduce_cmd = attr("enum", "how the registers start", default=enums.reduce_cmd.idle, enum=enums.reduce_cmd)
    reduce_op = attr("alu", "nl.maximum", default=ALU["maximum"])
    reverse_pred = attr("bool", "select on_true where the predicate is zero", default=False)

    example = {"dst": "sbuf float32 128x512", "predicate": "sbuf uint8 128x512", "on_true": "sbuf float32 128x512",
               "on_false": 0.0}  # fmt: skip
    keeps_state = commands_registers

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        mask = (ins.predicate != 0) != use.attrs["reverse_pred"]
        _select_max(out, np.where(mask, ins.on_true, ins.on_false), use, state, "on_true")

    def cost(arch: Arch, use: Use) -> Cost:
        return engine_cost(arch, use, free_size(use, "dst"), source="not published: as range_select",
                           confidence="inferred")  # fmt: skip

    legacy = Legacy(returns="")


def _affine_pattern(use: Use) -> str | None:
    pattern = use.attrs["pattern"]
    if not 1 <= len(pattern) <= 4:
        return f"pattern has {len(pattern)} entries, affine_select takes 1 to 4"
    count = math.prod(num for _, num in pattern)
    free = use.types["dst"].free_size
    return None if count == free else f"pattern counts {count} elements, dst has {free} per partition"


def _affine_numbers(use: Use) -> str | None:
    numbers = [step for step, _ in use.attrs["pattern"]] + [use.attrs["channel_multiplier"], use.attrs["offset"]]
    for number in numbers:
        if isinstance(number, Register):
            continue
        if not isinstance(number, int) or isinstance(number, bool):
            return f"{number} is no integer"
        if not -(2**31) <= number < 2**31:
            return f"{number} does not fit int32"
    return None


def _float32(use: Use) -> str | None:
    value = use.attrs["on_false_value"]
    with np.errstate(over="ignore"):
        fits = not math.isfinite(value) or np.isfinite(np.float32(value))
    return None if fits else f"on_false_value is {value}"


@instruction(engine="gpsimd", see="NKI API, nki.isa.affine_select")
class affine_select:
    """dst = on_true_tile where an affine function of the place compares true with 0, else on_false_value.

    The function is offset + p * channel_multiplier + the pattern of the free dimensions, in int32; `pattern` is
    [[step, num], ...], outermost first, and p counts from the first partition of dst. Causal masks are one call.
    """

    dst = out("P F", (SBUF,), "selected elements, cast on write")
    pattern = attr("pattern", "[[step, num], ...], outermost first")
    channel_multiplier = attr("number", "step from one partition to the next")
    on_true_tile = arg("P F", (SBUF,), "tile to select from",
                       former="pass offset by keyword: since NKI 0.3 channel_multiplier stands third")  # fmt: skip
    on_false_value = attr("number", "number where the comparison fails")
    cmp_op = attr("alu", "comparison with 0", default=ALU["equal"])
    offset = attr("register_or_int", "value of the function at the first place, or a register that holds it",
                  default=0)  # fmt: skip

    counts = rule("NKI216", "1 to 4 entries whose counts multiply to dst's elements per partition", _affine_pattern,
                  operand="pattern", help="give one [step, num] for each free dimension of dst",
                  accepts={"pattern": [[8, 64], [1, 8]]}, refuses={"pattern": [[1, 511]]})  # fmt: skip
    fits = rule("NKI216", "steps, offset and channel_multiplier are int32", _affine_numbers, operand="pattern",
                help="scale the function down; only its sign against 0 counts",
                accepts={"channel_multiplier": 2**31 - 1}, refuses={"channel_multiplier": 2**31})  # fmt: skip
    compares = rule("NKI215", "cmp_op is a comparison", _only("cmp_op", *_COMPARISONS), operand="cmp_op",
                    help="use nl.greater_equal, nl.less or another comparison", accepts={"cmp_op": "greater"},
                    refuses={"cmp_op": "add"})  # fmt: skip
    number = rule("NKI012", "on_false_value is a float32 number", _float32, operand="on_false_value",
                  help="the lowest float32 is -3.4028234663852886e38", accepts={"on_false_value": FP32_MIN},
                  refuses={"on_false_value": -1.0e39})  # fmt: skip

    example = {"dst": "sbuf float32 128x512", "pattern": [[-1, 512]], "channel_multiplier": 1,
               "on_true_tile": "sbuf float32 128x512", "on_false_value": -9984.0,
               "cmp_op": "greater_equal"}  # fmt: skip

    shapes = by_partition

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        attrs = use.attrs
        values = np.zeros((1,), np.int64)
        for step, num in attrs["pattern"]:
            values = (values[:, None] + step * np.arange(num, dtype=np.int64)).reshape(-1)
        lanes = attrs["channel_multiplier"] * np.arange(out.dst.shape[0], dtype=np.int64)
        first = integer_of(state.values, attrs["offset"], "affine_select's offset")
        place = (first + lanes[:, None] + values[None, :]).astype(np.int32)
        mask = np.empty(place.shape, bool)
        attrs["cmp_op"].apply(place, np.int32(0), mask)
        np.copyto(out.dst, np.where(mask, ins.on_true_tile, np.float32(attrs["on_false_value"])))

    def cost(arch: Arch, use: Use) -> Cost:
        return engine_cost(arch, use, free_size(use, "dst"))

    legacy = Legacy(
        order=("pred", "on_true_tile", "on_false_value"), forms={"pred": "comparison"},
        without=("pattern", "channel_multiplier", "cmp_op", "offset"),
    )  # fmt: skip


def _number_kind(use: Use) -> str | None:
    dst = use.dtypes["dst"]
    if use.dtypes["src"] is None and dst is not None and dst.kind == "packed":
        return f"src is the number {use.attrs['src']} and dst is packed {dst.name}"
    return None


@instruction(engine="vector", see="NKI API, nki.isa.tensor_copy_predicated")
class tensor_copy_predicated:
    """dst = src where the predicate is not zero; other elements of dst keep their values. Copied bit by bit.

    `reverse_pred` copies where the predicate is zero. `src` may be one number for all elements.
    """

    one_dtype = rule("NKI207", "src and dst have one dtype", one_dtype("dst", "src"), operand="src",
                     help="cast src with nisa.tensor_copy first", accepts={"src": "sbuf float32 128x512"},
                     refuses={"src": "sbuf bfloat16 128x512"})  # fmt: skip
    psum = one_in_sbuf("src", "predicate", "uint8")

    number = rule("NKI202", "a number goes into tiles of plain dtypes", _number_kind, operand="dst",
                  help="copy from a tile of dst's dtype", accepts={"src": 1.0},
                  refuses={"src": 0, "dst": "sbuf float8_e5m2_x4 128x512"}, target="trn3")  # fmt: skip

    dst = out("P F", ONCHIP, "tile whose elements are replaced", indirect=True)
    src = arg("P F", ONCHIP, "tile to copy from, or a number", scalar=True)
    predicate = arg("P F", ONCHIP, "copies where it is not zero", dtypes=(UINT8, UINT16, UINT32), indirect=True)
    reverse_pred = attr("bool", "copy where the predicate is zero", default=False)

    example = {"dst": "sbuf float32 128x512", "src": "sbuf float32 128x512", "predicate": "sbuf uint8 128x512"}

    precision = "native"

    def exact(use: Use) -> bool:
        return use.types["src"] is not None

    merges = True

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        mask = (ins.predicate != 0) != use.attrs["reverse_pred"]
        source = ins.src
        if use.types["src"] is None and out.dst.dtype.kind in "iu":
            info = np.iinfo(out.dst.dtype)
            source = int(np.clip(np.rint(source), info.min, info.max))
        np.copyto(out.dst, np.asarray(source, out.dst.dtype), where=mask)

    def cost(arch: Arch, use: Use) -> Cost:
        mixed = PSUM in (use.space("src"), use.space("predicate"))
        return engine_cost(arch, use, free_size(use, "dst") * (1 if mixed else 2))

    legacy = Legacy(returns="")


__all__ = ["affine_select", "range_select", "select_reduce", "tensor_copy_predicated"]
