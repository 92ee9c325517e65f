"""`neuronxcc.nki.language`: tensors, loads and stores, and compile-time constants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from numbers import Number
from typing import Any

import ml_dtypes
import numpy as np

from nki_lab.diagnostic import coded_error, diagnose, error_of
from nki_lab.isa.dtype import DTYPES, DType, constant_of, dtype_of
from nki_lab.isa.enums import oob_mode
from nki_lab.isa.spec import TABLE
from nki_lab.kernel_runtime.beta1.allocators import Placement
from nki_lab.kernel_runtime.beta1.assignment import fitted
from nki_lab.kernel_runtime.beta1.blocks import Blocks, grid_of, require_tile, split_shape, tiles_of
from nki_lab.kernel_runtime.beta1.builder import current
from nki_lab.kernel_runtime.beta1.elementwise import (
    in_sbuf,
    operand,
    plain_number,
    refuse_mask,
    spread,
    stretched,
    two_dimensional,
)
from nki_lab.kernel_runtime.beta1.instructions import record
from nki_lab.kernel_runtime.beta1.masking import MaskLike, cut_tensors, masked
from nki_lab.kernel_runtime.beta1.subscript import checked
from nki_lab.kernel_runtime.language import operations
from nki_lab.kernel_runtime.language.operations import Operand, kind_of, tile_shape
from nki_lab.kernel_runtime.tensor import Buffer, MemoryRegion, NkiTensor, make_view, psum, row_major, sbuf
from nki_lab.kernel_runtime.tensor.buffer import InvalidBuffer
from nki_lab.kernel_runtime.tensor.refusal import require_valid

_REGIONS = {region.value: region for region in MemoryRegion} | {"hbm": MemoryRegion.private_hbm}


def ndarray(shape: Any, dtype: object, buffer: Any = None, name: str = "", **_hints: object) -> NkiTensor:
    """A new uninitialised tensor in SBUF or `buffer`; on the chip, sizes before `nl.par_dim` are block dimensions."""
    builder = current()
    region = _region(buffer)
    if not isinstance(shape, (tuple, list)) or region not in (sbuf, psum):
        sizes = tuple(s.real if isinstance(s, int) else s for s in shape) if isinstance(shape, (tuple, list)) else shape
        return builder.allocate(sizes, dtype, region, name=name)
    blocks, tile = split_shape(shape)
    kind = dtype_of(dtype)
    if len(tile) < 2:
        return _too_flat(blocks, tile, kind, region, name)
    place = buffer.place if isinstance(buffer, Placement) else None
    builder.places_tensors |= place is not None
    if blocks:
        marked = ", ".join(map(str, (*blocks, f"nl.par_dim({tile[0]})", *tile[1:])))
        builder.advise(
            "NKI333",
            f"a tensor of shape ({marked}) in {region.value.upper()} has {len(blocks)} block dimension(s)",
            operand="shape",
            limit="the partition dimension comes first",
            remedy="keep a list of tiles, fold the blocks into a free dimension, or make a tile in each iteration",
        )

    def grow(where: tuple[int, ...]) -> NkiTensor:
        address = None if place is None else place(where, tile[0], math.prod(tile[1:]) * kind.nbytes)
        return builder.allocate(
            tile,
            kind,
            region,
            name=f"{name}[{', '.join(map(str, where))}]" if name and where else name,
            address=address,
        )

    if not blocks:
        return grow(())
    return grid_of(
        Buffer(-1, region, kind, tile, name=name, site=builder.site(), owner=builder), Blocks(blocks, grow), tile
    )


def _too_flat(
    blocks: tuple[int, ...], tile: tuple[int, ...], kind: DType, region: MemoryRegion, name: str
) -> NkiTensor:
    """A tensor on the chip without a free dimension, which may be made, and is no operand; NKI307 without any.

    Public kernels make a vector by `nl.ndarray((nl.par_dim(128),), ...)` and give its name to what nl.load returns.
    """
    fault = diagnose(
        "NKI307",
        f"an on-chip tensor of shape {(*blocks, *tile)}",
        operand="shape",
        limit="tiles of SBUF and PSUM have a partition dimension and at least one free dimension",
        help=f"make it with the shape {(*blocks, *tile, 1)}",
    )
    if not tile:
        raise error_of(fault)
    buffer = current().allocate((*tile, 1), kind, region, name=name)._buffer
    shape = (*blocks, *tile)
    return make_view(InvalidBuffer(buffer, fault), shape, row_major(shape), 0, kind)


def _region(buffer: Any) -> Any:
    if buffer is None:
        return sbuf
    if isinstance(buffer, Placement):
        return buffer.region
    return _REGIONS.get(buffer, buffer) if isinstance(buffer, str) else buffer


def full(shape: Any, fill_value: Any, dtype: object, buffer: Any = None, name: str = "", **_hints: object) -> NkiTensor:
    """A new tensor filled with `fill_value`."""
    tensor = ndarray(shape, dtype, buffer, name)
    builder = current()
    if not tensor._buffer.on_chip or (isinstance(buffer, Placement) and buffer.place is not None):
        on_chip = tensor._buffer.on_chip
        fill = "write the value with an assignment" if on_chip else "nl.store the value"
        builder.advise(
            "NKI332",
            f"a tensor {'at a place of its own' if on_chip else 'in HBM'} is created with a value",
            operand="buffer",
            limit="nl.zeros, ones and full make tiles in SBUF and PSUM that the compiler places",
            remedy=f"make it with nl.ndarray, and {fill}",
        )
    require_valid(tensor)
    value = plain_number(fill_value)
    for tile in tiles_of(tensor):
        if value == 0 and tile._buffer.space is psum and tile._buffer.address is None:
            builder.zero_accumulator(tile)
        else:
            operations.fill(tile, value)
    return tensor


def zeros(shape: Any, dtype: object, buffer: Any = None, name: str = "", **_hints: object) -> NkiTensor:
    """A new tensor of zeros; in PSUM, the usual accumulator of `+=`."""
    return full(shape, 0.0, dtype, buffer, name)


def ones(shape: Any, dtype: object, buffer: Any = None, name: str = "", **_hints: object) -> NkiTensor:
    """A new tensor of ones."""
    return full(shape, 1.0, dtype, buffer, name)


def empty_like(a: NkiTensor, dtype: object = None, buffer: Any = None, name: str = "", **_hints: object) -> NkiTensor:
    """A new uninitialised tensor of a's shape; in SBUF where `buffer` is not given, wherever a lies."""
    return ndarray(tuple(a.shape), dtype or a._dtype, buffer, name)


