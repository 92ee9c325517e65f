"""Kernels for the tests of memory and order: written as users write them, or drawn by hypothesis."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from nki_lab.isa.arch import Arch, arch_of
from nki_lab.isa.dtype import DType
from nki_lab.kernel_runtime.ir import Program, View, verify
from nki_lab.kernel_runtime.language import namespaces
from nki_lab.kernel_runtime.language.kernel_builder import GridBuilder, KernelBuilder
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.tracer import trace

nl = types.SimpleNamespace(**namespaces.language_names())
nisa = types.SimpleNamespace(**namespaces.instruction_names())


def traced(
    kernel: Callable[..., Any], *shapes: tuple[int, ...], target: str | Arch = "trn2", dtype: Any = None
) -> Program:
    """The program of a kernel whose arguments are HBM tensors of these shapes, float32 without a dtype."""
    arch = target if isinstance(target, Arch) else arch_of(target)
    program = Program(getattr(kernel, "__name__", "drawn"), arch, Options())
    builder = KernelBuilder(program)
    inputs = [builder.allocate(shape, dtype or nl.float32, nl.shared_hbm, kind="input") for shape in shapes]
    program.inputs = [tensor._buffer for tensor in inputs]
    trace(kernel, tuple(inputs), {}, builder)
    verify(program)
    return program


def traced_on_cores(
    kernels: Sequence[Callable[..., Any]],
    *shapes: tuple[int, ...],
    target: str | Arch = "trn2",
    options: Options | None = None,
) -> Program:
    """The program of a launch on as many cores as there are kernels, one for each; float32 arguments in HBM."""
    arch = target if isinstance(target, Arch) else arch_of(target)
    program = Program("drawn", arch, options or Options())
    builder = GridBuilder(program)
    inputs = [builder.allocate(shape, nl.float32, nl.shared_hbm, kind="input") for shape in shapes]
    program.inputs = [tensor._buffer for tensor in inputs]
    for core, kernel in enumerate(kernels):
        builder.start((len(kernels),), (core,))
        trace(kernel, tuple(inputs), {}, builder)
    verify(program)
    return program


def small(target: str = "trn2", *, sbuf: int = 4096, reserved: int = 0) -> Arch:
    """A target whose SBUF has `sbuf` bytes in a partition, so that a few tiles fill it."""
    return dataclasses.replace(
        arch_of(target), sbuf_partition_bytes=sbuf, sbuf_usable_bytes=sbuf - reserved, sbuf_bytes=128 * sbuf
    )


def elements(view: View) -> set[int]:
    """Every byte of its buffer that a view covers, counted from the definition."""
    if view.indirect is not None:
        return set(range(view.buffer.nbytes))
    kind = view.type
    out = np.full(kind.shape, view.offset, np.int64)
    for axis, (size, step) in enumerate(zip(kind.shape, kind.strides, strict=True)):
        out += np.arange(size).reshape([-1 if k == axis else 1 for k in range(len(kind.shape))]) * step
    width = kind.dtype.nbytes
    return {int(at) * width + k for at in out.reshape(-1).tolist() for k in range(width)}


# -- drawn kernels -----------------------------------------------------------------------------------------------------

_HEIGHTS = (1, 2, 32, 40, 64, 128)


@dataclasses.dataclass(frozen=True)
class Tile:
    """A tensor of a drawn kernel."""

    space: str
    rows: int
    columns: int
    address: tuple[int, int] | None = None
    double: bool = False  # 2-byte instead of 4-byte elements

    @property
    def dtype(self) -> DType:
        """Its dtype."""
        return nl.bfloat16 if self.double else nl.float32


@dataclasses.dataclass(frozen=True)
class Part:
    """Some rows and columns of a tile; `flat` takes them from the flattened tensor, in HBM."""

    tile: int
    row: int
    rows: int
    column: int
    columns: int
    step: int
    flat: bool = False

    def of(self, tensors: list[Any]) -> Any:
        """The view."""
        tensor = tensors[self.tile]
        if self.flat:
            line = tensor.reshape((tensor.shape[0] * tensor.shape[1],))
            start = self.row * tensor.shape[1] + self.column
            return line[start : start + self.rows * self.columns]
        end = self.column + (self.columns - 1) * self.step + 1
        return tensor[self.row : self.row + self.rows, self.column : end : self.step]


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A drawn kernel: tiles, and calls (instruction, parts, engine)."""

    tiles: tuple[Tile, ...]
    calls: tuple[tuple[str, tuple[Part, ...], str], ...]

    def __call__(self) -> Any:
        tensors = [_made(tile) for tile in self.tiles]
        for name, parts, engine in self.calls:
            _issue(name, [part.of(tensors) for part in parts], engine)


def _made(tile: Tile) -> Any:
    space = {"sbuf": nl.sbuf, "psum": nl.psum, "hbm": nl.private_hbm}[tile.space]
    return nl.ndarray((tile.rows, tile.columns), tile.dtype, buffer=space, address=tile.address)


