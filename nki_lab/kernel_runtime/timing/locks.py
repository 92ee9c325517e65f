"""Engines with what they keep loaded, and locks of memories that two of them cannot use at once."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from fractions import Fraction
from operator import itemgetter, mul
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.footprint import Column, Mask
from nki_lab.kernel_runtime.ir import Accesses, Program, View, access_columns, buffers_of_views
from nki_lab.kernel_runtime.number_sets import occurring, ranked
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.schedule import Schedule
from nki_lab.kernel_runtime.tensor import psum
from nki_lab.kernel_runtime.timing.costs import VariantCost, picoseconds
from nki_lab.kernel_runtime.timing.reasons import BANK, PORT

WHOLE_ARRAY: Final = -1
"""The blocks of an instruction that uses all of the Tensor Engine's array, as bits."""

RAMP_FIELDS: Final = 6  # span, floor as a fraction, warmth, whether it is hot, since when it is idle
_WHOLE: Final = 1000


def ramp_of(arch: Arch) -> list[int]:
    """Return the state of a Tensor Engine's rate before its first instruction, in picoseconds and thousandths.

    The rate starts at `power_ramp_floor` and rises to full with use. Neuron Explorer's summary page: about half the
    peak when work starts, full after about 3 us, and again after the utilisation over such a time was below 50 %.
    guess: the shape. Warmth rises with busy and falls with idle time between none and `power_ramp_ns`; the rate is
    linear in it, and full from there until half of the warmth is gone, which a pause of half the time does. Then it
    starts from scratch.
    """
    floor = Fraction(round(arch.power_ramp_floor * _WHOLE), _WHOLE)
    return [picoseconds(arch.power_ramp_ns), floor.numerator, floor.denominator, 0, 0, 0]


def longest_factor(ramps: Sequence[int]) -> int:
    """Return what `stretched` multiplies a time with at most."""
    return max(map(mul, ramps[::RAMP_FIELDS], ramps[2::RAMP_FIELDS]), default=0) + 1


def stretched(ramps: MutableSequence[int], at: int, start: int, work: int) -> int:
    """Return how long `work` takes from `start` on, of the engine whose state is `ramps[at:]`.

    Starts never go back; work may begin beside the one before.
    """
    warmth, since = ramps[at + 3], ramps[at + 5]
    # Conditions: a call of max takes the interpreter as long as three lines.
    if start > since:
        warmth -= start - since
        since = start
        if warmth < 0:  # noqa: PLR1730
            warmth = 0
    span, hot = ramps[at], ramps[at + 4]
    if hot and 2 * warmth < span:
        hot, warmth = 0, 0
    duration = work
    if not hot:
        floor, whole = ramps[at + 1], ramps[at + 2]
        if warmth:
            duration = work * (whole * span) // (floor * span + (whole - floor) * warmth)
        else:  # the same in numbers that take the interpreter half as long
            duration = work * whole // floor
    end = start + duration
    if end > since:
        warmth += end - since
        since = end
    if warmth >= span:
        hot, warmth = 1, span
    ramps[at + 3], ramps[at + 4] = warmth, hot
    ramps[at + 5] = since
    return duration


def reused_tiles(program: Program, costs: Sequence[VariantCost], order: NDArray[np.uint32]) -> Mask:
    """For each op in a tensor lane's order, whether the array holds its stationary tile already.

    It does when the last op that loaded a tile loaded the same view, and nothing wrote to that tensor in between. An op
    without a stationary tile, as a barrier on this engine, leaves the array as it is.
    """
    position = np.array([cost.stationary for cost in costs], np.int64)[program.variant_column()[order]]
    loading = np.flatnonzero(position >= 0)
    rows = order[loading].astype(np.int64)
    places = np.frombuffer(program.op_access, np.uint32)[rows] + position[loading]
    views = np.frombuffer(program.access_view, np.uint32)[places].astype(np.int64)
    same = np.flatnonzero(views[1:] == views[:-1]) + 1
    again = np.zeros(len(order), bool)
    again[loading[same]] = True
    if len(same):
        again[loading[_written_between(program, access_columns(program), views, rows, same)]] = False
    return again


def _written_between(program: Program, accesses: Accesses, views: Column, rows: Column, again: Column) -> Column:
    """Return the places of `again` whose tile was written to after the op before it in the lane."""
    ops = len(program) + 1
    writes = np.sort(accesses.buffer[accesses.is_out].astype(np.int64) * ops + accesses.op[accesses.is_out])
    buffer_of = buffers_of_views(program)
    base = buffer_of[views[again]] * ops
    low, high = np.minimum(rows[again - 1], rows[again]), np.maximum(rows[again - 1], rows[again])
    found: Column = again[np.searchsorted(writes, base + low, "right") < np.searchsorted(writes, base + high, "left")]
    return found


