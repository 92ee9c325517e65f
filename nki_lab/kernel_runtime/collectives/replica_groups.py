"""What collectives are called with, and how their data comes from the other ranks of the launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import NkiError, diagnose, error_of
from nki_lab.isa.alu import alu_of
from nki_lab.kernel_runtime.collectives.rank_group import Group, Rank, RankGroup
from nki_lab.kernel_runtime.collectives.rank_group import local as ranks
from nki_lab.kernel_runtime.issue.builder import Builder
from nki_lab.kernel_runtime.issue.context import current
from nki_lab.kernel_runtime.issue.nisa_functions import instruction_function
from nki_lab.kernel_runtime.language.objects import NKIObject
from nki_lab.kernel_runtime.tensor import MemoryRegion, NkiTensor

Array = np.ndarray[Any, Any]
Combine = Callable[[list[list[Array]], int], list[Array] | None]
"""Results of a rank from what the ranks of its group hand in, in the group's order, and the rank's place among them.

None where nothing arrives.
"""

CHANNELS: Final = 4  # at most, for groups of whole nodes; others have two
_REDUCTIONS: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "add": np.add, "minimum": np.minimum, "maximum": np.maximum,
}  # fmt: skip


class ReplicaGroup(NKIObject):
    """The ranks that take part in a collective: disjoint lists, such as `ReplicaGroup([[0, 1], [2, 3]])`."""

    replica_groups: Sequence[Sequence[int]]

    def __init__(self, replica_groups: Sequence[Sequence[int]] = ()) -> None:
        self.replica_groups = replica_groups
        ranks = [rank for group in replica_groups for rank in group]
        if len(set(ranks)) != len(ranks):
            raise wrong(
                "ReplicaGroup", f"{replica_groups!r} has a rank twice", "replica_groups", "the groups are disjoint"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReplicaGroup) and list(map(list, other.replica_groups)) == list(
            map(list, self.replica_groups)
        )

    def __hash__(self) -> int:
        return hash(tuple(map(tuple, self.replica_groups)))

    def __repr__(self) -> str:
        return f"ReplicaGroup({self.replica_groups!r})"


# -- what is passed ----------------------------------------------------------------------------------------------------


def wrong(what: str, message: str, operand: str, limit: str, code: str = "NKI012", help_text: str = "") -> NkiError:
    return error_of(diagnose(code, f"{what}: {message}", operand=operand, limit=limit, help=help_text))


def lists_of(what: str, srcs: Any, dsts: Any, *, on_chip: bool = True, single: bool = False) -> list[Any]:
    for operand, value in (("srcs", srcs), ("dsts", dsts)):
        if not isinstance(value, (list, tuple)) or not value or not all(isinstance(item, NkiTensor) for item in value):
            raise wrong(what, f"{operand} is no list of tensors", operand, f"{operand} is a list of tensors", "NKI013",
                         f"write {operand}=[tensor]")  # fmt: skip
    if len(srcs) != len(dsts):
        raise wrong(what, f"{len(srcs)} sources and {len(dsts)} destinations", "dsts", "a dst for each src")
    chips = {item._buffer.on_chip for item in (*srcs, *dsts)}
    if len(chips) > 1 or any(item._buffer.space is MemoryRegion.psum for item in (*srcs, *dsts)):
        raise wrong(
            what, "tensors are in several memories, or in PSUM", "srcs", "all are in HBM, or all in SBUF", "NKI201"
        )
    if chips == {True} and not on_chip:
        raise wrong(what, "tensors are in SBUF", "srcs", "all tensors are in HBM", "NKI201", "copy them to HBM first")
    if len(srcs) > 1 and (single or chips == {True}):
        raise wrong(what, f"{len(srcs)} tensors at once", "srcs", "one tensor, or several that are in HBM")
    for src, dst in zip(srcs, dsts, strict=True):
        if src._dtype is not dst._dtype:
            raise wrong(what, f"src is {src._dtype.name} and dst is {dst._dtype.name}", "dsts", "dst has src's dtype",
                         "NKI207", "cast before or after")  # fmt: skip
    return list(zip(srcs, dsts, strict=True))


def channels(what: str, channel_ids: Any, srcs: Any, dsts: Any) -> list[Any]:
    if list(channel_ids) != list(range(len(srcs))) or len(srcs) != len(dsts) or len(srcs) > CHANNELS:
        raise wrong(what, f"channels {list(channel_ids)} of {len(srcs)} sources and {len(dsts)} destinations",
                     "channel_ids", "a source and a destination for each channel; those are 0, 1, 2, 3")  # fmt: skip
    pairs = [pair for src, dst in zip(srcs, dsts, strict=True) for pair in lists_of(what, src, dst, single=True)]
    for src, dst in pairs:
        same_shape(what, src, dst, src._shape)
    return pairs


def same_shape(what: str, src: NkiTensor, dst: NkiTensor, wanted: tuple[int, ...]) -> None:
    if tuple(dst._shape) != tuple(wanted):
        raise wrong(what, f"src is {tuple(src._shape)} and dst is {tuple(dst._shape)}", "dsts",
                     f"dst is {tuple(wanted)}", "NKI203", "allocate dst in that shape")  # fmt: skip


def dimension(what: str, dim: Any, src: NkiTensor, allowed: tuple[int, ...] = (0,)) -> int:
    if dim not in allowed:
        raise wrong(
            what, f"collective_dim is {dim!r}", "collective_dim", f"collective_dim is {' or '.join(map(str, allowed))}"
        )
    return int(dim)


def scaled(shape: Sequence[int], dim: int, by: int) -> tuple[int, ...]:
    return (*shape[:dim], shape[dim] * by, *shape[dim + 1 :])


def divided(what: str, src: NkiTensor, dim: int, by: int) -> tuple[int, ...]:
    size = src._shape[dim]
    if size % by:
        raise wrong(what, f"dimension {dim} of src {tuple(src._shape)} is split over {by} ranks", "srcs",
                     "the ranks' parts have one size", "NKI203")  # fmt: skip
    return (*src._shape[:dim], size // by, *src._shape[dim + 1 :])


def operator(what: str, op: Any) -> Callable[[Sequence[Array]], Array]:
    known = alu_of(op)
    join = _REDUCTIONS.get(known.name)
    if join is None:
        raise wrong(what, f"op is nl.{known.name}", "op", "op is nl.add, nl.minimum or nl.maximum")

    def joined(parts: Sequence[Array]) -> Array:
        # guess: floats are joined in float32, in the order of the ranks, and rounded once.
        host = parts[0].dtype
        exact = host.kind in "iu" and host.itemsize <= 4
        total = parts[0].astype(np.int64 if exact else np.float32)
        for part in parts[1:]:
            total = join(total, part.astype(total.dtype))
        return total.astype(host)

    return joined


def this_rank() -> Rank:
    """The rank that is being specialised; a run of its own is rank 0 of 1."""
    return ranks.rank or Rank(0, RankGroup(1))


def group_of(what: str, replica_group: Any) -> Group:
    """The ranks that this one exchanges data with, itself among them."""
    if not isinstance(replica_group, ReplicaGroup):
        raise wrong(what, f"replica_group is a {type(replica_group).__name__}", "replica_group",
                     "replica_group is a ReplicaGroup", help_text="write ReplicaGroup([[0, 1]])")  # fmt: skip
    mine = this_rank().number
    for group in replica_group.replica_groups:
        if mine in group:
            return tuple(group)
    raise _missing_ranks(what, f"{replica_group!r} does not have rank {mine}")


def _missing_ranks(what: str, message: str) -> NkiError:
    return wrong(what, message, "replica_group", "all ranks of a collective are in the launch", "NKI240",
                  "run all ranks: nki_lab.run_ranks(kernel, [arguments of rank 0, of rank 1, ...])")  # fmt: skip


# -- what is done ------------------------------------------------------------------------------------------------------


def run(what: str, pairs: list[Any], group: Group, priority: Any, name: Any, combine: Combine) -> None:
    """Hand the sources to the group, and copy what arrives; `pairs` are (source, destination or None)."""
    builder = begin(what, priority)
    sources, into = [src for src, _ in pairs], [dst for _, dst in pairs if dst is not None]
    found: list[NkiTensor] | None
    if builder.reader is None:
        found = sources[: len(into)] if len(group) == 1 else [arrived(builder, dst, None) for dst in into]
    elif len(group) == 1 and len(sources) == len(into):
        found = sources
    else:
        results = combine(*exchanged(what, builder, group, sources, alike=True))
        found = None if results is None else [arrived(builder, *pair) for pair in zip(into, results, strict=True)]
    for number, (dst, src) in enumerate(zip(into, found or (), strict=found is not None)):
        _copy(builder, dst, src, name if number == 0 else None)


def begin(what: str, priority: Any) -> Builder:
    """The builder that records a collective, after a word on its times."""
    builder = current(f"nki.collectives.{what}")
    check_priority(what, builder, priority)
    builder.note(
        diagnose("NKI242", f"{what} is timed as the copy of what arrives",
                 limit="links between chips, and waits for other ranks, are not modelled",
                 help="add what the collective takes on your system to the estimate"),
        builder.site(),
    )  # fmt: skip
    return builder


def check_priority(what: str, builder: Builder, priority: Any) -> None:
    """Refuse a priority that the target does not have."""
    if priority is None:
        return
    if priority not in (0, 1, 2, 3) or builder.arch.generation < 4:
        raise wrong(what, f"priority is {priority!r} on {builder.arch.name}", "priority",
                     "priority is 0..3, from NeuronCore-v4", "NKI222", "leave priority out")  # fmt: skip


def exchanged(
    what: str, builder: Builder, group: Group, tensors: Sequence[NkiTensor], *, alike: bool = False
) -> tuple[list[list[Array]], int]:
    """The values that each rank of the group hands in, in the group's order, and this rank's place in it.

    With `alike` the ranks hand in the same shapes and dtypes; others are NKI241.
    """
    rank = this_rank()
    if rank.group.size <= max(group):
        raise _missing_ranks(
            what, f"the group {list(group)} has ranks that are not in this launch of {rank.group.size}"
        )
    if builder.grid and builder.grid[0] > 1:
        raise wrong(what, f"each rank runs on {builder.grid[0]} physical cores", "replica_group",
                    "ranks of one physical core exchange data", "NKI240", "launch them without a grid")  # fmt: skip
    builder.program.observed = True
    mine = [np.array(builder.read(tensor)) for tensor in tensors]
    told = f"{what} {[(item.shape, str(item.dtype)) for item in mine]}" if alike else what
    given = rank.group.exchange(rank.number, group, told, mine)
    return [given[member] for member in group], group.index(rank.number)


def arrived(builder: Builder, like: NkiTensor, values: Array | None) -> NkiTensor:
    """A tensor in HBM of dst's shape with these values; without values of zeros, which nobody sees."""
    tensor = builder.allocate(like._shape, like._dtype, MemoryRegion.private_hbm, kind="const")
    host = np.dtype(like._dtype.host)
    shown = np.broadcast_to(np.zeros((), host), tuple(like._shape)) if values is None else np.ascontiguousarray(values)
    builder.program.constants[tensor._buffer.id] = shown
    return tensor


def _copy(builder: Builder, dst: NkiTensor, src: NkiTensor, name: Any) -> None:
    """dst = src; two cores that share both wait for each other around it, and the first one copies."""
    both = {dst._buffer.space, src._buffer.space} == {MemoryRegion.shared_hbm}
    shared = both and len(builder.grid) == 1 and builder.grid[0] == 2
    if shared:
        instruction_function("core_barrier")(src, (0, 1))
    if not shared or builder.program_ids[0] == 0:
        instruction_function("dma_copy")(dst, src, name=name)
    if shared:
        instruction_function("core_barrier")(dst, (0, 1))
