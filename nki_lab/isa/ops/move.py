"""Copies and constants on the chip."""


# mypy: disable-error-code="misc"

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nki_lab.diagnostic import Diagnostic, diagnose
from nki_lab.isa import enums
from nki_lab.isa.alu import Array
from nki_lab.isa.dtype import BF16, BOOL, F16, INTEGERS, dtype_of
from nki_lab.isa.ops.cycles import (
    ARCH_V3,
    PROFILES_V3,
    WIDTHS_V3,
    are_dense,
    copy_factor,
    engine_cost,
    free_size,
    in_sbuf,
    scalar_factor,
    streaming,
    trust,
)
from nki_lab.isa.ops.register import integer_of
from nki_lab.isa.ops.shapes import by_partition, native_or_float32
from nki_lab.isa.spec import (
    ONCHIP,
    SBUF,
    Arrays,
    Beta1,
    Cost,
    EngineState,
    Fault,
    Fill,
    Predicate,
    Register,
    Use,
    arg,
    attr,
    choice,
    instruction,
    out,
)


def _picks(use: Use) -> Fault:
    if use.engine != "gpsimd":
        return None
    name = next((name for name, view in use.types.items() if view is not None and view.indirect == "gather"), "")
    return f"{name} is gathered, which GpSimd does not do in a copy" if name else None


def _through_float32(use: Use) -> bool:
    """Check for the Scalar Engine of NeuronCore-v2, which casts what it copies."""
    return use.engine == "scalar" and use.arch.generation == 2


def _scalar_engine(use: Use) -> Fault:
    """Test the target; Beta 1 documents the Scalar Engine's copy for NeuronCore-v2 too."""
    asked = use.engine == "scalar" and use.dialect != "beta1"
    return use.before(3, "the Scalar Engine has tensor_copy from") if asked else None


@instruction(engine=("vector", "scalar", "gpsimd"), see="NKI API, nki.isa.tensor_copy")
class tensor_copy:
    """dst = src within SBUF and PSUM; the same dtype is copied bit by bit, another goes through float32.

    On the Scalar Engine of NeuronCore-v2, which Beta 1 alone can ask for, every dtype goes through float32.
    """

    dst = out("P F", ONCHIP, "destination, cast on write", indirect=True)
    src = arg("P F", ONCHIP, "source", indirect=True)
    engine = choice("vector, scalar, gpsimd or unknown", enums.engine.unknown)

    scalar_engine = Predicate(
        "NKI221",
        "engine=scalar from NeuronCore-v3",
        _scalar_engine,
        operand="engine",
        help="use nisa.activation(op=nl.copy) there",
        target="trn1",
        accepts={"engine": enums.engine.vector},
        refuses={"engine": enums.engine.scalar},
    )
    picks = Predicate(
        "NKI208",
        "tensor indirection runs on the Vector and Scalar Engines",
        _picks,
        operand="engine",
        help="leave engine out",
        target="trn3",
        accepts={"src": "sbuf float32 128x512 picked", "engine": enums.engine.scalar},
        refuses={"src": "sbuf float32 128x512 picked", "engine": enums.engine.gpsimd},
    )

    example = {"dst": "sbuf float32 128x512", "src": "psum float32 128x512"}
    role = "copy"

    elementwise = True
    tolerated = {"dtype": "the dtype of dst decides"}

    choose = "vector"
    relief = "scalar"

    def precision(use: Use) -> str:
        return "float32" if _through_float32(use) else native_or_float32("dst", "src")(use)

    def exact(use: Use) -> bool:
        return not _through_float32(use)

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        np.copyto(out.dst, ins.src)

    def cost(use: Use) -> Cost:
        n = free_size(use, "dst")
        if use.engine == "gpsimd":
            return engine_cost(use, n)
        if use.engine == "scalar":
            return engine_cost(use, n * scalar_factor(use, "dst", "src"))
        factor = copy_factor(use, "dst", "src")
        if factor < 1:
            return engine_cost(use, n * factor, source=ARCH_V3)
        if use.arch.generation >= 3 and in_sbuf(use) and are_dense(use, "dst", "src"):
            return engine_cost(
                use,
                n / use.arch.vector_fp32_copy,
                source=WIDTHS_V3,
                confidence=trust(use, v3="measured"),
            )
        if use.arch.generation == 3:
            return engine_cost(use, n, source=f"{PROFILES_V3}: PSUM to SBUF", confidence="measured")
        return engine_cost(use, n)

    beta1 = Beta1(order="src")


