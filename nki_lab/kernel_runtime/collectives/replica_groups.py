"""Check the arguments of collectives, and exchange their data with the other ranks of the launch."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import numpy as np

from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.isa.alu import alu_of
from nki_lab.kernel_runtime.collectives.rank_group import Group, Rank, RankGroup
from nki_lab.kernel_runtime.collectives.rank_group import local as ranks
from nki_lab.kernel_runtime.footprint import distinct
from nki_lab.kernel_runtime.ir import FROM_ALL, FROM_NONE, Arrival, Exchange, access_columns
from nki_lab.kernel_runtime.issue.builder import Builder
from nki_lab.kernel_runtime.issue.context import current
from nki_lab.kernel_runtime.issue.nisa_functions import instruction_function
from nki_lab.kernel_runtime.language.objects import NKIObject
from nki_lab.kernel_runtime.tensor import MemoryRegion, NkiTensor
from nki_lab.printable import shown

Array = np.ndarray[Any, Any]
Combine = Callable[[list[list[Array]], int], list[Array] | None]
"""Results of a rank from what the ranks of its group hand in, in the group's order, and the rank's place among them.

None where nothing arrives.
"""

Shape = tuple[int, ...]
Tensors = Sequence[NkiTensor]
Channels = Sequence[Tensors]
"""A list of tensors for each channel."""
Pair = tuple[NkiTensor, NkiTensor]

CHANNELS: Final = 4  # at most, for groups of whole nodes; others have two
_REDUCTIONS: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "add": np.add, "minimum": np.minimum, "maximum": np.maximum,
}  # fmt: skip


class ReplicaGroup(NKIObject):
    """The ranks that take part in a collective: disjoint lists, such as `ReplicaGroup([[0, 1], [2, 3]])`."""

    replica_groups: Sequence[Sequence[int]]

    def __init__(self, replica_groups: Sequence[Sequence[int]] = ()) -> None:
        if not (_is_list(replica_groups) and all(map(_are_ranks, replica_groups))):
            raise wrong(
                "ReplicaGroup",
                f"replica_groups is {reprlib.repr(replica_groups)}",
                "replica_groups",
                "replica_groups is a list of lists of ranks",
                help_text="write ReplicaGroup([[0, 1]])",
            )
        self.replica_groups = replica_groups
        ranks = [rank for group in replica_groups for rank in group]
        if len(set(ranks)) != len(ranks):
            raise wrong(
                "ReplicaGroup",
                f"{replica_groups!r} has a rank twice",
                "replica_groups",
                "the groups are disjoint",
                help_text="name each rank in one group",
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReplicaGroup) and list(map(list, other.replica_groups)) == list(
            map(list, self.replica_groups)
        )

    def __hash__(self) -> int:
        return hash(tuple(map(tuple, self.replica_groups)))

    def __repr__(self) -> str:
        return f"ReplicaGroup({self.replica_groups!r})"


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple))


def _are_ranks(value: object) -> bool:
    return _is_list(value) and all(isinstance(rank, int) for rank in cast(Sequence[object], value))


# -- what is passed ----------------------------------------------------------------------------------------------------


def wrong(what: str, message: str, operand: str, limit: str, code: str = "NKI012", help_text: str = "") -> NkiError:
    """Return the error of an argument of a collective."""
    return coded_error(code, f"{what}: {message}", operand=operand, limit=limit, help=help_text)


def pairs_of(
    what: str,
    srcs: object,
    dsts: object,
    shape_of: Callable[[NkiTensor], Shape] | None = None,
    *,
    on_chip: bool = True,
    single: bool = False,
) -> list[Pair]:
    """Return the checked pairs of source and destination; `shape_of` a source is its destination's shape."""
    for operand, value in (("srcs", srcs), ("dsts", dsts)):
        if not isinstance(value, (list, tuple)) or not value or not all(isinstance(item, NkiTensor) for item in value):
            raise wrong(
                what,
                f"{operand} is no list of tensors",
                operand,
                f"{operand} is a list of tensors",
                "NKI013",
                f"write {operand}=[tensor]",
            )
    sources, destinations = cast(tuple[Tensors, Tensors], (srcs, dsts))
    if len(sources) != len(destinations):
        raise wrong(
            what,
            f"{len(sources)} sources and {len(destinations)} destinations",
            "dsts",
            "a dst for each src",
            help_text="give lists of one length",
        )
    regions = [item._buffer for item in (*sources, *destinations)]
    chips = {region.on_chip for region in regions}
    if len(chips) > 1 or any(region.space is MemoryRegion.psum for region in regions):
        raise wrong(
            what,
            "tensors are in several memories, or in PSUM",
            "srcs",
            "all are in HBM, or all in SBUF",
            "NKI201",
            "copy some of them to the memory of the others first",
        )
    if chips == {True} and not on_chip:
        raise wrong(what, "tensors are in SBUF", "srcs", "all tensors are in HBM", "NKI201", "copy them to HBM first")
    if len(sources) > 1 and (single or chips == {True}):
        raise wrong(
            what,
            f"{len(sources)} tensors at once",
            "srcs",
            "one tensor" if single else "one tensor, or several that are in HBM",
            help_text="call it once for each tensor",
        )
    if chips == {True} and (flat := next((item for item in (*sources, *destinations) if len(item._shape) > 2), None)):
        raise wrong(
            what,
            f"a tensor in SBUF is {flat._shape}",
            "srcs",
            "tensors in SBUF are two-dimensional",
            "NKI205",
            "merge the free dimensions: tile.reshape((partitions, elements))",
        )
    pairs: list[Pair] = list(zip(sources, destinations, strict=True))
    for src, dst in pairs:
        if src._dtype is not dst._dtype:
            raise wrong(
                what,
                f"src is {src._dtype.name} and dst is {dst._dtype.name}",
                "dsts",
                "dst has src's dtype",
                "NKI207",
                "cast before or after",
            )
    for src, dst in pairs:
        wanted = src._shape if shape_of is None else shape_of(src)
        if dst._shape != wanted:
            raise wrong(
                what,
                f"src is {src._shape} and dst is {dst._shape}",
                "dsts",
                f"dst is {wanted}",
                "NKI203",
                "allocate dst in that shape",
            )
    return pairs


