"""DMA engines: moves between HBM and SBUF."""


# mypy: disable-error-code="misc"

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.isa import enums
from nki_lab.isa.arch import Arch
from nki_lab.isa.spec import HBM, SBUF, Cost, Legacy, Use, arg, attr, instruction, out, predicate

_MODES = enums.dge_mode


def _priority(use: Use) -> str | None:
    priority = use.attrs["priority"]
    if priority is None:
        return None
    if use.arch.generation < 4:
        return f"priority={priority} needs NeuronCore-v4, the target is {use.arch.name}"
    if priority not in (0, 1, 2, 3):
        return f"priority is {priority!r}, it is 0 (highest) to 3"
    return None


def _hardware_descriptors(use: Use) -> str | None:
    if use.attrs["dge_mode"] is not _MODES.hwdge:
        return None
    if use.arch.generation < 3:
        return f"dge_mode.hwdge needs NeuronCore-v3, the target is {use.arch.name}"
    dst, src = use.dtypes["dst"], use.dtypes["src"]
    if dst is not src and dst is not None and src is not None:
        return f"dge_mode.hwdge moves raw bytes and src is {src.name}, dst {dst.name}"
    return None


def _queue_engine(use: Use) -> str | None:
    chosen = use.attrs["engine"]
    if chosen is enums.engine.unknown:
        return None
    if use.attrs["dge_mode"] is not _MODES.hwdge:
        return f"engine.{chosen.name} is given with dge_mode.{use.attrs['dge_mode'].name}"
    if chosen not in (enums.engine.sync, enums.engine.scalar):
        return f"engine.{chosen.name} cannot trigger a hardware-described DMA"
    return None


def _row_gather(use: Use) -> str | None:
    kinds = {use.types[name].indirect for name in ("dst", "src")}
    if "vector" not in kinds:
        return None
    if use.arch.generation < 3:
        return f"a vector_offset needs NeuronCore-v3, the target is {use.arch.name}"
    mode = use.attrs["dge_mode"]
    if mode not in (_MODES.unknown, _MODES.swdge):
        return f"a vector_offset cannot be described by dge_mode.{mode.name}"
    return None