class LockTable(NamedTuple):
    """The locks that each op needs: op i those of `lock[start[i]:start[i + 1]]`, by their `reason` for a wait.

    `guarded` tells of each variant whether it needs any.
    """

    start: Column
    lock: Column
    reason: list[int]
    guarded: list[bool]


def locks_of(
    program: Program, schedule: Schedule, costs: Sequence[VariantCost], options: Options, allocation: Allocation | None
) -> LockTable:
    """Return the locks that more than one engine of this program wants, those of each core for themselves.

    NeuronCore-v2 has one for SBUF (Vector, GpSimd) and one for PSUM (Vector, Scalar); later ones have one for each
    PSUM bank (Vector, Scalar). An op holds its locks while its engine streams.
    inferred: in the fixed part of its interval it uses no memory. In Autocomp's attention, activations and copies out
    of PSUM keep Vector and Scalar for longer than its published time, if they exclude each other from end to end.
    """
    variant = program.variant_column()
    used = occurring(variant).tolist()
    wanted: dict[str, set[str]] = {}
    for number in used:
        for port in (*costs[number].ports, *(["bank"] if costs[number].banked else ())):
            wanted.setdefault(port, set()).add(program.variants[number].engine)
    shared = {port for port, engines in wanted.items() if len(engines) > 1} if options.port_conflicts else set()
    by_bank = "bank" in shared
    ports = [[port for port in cost.ports if port in shared] for cost in costs]
    guarded = [bool(mine) or (by_bank and cost.banked) for mine, cost in zip(ports, costs, strict=True)]
    numbers: dict[tuple[object, ...], int] = {}
    parts: list[tuple[Column, Column]] = []
    if any(guarded):
        core = program.core_column()
        for number in used:
            if guarded[number]:
                rows = np.flatnonzero(variant == number)
                parts += [(rows, _lock_of((port,), numbers, program.cores)[core[rows]]) for port in ports[number]]
                if by_bank and costs[number].banked:
                    parts += _banks(program, allocation, rows, core[rows], numbers)
    start, lock = by_op(parts, len(schedule))
    reasons = [BANK if key[0] in ("bank", "buffer") else PORT for key, _ in sorted(numbers.items(), key=itemgetter(1))]
    return LockTable(start, lock, reasons, guarded)


def by_op(parts: Sequence[tuple[Column, Column]], count: int) -> tuple[Column, Column]:
    """Return what ops have, from parts (ops, what each has) with each op once.

    Op i has `found[1][found[0][i]:found[0][i + 1]]`, in order of the parts.
    """
    start = np.zeros(count + 1, np.int64)
    for rows, _ in parts:
        start[rows + 1] += 1
    np.cumsum(start, out=start)
    found, place = np.zeros(int(start[-1]), np.int64), start[:-1].copy()
    for rows, items in parts:
        at = place[rows]
        found[at] = items
        place[rows] = at + 1
    return start, found


def _lock_of(key: tuple[object, ...], numbers: dict[tuple[object, ...], int], cores: int) -> Column:
    """Return the lock of a memory on each core."""
    return np.array([numbers.setdefault((*key, core), len(numbers)) for core in range(cores)], np.int64)


def _banks(
    program: Program,
    allocation: Allocation | None,
    rows: Column,
    cores: Column,
    numbers: dict[tuple[object, ...], int],
) -> list[tuple[Column, Column]]:
    """Return (ops, the lock of a PSUM bank that they access) of ops of one variant, operand by operand."""
    variant = program.variants[program.op_variant[int(rows[0])]]
    first = np.frombuffer(program.op_access, np.uint32)[rows].astype(np.int64)
    view_of = np.frombuffer(program.access_view, np.uint32)
    found = []
    for place, name in enumerate(variant.names):
        if variant.use.types[name].space is not psum:
            continue
        views, inverse = ranked(view_of[first + place])
        keys = [_banks_of_view(program, allocation, program.views[number]) for number in views.tolist()]
        for number in range(max(map(len, keys))):
            missing = np.full(program.cores, -1)
            table = np.stack(
                [_lock_of(mine[number], numbers, program.cores) if number < len(mine) else missing for mine in keys]
            )
            locks = table[inverse, cores]
            found.append((rows[locks >= 0], locks[locks >= 0]))
    return found


def _banks_of_view(program: Program, allocation: Allocation | None, view: View) -> list[tuple[object, ...]]:
    buffer, size = view.buffer, view.type.dtype.nbytes
    base = buffer.address[1] if buffer.address is not None else -1
    if base < 0 and allocation is not None:
        base = int(allocation.byte[buffer.id])
    if base < 0:
        return [("buffer", buffer.id)]
    low = base + view.offset % max(buffer.partition_bytes // size, 1) * size
    bank = program.arch.psum_bank_bytes
    return [("bank", number) for number in range(low // bank, (low + view.type.span_bytes - 1) // bank + 1)]
