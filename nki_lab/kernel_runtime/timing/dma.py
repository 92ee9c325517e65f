"""DMA engines and queues: who triggers a transfer, when its data starts, and how transfers share engines and HBM.

A transfer takes part of its time on each of its engines. Engines with transfers of several queues serve them round
robin, which is equal shares; a transfer advances as its slowest engine does. Shares are kept exact: remaining work
counts in units of which a picosecond alone on an engine does `UNITS`, a number that the usual counts of sharers divide.

Two published measurements bound how fast transfers follow each other, whatever their size. Copies of one tensor, back
to back, take 850 ns each (DMA overview, efficiency curve); a kernel that loads tiles of two tensors in turn gets one
every 604 ns (kernel optimization tutorial, first version: 66,048 transfers in 39.9 ms). inferred: transfers of one HBM
tensor go one after the other, `dma_issue_interval_ns` or more apart, and a descriptor generator takes
`dge_hardware_ns` for each of all. The curve's first point, 32 bytes a partition, keeps the latter only. Transfers
within SBUF keep no interval: nothing is published, and times of nki-library's attention, which transposes tile after
tile there, leave no room for one.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from typing import Final

from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.recording.figures import hbm_bytes_per_ns

UNITS: Final = 232_792_560
"""The least common multiple of 1 to 20."""

NEVER: Final = 1 << 62

_HALF: Final = 14  # bits of one of the two parts of a number below UNITS


def hbm_limit(arch: Arch, cores: int) -> int:
    """Bytes a second of the HBM that some cores share: their part of the chip's, which a core alone never reaches.

    0 for a single core: no limit.
    """
    return round(hbm_bytes_per_ns(arch, cores) * 1e9) if cores > 1 else 0


def hbm_rate(hbm_bytes: int, work: int) -> int:
    """Return the bytes that a transfer moves to and from HBM in a second at its full rate."""
    return hbm_bytes * 10**12 // max(work, 1)


def next_end(
    active: list[int],
    left: Sequence[int],
    share: MutableSequence[int],
    masks: Sequence[int],
    rates: Sequence[int],
    classes: int,
    sharing: bool,
    limit: int,
    now: int,
) -> tuple[int, int]:
    """Give each transfer under way its share, and return when the first of them ends, with its queue.

    `active` are the queues with transfers, in the order in which these began; of each `left` is its remaining work,
    `share` what a picosecond does of it, `masks` its engines and `rates` its bytes of HBM a second. `classes` are the
    bits of the masks, 0 where all masks are the same. `limit` is what HBM gives to all of them in a second, in bytes;
    0: more than they can take.
    """
    count = len(active)
    if not count:
        return NEVER, -1
    even = UNITS // count if sharing else UNITS
    same = True
    if count > 1 and classes and sharing:
        for queue in active:
            same = same and masks[queue] == masks[active[0]]
    if same:
        for queue in active:
            share[queue] = even
    else:
        for queue in active:
            share[queue] = UNITS
        for number in range(classes):
            crowd = 0
            for queue in active:
                crowd += masks[queue] >> number & 1
            if crowd > 1:
                for queue in active:
                    if masks[queue] >> number & 1 and UNITS // crowd < share[queue]:
                        share[queue] = UNITS // crowd
    if limit and count > 1:
        share_hbm(active, share, rates, limit)
    ends, found = NEVER, -1
    for queue in active:
        end = now - (-left[queue] // share[queue])
        if end < ends:
            ends, found = end, queue
    return max(ends, now), found


def share_hbm(active: list[int], share: MutableSequence[int], rates: Sequence[int], limit: int) -> None:
    """Slow down all that move data to or from HBM by as much as they ask for more than it gives."""
    asked, rest = 0, 0
    for queue in active:
        whole, part = scaled(rates[queue], share[queue], UNITS)
        asked += whole
        rest += part
    asked += rest // UNITS
    if asked > limit:
        for queue in active:
            if rates[queue]:
                share[queue] = max(1, scaled(limit, share[queue], asked)[0])


def scaled(number: int, factor: int, divisor: int) -> tuple[int, int]:
    """Return `number * factor` divided by `divisor`, and the rest, for a factor of at most UNITS.

    Nothing on the way is longer than 64 bits where `number` and `divisor` have at most 47.
    """
    whole, rest = number // divisor, number % divisor
    high, low = factor >> _HALF, factor & ((1 << _HALF) - 1)
    upper = high * rest
    lower = ((upper % divisor) << _HALF) + low * rest
    return whole * factor + ((upper // divisor) << _HALF) + lower // divisor, lower % divisor
