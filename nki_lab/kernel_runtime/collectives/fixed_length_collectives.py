"""`nki.collectives`: data between the ranks of a launch.

In a run of one rank its groups hold that rank alone, and a collective is a copy. `nki_lab.run_ranks` runs several; what
arrives from the others is then copied into dst by DMA. Links between chips are not timed: a collective takes as long
as that copy (NKI242).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nki_lab.kernel_runtime.collectives.replica_groups import (
    CHANNELS,
    Array,
    channels,
    dimension,
    divided,
    group_of,
    lists_of,
    operator,
    run,
    same_shape,
    scaled,
    this_rank,
    wrong,
)
from nki_lab.kernel_runtime.language.control import register_alloc
from nki_lab.kernel_runtime.tensor import VirtualRegister


def all_reduce(srcs: Any, dsts: Any, replica_group: Any, op: Any, priority: Any = None, name: Any = None) -> None:
    """Each dst = the sources of all ranks, joined by `op`: nl.add, nl.minimum or nl.maximum."""
    what = "all_reduce"
    join = operator(what, op)
    pairs = lists_of(what, srcs, dsts)
    for src, dst in pairs:
        same_shape(what, src, dst, src._shape)
    run(
        what,
        pairs,
        group_of(what, replica_group),
        priority,
        name,
        lambda given, _: [join(part) for part in zip(*given, strict=True)],
    )


def all_gather(
    srcs: Any, dsts: Any, replica_group: Any, collective_dim: Any, priority: Any = None, name: Any = None
) -> None:
    """Each dst = the sources of all ranks one after the other along `collective_dim`, in the order of the group."""
    what, group = "all_gather", group_of("all_gather", replica_group)
    pairs = lists_of(what, srcs, dsts)
    for src, dst in pairs:
        if src._buffer.on_chip and len(src._shape) > 2:
            raise wrong(what, f"src is {tuple(src._shape)} in SBUF", "srcs", "tensors in SBUF are two-dimensional")
        dim = dimension(what, collective_dim, src, allowed=(0,) if not src._buffer.on_chip else (0, 1))
        same_shape(what, src, dst, scaled(src._shape, dim, len(group)))
    run(
        what,
        pairs,
        group,
        priority,
        name,
        lambda given, _: [np.concatenate(part, collective_dim) for part in zip(*given, strict=True)],
    )


def reduce_scatter(
    srcs: Any, dsts: Any, replica_group: Any, collective_dim: Any, op: Any, priority: Any = None, name: Any = None
) -> None:
    """Each dst = this rank's part along `collective_dim` of the sources of all ranks, joined by `op`."""
    what, group = "reduce_scatter", group_of("reduce_scatter", replica_group)
    join = operator(what, op)
    pairs = lists_of(what, srcs, dsts)
    for src, dst in pairs:
        dim = dimension(what, collective_dim, src)
        same_shape(what, src, dst, divided(what, src, dim, len(group)))

    def combine(given: list[list[Array]], place: int) -> list[Array]:
        return [np.split(join(part), len(group), collective_dim)[place] for part in zip(*given, strict=True)]

    run(what, pairs, group, priority, name, combine)


def all_to_all(
    srcs: Any, dsts: Any, replica_group: Any, collective_dim: Any, priority: Any = None, name: Any = None
) -> None:
    """Part k of each dst along `collective_dim` = this rank's part of the source of the group's rank k; all in HBM."""
    what, group = "all_to_all", group_of("all_to_all", replica_group)
    pairs = lists_of(what, srcs, dsts, on_chip=False)
    for src, dst in pairs:
        dim = dimension(what, collective_dim, src)
        divided(what, src, dim, len(group))
        same_shape(what, src, dst, src._shape)

    def combine(given: list[list[Array]], place: int) -> list[Array]:
        cut = [
            [np.split(item, len(group), collective_dim)[place] for item in part] for part in zip(*given, strict=True)
        ]
        return [np.concatenate(part, collective_dim) for part in cut]

    run(what, pairs, group, priority, name, combine)


