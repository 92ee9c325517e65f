"""The timelines of the ranks of one launch, together: ranks wait in collectives for those that come later.

Each rank has a program of its own, and a timeline that knows nothing of the others. Here the walks are repeated with
the times at which data arrives, until these no longer change: a call is settled as soon as those before it are. Ranks
begin at the same time. guess: they are started by one launch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.ir import FROM_ALL, FROM_NONE, Exchange, access_columns
from nki_lab.kernel_runtime.timing import Timing, walk
from nki_lab.kernel_runtime.timing.costs import picoseconds
from nki_lab.timeline.timeline import Timeline

MOST_WALKS: Final = 64
"""Walks of a rank at most: times of ranks that keep making each other wait longer than that are not settled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The part of a rank in a call: its number, the ops that hand in data, and those that bring some."""

    rank: int
    call: int
    exchange: Exchange
    sends: tuple[int, ...]
    brings: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Ranks with the times at which they wait for each other.

    `sent` is, for each of `parts`, the picosecond at which its data is there, `last` the part of the call whose data it
    waited for, -1 where it waited for none. `waits` and `awaited` are picoseconds by rank; `settled` tells whether the
    times are those of ranks that wait for each other.
    """

    lines: tuple[Timeline, ...]
    parts: tuple[Part, ...]
    sent: tuple[int, ...]
    last: tuple[int, ...]
    waits: tuple[int, ...]
    awaited: tuple[int, ...]
    settled: bool

    @property
    def slowest(self) -> int:
        """The rank that is awaited longest, or that ends last; -1 where no rank is slower than another."""
        ends = [line.timing.makespan for line in self.lines]
        for figure in (self.awaited, ends):
            if max(figure) > min(figure):
                return int(np.argmax(figure))
        return -1


def together(lines: Sequence[Timeline]) -> Together:
    """Return the timelines of all ranks of a launch, in their order, as they wait for each other."""
    parts = [part for rank, line in enumerate(lines) for part in _parts(rank, line)]
    calls = _calls(parts)
    timings = [line.timing for line in lines]
    arrivals: list[dict[int, int]] = [{} for _ in lines]
    settled = False
    for _ in range(MOST_WALKS):
        sent = [_sent(lines[part.rank], timings[part.rank], part) for part in parts]
        last = _last(parts, calls, sent)
        wanted = _arrivals(parts, sent, last, len(lines))
        if settled := wanted == arrivals:
            break
        for rank, line in enumerate(lines):
            if wanted[rank] != arrivals[rank]:
                timings[rank] = _walked(line, wanted[rank])
        arrivals = wanted
    waits, awaited = np.zeros(len(lines), np.int64), np.zeros(len(lines), np.int64)
    for part, own, other in zip(parts, sent, last, strict=True):
        if other >= 0:
            waits[part.rank] += sent[other] - own
            awaited[parts[other].rank] += sent[other] - own
    return Together(
        lines=tuple(replace(line, timing=timing) for line, timing in zip(lines, timings, strict=True)),
        parts=tuple(parts),
        sent=tuple(sent),
        last=tuple(last),
        waits=tuple(waits.tolist()),
        awaited=tuple(awaited.tolist()),
        settled=settled,
    )


def _walked(line: Timeline, arrivals: Mapping[int, int]) -> Timing:
    return walk(line.chip, line.schedule, line.program.options, line.chip_allocation, arrivals=arrivals)


def _parts(rank: int, line: Timeline) -> list[Part]:
    """Return the parts of a rank in the calls, numbered for each group of ranks from 0 on."""
    found = line.source.exchanges
    if not found:
        return []
    chip = line.chip
    accesses = access_columns(chip, indices=False)
    readers: dict[int, list[int]] = defaultdict(list)
    wanted = np.isin(accesses.buffer, [buffer for item in found for buffer in item.arriving]) & ~accesses.is_out
    for op, buffer in zip(accesses.op[wanted].tolist(), accesses.buffer[wanted].tolist(), strict=True):
        readers[buffer].append(op)
    before: dict[int, list[int]] = defaultdict(list)
    for op, other in chip.flows:
        before[op].append(other)
    count: dict[tuple[int, ...], int] = defaultdict(int)
    out = []
    for item in found:
        brings = tuple(sorted({op for buffer in item.arriving for op in readers[buffer]}))
        # The ops of another order or of laid out loops are not those of the source; its flows are.
        sends = item.sends if chip is line.source else tuple({other for op in brings for other in before[op]})
        out.append(Part(rank=rank, call=count[item.ranks], exchange=item, sends=sends, brings=brings))
        count[item.ranks] += 1
    return out


def _calls(parts: Sequence[Part]) -> dict[tuple[tuple[int, ...], int], dict[int, int]]:
    """Return the places of the parts of each call by rank; a call is named by its ranks and its number among them."""
    calls: dict[tuple[tuple[int, ...], int], dict[int, int]] = defaultdict(dict)
    for place, part in enumerate(parts):
        calls[part.exchange.ranks, part.call][part.rank] = place
    return calls


def _sent(line: Timeline, timing: Timing, part: Part) -> int:
    """Return when the data that a rank hands in is there: where nothing writes it, when the kernel begins."""
    arch, options = line.program.arch, line.program.options
    launch = picoseconds(arch.before_ns(line.program.cores)) if options.launch_overhead else 0
    return max((int(timing.ready[op]) for op in part.sends), default=launch)


def _last(
    parts: Sequence[Part], calls: Mapping[tuple[tuple[int, ...], int], Mapping[int, int]], sent: Sequence[int]
) -> list[int]:
    """Return the part whose data each part waits for; -1 where its own is there as late, or it receives nothing."""
    out = []
    for place, part in enumerate(parts):
        source, others = part.exchange.source, calls[part.exchange.ranks, part.call]
        senders = (
            [] if source == FROM_NONE else list(others.values()) if source == FROM_ALL else [others.get(source, place)]
        )
        latest = max(senders, key=lambda other: sent[other], default=place)
        out.append(latest if sent[latest] > sent[place] else -1)
    return out


def _arrivals(parts: Sequence[Part], sent: Sequence[int], last: Sequence[int], ranks: int) -> list[dict[int, int]]:
    """Return, for each rank, when data is there that comes later than the rank's own, by the ops that bring it."""
    out: list[dict[int, int]] = [{} for _ in range(ranks)]
    for part, other in zip(parts, last, strict=True):
        if other >= 0:
            out[part.rank] |= dict.fromkeys(part.brings, sent[other])
    return out
