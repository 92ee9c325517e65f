"""Microscaling formats (MX): quantization on the Vector Engine and scaled products on the Tensor Engine.

A packed element holds four numbers of consecutive places, the first in its lowest bits. Eight partitions by four
places, 32 numbers, share one scale: a power of two, stored as its exponent plus 127. In a tile of several quadrants of
32 partitions each quadrant has its four rows of scales at its own beginning, or four, eight or twelve rows further on
where the scale operand is a slice that begins there.
"""


# mypy: disable-error-code="misc"

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import ml_dtypes
import numpy as np

from nki_lab.isa.alu import Array
from nki_lab.isa.dtype import (
    BF16,
    F16,
    F32,
    FP4_E2M1FN_X4,
    FP8_E4M3FN_X4,
    FP8_E5M2_X4,
    FP8_E8M0,
    UINT8,
    DType,
)
from nki_lab.isa.ops.cycles import streaming
from nki_lab.isa.ops.matmul import ACCUMULATE, DEPTH, MULTIPLY_ADDS, multiply_adds, on_tile
from nki_lab.isa.ops.shapes import by_partition, partitions_of
from nki_lab.isa.spec import (
    PSUM,
    SBUF,
    Accumulation,
    Arrays,
    Cost,
    EngineState,
    Fault,
    Predicate,
    Unmodelled,
    Use,
    arg,
    attr,
    instruction,
    limit,
    out,
)

_FORMATS: Final = (FP8_E5M2_X4, FP8_E4M3FN_X4, FP4_E2M1FN_X4)
_SCALES: Final = (FP8_E8M0, UINT8)
_OFFSETS: Final = (4, 8, 12)  # rows further on in a quadrant where scales may begin
_ELEMENT: Final = {FP8_E5M2_X4: ml_dtypes.float8_e5m2, FP8_E4M3FN_X4: ml_dtypes.float8_e4m3fn}
# Exponent of the largest power of two that each format holds.
_LARGEST: Final = {FP8_E5M2_X4: 15, FP8_E4M3FN_X4: 8}
_FP4: Final = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32)
_BIAS: Final = 127
_GUIDE: Final = "Trainium3 architecture guide"
_PASS: Final = "pass the scale tile that nisa.quantize_mx wrote"

Rows = TypeVar("Rows", int, Array)


def unpacked(packed: Array, dtype: DType) -> Array:
    """Return the numbers of packed elements as float32, with a last dimension of four."""
    numbers: Array
    packed = np.ascontiguousarray(packed)
    if dtype is FP4_E2M1FN_X4:
        bits = packed.view(np.uint16)[..., None] >> np.array([0, 4, 8, 12], np.uint16)
        numbers = _FP4[bits & 15]
    else:
        numbers = packed.view(np.uint8).reshape(*packed.shape, 4).view(_ELEMENT[dtype]).astype(np.float32)
    return numbers


def scale_row(partition: Rows) -> Rows:
    """Return the row of a scale tile that belongs to a partition of the data."""
    row: Rows = partition // 32 * 32 + partition % 32 // 8
    return row


def _factors(scales: Array, rows: int) -> Array:
    """Return the scale of each partition and packed element, as float32; byte 255 is NaN."""
    taken = scales[scale_row(np.arange(rows))]
    if taken.dtype != np.uint8:
        return taken.astype(np.float32)
    return np.where(taken == 255, np.float32(np.nan), np.ldexp(np.float32(1), taken.astype(np.int32) - _BIAS))


def _reaches(data: str, scale: str, remedy: str, *, columns: int) -> Predicate:
    """Limit: a scale tile has the rows of all partitions of its data, which are 128 in the example."""

    def test(use: Use) -> Fault:
        rows, have = use.types[data].shape[0], use.types[scale].shape[0]
        need = scale_row(rows - 1) + 1
        if have >= need:
            return None
        return f"{scale} has {have} partitions, the scales of {rows} partitions of {data} take {need}"

    return Predicate(
        "NKI203",
        f"{scale} reaches the last quadrant's four rows",
        test,
        operand=scale,
        help=remedy,
        accepts={scale: f"sbuf uint8 100x{columns}"},
        refuses={scale: f"sbuf uint8 99x{columns}"},
    )


