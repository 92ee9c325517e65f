"""DMA engines: moves between HBM and SBUF."""


# mypy: disable-error-code="misc"

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import Diagnostic, diagnose
from nki_lab.isa import enums
from nki_lab.isa.arch import Arch
from nki_lab.isa.dtype import INT32, UINT32
from nki_lab.isa.ops.cycles import trust
from nki_lab.isa.ops.shapes import native_or_float32, one_dtype, only
from nki_lab.isa.ops.transposing import transpose_into
from nki_lab.isa.spec import (
    HBM,
    SBUF,
    Arrays,
    Beta1,
    Cost,
    EngineState,
    Fault,
    Predicate,
    Route,
    Several,
    Unmodelled,
    Use,
    arg,
    attr,
    choice,
    instruction,
    out,
)
from nki_lab.printable import shown

_MODES = enums.dge_mode
_HARDWARE: Final = "dge_mode.hwdge needs"
_OFFSETS: Final = "a vector_offset needs"


def _priority(use: Use) -> Fault:
    priority = use.attrs["priority"]
    if priority is None:
        return None
    wrong = None if priority in (0, 1, 2, 3) else f"priority is {shown(priority)}, it is 0 (highest) to 3"
    return use.before(4, f"priority={priority} needs") or wrong


def _hardware_descriptors(use: Use) -> Fault:
    if use.attrs["dge_mode"] is not _MODES.hwdge:
        return None
    raw = f"dge_mode.hwdge moves raw bytes and src is {use.dtypes['src']}, dst {use.dtypes['dst']}"
    return use.before(3, _HARDWARE) or (raw if one_dtype("dst", "src")(use) else None)


def _queue_engine(use: Use) -> Fault:
    chosen = use.attrs["engine"]
    if chosen is enums.engine.unknown:
        return None
    if use.attrs["dge_mode"] is not _MODES.hwdge:
        return f"engine.{chosen.name} is given with dge_mode.{use.attrs['dge_mode'].name}"
    if chosen not in (enums.engine.sync, enums.engine.scalar):
        return f"engine.{chosen.name} cannot trigger a hardware-described DMA"
    return None


def _row_gather(use: Use) -> Fault:
    """Test the target and the mode of a transfer with a vector offset.

    Software descriptors with one need NeuronCore-v3 (NKI descriptor generation guide). Beta 1's indirect loads do not:
    that dialect documents them for Inf2 and Trn1, and its published samples ran them there.
    """
    if all(use.types[name].indirect != "vector" for name in ("dst", "src")):
        return None
    mode = use.attrs["dge_mode"]
    described = mode in (_MODES.unknown, _MODES.swdge)
    since = None if use.dialect == "beta1" else use.before(3, _OFFSETS)
    return since or (None if described else f"a vector_offset cannot be described by dge_mode.{mode.name}")


def _many_rows(use: Use) -> Fault:
    """More rows than partitions take an index of several columns, which dma_transpose alone reads."""
    for name, view in use.types.items():
        if view is None or view.indirect != "vector":
            continue
        if view.shape[0] > use.arch.pmax:
            return f"{name} gathers {view.shape[0]} rows"
        if view.index.free_size > 1:
            return f"the index of {name} is {tuple(view.index.shape)}, of which {use.name} reads one column"
    return None