def zeros_like(a: NkiTensor, dtype: object = None, buffer: Any = None, name: str = "", **_hints: object) -> NkiTensor:
    """A new tensor of zeros of a's shape; in SBUF where `buffer` is not given."""
    return zeros(tuple(a.shape), dtype or a._dtype, buffer, name)


def load(
    src: Operand,
    mask: MaskLike = None,
    dtype: object = None,
    mode: Enum | None = None,
    **_hints: object,
) -> NkiTensor:
    """A new SBUF tile with the contents of an HBM view, cast to `dtype` on the way."""
    tensor = _in_hbm(src, "load", "src")
    kind = kind_of(dtype, tensor)

    def compute(part: NkiTensor) -> NkiTensor:
        tile = current().allocate(tile_shape(part._shape), kind, sbuf)
        _copy(tile, part, mode)
        return tile

    return masked(mask, compute, (tensor,), kind, letters=(("E",),), shape_of=tile_shape)


def _copy(dst: NkiTensor, src: NkiTensor, mode: Enum | None = None) -> None:
    record(
        TABLE["dma_copy"], {"dst": dst, "src": src} | ({} if mode is None else {"oob_mode": oob_mode[mode.name]}), None
    )


def load_transpose2d(src: Operand, mask: MaskLike = None, dtype: object = None, **_hints: object) -> NkiTensor:
    """A new SBUF tile with the transpose of a two-dimensional HBM view: a DMA that reads columns."""
    tensor = two_dimensional(src, "load_transpose2d", "src", "index it with two indices")
    refuse_mask(mask, "load_transpose2d", "load_transpose2d(src, dtype=)", "slice src instead")
    return load(checked(tensor).permute((1, 0)), dtype=dtype)


def _in_hbm(value: object, function: str, name: str) -> NkiTensor:
    tensor = operand(value, function, name)
    if tensor._buffer.on_chip:
        where = tensor._buffer.space.value.upper()
        raise coded_error(
            "NKI201",
            f"nl.{function}: {name} is in {where}, it must be in HBM",
            operand=name,
            limit=f"{name} in HBM",
            help="on the chip, use nl.copy or assign to a slice",
        )
    return tensor


