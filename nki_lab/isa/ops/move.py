"""Copies and constants on the chip."""


# mypy: disable-error-code="misc"

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from nki_lab.diagnostic import Diagnostic, diagnose
from nki_lab.isa import enums
from nki_lab.isa.arch import Arch
from nki_lab.isa.dtype import BF16, BOOL, F16, INTEGERS, dtype_of
from nki_lab.isa.ops.cycles import (
    ARCH_V3,
    DOC_226,
    PROFILES_V3,
    copy_factor,
    engine_cost,
    free_size,
    in_sbuf,
    is_dense,
    scalar_factor,
)
from nki_lab.isa.ops.register import integer_of
from nki_lab.isa.spec import ONCHIP, SBUF, Cost, Fill, Legacy, Register, Use, arg, attr, instruction, out, predicate


def same_dtype(use: Use, dst: str, src: str) -> bool:
    return use.dtypes[dst] is use.dtypes[src]


def _scalar_engine(use: Use) -> str | None:
    if use.engine == "scalar" and use.arch.generation < 3:
        return f"the Scalar Engine has tensor_copy from NeuronCore-v3, the target is {use.arch.name}"
    return None


def _picks(use: Use) -> str | None:
    if use.engine != "gpsimd":
        return None
    name = next((name for name, view in use.types.items() if view is not None and view.indirect == "gather"), "")
    return f"{name} is gathered, which GpSimd does not do in a copy" if name else None


@instruction(engine=("vector", "scalar", "gpsimd"), see="NKI API, nki.isa.tensor_copy")
class tensor_copy:
    """dst = src within SBUF and PSUM; the same dtype is copied bit by bit, another goes through float32."""

    dst = out("P F", ONCHIP, "destination, cast on write", indirect=True)
    src = arg("P F", ONCHIP, "source", indirect=True)
    engine = attr("enum", "vector, scalar, gpsimd or unknown", default=enums.engine.unknown, enum=enums.engine)

    scalar_engine = predicate("NKI221", "engine=scalar from NeuronCore-v3", _scalar_engine, operand="engine",
                              help="use nisa.activation(op=nl.copy) there", target="trn1",
                              accepts={"engine": enums.engine.vector},
                              refuses={"engine": enums.engine.scalar})  # fmt: skip
    picks = predicate("NKI208", "tensor indirection runs on the Vector and Scalar Engines", _picks, operand="engine",
                      help="leave engine out", target="trn3",
                      accepts={"src": "sbuf float32 128x512 picked", "engine": enums.engine.scalar},
                      refuses={"src": "sbuf float32 128x512 picked", "engine": enums.engine.gpsimd})  # fmt: skip

    example = {"dst": "sbuf float32 128x512", "src": "psum float32 128x512"}
    role = "copy"

    elementwise = True
    tolerated = {"dtype": "the dtype of dst decides"}

    choose = "vector"

    def precision(use: Use) -> str:
        return "native" if same_dtype(use, "dst", "src") else "float32"

    exact = True

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        np.copyto(out.dst, ins.src)

    def cost(arch: Arch, use: Use) -> Cost:
        n = free_size(use, "dst")
        if use.engine == "gpsimd":
            return engine_cost(arch, use, n)
        if use.engine == "scalar":
            return engine_cost(arch, use, n * scalar_factor(arch, use, "dst", "src"))
        factor = copy_factor(arch, use, "dst", "src")
        if factor < 1:
            return engine_cost(arch, use, n * factor, source=ARCH_V3)
        if arch.generation >= 3 and in_sbuf(use) and all(is_dense(use.types[name]) for name in ("dst", "src")):
            trust = "measured" if arch.generation == 3 else "inferred"
            source = f"{PROFILES_V3}: 343 ns for 512 float32; other dtypes than 16-bit floats by the width table"
            return engine_cost(arch, use, n / arch.vector_fp32_copy, source=source, confidence=trust)
        if arch.generation == 3:
            return engine_cost(arch, use, n, source=f"{PROFILES_V3}: PSUM to SBUF", confidence="measured")
        return engine_cost(arch, use, n, source=DOC_226)

    legacy = Legacy(order=("src",))