def _value_kind(use: Use) -> Fault:
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
    engine = choice("vector, gpsimd or unknown", enums.engine.unknown)

    value_kind = Predicate(
        "NKI224",
        "the constant has dst's kind and fits it",
        _value_kind,
        operand="value",
        help="write the constant as the tile's dtype has it",
        accepts={"dst": "sbuf int32 128x512", "value": 2},
        refuses={"dst": "sbuf int32 128x512", "value": 2.5},
    )

    example = {"dst": "sbuf float32 128x512", "value": 0.0}
    fills = Fill(operand="value", bounds=lambda use: (use.attrs["value"], use.attrs["value"]))

    elementwise = True

    choose = "vector"

    def warns(use: Use) -> list[Diagnostic]:
        dtype, value = use.dtypes["dst"], use.attrs["value"]
        if dtype is None or dtype.kind not in ("int", "uint", "packed") or not isinstance(value, float):
            return []
        return [
            diagnose(
                "NKI606",
                f"memset: value={value!r} stands for {int(value)}",
                operand="value",
                limit=f"{dtype.name} tiles are filled with integers",
                help=f"write {int(value)}",
            )
        ]

    def precision(use: Use) -> str:
        dtype = use.dtypes["dst"]
        return "float32" if dtype is not None and dtype.kind == "float" else "native"

    def exact(use: Use) -> bool:
        return use.attrs["value"] in (0, 1)

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        out.dst[...] = bool(use.attrs["value"]) if use.dtypes["dst"] is BOOL else use.attrs["value"]

    def cost(use: Use) -> Cost:
        n = free_size(use, "dst")
        return engine_cost(use, n / 2 if (use.attrs["value"] == 0 and use.dtypes["dst"] in (BF16, F16)) else n)

    beta1 = Beta1(
        result=lambda v: (tuple(v["shape"]), v["dtype"], SBUF),
        order="shape value dtype",
        forms={"shape": "shape"},
        adapt=_plain_number,
    )


def _counts(use: Use) -> Fault:
    """Test that a pattern has 1 to 4 entries and as many elements as a partition of dst."""
    pattern = use.attrs["pattern"]
    if not 1 <= len(pattern) <= 4:
        return f"pattern has {len(pattern)} entries, {use.name} takes 1 to 4"
    count = math.prod(num for _, num in pattern)
    free = use.types["dst"].free_size
    return None if count == free else f"pattern counts {count} elements, dst has {free} per partition"


def _affine_int32(use: Use) -> Fault:
    """Test that the numbers of an affine function are int32; a register's content is not known."""
    numbers = [step for step, _ in use.attrs["pattern"]] + [use.attrs["channel_multiplier"], use.attrs["offset"]]
    for number in numbers:
        if isinstance(number, Register):
            continue
        if not isinstance(number, int) or isinstance(number, bool):
            return f"{number} is no integer"
        if not -(2**31) <= number < 2**31:
            return f"{number} does not fit int32"
    return None


def affine_values(out: Arrays, use: Use, state: EngineState) -> Array:
    """Return the affine function of each element of dst, partitions by elements, in int32."""
    attrs = use.attrs
    values = np.zeros((1,), np.int64)
    for step, num in attrs["pattern"]:
        values = (values[:, None] + step * np.arange(num, dtype=np.int64)).reshape(-1)
    lanes = attrs["channel_multiplier"] * np.arange(out.dst.shape[0], dtype=np.int64)
    affine: Array = (
        integer_of(state.values, attrs["offset"], f"{use.name}'s offset") + lanes[:, None] + values[None, :]
    ).astype(np.int32)
    return affine


def affine_limits(remedy: str) -> tuple[Predicate, Predicate]:
    """Limits: the pattern counts dst's elements, and the numbers of the affine function are int32."""
    return (
        Predicate(
            "NKI216",
            "1 to 4 entries whose counts multiply to dst's elements per partition",
            _counts,
            operand="pattern",
            help="give one [step, num] for each free dimension of dst",
            accepts={"pattern": [[8, 64], [1, 8]]},
            refuses={"pattern": [[1, 511]]},
        ),
        Predicate(
            "NKI216",
            "steps, offset and channel_multiplier are int32",
            _affine_int32,
            operand="pattern",
            help=remedy,
            accepts={"channel_multiplier": 2**31 - 1},
            refuses={"channel_multiplier": 2**31},
        ),
    )


def _counted(use: Use) -> tuple[int, int] | None:
    """Return the least and the largest number that `iota` counts to."""
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

    counts, fits = affine_limits("compute larger values in float32 from a smaller pattern")

    example = {"dst": "sbuf int32 128x512", "pattern": [[1, 512]]}
    fills = Fill(operand="pattern", bounds=_counted)

    def precision(use: Use) -> str:
        dtype = use.dtypes["dst"]
        return "native" if dtype is BOOL or dtype in INTEGERS else "float32"

    shapes = by_partition

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        grid = affine_values(out, use, state)
        if use.dtypes["dst"] is BOOL:
            np.not_equal(grid, 0, out=out.dst, casting="unsafe")
        elif out.dst.dtype.kind in "iu":
            info = np.iinfo(out.dst.dtype)
            np.copyto(out.dst, np.clip(grid.astype(np.int64), info.min, info.max), casting="unsafe")
        else:
            np.copyto(out.dst, grid, casting="unsafe")

    cost = streaming("dst")

    beta1 = Beta1(
        result=lambda v: (tuple(v["shape"]), v["dtype"], SBUF),
        order="expr dtype",
        forms={"expr": "index"},
        without="pattern offset channel_multiplier",
    )