def collective_permute(srcs: Any, dsts: Any, source_target_pairs: Any, priority: Any = None, name: Any = None) -> None:
    """dst = src of the rank that is paired with this one as its target; guess: without such a pair dst is kept."""
    what = "collective_permute"
    pairs = lists_of(what, srcs, dsts, on_chip=False, single=True)
    links = [tuple(pair) for pair in source_target_pairs]
    for ends in zip(*links, strict=True):
        if len(set(ends)) != len(ends):
            raise wrong(what, f"source_target_pairs {links} has a rank twice on one side", "source_target_pairs",
                         "each rank sends once at most, and receives once at most")  # fmt: skip
    for src, dst in pairs:
        same_shape(what, src, dst, src._shape)
    mine = this_rank().number
    source = next((source for source, target in links if target == mine), None)
    group = tuple(sorted({rank for link in links for rank in link}))
    if mine in group:
        run(what, pairs, group, priority, name, lambda given, _: None if source is None else given[group.index(source)])


def collective_permute_implicit(
    srcs_by_channel: Any, dsts_by_channel: Any, replica_group: Any, channel_ids: Any = (0,), priority: Any = None,
    name: Any = None,
) -> None:  # fmt: skip
    """dst of each channel = src of the rank before this one in the ring of its group."""
    what, group = "collective_permute_implicit", group_of("collective_permute_implicit", replica_group)
    pairs = channels(what, channel_ids, srcs_by_channel, dsts_by_channel)
    run(what, pairs, group, priority, name, lambda given, place: given[place - 1])


def collective_permute_implicit_reduce(
    srcs0_by_channel: Any, srcs1_by_channel: Any, dsts_by_channel: Any, replica_group: Any, op: Any,
    channel_ids: Any = (0,), priority: Any = None, name: Any = None,
) -> None:  # fmt: skip
    """dst of each channel = op(src0, src1) of the rank before this one in the ring of its group."""
    what, group = "collective_permute_implicit_reduce", group_of("collective_permute_implicit_reduce", replica_group)
    join = operator(what, op)
    first = channels(what, channel_ids, srcs0_by_channel, dsts_by_channel)
    second = channels(what, channel_ids, srcs1_by_channel, dsts_by_channel)
    pairs = [*first, *((src, None) for src, _ in second)]
    half = len(first)

    def combine(given: list[list[Array]], place: int) -> list[Array]:
        theirs = given[place - 1]
        return [join(pair) for pair in zip(theirs[:half], theirs[half:], strict=True)]

    run(what, pairs, group, priority, name, combine)


def collective_permute_implicit_current_processing_rank_id(
    iteration_id: Any, replica_group: Any, channel_id: Any = 0, name: Any = None
) -> VirtualRegister:
    """A register with the rank whose data this one has after `iteration_id` steps around the ring: first its own."""
    what = "collective_permute_implicit_current_processing_rank_id"
    group = group_of(what, replica_group)
    if not isinstance(iteration_id, int):
        raise wrong(what, f"iteration_id is {iteration_id!r}", "iteration_id", "iteration_id is an integer")
    if channel_id not in range(CHANNELS):
        raise wrong(what, f"channel_id is {channel_id!r}", "channel_id", f"channels are 0 to {CHANNELS - 1}")
    return register_alloc(group[(group.index(this_rank().number) - iteration_id) % len(group)])


def rank_id(name: Any = None) -> VirtualRegister:
    """A register with the number of this rank."""
    return register_alloc(this_rank().number)


FUNCTIONS: Final = (
    all_reduce, all_gather, reduce_scatter, all_to_all, collective_permute, collective_permute_implicit,
    collective_permute_implicit_reduce, collective_permute_implicit_current_processing_rank_id, rank_id,
)  # fmt: skip