def _value_kind(use: Use) -> str | None:
    dtype, value = use.dtypes["dst"], use.attrs["value"]
    if dtype is None:
        return None
    if dtype.kind == "packed":
        return None if value == 0 else f"value {value} cannot fill packed {dtype.name}, which takes 0"
    if dtype.kind in ("int", "uint"):
        if isinstance(value, float) and not value.is_integer():
            return f"value {value} is a float and dst is {dtype.name}"
        info = np.iinfo(dtype.storage)
        if not info.min <= value <= info.max:
            return f"value {value} is outside {dtype.name} ({info.min}..{info.max})"
    return None


def _plain_number(values: dict[str, Any]) -> None:
    """Beta 1 takes NumPy's numbers, and whole floats for tiles of integers."""
    number = values["value"]
    if isinstance(number, np.generic):
        number = number.item()
    whole = dtype_of(values["dtype"]).is_integer and isinstance(number, float) and number.is_integer()
    values["value"] = int(number) if whole else number


@instruction(engine=("vector", "gpsimd"), see="NKI API, nki.isa.memset")
class memset:
    """dst[...] = value, a compile-time constant of the kind of dst's dtype."""

    dst = out("P F", ONCHIP, "tile to fill; GpSimd reaches SBUF only")
    value = attr("number", "constant: an int for integer tiles, 0 for packed ones")
    engine = attr("enum", "vector, gpsimd or unknown", default=enums.engine.unknown, enum=enums.engine)

    value_kind = predicate("NKI224", "the constant has dst's kind and fits it", _value_kind, operand="value",
                           help="write the constant as the tile's dtype has it",
                           accepts={"dst": "sbuf int32 128x512", "value": 2},
                           refuses={"dst": "sbuf int32 128x512", "value": 2.5})  # fmt: skip

    example = {"dst": "sbuf float32 128x512", "value": 0.0}
    fills = Fill(operand="value", bounds=lambda use: (use.attrs["value"], use.attrs["value"]))

    elementwise = True

    choose = "vector"

    def warns(use: Use) -> list[Diagnostic]:
        dtype, value = use.dtypes["dst"], use.attrs["value"]
        if dtype is None or dtype.kind not in ("int", "uint", "packed") or not isinstance(value, float):
            return []
        return [
            diagnose("NKI606", f"memset: value={value!r} stands for {int(value)}", operand="value",
                     limit=f"{dtype.name} tiles are filled with integers", help=f"write {int(value)}")
        ]  # fmt: skip

    def precision(use: Use) -> str:
        dtype = use.dtypes["dst"]
        return "float32" if dtype is not None and dtype.kind == "float" else "native"

    def exact(use: Use) -> bool:
        return use.attrs["value"] in (0, 1)

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        out.dst[...] = bool(use.attrs["value"]) if use.dtypes["dst"] is BOOL else use.attrs["value"]

    def cost(arch: Arch, use: Use) -> Cost:
        n = free_size(use, "dst")
        half = use.attrs["value"] == 0 and use.dtypes["dst"] in (BF16, F16)
        return engine_cost(arch, use, n / 2 if half else n)

    legacy = Legacy(
        result=lambda v: (tuple(v["shape"]), v["dtype"], SBUF), order=("shape", "value", "dtype"),
        forms={"shape": "shape"}, adapt=_plain_number,
    )  # fmt: skip


def _pattern(use: Use) -> str | None:
    pattern = use.attrs["pattern"]
    if not 1 <= len(pattern) <= 4:
        return f"pattern has {len(pattern)} entries, iota takes 1 to 4"
    count = math.prod(num for _, num in pattern)
    free = use.types["dst"].free_size
    if count != free:
        return f"pattern counts {count} elements, dst has {free} per partition"
    return None


