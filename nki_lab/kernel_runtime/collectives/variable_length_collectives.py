"""`nki.collectives` whose counts are known at run time only: what a call may look like.

Their limits are checked; what they exchange is not modelled, and a call that is fine so far is NKI010.
"""

from __future__ import annotations

from typing import Final

from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.isa.dtype import UINT32
from nki_lab.kernel_runtime.collectives.replica_groups import ReplicaGroup, Tensors, check_priority, wrong
from nki_lab.kernel_runtime.issue.context import current
from nki_lab.kernel_runtime.tensor import MemoryRegion, NkiTensor

_CHIP: Final = 4
"""Ranks of one chip, each of two physical cores."""


def all_gather_v(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    metadata_tensor: object,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: object = None,
    name: str | None = None,
) -> None:
    """dst = a part of each rank's src, as long as the rank's metadata say; not modelled, calling it is NKI010."""
    what = "all_gather_v"
    _check(what, srcs, dsts, metadata_tensor, has_rdispls, priority)
    if has_rdispls:
        raise wrong(what, "has_rdispls is True", "has_rdispls", "displacements of results are not supported")
    grid = current(f"nki.collectives.{what}").grid
    if grid != (2,):
        raise wrong(
            what,
            f"the launch grid is {grid or 1}",
            "replica_group",
            "a rank is a logical core of two physical ones",
            "NKI016",
            "launch the kernel as kernel[2]",
        )
    sizes = {len(group) for group in replica_group.replica_groups}
    if sizes != {_CHIP}:
        raise wrong(
            what,
            f"{replica_group!r} has groups of {', '.join(map(str, sorted(sizes)))} ranks",
            "replica_group",
            f"the groups are the {_CHIP} ranks of a chip",
        )
    raise _unmodelled(what)


def all_to_all_v(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    metadata_tensor: object,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: object = None,
    name: str | None = None,
) -> None:
    """Parts of src to all ranks, as long as the metadata say; not modelled, calling it is NKI010."""
    what = "all_to_all_v"
    _check(what, srcs, dsts, metadata_tensor, has_rdispls, priority)
    arch = current(f"nki.collectives.{what}").arch
    if has_rdispls and arch.generation < 4:
        raise wrong(
            what,
            f"has_rdispls is True on {arch.name}",
            "has_rdispls",
            "displacements of results need NeuronCore-v4",
            "NKI221",
            "leave has_rdispls out",
        )
    raise _unmodelled(what)


def _check(what: str, srcs: object, dsts: object, metadata: object, displaced: bool, priority: object) -> None:
    """Check the tensors of either collective."""
    for operand, given in (("srcs", srcs), ("dsts", dsts)):
        tensors = given if isinstance(given, (list, tuple)) else ()
        listed = tensors is given and all(isinstance(item, NkiTensor) for item in tensors)
        if not listed or len(tensors) != 1:
            raise wrong(
                what,
                f"{operand} is not a list of one tensor",
                operand,
                f"{operand} is a list of one tensor",
                "NKI012" if listed else "NKI013",
            )
        if tensors[0]._buffer.on_chip:
            raise wrong(
                what,
                f"{operand} is in {tensors[0]._buffer.space.value}",
                operand,
                f"{operand} is in HBM",
                "NKI201",
                "copy the tile to HBM first",
            )
    _check_metadata(what, metadata, 4 if displaced else 3)
    check_priority(what, current(f"nki.collectives.{what}"), priority)


def _check_metadata(what: str, metadata: object, rows: int) -> None:
    operand = "metadata_tensor"
    if not isinstance(metadata, NkiTensor):
        raise wrong(what, f"{operand} is a {type(metadata).__name__}", operand, f"{operand} is a tensor", "NKI013")
    if metadata._dtype is not UINT32:
        raise wrong(what, f"{operand} is {metadata._dtype.name}", operand, f"{operand} is uint32", "NKI202")
    if metadata._buffer.space is MemoryRegion.psum or not metadata.is_contiguous():
        raise wrong(
            what, f"{operand} is strided, or in PSUM", operand, f"{operand} lies contiguous in HBM or SBUF", "NKI201"
        )
    wanted = (1, rows) if metadata._buffer.on_chip else (rows,)
    shape = tuple(metadata._shape)
    if shape[:-1] != wanted:
        raise wrong(
            what, f"{operand} is {shape}", operand, f"{operand} is ({', '.join(map(str, wanted))}, ranks)", "NKI203"
        )


def _unmodelled(what: str) -> NkiError:
    return coded_error(
        "NKI010",
        f"nki.collectives.{what} is part of NKI 0.6 and not modelled here",
        limit="what is modelled is computed, and nothing else is made up",
        help="`nki-lab doctor` lists what is modelled",
    )


FUNCTIONS: Final = (all_gather_v, all_to_all_v)

for _function in FUNCTIONS:
    _function.is_stand_in = True  # type: ignore[attr-defined]
