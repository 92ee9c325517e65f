"""Addresses: when each tensor lives, where in SBUF and PSUM it lies, and whether everything fits.

`allocate(program)` changes nothing. Tensors placed with `address=` stay where they are; automatic ones keep out of the
way of everything that lives at the same time, and start at partition 0, 32, 64 or 96 as their height allows. A PSUM
tensor of up to 2 KiB stays inside one bank, a larger one takes whole banks, since a matmul never crosses one
(NeuronCore-v2 and v3). What finds no room has address -1: values and time go on without.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nki_lab.diagnostic import Diagnostic
from nki_lab.kernel_runtime.allocate import findings
from nki_lab.kernel_runtime.allocate.lifetime import Lifetimes, Load, Pairs, lifetimes, load_of
from nki_lab.kernel_runtime.allocate.memory import overlapping, sharing_bytes
from nki_lab.kernel_runtime.allocate.placing import AddressSpace, LiveBuffers, Placing, place
from nki_lab.kernel_runtime.footprint import Column, distinct
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.tensor import Buffer, MemoryRegion, psum, sbuf

__all__ = ["Allocation", "Usage", "allocate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Bytes of live tensors in the fullest partition of SBUF and PSUM from op `op[i]` to before op `op[i + 1]`.

    Ascending ops, one row where either changes. Each core has memories of its own: those of the fullest count. Tensors
    that found no room count as if at partition 0.
    """

    op: Column
    sbuf: Column
    psum: Column


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Allocation:
    """Addresses and lifetimes of a program's buffers, as columns indexed by buffer id.

    `partition` and `byte` are -1 for tensors in HBM, tensors that no op accesses, and those without room. `first` and
    `last` are the ops of the first and last access, -1 without one; results that stay on the chip live to the last op.
    `reuse` has rows (earlier, later): the earlier buffer had left when the later one got some of its bytes.
    `overlaps` has rows of placed buffers that share bytes while both live. Peaks are bytes in a partition.
    """

    partition: NDArray[np.int16]
    byte: NDArray[np.int32]
    first: Column
    last: Column
    reuse: NDArray[np.int32]
    overlaps: NDArray[np.int32]
    diagnostics: tuple[Diagnostic, ...]
    sbuf_peak: int
    psum_peak: int
    usage: Usage


def allocate(program: Program) -> Allocation:
    """Addresses for all tensors of a program, each core having a memory of its own.

    Findings: NKI315 and NKI318 capacity, NKI316 hardly any room, NKI317 overlap.
    """
    times = lifetimes(program)
    sharing = sharing_bytes(program, times)
    overlaps = overlapping(sharing, times)
    count = len(program.buffers)
    partition = np.full(count, -1, np.int16)
    byte = np.full(count, -1, np.int32)
    reuse: list[Column] = []
    found: list[Diagnostic] = []
    loads: dict[MemoryRegion, list[Load]] = {sbuf: [], psum: []}
    for (space, core), buffers in _memories(program).items():
        addresses = AddressSpace.of(space, program.arch)
        live = LiveBuffers.of(buffers, times, addresses)
        mine = [pair for pair in sharing if _memory_of(program.buffers[pair[0]]) == (space, core)]
        placing, load, need = _memory(addresses, live, times, mine)
        partition[live.ids] = placing.partition
        byte[live.ids] = placing.byte
        reuse.append(live.ids[placing.reuse] @ (count, 1))
        loads[space].append(load)
        found += findings.capacity(program, space, live, placing, need)
    found += findings.clobbered(program, times, overlaps)
    usage = _usage(loads[sbuf], loads[psum])
    return Allocation(
        partition=partition,
        byte=byte,
        first=times.first,
        last=times.last,
        reuse=np.stack(np.divmod(distinct(np.concatenate(reuse)), max(1, count)), axis=1).astype(np.int32),
        overlaps=_pairs(overlaps),
        diagnostics=tuple(found),
        sbuf_peak=int(usage.sbuf.max(initial=0)),
        psum_peak=int(usage.psum.max(initial=0)),
        usage=usage,
    )


def _memory_of(buffer: Buffer) -> tuple[MemoryRegion, int]:
    return buffer.space, buffer.core


def _memories(program: Program) -> dict[tuple[MemoryRegion, int], list[Buffer]]:
    """The on-chip tensors by memory: SBUF and PSUM of each core."""
    out: dict[tuple[MemoryRegion, int], list[Buffer]] = {
        (space, core): [] for core in range(program.cores) for space in (sbuf, psum)
    }
    for buffer in program.buffers:
        if buffer.on_chip:
            out[buffer.space, buffer.core].append(buffer)
    return out


def _memory(
    addresses: AddressSpace, live: LiveBuffers, times: Lifetimes, overlaps: Pairs
) -> tuple[Placing, Load, Load]:
    """Addresses in one memory, the bytes in use over time, and the bytes that no arrangement could do without."""
    where = [0 if buffer.address is None else buffer.address[0] for buffer in live.buffers]
    # Two tensors of more than half a bank never share one.
    needs = [addresses.bank if taken <= addresses.bank < 2 * taken else taken for taken in live.taken]
    need = load_of(live.buffers, live.partitions, where, needs, times, overlaps)
    placing = place(live, addresses, hopeless=bool((need.least > addresses.capacity).any()))
    found = np.maximum(placing.partition, 0).tolist()
    if found == where and needs == live.size:
        return placing, need, need
    return placing, load_of(live.buffers, live.partitions, found, live.size, times, overlaps), need


def _usage(*loads: list[Load]) -> Usage:
    """Return the loads of SBUF and of PSUM of the core whose memory is fullest at an op.

    Where cores meet, the bodies of one lie between those of another: the tensors of several live at an op.
    """
    op = distinct(np.concatenate([load.op for memory in loads for load in memory]))
    columns = []
    for memory in loads:
        most = np.zeros(len(op), np.int64)
        for load in memory:
            held = np.concatenate((np.zeros(1, np.int64), load.fullest))
            np.maximum(most, held[np.searchsorted(load.op, op, side="right")], out=most)
        columns.append(most)
    changes = np.any(np.diff(columns, prepend=-1) != 0, axis=0)
    return Usage(op=op[changes], sbuf=columns[0][changes], psum=columns[1][changes])


def _pairs(rows: Pairs) -> NDArray[np.int32]:
    return np.array(sorted(rows), np.int32).reshape(-1, 2)