def _int32(use: Use) -> str | None:
    numbers = [step for step, _ in use.attrs["pattern"]] + [use.attrs["channel_multiplier"], use.attrs["offset"]]
    for number in numbers:
        if isinstance(number, Register):
            continue
        if not isinstance(number, int):
            return f"{number} is no integer"
        if not -(2**31) <= number < 2**31:
            return f"{number} does not fit int32"
    return None


def _counted(use: Use) -> tuple[int, int] | None:
    """The least and the largest number that `iota` counts to."""
    offset = use.attrs["offset"]
    if isinstance(offset, Register):
        return None
    lanes = (use.attrs["channel_multiplier"], use.types["dst"].partitions)
    ends = [int(step * (num - 1)) for step, num in (*use.attrs["pattern"], lanes)]
    return offset + sum(min(0, end) for end in ends), offset + sum(max(0, end) for end in ends)


@instruction(engine="gpsimd", see="NKI API, nki.isa.iota")
class iota:
    """dst[p, ...] = offset + p * channel_multiplier + the affine pattern of its free dimensions, in int32.

    `pattern` is [[step, num], ...], outermost first, up to four entries whose counts multiply to dst's elements per
    partition. p counts from the first partition of dst.
    """

    dst = out("P F", (SBUF,), "tile to fill, cast from int32")
    pattern = attr("pattern", "[[step, num], ...], outermost first")
    offset = attr("register_or_int", "first value, or a register that holds it", default=0)
    channel_multiplier = attr("number", "step from one partition to the next", default=0)

    counts = predicate("NKI216", "1 to 4 entries whose counts multiply to dst's elements per partition", _pattern,
                       operand="pattern", help="give one [step, num] for each free dimension of dst",
                       accepts={"pattern": [[8, 64], [1, 8]]}, refuses={"pattern": [[1, 511]]})  # fmt: skip
    fits = predicate("NKI216", "steps, offset and channel_multiplier are int32", _int32, operand="pattern",
                     help="compute larger values in float32 from a smaller pattern",
                     accepts={"channel_multiplier": 2**31 - 1}, refuses={"channel_multiplier": 2**31})  # fmt: skip

    example = {"dst": "sbuf int32 128x512", "pattern": [[1, 512]]}
    fills = Fill(operand="pattern", bounds=_counted)

    def precision(use: Use) -> str:
        dtype = use.dtypes["dst"]
        return "native" if dtype is BOOL or dtype in INTEGERS else "float32"

    def shapes(use: Use) -> Mapping[str, tuple[int, ...]]:
        return {"dst": (use.dims["P"], use.dims["F"])}

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        values = np.zeros((1,), np.int64)
        for step, num in use.attrs["pattern"]:
            values = (values[:, None] + step * np.arange(num, dtype=np.int64)).reshape(-1)
        lanes = use.attrs["channel_multiplier"] * np.arange(out.dst.shape[0], dtype=np.int64)
        first = integer_of(state.values, use.attrs["offset"], "iota's offset")
        grid = (first + lanes[:, None] + values[None, :]).astype(np.int32)
        if use.dtypes["dst"] is BOOL:
            np.not_equal(grid, 0, out=out.dst, casting="unsafe")
        elif out.dst.dtype.kind in "iu":
            info = np.iinfo(out.dst.dtype)
            np.copyto(out.dst, np.clip(grid.astype(np.int64), info.min, info.max), casting="unsafe")
        else:
            np.copyto(out.dst, grid, casting="unsafe")

    def cost(arch: Arch, use: Use) -> Cost:
        return engine_cost(arch, use, free_size(use, "dst"))

    legacy = Legacy(
        result=lambda v: (tuple(v["shape"]), v["dtype"], SBUF), order=("expr", "dtype"), forms={"expr": "index"},
        without=("pattern", "offset", "channel_multiplier"),
    )  # fmt: skip
