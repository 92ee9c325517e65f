"""`nki.collectives`: data between the ranks of a launch.

In a run of one rank its groups hold that rank alone, and a collective is a copy. `nki_lab.run_ranks` runs several; what
arrives from the others is then copied into dst by DMA, as late as hops and links let it (NKI242).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.collectives.replica_groups import (
    CHANNELS,
    Array,
    Channels,
    Shape,
    Tensors,
    before,
    channels,
    dimension,
    divided,
    each,
    group_of,
    links_of,
    operator,
    pairs_of,
    run,
    scaled,
    this_rank,
    wrong,
)
from nki_lab.kernel_runtime.ir import FROM_NONE
from nki_lab.kernel_runtime.language.control import register_alloc
from nki_lab.kernel_runtime.tensor import NkiTensor, VirtualRegister
from nki_lab.printable import shown


def all_reduce(
    srcs: Tensors, dsts: Tensors, replica_group: object, op: object, priority: object = None, name: str | None = None
) -> None:
    """Each dst = the sources of all ranks, joined by `op`: nl.add, nl.minimum or nl.maximum."""
    what = "all_reduce"
    join = operator(what, op)
    run(
        what,
        pairs_of(what, srcs, dsts),
        group_of(what, replica_group),
        priority,
        name,
        each(lambda part, _: join(part)),
        rounds=2,
    )


def all_gather(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: object,
    collective_dim: int,
    priority: object = None,
    name: str | None = None,
) -> None:
    """Each dst = the sources of all ranks one after the other along `collective_dim`, in the order of the group."""
    what, group = "all_gather", group_of("all_gather", replica_group)

    def gathered(src: NkiTensor) -> Shape:
        return scaled(src._shape, dimension(what, collective_dim, (0, 1) if src._buffer.on_chip else (0,)), len(group))

    pairs = pairs_of(what, srcs, dsts, gathered)
    run(what, pairs, group, priority, name, each(lambda part, _: np.concatenate(part, collective_dim)))


def reduce_scatter(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: object,
    collective_dim: int,
    op: object,
    priority: object = None,
    name: str | None = None,
) -> None:
    """Each dst = this rank's part along `collective_dim` of the sources of all ranks, joined by `op`."""
    what, group = "reduce_scatter", group_of("reduce_scatter", replica_group)
    join = operator(what, op)
    pairs = pairs_of(what, srcs, dsts, lambda src: divided(what, src, dimension(what, collective_dim), len(group)))
    run(
        what,
        pairs,
        group,
        priority,
        name,
        each(lambda part, place: np.split(join(part), len(group), collective_dim)[place]),
    )


def all_to_all(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: object,
    collective_dim: int,
    priority: object = None,
    name: str | None = None,
) -> None:
    """Part k of each dst along `collective_dim` = this rank's part of the source of the group's rank k; all in HBM."""
    what, group = "all_to_all", group_of("all_to_all", replica_group)

    def unchanged(src: NkiTensor) -> Shape:
        divided(what, src, dimension(what, collective_dim), len(group))
        return src._shape

    def exchanged(part: Sequence[Array], place: int) -> Array:
        return np.concatenate([np.split(item, len(group), collective_dim)[place] for item in part], collective_dim)

    run(what, pairs_of(what, srcs, dsts, unchanged, on_chip=False), group, priority, name, each(exchanged), rounds=0)


def collective_permute(
    srcs: Tensors,
    dsts: Tensors,
    source_target_pairs: Iterable[Sequence[int]],
    priority: object = None,
    name: str | None = None,
) -> None:
    """dst = src of the rank that is paired with this one as its target; guess: without such a pair dst is kept."""
    what = "collective_permute"
    links = links_of(what, source_target_pairs)
    pairs = pairs_of(what, srcs, dsts, on_chip=False, single=True)
    mine = this_rank().number
    source = next((source for source, target in links if target == mine), None)
    group = tuple(sorted({rank for link in links for rank in link}))
    if mine in group:

        def received(given: list[list[Array]], _: int) -> list[Array] | None:
            return None if source is None else given[group.index(source)]

        sender = FROM_NONE if source is None else source
        run(what, pairs, group, priority, name, received, rounds=0, source=sender)


def collective_permute_implicit(
    srcs_by_channel: Channels,
    dsts_by_channel: Channels,
    replica_group: object,
    channel_ids: Iterable[int] = (0,),
    priority: object = None,
    name: str | None = None,
) -> None:
    """dst of each channel = src of the rank before this one in the ring of its group."""
    what, group = "collective_permute_implicit", group_of("collective_permute_implicit", replica_group)
    run(
        what,
        channels(what, channel_ids, srcs_by_channel, dsts_by_channel),
        group,
        priority,
        name,
        lambda given, place: given[place - 1],
        rounds=0,
        source=before(group),
    )


def collective_permute_implicit_reduce(
    srcs0_by_channel: Channels,
    srcs1_by_channel: Channels,
    dsts_by_channel: Channels,
    replica_group: object,
    op: object,
    channel_ids: Iterable[int] = (0,),
    priority: object = None,
    name: str | None = None,
) -> None:
    """dst of each channel = op(src0, src1) of the rank before this one in the ring of its group."""
    what, group = "collective_permute_implicit_reduce", group_of("collective_permute_implicit_reduce", replica_group)
    join = operator(what, op)
    first = channels(what, channel_ids, srcs0_by_channel, dsts_by_channel)
    second = channels(what, channel_ids, srcs1_by_channel, dsts_by_channel)
    half = len(first)

    def combine(given: list[list[Array]], place: int) -> list[Array]:
        theirs = given[place - 1]
        return [join(pair) for pair in zip(theirs[:half], theirs[half:], strict=True)]

    pairs = [*first, *((src, None) for src, _ in second)]
    run(what, pairs, group, priority, name, combine, rounds=0, source=before(group))


def collective_permute_implicit_current_processing_rank_id(
    iteration_id: int, replica_group: object, channel_id: int = 0, name: str | None = None
) -> VirtualRegister:
    """A register with the rank whose data this one has after `iteration_id` steps around the ring: first its own."""
    what = "collective_permute_implicit_current_processing_rank_id"
    group = group_of(what, replica_group)
    if not isinstance(iteration_id, int):
        raise wrong(
            what,
            f"iteration_id is {shown(iteration_id)}",
            "iteration_id",
            "iteration_id is an integer",
            help_text="count the steps in a Python loop",
        )
    if channel_id not in range(CHANNELS):
        raise wrong(
            what,
            f"channel_id is {shown(channel_id)}",
            "channel_id",
            f"channels are 0 to {CHANNELS - 1}",
            help_text="give the channel that the data goes through",
        )
    return register_alloc(group[(group.index(this_rank().number) - iteration_id) % len(group)])


def rank_id(name: str | None = None) -> VirtualRegister:
    """A register with the number of this rank."""
    return register_alloc(this_rank().number)


FUNCTIONS: Final = (
    all_reduce, all_gather, reduce_scatter, all_to_all, collective_permute, collective_permute_implicit,
    collective_permute_implicit_reduce, collective_permute_implicit_current_processing_rank_id, rank_id,
)  # fmt: skip