def copy_cost(arch: Arch, dst: Any, src: Any, *, dealt: bool = False) -> Cost:
    """Return the bytes moved, and the time in which the busiest DMA engine moves its part at the full rate.

    Partitions go to engines by eights, or `dealt` descriptors one by one; between HBM addresses all engines share the
    elements. Each contiguous run of a partition is a descriptor, and none takes less than a semaphore write; after its
    last one each engine writes a semaphore.

    inferred: all engines share the descriptors of a transfer that has one for each element, as of `dma_transpose`,
    where they are made beforehand (NeuronCore-v2). AWS's tests bound attention with transposed loads of 128 and of 64
    partitions by 600 and by 520 us: fewer partitions take less time.
    """
    size = max(dst.dtype.nbytes, src.dtype.nbytes)
    onchip = next((view for view in (dst, src) if view.on_chip), None)
    if onchip is None:
        row, rows = -(-dst.free_size // arch.dma_engines), 1
    else:
        row, rows = onchip.free_size, _rows_of_busiest(arch, onchip)
    run = min(_run(dst), _run(src), row)
    shared = onchip is not None and run == 1 < row and not arch.dge_hardware_ns
    if dealt and onchip is not None:
        row, rows = run, -(-onchip.partitions * -(-row // run) // arch.dma_engines)  # whole descriptors
    elif shared:
        row, rows = -(-dst.partitions * dst.free_size // arch.dma_engines), 1
    smallest = rows * -(-row // run) * arch.dma_semaphore_write_ns
    transfer = rows * row * size / arch.dma_bytes_per_ns
    return Cost(
        bytes=dst.partitions * dst.free_size * size,
        fixed_ns=max(transfer, smallest) + arch.dma_semaphore_write_ns,
        descriptor_bytes=run * size,
        dealt=dealt and onchip is not None,
        spread=shared,
        source="NKI DMA bandwidth guide, sustained rate of an engine; DMA overview, smallest transfers and semaphores",
        confidence="documented" if transfer >= smallest else "inferred",
    )


def route_of(use: Use) -> Route:
    """Return the start of a transfer, by its addresses and the arguments that choose descriptors and trigger.

    Index vectors, and on targets without descriptor hardware registers too, need software (NKI descriptor generation
    guide); `dge_mode.none` cannot express run-time addresses (same page). Hardware descriptors have the queue of the
    engine that triggers them, Sync or Scalar, software ones that of GpSimd (NKI DMA overview).

    inferred: `dge_mode.unknown` is hardware triggered by Sync where there is hardware, of which the Trainium2
    architecture guide recommends to use as much as possible; the profiles of the kernel optimization tutorial show no
    static transfer, loads triggered by Sync, and the rate of hardware descriptors. guess: the compiler spreads these
    transfers, like static ones, over queues by direction, and gives each `priority` one queue.
    """
    mode = use.attrs.get("dge_mode", _MODES.unknown)
    dynamic = {view.indirect for view in use.types.values() if view is not None} - {None}
    hardware = use.arch.dge_hardware_ns > 0
    if mode is _MODES.swdge or dynamic - {"scalar"} or (dynamic and not hardware):
        return Route("gpsimd", "software", "gpsimd")
    if mode is _MODES.hwdge or dynamic:
        trigger = "scalar" if use.attrs.get("engine") is enums.engine.scalar else "sync"
        return Route(trigger, "hardware", trigger)
    direction = "store" if use.space("dst") == HBM else "load"
    if mode is _MODES.none or not hardware:
        return Route(direction, "static")
    priority = use.attrs.get("priority")
    return Route(direction if priority is None else f"priority {priority}", "hardware", "sync")


def _rows_of_busiest(arch: Arch, view: Any) -> int:
    """Return the most partitions of an on-chip view that one DMA engine serves: all, of one that is read repeatedly."""
    share = arch.dma_partitions_per_engine
    first, step, count = view.start_partition, view.partition_step, view.partitions
    if step == 0:
        return int(count)
    if step != 1:
        return int(max(1, min(count, share // step)))
    head = share - first % share  # partitions of the first engine
    return int(max(min(count, head), min(share, count - head)))


def _run(view: Any) -> int:
    """Return the number of elements that lie one after the other."""
    return int(view.free_shape[-1]) if view.free_shape and view.innermost_stride == 1 else 1


def _packed(use: Use) -> Fault:
    kinds = {dtype.kind for dtype in use.dtypes.values() if dtype is not None}
    if "packed" not in kinds or one_dtype("dst", "src")(use) is None:
        return None
    return f"src is {use.dtypes['src']} and dst {use.dtypes['dst']}: packed types are moved, never cast"


_PRIORITY: Final = attr("any", "queue priority 0 (highest) to 3, NeuronCore-v4", default=None)
_OOB_MODE: Final = choice("what an index outside the tensor does", enums.oob_mode.error)
_DGE_MODE: Final = choice("who writes the descriptors", _MODES.unknown)
_PRIORITY_RANGE: Final = Predicate(
    "NKI222",
    "priority is 0..3, from NeuronCore-v4",
    _priority,
    operand="priority",
    help="leave priority out, or give 0 to 3 on trn3",
    accepts={"priority": 3},
    refuses={"priority": 4},
    target="trn3",
)


@instruction(engine="dma", see="NKI API, nki.isa.dma_copy")
class dma_copy:
    """dst = src between HBM and SBUF, element by element in row-major order of the views.

    The same dtype is moved bit by bit, another is cast through float32. Views with a scalar or vector offset gather
    or scatter; `oob_mode.error` refuses an index outside the tensor, `oob_mode.skip` drops that row.
    """

    dst = out("E", (SBUF, HBM), "destination, as many elements as src", indirect=True)
    src = arg("E", (SBUF, HBM), "source", indirect=True)
    priority = _PRIORITY
    oob_mode = _OOB_MODE
    dge_mode = _DGE_MODE
    engine = choice("engine that triggers a hwdge transfer: sync or scalar", enums.engine.unknown)

    priority_range = _PRIORITY_RANGE
    hwdge = Predicate(
        "NKI222",
        "dge_mode.hwdge: NeuronCore-v3, no cast",
        _hardware_descriptors,
        operand="dge_mode",
        help="cast on the chip after the move, or use dge_mode.swdge",
        older="leave dge_mode out",
        target="trn2",
        accepts={"dge_mode": _MODES.hwdge},
        refuses={"dge_mode": _MODES.hwdge, "dst": "sbuf bfloat16 128x512"},
    )
    queue = Predicate(
        "NKI222",
        "engine is sync or scalar, with dge_mode.hwdge",
        _queue_engine,
        operand="engine",
        help="leave engine out, or add dge_mode=nisa.dge_mode.hwdge",
        target="trn2",
        accepts={"dge_mode": _MODES.hwdge, "engine": enums.engine.sync},
        refuses={"engine": enums.engine.sync},
    )
    gather = Predicate(
        "NKI222",
        "vector offsets: NeuronCore-v3, dge_mode unknown or swdge",
        _row_gather,
        operand="dge_mode",
        help="drop dge_mode, or use dge_mode.swdge",
        older="choose target='trn2', or copy the rows one by one with a scalar_offset",
        target="trn2",
        accepts={"src": "hbm float32 128x512 rows"},
        refuses={"src": "hbm float32 128x512 rows", "dge_mode": _MODES.hwdge},
    )
    rows = Predicate(
        "NKI309",
        "one index per partition: up to 128 gathered rows",
        _many_rows,
        operand="src",
        help="gather 128 rows at a time",
        target="trn2",
        accepts={"src": "hbm float32 128x512 rows"},
        refuses={"src": "hbm float32 256x512 rows", "dst": "sbuf float32 128x1024"},
    )
    packed = Predicate(
        "NKI207",
        "packed dtypes are not cast",
        _packed,
        operand="dst",
        target="trn3",
        help="move with one dtype and use nisa.quantize_mx to convert",
        accepts={"dst": "sbuf float8_e5m2_x4 128x512", "src": "hbm float8_e5m2_x4 128x512"},
        refuses={"dst": "sbuf float8_e5m2_x4 128x512", "src": "hbm float32 128x512"},
    )

    example = {"dst": "sbuf float32 128x512", "src": "hbm float32 128x512"}
    role = "copy"

    precision = native_or_float32("dst", "src")
    exact = True

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        np.copyto(out.dst, ins.src)

    dma_route = route_of

    def cost(use: Use) -> Cost:
        """Return the cost of a copy.

        inferred: static descriptors are dealt to the DMA engines one by one, not by partitions, where hardware writes
        others: loads of a few long rows take nki-library's MLP as long as its times show with all engines at work.
        """
        dealt = use.arch.dge_hardware_ns > 0 and route_of(use).descriptors == "static"
        return copy_cost(use.arch, use.types["dst"], use.types["src"], dealt=dealt)

    beta1 = Beta1(returns="", without="priority engine", extra="mask dst_rmw_op unique_indices")


_TRANSPOSE_ROWS: Final = 16
"""Elements that are written one after the other (Trainium2 architecture guide, DMA transpose)."""

_AXES: Final[Mapping[int, tuple[int, ...]]] = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
"""The permutation that dma_transpose does, by the rank of src."""

_FEW: Final = 16  # matrices that are transposed one by one


def _transposed(use: Use) -> tuple[int, ...] | None:
    shape = tuple(use.types["src"].shape)
    axes = _AXES.get(len(shape))
    return None if axes is None else tuple(shape[axis] for axis in axes)


def _transpose_rank(use: Use) -> Fault:
    rank = len(use.types["src"].shape)
    if rank not in _AXES:
        return f"src has {rank} dimensions"
    axes = use.attrs["axes"]
    if axes is not None and tuple(axes) != _AXES[rank]:
        return f"axes is {tuple(axes)} and src has {rank} dimensions"
    return None


def _transpose_shape(use: Use) -> Fault:
    want, have = _transposed(use), tuple(use.types["dst"].shape)
    return None if want in (None, have) else f"dst is {have}, src {tuple(use.types['src'].shape)} transposes to {want}"


def _transpose_hardware(use: Use) -> Fault:
    """Test the limits of descriptors that hardware or software generates."""
    mode, src = use.attrs["dge_mode"], use.types["src"]
    shape = tuple(src.shape)
    if mode is _MODES.hwdge:
        problem = use.before(3, _HARDWARE) or (None if _has_pattern(shape) else f"dge_mode.hwdge with src {shape}")
        if problem:
            return problem
    made = "gathered rows are transposed in" if src.indirect == "vector" else f"dge_mode.{mode.name} transposes"
    if (mode in (_MODES.hwdge, _MODES.swdge) or src.indirect == "vector") and src.dtype.nbytes != _TRANSPOSE_BYTES:
        return f"{made} elements of 2 bytes, src is {src.dtype.name}"
    if (mode is _MODES.hwdge or src.indirect == "vector") and shape[-1] > _TRANSPOSE_COLUMNS:
        return f"src has {shape[-1]} elements in its last dimension, generated descriptors take 128"
    return None


_TRANSPOSE_BYTES: Final = 2
_TRANSPOSE_COLUMNS: Final = 128
"""What generated descriptors transpose: elements of 2 bytes, in rows of up to 128."""


def _has_pattern(shape: tuple[int, ...]) -> bool:
    """Check that hardware generates the descriptors of a transpose of this shape: 16 rows."""
    first = (16,) if len(shape) == 2 else (1, 2, 4, 8, 16)
    return shape[0] in first and (len(shape) == 2 or shape[0] * shape[-2] % 16 == 0)


def _transpose_route(use: Use) -> Route:
    """Return the start of a transposition: `route_of`, but static where hardware cannot describe it.

    inferred: with `dge_mode.unknown` the compiler takes descriptors in HBM for all that is outside the limits of the
    descriptor generation guide.
    """
    src, chosen = use.types["src"], route_of(use)
    said = use.attrs.get("dge_mode", _MODES.unknown), use.attrs.get("priority"), src.indirect
    shape = tuple(src.shape)
    fits = _has_pattern(shape) and src.dtype.nbytes == _TRANSPOSE_BYTES and shape[-1] <= _TRANSPOSE_COLUMNS
    if chosen.descriptors != "hardware" or said != (_MODES.unknown, None, None) or fits:
        return chosen
    return Route(chosen.queues, "static")


def _transpose_gather(use: Use) -> Fault:
    src = use.types["src"]
    if src.indirect != "vector":
        return None
    problem = _row_gather(use)
    if problem or src.space.value == "sbuf" or src.shape[0] % 16:
        return problem or f"src {tuple(src.shape)} in {src.space.value.upper()} is gathered"
    dtype, rows = src.index.dtype, src.index.shape[0]
    if len(src.index.shape) != 2:
        return f"the index of src has shape {tuple(src.index.shape)}, not two dimensions"
    if rows % _TRANSPOSE_ROWS:
        return f"the index of src has {rows} partitions, not a multiple of {_TRANSPOSE_ROWS}"
    return None if dtype in (UINT32, INT32) else f"the index of src is {dtype.name}, not uint32"


def _transpose_notes(use: Use) -> list[Diagnostic]:
    """Return notes on calls that kernels make although the documentation asks for something else."""
    src = use.types["src"]
    gathers = src.indirect == "vector"
    notes = (
        (
            use.space("dst") == HBM,
            "dst",
            "dst is in HBM",
            "dst is in SBUF",
            "transpose into a tile, and store it with nisa.dma_copy",
        ),
        (
            gathers and len(src.shape) == 4 and src.shape[1] != 1 and src.shape[2] != 1,
            "src",
            f"src {tuple(src.shape)} is gathered with two middle dimensions",
            "one of the middle dimensions of a gathered src is 1",
            "gather and transpose one slice of a middle dimension at a time",
        ),
        (
            gathers and src.index.dtype is INT32,
            "src",
            "the index of src is int32",
            "the index of a gathered transpose is uint32",
            "allocate the index as uint32",
        ),
        (
            src.indirect is None and use.attrs["dge_mode"] is _MODES.swdge,
            "dge_mode",
            "dge_mode.swdge and src has a static address",
            "swdge gathers; others are unknown, hwdge or none",
            "leave dge_mode out",
        ),
    )
    return noted(use, "NKI606", notes)


def noted(use: Use, code: str, notes: tuple[tuple[bool, str, str, str, str], ...]) -> list[Diagnostic]:
    """Return a finding for each note that applies: whether it does, operand, message, limit and remedy."""
    return [
        diagnose(code, f"{use.name}: {message}", operand=operand, limit=rule, help=remedy)
        for applies, operand, message, rule, remedy in notes
        if applies
    ]


def _transpose_skip(use: Use) -> Fault:
    skips = use.attrs["oob_mode"] is enums.oob_mode.skip
    return "oob_mode.skip and src has a static address" if skips and use.types["src"].indirect is None else None


@instruction(engine="dma", see="NKI API, nki.isa.dma_transpose; Trainium2 architecture guide, DMA transpose")
class dma_transpose:
    """dst = src with its first and last dimensions swapped, bit by bit, on the DMA engines' transpose path.

    Of 2 dimensions (0, 1) become (1, 0), of 3 (2, 1, 0), of 4 (3, 1, 2, 0). A src with a vector_offset gathers rows
    of HBM first; of an index with several columns the first column comes first. With `oob_mode.skip` rows outside the
    tensor leave their columns of dst as they are.
    """

    dst = out("E", (SBUF, HBM), "destination in the transposed shape; SBUF by the documentation")
    src = arg("E", (SBUF, HBM), "source of 2 to 4 dimensions", indirect=True)
    axes = attr("any", "the permutation, which follows from the rank; None", default=None)
    priority = _PRIORITY
    dge_mode = _DGE_MODE
    oob_mode = _OOB_MODE

    rank = Predicate(
        "NKI225",
        "2 to 4 dimensions, whose first and last are swapped",
        _transpose_rank,
        operand="axes",
        help="leave axes out, and reshape src to 2, 3 or 4 dimensions",
        accepts={"axes": (1, 0)},
        refuses={"axes": (0, 1)},
    )
    shape = Predicate(
        "NKI225",
        "dst has the transposed shape of src",
        _transpose_shape,
        operand="dst",
        help="give dst src's shape with the first and last dimensions swapped",
        accepts={"dst": "sbuf bfloat16 32x128", "src": "hbm bfloat16 128x32"},
        refuses={"dst": "sbuf bfloat16 128x64"},
    )
    dtype = Predicate(
        "NKI207",
        "dst.dtype == src.dtype",
        one_dtype("dst", "src"),
        operand="dst",
        help="cast before or after the transpose",
        refuses={"dst": "sbuf float32 64x128"},
    )
    priority_range = _PRIORITY_RANGE
    generated = Predicate(
        "NKI222",
        "dge_mode.hwdge: NeuronCore-v3, 16 rows, 128 columns; generated: 2-byte elements",
        _transpose_hardware,
        operand="dge_mode",
        help="leave dge_mode out",
        target="trn2",
        accepts={"dge_mode": _MODES.hwdge, "src": "hbm bfloat16 16x64", "dst": "sbuf bfloat16 64x16"},
        refuses={"dge_mode": _MODES.hwdge},
    )
    gather = Predicate(
        "NKI222",
        "gathered rows: from HBM, a multiple of 16, by an index of two dimensions, dge_mode unknown or swdge",
        _transpose_gather,
        operand="dge_mode",
        help="drop dge_mode, pad the rows to 16, and give the index two dimensions",
        older="choose target='trn2', or copy the rows one by one with a scalar_offset and transpose the tile",
        target="trn2",
        accepts={"src": "hbm bfloat16 128x64 rows"},
        refuses={"src": "hbm bfloat16 128x64 rows", "dge_mode": _MODES.none},
    )
    skips = Predicate(
        "NKI222",
        "oob_mode.skip with run-time addresses only",
        _transpose_skip,
        operand="oob_mode",
        help="leave oob_mode out",
        target="trn2",
        accepts={"src": "hbm bfloat16 128x64 rows", "oob_mode": enums.oob_mode.skip},
        refuses={"oob_mode": enums.oob_mode.skip},
    )

    example = {"dst": "sbuf bfloat16 64x128", "src": "hbm bfloat16 128x64"}
    history = {"index_order": "columns", "transposes": "src"}

    precision = "native"
    exact = True

    def merges(use: Use) -> bool:
        return use.attrs["oob_mode"] is enums.oob_mode.skip

    warns = _transpose_notes

    def shapes(use: Use) -> Mapping[str, tuple[int, ...]]:
        return {name: tuple(use.types[name].shape) for name in ("dst", "src")}

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        kept = getattr(ins, "kept", None)  # None: all rows are inside of the tensor
        middle = ins.src.shape[1:-1]
        if kept is None and math.prod(middle) <= _FEW:
            for place in np.ndindex(*middle):
                matrix = (slice(None), *place)
                transpose_into(out.dst[matrix], ins.src[matrix])
        else:
            np.copyto(out.dst, ins.src.transpose(_AXES[ins.src.ndim]), where=True if kept is None else kept)

    dma_route = _transpose_route

    def cost(use: Use) -> Cost:
        """Return the time at which the transpose path, or without one a descriptor for each element, does it.

        Blocks of 128 elements of src's last dimension and 16 of its first are written by all engines together; smaller
        ones take as long (Trainium2 architecture guide, DMA transpose; inferred: as long as a full one).
        """
        arch, src = use.arch, use.types["src"]
        share = arch.dma_transpose_sbuf_share if use.space("src") == SBUF else arch.dma_transpose_hbm_share
        size, elements = src.dtype.nbytes, src.partitions * src.free_size
        if not share:
            return Cost(
                bytes=elements * size,
                fixed_ns=-(-elements // arch.dma_engines) * arch.dma_semaphore_write_ns,
                descriptor_bytes=size,
                spread=True,
                source="NKI performance guide: 'much lower' bandwidth than a copy; inferred: a descriptor an element",
                confidence="inferred",
            )
        first, last = src.shape[0], src.shape[-1]
        padded = -(-last // arch.pmax) * arch.pmax * -(-first // _TRANSPOSE_ROWS) * _TRANSPOSE_ROWS
        whole = elements // max(first * last, 1) * padded * size
        return Cost(
            bytes=elements * size,
            fixed_ns=whole / (arch.dma_engines * arch.dma_bytes_per_ns * share) + arch.dma_semaphore_write_ns,
            descriptor_bytes=size * (last if src.innermost_stride == 1 else 1),
            spread=True,
            source=arch.fact("dma_transpose_hbm_share").source,
            confidence=trust(use, v3="documented"),
        )

    beta1 = Beta1(
        shape=lambda v: tuple(v["src"].shape[axis] for axis in _AXES.get(len(v["src"].shape), (1, 0))),
        order="src",
        without="priority dge_mode oob_mode",
    )


_SOURCES: Final = tuple(f"src{place}" for place in range(16))


def _given(use: Use) -> list[str]:
    return [name for name in _SOURCES if use.types[name] is not None]


def _no_scales(use: Use) -> Fault:
    scales = use.attrs["scales"]
    if scales is None:
        return None
    if len(scales) != len(_given(use)):
        return f"scales has {len(scales)} entries, srcs {len(_given(use))}"
    strange = [scale for scale in scales if scale != 1]
    return f"scales has the entry {shown(strange[0])}" if strange else None


def _updates(use: Use) -> Fault:
    """Gathers and scatters read, add and write back: two sources, one of which is dst."""
    kinds = {name: view.indirect for name, view in use.types.items() if view is not None and view.indirect}
    if not kinds:
        skips = use.attrs["oob_mode"] is enums.oob_mode.skip
        return "oob_mode.skip and all addresses are static" if skips else None
    if problem := use.before(3, _OFFSETS):
        return problem
    if "scalar" in kinds.values():
        name = next(name for name, kind in kinds.items() if kind == "scalar")
        return f"{name} is addressed by a register"
    if len(_given(use)) != 2:
        return f"{len(_given(use))} sources with a vector_offset"
    if problem := _many_rows(use):
        return problem
    return None if use.attrs["unique_indices"] else "unique_indices=False"


def _both_sides(use: Use) -> Fault:
    """A scatter adds a tile in SBUF to rows of HBM, a gather rows of HBM to a tile in SBUF: dst is one of srcs."""
    if all(view is None or view.indirect != "vector" for view in use.types.values()):
        return None
    dst, views = use.types["dst"], [use.types[name] for name in _given(use)]
    others = [view for view in views if view is not dst]
    if len(others) != 1:
        return "no source is dst" if len(others) > 1 else "both sources are dst"
    scatters = dst.indirect == "vector"
    if scatters == (others[0].indirect == "vector"):
        return "dst and the other source are both picked by indices" if scatters else "dst is no rows picked by indices"
    tile = others[0] if scatters else dst
    return None if tile.space.value == SBUF else f"the tile without indices is in {tile.space.value.upper()}"


@instruction(engine="dma", see="NKI API, nki.isa.dma_compute")
class dma_compute:
    """dst = the sum of up to 16 tensors in HBM or SBUF, element by element in float32, done by the DMA engines.

    With a vector_offset it updates: srcs is dst and the tensor to add, and dst[rows] += data in HBM (scatter), or
    dst += data[rows] (gather). Each row may be named once.
    """

    dst = out("E", (SBUF, HBM), "destination, cast on write", indirect=True)
    srcs = Several(16, arg("E", (SBUF, HBM), "tensors to add, as many elements as dst each", indirect=True))
    reduce_op = attr(
        "alu", "nl.add", former="write dma_compute(dst, srcs, reduce_op, scales): NKI 0.3 exchanged the last two"
    )
    scales = attr("any", "a factor for each source: 1.0, or None", default=None)
    unique_indices = attr("bool", "no row is named twice", default=True)
    oob_mode = _OOB_MODE

    adds = Predicate(
        "NKI215",
        "reduce_op is nl.add",
        only("reduce_op", "add"),
        operand="reduce_op",
        help="move the tensors to SBUF and use nisa.tensor_tensor",
        accepts={"reduce_op": "add"},
        refuses={"reduce_op": "multiply"},
    )
    unscaled = Predicate(
        "NKI012",
        "scales is None or 1.0 for each source",
        _no_scales,
        operand="scales",
        help="leave scales out",
        accepts={"scales": (1.0, 1.0)},
        refuses={"scales": (1.0, 0.5)},
    )
    updates = Predicate(
        "NKI222",
        "vector offsets: NeuronCore-v3, two sources, each row once",
        _updates,
        operand="dst",
        help="gather with nisa.dma_copy and add on the chip",
        older="choose target='trn2', or copy the rows one by one with a scalar_offset and add on the chip",
        target="trn2",
        accepts={"src1": "hbm float32 128x512 rows"},
        refuses={"src1": "hbm float32 128x512 rows", "unique_indices": False},
    )

    example = {
        "dst": "sbuf float32 128x512",
        "src0": "sbuf float32 128x512",
        "src1": "hbm float32 128x512",
        "reduce_op": "add",
    }

    def warns(use: Use) -> list[Diagnostic]:
        problem = _both_sides(use)
        if problem is None:
            return []
        return [
            diagnose(
                "NKI606",
                f"dma_compute: {problem}",
                operand="dst",
                limit="rows += tile in SBUF, or tile in SBUF += rows: dst is one of srcs",
                help="gather or scatter with nisa.dma_copy, and add on the chip",
            )
        ]

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        first, *others = (getattr(ins, name) for name in _given(use))
        total = np.array(first, out.dst.dtype)
        for term in others:
            total += np.asarray(term, out.dst.dtype).reshape(total.shape)
        np.copyto(out.dst, total.reshape(out.dst.shape))

    dma_route = route_of

    def cost(use: Use) -> Cost:
        parts = [copy_cost(use.arch, use.types["dst"], use.types[name]) for name in _given(use)]
        return replace(
            parts[0],
            bytes=sum(part.bytes for part in parts),
            fixed_ns=sum(part.fixed_ns for part in parts) / use.arch.dma_accumulate_share,
            source="Trainium3 architecture guide: DMA compute at half a copy's rate before NeuronCore-v4",
            confidence="documented" if use.arch.generation >= 3 else "inferred",
        )

    beta1 = Unmodelled("Beta 1 has no dma_compute")
