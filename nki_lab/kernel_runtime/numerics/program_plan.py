"""What a complete program allows: loads that need not be made, slabs, results at true width, tiles dead after an op."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa.dtype import BF16
from nki_lab.kernel_runtime.ir import Program, Variant, View
from nki_lab.kernel_runtime.numerics import slab as slabs
from nki_lab.kernel_runtime.numerics.buffer_usage import BufferUsage
from nki_lab.kernel_runtime.tensor import Buffer, NkiTensor, reshape_strides

Array = NDArray[Any]

_FEW: Final = 2
_WIDE: Final = 4  # bytes of a float32


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramPlan:
    """The plan of a program whose ops are all there.

    `written` tells of each buffer whether an op writes it. `rows` are the ops that remain, among them the first op of
    each slab, which stands for all of it and is in `skip`. `windows` are the elided loads, by their tile, that other
    ops than slabs read; `elided` counts them all. `narrow` are the arguments that only slabs read: they stay at true
    width. `stored` are the results that are held at true width. `dying` are, for each op, the tiles that nobody
    touches or asks for afterwards.
    """

    written: NDArray[np.bool_]
    skip: Mapping[int, slabs.Slab]
    rows: Array
    windows: Mapping[int, slabs.Window]
    elided: int
    slabs: tuple[slabs.Slab, ...]
    narrow: frozenset[int]
    stored: frozenset[int]
    dying: Mapping[int, list[int]]


_known: WeakKeyDictionary[Program, ProgramPlan] = WeakKeyDictionary()


def plan_program(program: Program, add: Mapping[int, Any], shadowed: NDArray[np.bool_]) -> ProgramPlan:
    """The plan of a complete program without device loops; worked out once for each program.

    `add` resolves each matmul's accumulation, `shadowed` tells which buffers are held in float32.
    """
    found = _known.get(program)
    if found is None:
        found = _known[program] = _planned(program, add, shadowed)
    return found


def _planned(program: Program, add: Mapping[int, Any], shadowed: NDArray[np.bool_]) -> ProgramPlan:
    usage = BufferUsage(program)
    keep = kept(program)
    windows = _elided(program, usage, shadowed, keep)
    found: list[slabs.Slab] = []
    if program.options.matmul_order != "tile":
        found = slabs.find(program, usage, add, windows, shadowed, program.options.slab_bytes)
    left = np.ones(len(program), bool)
    left[usage.first_write[list(windows)]] = False
    left[[op for item in found for op in item.ops]] = False
    touched = usage.touched(left)
    left[[item.first for item in found]] = True
    needed = {tile: window for tile, window in windows.items() if touched[tile]}
    touched[[window.root for window in needed.values()]] = True
    return ProgramPlan(
        written=usage.writes > 0,
        skip={item.first: item for item in found},
        rows=np.flatnonzero(left),
        windows=needed,
        elided=len(windows),
        slabs=tuple(found),
        narrow=_narrow(program, found, touched),
        stored=_stored(program, usage),
        dying=dying(program, usage, keep),
    )


def _narrow(program: Program, found: list[slabs.Slab], touched: Array) -> frozenset[int]:
    """The roots that only slabs read, and few of them: each widens what it reads."""
    uses = Counter(root for item in found for root in {place.root for place in (*item.left, *item.right)})
    return frozenset(
        root
        for root, count in uses.items()
        if count <= _FEW and not touched[root] and program.buffers[root].dtype.storage.itemsize < _WIDE
    )


def kept(program: Program) -> NDArray[np.bool_]:
    """The buffers that are wanted when the program is over."""
    keep = np.zeros(len(program.buffers), bool)
    keep[[tensor._buffer.id for tensor in program.outputs]] = True
    return keep


def dying(program: Program, usage: BufferUsage, keep: Array) -> dict[int, list[int]]:
    """For each op, of a device loop the last one, the tiles that nobody touches or asks for afterwards."""
    # Index tensors are looked at while the program runs, when later ops are planned already.
    indices = [view.indirect.index for view in program.views if view.indirect is not None]
    stay = {index._buffer.id for index in indices if isinstance(index, NkiTensor)}
    out: dict[int, list[int]] = {}
    last_access = usage.last_access.copy()
    for region in program.regions:
        if region.parent < 0:
            last_access[(last_access >= region.first) & (last_access < region.end)] = region.end - 1
    for buffer, last in zip(program.buffers, last_access.tolist(), strict=True):
        if buffer.on_chip and not keep[buffer.id] and buffer.kind not in ("input", "const") and buffer.id not in stay:
            out.setdefault(last, []).append(buffer.id)
    return out


def copies_as_it_is(variant: Variant) -> bool:
    """Whether a variant is a copy that neither converts nor follows indices."""
    types = variant.use.types
    return (
        variant.instruction.role == "copy"
        and variant.use.dtypes["dst"] is variant.use.dtypes["src"]
        and types["src"].indirect is None
        and types["dst"].indirect is None
    )


def _stored(program: Program, usage: BufferUsage) -> frozenset[int]:
    """Results of bfloat16 that plain copies write and nothing reads: converted tile by tile, while in the cache."""
    views, options = program.views, program.options
    if not options.precise or any(view.type.dtype is not view.buffer.dtype for view in views if not view.type.on_chip):
        return frozenset()
    plain = program.variants_where(copies_as_it_is)
    out = set()
    for buffer in {tensor._buffer for tensor in program.outputs}:
        if buffer.on_chip or buffer.dtype is not BF16 or buffer.kind != "output":
            continue
        ops = usage.writers(buffer.id)
        if usage.never_read(buffer.id) and len(ops) and plain[np.frombuffer(program.op_variant, np.uint32)[ops]].all():
            out.add(buffer.id)
    return frozenset(out)


def _elided(program: Program, usage: BufferUsage, shadowed: Array, keep: Array) -> dict[int, slabs.Window]:
    """Loads whose tile can be a window into its source: written once, whole, read by matmuls only."""
    candidates = program.variants_where(copies_as_it_is)
    windows: dict[int, slabs.Window] = {}
    if not candidates.any():
        return windows
    buffers, views = program.buffers, program.views
    tiles = (usage.writes == 1) & (usage.foreign_reads == 0) & ~keep & shadowed
    tiles &= np.array([buffer.on_chip and buffer.address is None for buffer in buffers], bool)
    sources = (usage.writes == 0) & shadowed
    sources &= np.array([not buffer.on_chip and buffer.kind in ("input", "const") for buffer in buffers], bool)
    of_view = np.fromiter((view.buffer.id for view in views), np.int64, len(views))
    full = np.fromiter((view.full for view in views), bool, len(views))
    ops = np.flatnonzero(candidates[np.frombuffer(program.op_variant, np.uint32)])
    accesses = np.frombuffer(program.access_view, np.uint32)
    at = np.frombuffer(program.op_access, np.uint32)[ops]
    into, out_of = accesses[at], accesses[at + 1]
    fits = tiles[of_view[into]] & full[into] & sources[of_view[out_of]] & (usage.first_read[of_view[into]] >= ops)
    layouts: dict[tuple[int, int], int | None] = {}
    for target, origin in zip(into[fits].tolist(), out_of[fits].tolist(), strict=True):
        dst, src = views[target], views[origin]
        key = (src.type.id, dst.type.id)
        if key not in layouts:
            layouts[key] = _row_pitch(src, dst.buffer)
        pitch = layouts[key]
        if pitch is not None:
            windows[dst.buffer.id] = slabs.Window(src.buffer.id, src.offset, pitch)
    return windows


def _row_pitch(src: View, tile: Buffer) -> int | None:
    """Elements from row to row when the source is read as the tile's partitions x dense row; None otherwise."""
    strides = reshape_strides(src.type.shape, src.type.strides, (tile.partitions, tile.row_elements))
    if strides is None or (strides[1] != 1 and tile.row_elements > 1) or (strides[0] < tile.row_elements):
        return None
    return strides[0]