def _four_to_one(use: Use) -> Fault:
    src, dst, scale = (use.types[name].free_size for name in ("src", "dst", "dst_scale"))
    if src % 4:
        return f"src has {src} elements per partition"
    if dst == scale == src // 4:
        return None
    return f"src has {src} elements per partition, dst {dst} and dst_scale {scale}"


@instruction(engine="vector", since=4, see="NKI API, nki.isa.quantize_mx")
class quantize_mx:
    """dst = src in a packed 8-bit MX format, and dst_scale = the scale of each 8 x 4 block.

    A block's scale is 2 to the exponent of its largest magnitude, less the largest exponent of the format plus one, so
    that no element overflows; elements are divided by it and rounded to nearest even. The scale byte of a block of
    zeros is 0. Scales go to the first four rows of each quadrant of dst_scale; its other rows keep their values.

    The algorithm of the OCP specification, and older references of AWS, subtract the largest exponent itself: their
    scales are half as large, their packed elements twice as large and saturated. nki_lab.testing.quantize_mx gives both
    forms.
    """

    dst = out("P G", (SBUF,), "packed elements, a quarter of src's", dtypes=(FP8_E5M2_X4, FP8_E4M3FN_X4))
    src = arg("P F", (SBUF,), "tile to quantize", dtypes=(F16, BF16))
    dst_scale = out(
        "S H",
        (SBUF,),
        "scales: rows 0 to 3 of each quadrant, a column for each packed element",
        dtypes=_SCALES,
        offsets=_OFFSETS,
    )

    quadrants = Predicate(
        "NKI210",
        "src has whole quadrants of 32 partitions",
        partitions_of("src", 32),
        operand="src",
        help="pad the tile to a multiple of 32 partitions",
        accepts={"src": "sbuf bfloat16 32x512", "dst": "sbuf float8_e4m3fn_x4 32x128", "dst_scale": "sbuf uint8 4x128"},
        refuses={"src": "sbuf bfloat16 16x512", "dst": "sbuf float8_e4m3fn_x4 16x128"},
    )
    sizes = Predicate(
        "NKI203",
        "dst and dst_scale have a quarter of src's elements per partition",
        _four_to_one,
        operand="dst",
        help="allocate dst and dst_scale with a quarter of src's columns",
        accepts={"dst": "sbuf float8_e5m2_x4 128x128"},
        refuses={"dst": "sbuf float8_e5m2_x4 128x129"},
    )
    rows = _reaches("src", "dst_scale", "allocate it with as many partitions as src", columns=128)

    example = {
        "dst": "sbuf float8_e4m3fn_x4 128x128",
        "src": "sbuf bfloat16 128x512",
        "dst_scale": "sbuf uint8 128x128",
    }
    shapes = by_partition

    precision = "native"
    merges = True

    continuous = False

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        kind = use.types["dst"].dtype
        data = np.ascontiguousarray(ins.src).astype(np.float32)
        rows, columns = data.shape
        blocks = data.reshape(rows // 8, 8, columns // 4, 4)
        largest = np.abs(blocks).max(axis=(1, 3))
        _, exponent = np.frexp(largest)
        power = np.where(largest > 0, exponent - _LARGEST[kind], -_BIAS).clip(-_BIAS, _BIAS)
        # guess: a block with NaN or infinity has the scale NaN; the documentation does not say.
        broken = ~np.isfinite(largest)
        power[broken] = 0
        scaled = blocks * np.ldexp(np.float32(1), -power)[:, None, :, None]
        narrow = scaled.reshape(data.shape).astype(_ELEMENT[kind])
        out.dst[...] = narrow.view(np.uint8).view(np.uint32).reshape(out.dst.shape)
        target = scale_row(np.arange(0, rows, 8))
        if out.dst_scale.dtype == np.uint8:
            out.dst_scale[target] = np.where(broken, 255, power + _BIAS)
        else:
            out.dst_scale[target] = np.where(broken, np.float32(np.nan), np.ldexp(np.float32(1), power))

    cost = streaming("src", 1 / 4, source=_GUIDE)

    beta1 = Unmodelled("Beta 1 has no MX formats")


def _scale_rows(data: str) -> Callable[[Use], Array]:
    """Return the rows of a scale tile that belong to the partitions of `data`; others do not matter."""
    return lambda use: np.unique(scale_row(np.arange(use.types[data].shape[0])))


def _tile(use: Use) -> Fault:
    position, size = use.attrs["tile_position"], use.attrs["tile_size"]
    if bool(position) != bool(size):
        return "tile_position and tile_size come together"
    if not size:
        return None
    rows, columns = size
    if rows not in (32, 64, 128) or columns != 128:
        return f"tile_size is ({rows}, {columns})"
    if position[1] != 0 or position[0] % rows or not 0 <= position[0] < 128:
        return f"tile_position is {tuple(position)} with tile_size ({rows}, {columns})"
    return None if use.dims["K"] <= rows else f"{use.dims['K']} contraction rows do not fit a tile of {rows}"


def _picks(use: Use) -> Fault:
    """Test that a gathered operand and its scales are gathered by one index, and all on the whole array."""
    for name in ("stationary", "moving"):
        data, scale = use.types[name], use.types[f"{name}_scale"]
        gathers = data.indirect == "gather", scale.indirect == "gather"
        if gathers[0] != gathers[1]:
            return f"{name if gathers[0] else f'{name}_scale'} is gathered without the other"
        if gathers[0] and data.index is not scale.index:
            return f"{name} and {name}_scale are gathered by different index tensors"
    picked = next((name for name, view in use.types.items() if view is not None and view.indirect == "gather"), None)
    if picked is None or use.attrs["tile_position"] in ((), (0, 0)):
        return None
    verb = "scattered" if picked == "dst" else "gathered"
    return f"{picked} is {verb} with tile_position {use.attrs['tile_position']}"


@instruction(engine="tensor", since=4, see="NKI API, nki.isa.nc_matmul_mx")
class nc_matmul_mx:
    """dst[M, N] = product of packed MX tiles with their scales, summed over 4 K numbers, accumulated in PSUM.

    Each packed element holds four contraction rows; stationary and moving may have different MX formats. Products and
    sums are float32. `accumulate` works as in nc_matmul. N goes up to what a PSUM partition holds: 4096 columns of
    float32 or 8192 of bfloat16.
    """

    dst = out("M N", (PSUM,), "result of M partitions and N columns", dtypes=(F32, BF16), indirect=True)
    stationary = arg("K M", (SBUF,), "packed tile held in the array", dtypes=_FORMATS, indirect=True)
    moving = arg("K N", (SBUF,), "packed tile streamed through the array", dtypes=_FORMATS, indirect=True)
    stationary_scale = arg(
        "S M",
        (SBUF,),
        "scales of stationary, as nisa.quantize_mx lays them out",
        dtypes=_SCALES,
        offsets=_OFFSETS,
        indirect=True,
        rows=_scale_rows("stationary"),
    )
    moving_scale = arg(
        "T N", (SBUF,), "scales of moving", dtypes=_SCALES, offsets=_OFFSETS, indirect=True, rows=_scale_rows("moving")
    )
    tile_position = attr("pair", "(row, 0) where the array tile starts; with tile_size", default=())
    tile_size = attr("pair", "(rows, 128) of the array tile: 32, 64 or 128 rows", default=())
    accumulate = ACCUMULATE

    depth = DEPTH
    quadrants = Predicate(
        "NKI211",
        "K is a multiple of 32 partitions",
        partitions_of("stationary", 32),
        operand="stationary",
        help="pad the operands to whole quadrants",
        accepts={
            "stationary": "sbuf float8_e4m3fn_x4 32x64",
            "moving": "sbuf float8_e4m3fn_x4 32x512",
            "stationary_scale": "sbuf uint8 4x64",
            "moving_scale": "sbuf uint8 4x512",
        },
        refuses={"stationary": "sbuf float8_e4m3fn_x4 16x64", "moving": "sbuf float8_e4m3fn_x4 16x512"},
    )
    columns = limit(
        "M <= gemm_stationary_fmax",
        "NKI212",
        operand="stationary",
        help="split the stationary tile along its free dimension",
    )
    even = Predicate(
        "NKI212",
        "M is even",
        lambda use: f"stationary has {use.dims['M']} columns" if use.dims["M"] % 2 else None,
        operand="stationary",
        help="pad stationary by a column",
        accepts={"dst": "psum bfloat16 64x512"},
        refuses={
            "dst": "psum float32 63x512",
            "stationary": "sbuf float8_e4m3fn_x4 128x63",
            "stationary_scale": "sbuf uint8 128x63",
        },
    )
    held = _reaches("stationary", "stationary_scale", _PASS, columns=64)
    streamed = _reaches("moving", "moving_scale", _PASS, columns=512)
    tile = Predicate(
        "NKI210",
        "array tiles are (32, 64 or 128 rows, 128) at (multiple of the rows, 0)",
        _tile,
        operand="tile_size",
        help="give tile_position=(row, 0) and tile_size=(rows, 128), or neither",
        accepts={"tile_position": (0, 0), "tile_size": (128, 128)},
        refuses={"tile_position": (0, 0), "tile_size": (64, 128)},
    )
    picks = Predicate(
        "NKI309",
        "tensor indirection: an operand and its scales by one index, on the whole array",
        _picks,
        operand="stationary",
        help="make both views with the same index tensor",
        accepts={"moving": "sbuf float8_e4m3fn_x4 128x512 picked", "moving_scale": "sbuf uint8 128x512 picked"},
        refuses={"moving": "sbuf float8_e4m3fn_x4 128x512 picked"},
    )

    example = {
        "dst": "psum float32 64x512",
        "stationary": "sbuf float8_e4m3fn_x4 128x64",
        "moving": "sbuf float8_e4m3fn_x4 128x512",
        "stationary_scale": "sbuf uint8 128x64",
        "moving_scale": "sbuf uint8 128x512",
    }
    history = {"stationary": "stationary", "moving": "moving"}
    accumulation = Accumulation(mode=lambda use: use.attrs["accumulate"])
    shapes = by_partition

    precision = "native"

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        """`state.add`: False, True, or a mask in the shape of dst's view, of the elements that are added to."""
        product = state.multiply(_scaled(ins, use, "stationary"), _scaled(ins, use, "moving"))
        former = out.dst.astype(np.float32)
        if state.add is True:
            product += former
        elif state.add is not False:
            product += np.where(state.add.reshape(product.shape), former, np.float32(0))
        np.copyto(out.dst, product, casting="unsafe")

    def cost(use: Use) -> Cost:
        cycles = max(min(use.arch.matmul_min_cycles, use.dims["M"]), use.dims["N"])
        plain = Cost(
            interval=float(cycles),
            latency=cycles + use.arch.matmul_latency_cycles,
            source=_GUIDE,
            confidence="documented",
        )
        return on_tile(use, plain, use.dims["M"])

    work_unit = MULTIPLY_ADDS
    work = multiply_adds

    def flops(use: Use) -> int:
        return 2 * multiply_adds(use)

    beta1 = Unmodelled("Beta 1 has no MX formats")


def _scaled(ins: Arrays, use: Use, operand: str) -> Array:
    """Return an operand's numbers with their scales: (4 K, columns) float32."""
    packed = getattr(ins, operand)
    rows, columns = packed.shape
    values = unpacked(packed, use.types[operand].dtype) * _factors(getattr(ins, f"{operand}_scale"), rows)[..., None]
    return np.ascontiguousarray(values.transpose(0, 2, 1)).reshape(4 * rows, columns)