def links_of(what: str, pairs: object) -> list[tuple[int, int]]:
    """Return the checked pairs of a sending and a receiving rank."""
    given = cast(Sequence[Sequence[int]], pairs) if _is_list(pairs) else ()
    if given is not pairs or not all(_are_ranks(pair) and len(pair) == 2 for pair in given):
        raise wrong(
            what,
            f"source_target_pairs is {reprlib.repr(pairs)}",
            "source_target_pairs",
            "source_target_pairs is a list of pairs of ranks",
            help_text="write [(0, 1), (1, 0)]: rank 0 sends to 1, and 1 to 0",
        )
    links = [(source, target) for source, target in given]
    for ends in zip(*links, strict=True):
        if len(set(ends)) != len(ends):
            raise wrong(
                what,
                f"source_target_pairs {links} has a rank twice on one side",
                "source_target_pairs",
                "each rank sends once at most, and receives once at most",
                help_text="use a call for each round, or all_gather",
            )
    return links


def channels(what: str, channel_ids: object, srcs: object, dsts: object) -> list[Pair]:
    """Return the pairs of source and destination of all channels, checked."""
    for operand, value in (("srcs_by_channel", srcs), ("dsts_by_channel", dsts)):
        if not (_is_list(value) and all(map(_is_list, cast(Sequence[object], value)))):
            raise wrong(
                what,
                f"{operand} is no list of lists",
                operand,
                f"{operand} has a list of one tensor for each channel",
                "NKI013",
                f"write {operand}=[[tensor]]",
            )
    return _by_channel(what, channel_ids, cast(Channels, srcs), cast(Channels, dsts))


def _by_channel(what: str, channel_ids: object, srcs: Channels, dsts: Channels) -> list[Pair]:
    numbers = list(cast(Sequence[int], channel_ids)) if _is_list(channel_ids) else channel_ids
    if numbers != list(range(len(srcs))) or len(srcs) != len(dsts) or len(srcs) > CHANNELS:
        raise wrong(
            what,
            f"channels {numbers} of {len(srcs)} sources and {len(dsts)} destinations",
            "channel_ids",
            f"a source and a destination for each channel; channel_ids are 0, 1, ..., at most {CHANNELS} of them",
            help_text="leave channel_ids out for one channel, or give list(range(channels))",
        )
    return [pair for src, dst in zip(srcs, dsts, strict=True) for pair in pairs_of(what, src, dst, single=True)]


def dimension(what: str, dim: object, allowed: tuple[int, ...] = (0,)) -> int:
    """Return `collective_dim`, checked."""
    if not isinstance(dim, int) or dim not in allowed:
        raise wrong(
            what,
            f"collective_dim is {shown(dim)}",
            "collective_dim",
            f"collective_dim is {' or '.join(map(str, allowed))}",
            help_text="permute the tensors so that the joined dimension comes first",
        )
    return int(dim)