def _issue(name: str, views: list[Any], engine: str) -> None:
    if name == "memset":
        nisa.memset(views[0], 0.0, engine=getattr(nisa.engine, engine))
    elif name == "copy":
        nisa.tensor_copy(views[0], views[1], engine=getattr(nisa.engine, engine))
    elif name == "dma":
        modes = {"sync": nisa.dge_mode.hwdge, "scalar": nisa.dge_mode.hwdge, "gpsimd": nisa.dge_mode.swdge}
        more = {"engine": getattr(nisa.engine, engine)} if engine in ("sync", "scalar") else {}
        nisa.dma_copy(views[0], views[1], dge_mode=modes.get(engine, nisa.dge_mode.unknown), **more)
    elif name == "matmul":
        nisa.nc_matmul(views[0], views[1], views[2])


def _starts(rows: int) -> tuple[int, ...]:
    return (0, 32, 64, 96) if rows <= 32 else (0, 64) if rows <= 64 else (0,)


@st.composite
def _part(draw: Any, tiles: list[Tile], number: int, rows: int, columns: int, flat: bool = False) -> Part:
    tile = tiles[number]
    if tile.space == "hbm":
        start = draw(st.integers(0, tile.rows - rows))
        if flat and draw(st.booleans()):
            at = draw(st.integers(0, tile.rows * tile.columns - rows * columns))
            return Part(number, at // tile.columns, rows, at % tile.columns, columns, 1, flat=True)
    else:
        base = tile.address[0] if tile.address else 0
        start = draw(st.sampled_from([s for s in range(tile.rows - rows + 1) if base + s in _starts(rows)]))
    step = draw(st.integers(1, max(1, (tile.columns - 1) // max(1, columns - 1)) if columns > 1 else 1))
    column = draw(st.integers(0, tile.columns - ((columns - 1) * step + 1)))
    return Part(number, start, rows, column, columns, step)


@st.composite
def drawn_kernels(
    draw: Any, *, most_tiles: int = 7, most_calls: int = 14, columns: int = 6, placed: bool = True
) -> Drawn:
    """A legal kernel of memsets, copies, DMAs and matmuls over slices and strides of a few tensors."""
    tiles = []
    for _ in range(draw(st.integers(1, most_tiles))):
        space = draw(st.sampled_from(("sbuf", "sbuf", "sbuf", "psum", "hbm")))
        rows = draw(st.sampled_from(_HEIGHTS)) if space != "hbm" else draw(st.integers(1, 5))
        width = draw(st.integers(1, columns))
        address = None
        if placed and space == "sbuf" and draw(st.integers(0, 3)) == 0:
            address = (draw(st.sampled_from(_starts(rows))), 4 * draw(st.integers(0, 8)))
            rows = min(rows, 128 - address[0])
        tiles.append(Tile(space, rows, width, address, space == "sbuf" and draw(st.integers(0, 3)) == 0))
    calls = [draw(_call(tiles)) for _ in range(draw(st.integers(1, most_calls)))]
    return Drawn(tuple(tiles), tuple(call for call in calls if call is not None))


@st.composite
def _call(draw: Any, tiles: list[Tile]) -> tuple[str, tuple[Part, ...], str] | None:
    name = draw(st.sampled_from(("memset", "copy", "copy", "dma", "dma", "matmul")))
    numbers = list(range(len(tiles)))
    spaces = [tile.space for tile in tiles]
    if name == "matmul":
        return draw(_matmul(tiles))
    if name == "dma":
        allowed = [n for n in numbers if spaces[n] != "psum"]
    else:
        allowed = [n for n in numbers if spaces[n] != "hbm"]
    if not allowed:
        return None
    chosen = [draw(st.sampled_from(allowed)) for _ in range(1 if name == "memset" else 2)]
    heights = [tiles[n].rows for n in chosen]
    rows = draw(st.sampled_from([h for h in (1, 2, 5, 32, 40, 64, 128) if h <= min(heights)]))
    columns = draw(st.integers(1, min(tiles[n].columns for n in chosen)))
    parts = tuple(draw(_part(tiles, n, rows, columns, name == "dma")) for n in chosen)
    in_psum = any(spaces[n] == "psum" for n in chosen)
    engines = ["vector"] if in_psum else ["vector", "gpsimd"]
    if name == "copy":
        engines.append("scalar")
    if name == "dma":
        cast = tiles[chosen[0]].double != tiles[chosen[1]].double
        engines = ["unknown", "gpsimd"] if cast else ["unknown", "unknown", "sync", "scalar", "gpsimd"]
    return name, parts, draw(st.sampled_from(engines))


@st.composite
def _matmul(draw: Any, tiles: list[Tile]) -> tuple[str, tuple[Part, ...], str] | None:
    psums = [n for n, tile in enumerate(tiles) if tile.space == "psum" and tile.columns <= 512]
    wide = [n for n, tile in enumerate(tiles) if tile.space == "sbuf" and not tile.double and tile.address is None]
    if not psums or not wide:
        return None
    dst, left, right = draw(st.sampled_from(psums)), draw(st.sampled_from(wide)), draw(st.sampled_from(wide))
    height = min(tiles[left].rows, tiles[right].rows)
    m = draw(st.integers(1, min(tiles[left].columns, tiles[dst].rows)))
    n = draw(st.integers(1, min(tiles[right].columns, tiles[dst].columns)))
    k = draw(st.sampled_from([h for h in (1, 2, 32, 64, 128) if h <= height]))
    starts = (draw(_part(tiles, dst, m, n)), draw(_part(tiles, left, k, m)), draw(_part(tiles, right, k, n)))
    return "matmul", (starts[0], dataclasses.replace(starts[1], row=0), dataclasses.replace(starts[2], row=0)), ""