def store(dst: Operand, value: Operand, mask: MaskLike = None, mode: Enum | None = None, **_hints: object) -> None:
    """Write a tile or a number to an HBM view; a tile in PSUM goes through SBUF."""
    target = _in_hbm(dst, "store", "dst")
    operands = [target]
    if not isinstance(value, (Number, np.generic)):
        tile = operand(value, "store", "value")
        operands.append(tile if tile.size == target.size else _repeated(tile, target))
    if mask is not None or len(operands) == 1:
        boxes = cut_tensors(mask, operands, [("E",)] * len(operands))
        if boxes.empty:
            return
        operands = boxes.of(operands)
    if isinstance(value, (Number, np.generic)):
        operations.fill(operands[0], plain_number(value))
    else:
        _copy(operands[0], in_sbuf(operands[1]), mode)


def _repeated(tile: NkiTensor, target: NkiTensor) -> NkiTensor:
    """Return a smaller value, repeated to the size of the target."""
    if tile._shape[0] == 1 and target._shape[0] != 1 and len(target._shape) > 1:
        return stretched(in_sbuf(checked(tile)), target._shape)
    return fitted(checked(tile), target)


def copy(src: Operand, mask: MaskLike = None, dtype: object = None, **_hints: object) -> NkiTensor:
    """A new SBUF tile with the contents of a tile."""
    tile = operand(src, "copy", "src")
    kind = kind_of(dtype, tile)
    return masked(mask, lambda part: operations.copy(part, kind), (tile,), kind)


def broadcast_to(src: Operand, shape: Sequence[int], **_hints: object) -> NkiTensor:
    """`src` repeated to `shape`; along partitions in a new tile, otherwise as a view."""
    tile = operand(src, "broadcast_to", "src")
    sizes = tuple(shape)
    if tile._buffer.on_chip:
        tile = spread(tile, sizes[0])
    filled = (tile._shape[0], *(1,) * (len(sizes) - len(tile._shape)), *tile._shape[1:])
    if len(filled) != len(sizes) or any(have not in (1, want) for have, want in zip(filled, sizes, strict=True)):
        raise coded_error(
            "NKI203",
            f"nl.broadcast_to: src is {tuple(tile._shape)}, shape is {sizes}",
            operand="shape",
            limit="each size equals that of src, or src has size 1 there",
            help="reshape src first",
        )
    return stretched(tile, sizes)


def expand_dims(data: Operand, axis: int | Sequence[int]) -> NkiTensor:
    """A view with new dimensions of size 1 at `axis`, an integer or several."""
    tile = checked(operand(data, "expand_dims", "data"))
    for dim in sorted(axis if isinstance(axis, (tuple, list)) else (axis,)):
        tile = tile.expand_dim(dim + len(tile._shape) + 1 if dim < 0 else dim)
    return tile


def static_cast(input_data: Any, dtype: object) -> Any:
    """A tile copied to another dtype, or a number as a NumPy scalar of it."""
    if isinstance(input_data, NkiTensor):
        return copy(input_data, dtype=dtype)
    return constant_of(input_data, dtype_of(dtype), "input_data")[()]


def shared_constant(constant: Any, dtype: object = None, **_hints: object) -> NkiTensor:
    """An HBM tensor with the values of a NumPy array, to be read with nl.load."""
    builder = current()
    kind = dtype_of(np.asarray(constant).dtype if dtype is None else dtype)
    values = constant_of(constant, kind, "constant")
    tensor = builder.allocate(values.shape, kind, MemoryRegion.private_hbm, kind="const")
    builder.program.constants[tensor._buffer.id] = values
    return tensor


def shared_identity_matrix(n: int, dtype: object = np.uint8, **_hints: object) -> NkiTensor:
    """An n x n identity matrix in HBM, to be read with nl.load."""
    return shared_constant(np.identity(n, dtype=np.float32), dtype)


def device_print(prefix: str, x: Any, mask: MaskLike = None, **_hints: object) -> None:
    """Print a tensor's values when the call is reached, in simulation."""
    if mask is not False:
        require_tile(operand(x, "device_print", "x"))
        operations.device_print(prefix, checked(x))


def finfo(dtype: object) -> Any:
    """Limits of a floating-point dtype, as NumPy gives them."""
    return ml_dtypes.finfo(np.dtype(dtype_of(dtype).host))  # type: ignore[no-untyped-call]


class fp32:
    """Limits of float32 as kernels use them for `-infinity`."""

    min = DTYPES["float32"].lowest


class bfp16:
    """Limits of bfloat16; `min` is the bit pattern 0xff80, which is -inf."""

    min = float("-inf")


class constants:
    """Sizes that samples read from `nl.constants`."""

    sbuf_min_align = 1  # guess: published allocators align to the dtype only

    @staticmethod
    def sizeinbytes(dtype: object) -> int:
        """Bytes of an element of a dtype."""
        return dtype_of(dtype).nbytes