def scaled(shape: Shape, dim: int, by: int) -> Shape:
    """Return a shape with one dimension `by` times as long."""
    return (*shape[:dim], shape[dim] * by, *shape[dim + 1 :])


def divided(what: str, src: NkiTensor, dim: int, by: int) -> Shape:
    """Return the shape of one of `by` equal parts along a dimension."""
    size = src._shape[dim]
    if size % by:
        raise wrong(
            what,
            f"dimension {dim} of src {tuple(src._shape)} is split over {by} ranks",
            "srcs",
            "the ranks' parts have one size",
            "NKI203",
            "pad that dimension to a multiple of the ranks",
        )
    return (*src._shape[:dim], size // by, *src._shape[dim + 1 :])


def each(of: Callable[[Sequence[Array], int], Array]) -> Combine:
    """Return a Combine that makes each result of one tensor of every rank."""
    return lambda given, place: [of(part, place) for part in zip(*given, strict=True)]


def operator(what: str, op: object) -> Callable[[Sequence[Array]], Array]:
    """Return the function that joins the parts of all ranks with an operator."""
    known = alu_of(op)
    join = _REDUCTIONS.get(known.name)
    if join is None:
        raise wrong(
            what,
            f"op is nl.{known.name}",
            "op",
            "op is nl.add, nl.minimum or nl.maximum",
            help_text="gather the tensors with all_gather, and join them on the chip",
        )

    def joined(parts: Sequence[Array]) -> Array:
        # guess: floats are joined in float32, in the order of the ranks, and rounded once.
        host = parts[0].dtype
        total = parts[0].astype(np.int64 if host.kind in "iu" and host.itemsize <= 4 else np.float32)
        for part in parts[1:]:
            total = join(total, part.astype(total.dtype))
        return total.astype(host)

    return joined


def this_rank() -> Rank:
    """The rank that is being specialised; a run of its own is rank 0 of 1."""
    return ranks.rank or Rank(0, RankGroup(1))


def group_of(what: str, replica_group: object) -> Group:
    """The ranks that this one exchanges data with, itself among them."""
    if not isinstance(replica_group, ReplicaGroup):
        raise wrong(
            what,
            f"replica_group is a {type(replica_group).__name__}",
            "replica_group",
            "replica_group is a ReplicaGroup",
            help_text="write ReplicaGroup([[0, 1]])",
        )
    mine = this_rank().number
    for group in replica_group.replica_groups:
        if mine in group:
            return tuple(group)
    raise _missing_ranks(what, f"{replica_group!r} does not have rank {mine}")


def before(group: Group) -> int:
    """Return the rank before this one in the ring of its group."""
    return group[group.index(this_rank().number) - 1]


def _missing_ranks(what: str, message: str) -> NkiError:
    return wrong(
        what,
        message,
        "replica_group",
        "all ranks of a collective are in the launch",
        "NKI240",
        "run all ranks: nki_lab.run_ranks(kernel, [arguments of rank 0, of rank 1, ...])",
    )


# -- what is done ------------------------------------------------------------------------------------------------------


def run(
    what: str,
    pairs: Sequence[tuple[NkiTensor, NkiTensor | None]],
    group: Group,
    priority: object,
    name: str | None,
    combine: Combine,
    *,
    rounds: int = 1,
    source: int = FROM_ALL,
) -> None:
    """Hand the sources to the group, and copy what arrives; `pairs` are (source, destination or None).

    `rounds` is how often all data goes round the group, 0: each rank sends straight to those that want something.
    `source` is the rank that sends to this one, where it is one.
    """
    builder = current(f"nki.collectives.{what}")
    check_priority(what, builder, priority)
    advise_time(what, builder)
    sources, into = [src for src, _ in pairs], [dst for _, dst in pairs if dst is not None]
    found: Tensors | None
    if len(group) == 1 and (builder.reader is None or len(sources) == len(into)):
        found = sources[: len(into)]
    elif builder.reader is None:
        builder.guessed = True
        found = [arrived(builder, dst, None) for dst in into]
    else:
        results = combine(*exchanged(what, builder, group, sources))
        found = None if results is None else [arrived(builder, *pair) for pair in zip(into, results, strict=True)]
    alone = len(group) == 1
    size = sum(_bytes(tensor) for tensor in max(sources, into, key=lambda side: sum(map(_bytes, side))))
    sent = [] if alone else writers(builder, sources)
    for number, (dst, src) in enumerate(zip(into, found or (), strict=found is not None)):
        if not alone:
            builder.program.arrivals[src._buffer.id] = arrival(group, rounds, size)
        first = len(builder.program)
        bring(builder, dst, [(dst, src)], sources[number], name if number == 0 else None)
        builder.program.flows += [(op, other) for op in range(first, len(builder.program)) for other in sent]
    if not alone:
        arriving = tuple(src._buffer.id for src in found or ())
        sender = source if arriving else FROM_NONE
        size = sum(map(_bytes, sources))
        builder.program.exchanges.append(Exchange(what, group, sender, tuple(sent), arriving, size))


def advise_time(what: str, builder: Builder, unknown: str = "") -> None:
    """Note that the time of a collective has parts that are not modelled, and what else is `unknown`."""
    builder.advise(
        "NKI242",
        f"{what} is timed by its hops and the rate of its links",
        limit=f"traffic that shares the links is not modelled{unknown}; a single rank's times have no waits for other"
        " ranks, those of nki_lab.run_ranks do",
        remedy="run the ranks together with nki_lab.run_ranks" if ranks.rank is None else "",
    )


def arrival(group: Group, rounds: int, size: int) -> Arrival:
    """Return how `size` bytes arrive that go round the group `rounds` times."""
    return Arrival(group, rounds, size, (len(group) - 1) / len(group) if rounds else 1.0)


def _bytes(tensor: NkiTensor) -> int:
    return int(np.prod(tensor._shape, dtype=np.int64)) * tensor._dtype.nbytes


def writers(builder: Builder, tensors: Tensors) -> list[int]:
    """Return the ops on this core that have written to tensors."""
    program = builder.program
    accesses = access_columns(program, indices=False)
    mine = accesses.is_out & np.isin(accesses.buffer, [tensor._buffer.id for tensor in tensors])
    ops: list[int] = distinct(accesses.op[mine & (accesses.op >= program.core_starts[-1])]).tolist()
    return ops


def check_priority(what: str, builder: Builder, priority: object) -> None:
    """Refuse a priority that the target does not have."""
    if priority is None:
        return
    if priority not in (0, 1, 2, 3) or builder.arch.generation < 4:
        raise wrong(
            what,
            f"priority is {shown(priority)} on {builder.arch.name}",
            "priority",
            "priority is 0..3, from NeuronCore-v4",
            "NKI222",
            "leave priority out",
        )


def exchanged(what: str, builder: Builder, group: Group, tensors: Tensors) -> tuple[list[list[Array]], int]:
    """Return the values that each rank of the group hands in, in the group's order, and this rank's place in it.

    The ranks hand in the same shapes and dtypes; others are NKI241. On two physical cores each exchanges with the same
    core of the other ranks, as the production library's all-gather of tiles does.
    """
    rank = this_rank()
    if rank.group.size <= max(group):
        raise _missing_ranks(
            what, f"the group {list(group)} has ranks that are not in this launch of {rank.group.size}"
        )
    builder.program.observed = True
    mine = [np.array(builder.read(tensor)) for tensor in tensors]
    call = f"{what} {[(item.shape, str(item.dtype)) for item in mine]}"
    if any(size > 1 for size in builder.grid):
        call += f" on core {builder.program_ids[0]}"
    given = rank.group.exchange(rank.number, group, call, mine)
    return [given[member] for member in group], group.index(rank.number)


def arrived(builder: Builder, like: NkiTensor, values: Array | None) -> NkiTensor:
    """A tensor in HBM of dst's shape with these values; without values of zeros, which nobody sees."""
    tensor = builder.allocate(like._shape, like._dtype, MemoryRegion.private_hbm, kind="const")
    host = np.dtype(like._dtype.host)
    content = np.broadcast_to(np.zeros((), host), like._shape) if values is None else np.ascontiguousarray(values)
    builder.program.constants[tensor._buffer.id] = content
    return tensor


def bring(builder: Builder, dst: NkiTensor, moves: Sequence[Pair], sent: NkiTensor, name: str | None = None) -> None:
    """Copy what arrived, each second of a pair, to the first, a part of `dst`.

    Two cores that share dst and what is `sent` wait for each other around it, and the first copies.
    """
    shared = shared_by_cores(builder, dst, sent)
    if shared:
        instruction_function("core_barrier")(sent, (0, 1))
    if not shared or builder.program_ids[0] == 0:
        for number, (part, source) in enumerate(moves):
            instruction_function("dma_copy")(part, source, name=name if number == 0 else None)
    if shared:
        instruction_function("core_barrier")(dst, (0, 1))


def shared_by_cores(builder: Builder, dst: NkiTensor, sent: NkiTensor) -> bool:
    """Return whether two cores run, and both tensors are in the HBM that they share."""
    both = {dst._buffer.space, sent._buffer.space} == {MemoryRegion.shared_hbm}
    return both and len(builder.grid) == 1 and builder.grid[0] == 2
