"""`nki.collectives` whose counts are known at run time only: what a call may look like.

Their limits are checked; what they exchange is not modelled, and a call that is fine so far is NKI010.
"""

from __future__ import annotations

from typing import Any, Final

from nki_lab.diagnostic import NkiError, diagnose, error_of
from nki_lab.isa.dtype import UINT32
from nki_lab.kernel_runtime.issue.context import current
from nki_lab.kernel_runtime.tensor import MemoryRegion, NkiTensor

_CHIP: Final = 4
"""Ranks of one chip, each of two physical cores."""


def all_gather_v(
    srcs: Any, dsts: Any, replica_group: Any, metadata_tensor: Any, recv_counts_known: Any = False,
    has_rdispls: Any = False, priority: Any = None, name: Any = None,
) -> None:  # fmt: skip
    """dst = a part of each rank's src, as long as the rank's metadata say; not modelled, calling it is NKI010."""
    what = "all_gather_v"
    _check(what, srcs, dsts, metadata_tensor, has_rdispls, priority)
    if has_rdispls:
        raise _wrong(what, "NKI012", "has_rdispls is True", "has_rdispls", "displacements of results are not supported")
    grid = current(f"nki.collectives.{what}").grid
    if grid != (2,):
        raise _wrong(what, "NKI016", f"the launch grid is {grid or 1}", "replica_group",
                     "a rank is a logical core of two physical ones", "launch the kernel as kernel[2]")  # fmt: skip
    sizes = {len(group) for group in replica_group.replica_groups}
    if sizes != {_CHIP}:
        raise _wrong(what, "NKI012", f"{replica_group!r} has groups of {', '.join(map(str, sorted(sizes)))} ranks",
                     "replica_group", f"the groups are the {_CHIP} ranks of a chip")  # fmt: skip
    raise _unmodelled(what)


def all_to_all_v(
    srcs: Any, dsts: Any, replica_group: Any, metadata_tensor: Any, recv_counts_known: Any = False,
    has_rdispls: Any = False, priority: Any = None, name: Any = None,
) -> None:  # fmt: skip
    """Parts of src to all ranks, as long as the metadata say; not modelled, calling it is NKI010."""
    what = "all_to_all_v"
    _check(what, srcs, dsts, metadata_tensor, has_rdispls, priority)
    arch = current(f"nki.collectives.{what}").arch
    if has_rdispls and arch.generation < 4:
        raise _wrong(what, "NKI221", f"has_rdispls is True on {arch.name}", "has_rdispls",
                     "displacements of results need NeuronCore-v4", "leave has_rdispls out")  # fmt: skip
    raise _unmodelled(what)


def _check(what: str, srcs: Any, dsts: Any, metadata: Any, displaced: Any, priority: Any) -> None:
    """What both ask of their tensors."""
    for operand, given in (("srcs", srcs), ("dsts", dsts)):
        listed = isinstance(given, (list, tuple)) and all(isinstance(item, NkiTensor) for item in given)
        if not listed or len(given) != 1:
            raise _wrong(what, "NKI012" if listed else "NKI013", f"{operand} is not a list of one tensor", operand,
                         f"{operand} is a list of one tensor")  # fmt: skip
        if given[0]._buffer.on_chip:
            raise _wrong(what, "NKI201", f"{operand} is in {given[0]._buffer.space.value}", operand,
                         f"{operand} is in HBM", "copy the tile to HBM first")  # fmt: skip
    _check_metadata(what, metadata, 4 if displaced else 3)
    arch = current(f"nki.collectives.{what}").arch
    if priority is not None and (priority not in (0, 1, 2, 3) or arch.generation < 4):
        raise _wrong(what, "NKI222", f"priority is {priority!r} on {arch.name}", "priority",
                     "priority is 0..3, from NeuronCore-v4", "leave priority out")  # fmt: skip


def _check_metadata(what: str, metadata: Any, rows: int) -> None:
    operand = "metadata_tensor"
    if not isinstance(metadata, NkiTensor):
        raise _wrong(what, "NKI013", f"{operand} is a {type(metadata).__name__}", operand, f"{operand} is a tensor")
    if metadata._dtype is not UINT32:
        raise _wrong(what, "NKI202", f"{operand} is {metadata._dtype.name}", operand, f"{operand} is uint32")
    if metadata._buffer.space is MemoryRegion.psum or not metadata.is_contiguous():
        raise _wrong(what, "NKI201", f"{operand} is strided, or in PSUM", operand,
                     f"{operand} lies contiguous in HBM or SBUF")  # fmt: skip
    wanted = (1, rows) if metadata._buffer.on_chip else (rows,)
    shape = tuple(metadata._shape)
    if shape[:-1] != wanted:
        raise _wrong(what, "NKI203", f"{operand} is {shape}", operand,
                     f"{operand} is ({', '.join(map(str, wanted))}, ranks)")  # fmt: skip


def _wrong(what: str, code: str, message: str, operand: str, limit: str, remedy: str = "") -> NkiError:
    return error_of(diagnose(code, f"{what}: {message}", operand=operand, limit=limit, help=remedy))


def _unmodelled(what: str) -> NkiError:
    return error_of(
        diagnose("NKI010", f"nki.collectives.{what} is part of NKI 0.6 and not modelled here",
                 limit="what is modelled is computed, and nothing else is made up",
                 help="`nki-lab doctor` lists what is modelled")
    )  # fmt: skip


FUNCTIONS: Final = (all_gather_v, all_to_all_v)

for _function in FUNCTIONS:
    _function.is_stand_in = True  # type: ignore[attr-defined]