def copy_cost(arch: Arch, dst: Any, src: Any) -> Cost:
    """Bytes moved, and the time in which the busiest DMA engine moves its part at the full rate.

    Partitions are dealt to engines by eights; between HBM addresses all engines share the elements. Each contiguous
    run of a partition is a descriptor, and none takes less than a semaphore write.
    """
    size = max(dst.dtype.nbytes, src.dtype.nbytes)
    onchip = dst if dst.on_chip else src if src.on_chip else None
    if onchip is None:
        row, rows = -(-dst.free_size // arch.dma_engines), 1
    else:
        row, rows = onchip.free_size, rows_of_busiest(arch, onchip)
    run = min(_run(dst), _run(src), row)
    descriptors = rows * -(-row // run)
    transfer = rows * row * size / arch.dma_bytes_per_ns
    return Cost(
        bytes=dst.partitions * dst.free_size * size,
        fixed_ns=max(transfer, descriptors * arch.dma_semaphore_write_ns),
        descriptor_bytes=run * size,
        source="NKI DMA bandwidth guide, sustained rate of an engine; DMA overview, smallest transfers",
        confidence="documented" if transfer >= descriptors * arch.dma_semaphore_write_ns else "inferred",
    )


def rows_of_busiest(arch: Arch, view: Any) -> int:
    """Most partitions of an on-chip view that one DMA engine serves."""
    share = arch.dma_partitions_per_engine
    first, step, count = view.start_partition, view.partition_step, view.partitions
    if step != 1:
        return int(max(1, min(count, share // step)))
    head = share - first % share  # partitions of the first engine
    return int(max(min(count, head), min(share, count - head)))


def _run(view: Any) -> int:
    """Elements that lie one after the other."""
    if not view.free_shape:
        return 1
    return int(view.free_shape[-1]) if view.innermost_stride == 1 else 1


def _packed(use: Use) -> str | None:
    dst, src = use.dtypes["dst"], use.dtypes["src"]
    if dst is src or dst is None or src is None or "packed" not in (dst.kind, src.kind):
        return None
    return f"src is {src.name} and dst {dst.name}: packed types are moved, never cast"


@instruction(engine="dma", see="NKI API, nki.isa.dma_copy")
class dma_copy:
    """dst = src between HBM and SBUF, element by element in row-major order of the views.

    The same dtype is moved bit by bit, another is cast through float32. Views with a scalar or vector offset gather
    or scatter; `oob_mode.error` refuses an index outside the tensor, `oob_mode.skip` drops that row.
    """

    dst = out("E", (SBUF, HBM), "destination, as many elements as src", indirect=True)
    src = arg("E", (SBUF, HBM), "source", indirect=True)
    priority = attr("any", "queue priority 0 (highest) to 3, NeuronCore-v4", default=None)
    oob_mode = attr("enum", "what an index outside the tensor does", default=enums.oob_mode.error,
                    enum=enums.oob_mode)  # fmt: skip
    dge_mode = attr("enum", "who writes the descriptors", default=_MODES.unknown, enum=_MODES)
    engine = attr("enum", "engine that triggers a hwdge transfer: sync or scalar", default=enums.engine.unknown,
                  enum=enums.engine)  # fmt: skip

    priority_range = predicate("NKI222", "priority is 0..3, from NeuronCore-v4", _priority, operand="priority",
                               help="leave priority out, or give 0 to 3 on trn3", accepts={"priority": 3},
                               refuses={"priority": 4}, target="trn3")  # fmt: skip
    hwdge = predicate("NKI222", "dge_mode.hwdge: NeuronCore-v3, no cast", _hardware_descriptors, operand="dge_mode",
                      help="cast on the chip after the move, or use dge_mode.swdge", target="trn2",
                      accepts={"dge_mode": _MODES.hwdge},
                      refuses={"dge_mode": _MODES.hwdge, "dst": "sbuf bfloat16 128x512"})  # fmt: skip
    queue = predicate("NKI222", "engine is sync or scalar, with dge_mode.hwdge", _queue_engine, operand="engine",
                      help="leave engine out, or add dge_mode=nisa.dge_mode.hwdge", target="trn2",
                      accepts={"dge_mode": _MODES.hwdge, "engine": enums.engine.sync},
                      refuses={"engine": enums.engine.sync})  # fmt: skip
    gather = predicate("NKI222", "vector offsets: NeuronCore-v3, dge_mode unknown or swdge", _row_gather,
                       operand="dge_mode", help="drop dge_mode, or use dge_mode.swdge", target="trn2",
                       accepts={"src": "hbm float32 128x512 rows"},
                       refuses={"src": "hbm float32 128x512 rows", "dge_mode": _MODES.hwdge})  # fmt: skip
    packed = predicate("NKI207", "packed dtypes are not cast", _packed, operand="dst", target="trn3",
                       help="move with one dtype and use nisa.quantize_mx to convert",
                       accepts={"dst": "sbuf float8_e5m2_x4 128x512", "src": "hbm float8_e5m2_x4 128x512"},
                       refuses={"dst": "sbuf float8_e5m2_x4 128x512", "src": "hbm float32 128x512"})  # fmt: skip

    example = {"dst": "sbuf float32 128x512", "src": "hbm float32 128x512"}

    def precision(use: Use) -> str:
        return "native" if use.dtypes["dst"] is use.dtypes["src"] else "float32"

    def exact(use: Use) -> bool:
        return True

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        np.copyto(out.dst, ins.src)

    def cost(arch: Arch, use: Use) -> Cost:
        return copy_cost(arch, use.types["dst"], use.types["src"])

    legacy = Legacy(
        result=lambda v: (v["src"].shape, v["src"].dtype, "sbuf"), returns="", order=(),
        keywords=("dst", "src", "mask", "dst_rmw_op", "oob_mode", "dge_mode", "unique_indices"),
    )  # fmt: skip
