"""Sums of the columns of a walk: where each lane's time went, and where the kernel's did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nki_lab.kernel_runtime.footprint import Column
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.schedule import Schedule
from nki_lab.kernel_runtime.timing.columns import Times
from nki_lab.kernel_runtime.timing.costs import VariantCost
from nki_lab.kernel_runtime.timing.path import Path, path_of
from nki_lab.kernel_runtime.timing.reasons import LAUNCH, by_reason, confidence_of
from nki_lab.kernel_runtime.vocabulary import CONFIDENCES, STALL_REASONS


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTime:
    """The time of one lane, in picoseconds: `busy` + the sum of `stalls` + `empty` is the makespan.

    `busy` is the time in which the lane executes ops, `slowed` the part of it that is not their own work, by number of
    reason. `stalls` are the waits before ops, by number of reason, `empty` is the time after the lane's last op.
    """

    name: str
    kind: str
    core: int
    ops: int
    busy: int
    slowed: Mapping[int, int]
    stalls: Mapping[int, int]
    empty: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timing:
    """Times of a program's ops as columns in program order, in picoseconds, and their sums.

    `start`, `duration`: when an op takes its lane and for how long; `ready`: when its result is visible to its own
    lane. `wait`: how long the lane stood still before it, because of `stall` (a number of STALL_REASONS), up to the
    last `setup` of it, which went to `setup_reason`. `busy`: the op's own work; the rest of `duration` went to
    `throttle_reason`. `critical_pred`: the op whose end let it start, -1 for none. `work`: elements, or multiply-adds
    of a matrix product; `bytes`: moved by DMA. `served`: when the descriptors of a transfer begin to be made, 0 of
    others. `confidence`: a number of CONFIDENCES.
    """

    start: Column
    duration: Column
    ready: Column
    wait: Column
    setup: Column
    served: Column
    busy: Column
    critical_pred: Column
    work: NDArray[np.uint32]
    bytes: NDArray[np.uint32]
    stall: NDArray[np.uint8]
    setup_reason: NDArray[np.uint8]
    throttle_reason: NDArray[np.uint8]
    confidence: NDArray[np.uint8]
    makespan: int
    lanes: tuple[LaneTime, ...]
    path: Path
    trust: Mapping[str, float]

    @property
    def stalls(self) -> dict[str, int]:
        """Picoseconds that lanes waited, by reason, over all lanes."""
        return _over_all(lane.stalls for lane in self.lanes)

    @property
    def slowed(self) -> dict[str, int]:
        """Picoseconds by which lanes took longer than their own work, by reason, over all lanes."""
        return _over_all(lane.slowed for lane in self.lanes)


def _over_all(times: Iterable[Mapping[int, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for mine in times:
        total.update({STALL_REASONS[reason]: time for reason, time in mine.items()})
    return dict(total)


def timing_of(
    program: Program, schedule: Schedule, times: Times, costs: list[VariantCost], launch: int, teardown: int
) -> Timing:
    """Return the times with their sums. The kernel begins with `launch` and ends with `teardown` picoseconds."""
    variant = program.variant_column()
    start, duration, ready, busy = times.start, times.duration, times.ready, times.busy
    setup, served, critical_pred = times.setup, times.served, times.critical_pred
    stall, setup_reason, throttle_reason = times.stall, times.setup_reason, times.throttle_reason
    makespan = int(ready.max(initial=launch)) + teardown
    wait = np.zeros(len(start), np.int64)
    lanes = []
    for lane, order in zip(schedule.lanes, schedule.order, strict=True):
        rows = order.astype(np.int64)
        ends = np.concatenate(([launch if len(rows) else 0], start[rows] + duration[rows]))
        wait[rows] = start[rows] - ends[:-1]
        stalls = by_reason(
            (stall[rows], wait[rows] - setup[rows]),
            (setup_reason[rows], setup[rows]),
            (np.array([LAUNCH]), ends[:1]),
        )
        lanes.append(
            LaneTime(
                name=lane.name,
                kind=lane.kind,
                core=lane.core,
                ops=len(rows),
                busy=int(duration[rows].sum()),
                slowed=by_reason((throttle_reason[rows], duration[rows] - busy[rows])),
                stalls=stalls,
                empty=makespan - int(ends[-1]),
            )
        )
    path = path_of(times, launch, teardown, makespan)
    confidence = np.array([cost.confidence for cost in costs], np.uint8)[variant]
    return Timing(
        start=start,
        duration=duration,
        ready=ready,
        wait=wait,
        setup=setup,
        served=served,
        busy=busy,
        critical_pred=critical_pred,
        work=_counts([cost.work for cost in costs], variant),
        bytes=_counts([cost.bytes for cost in costs], variant),
        stall=stall,
        setup_reason=setup_reason,
        throttle_reason=throttle_reason,
        confidence=confidence,
        makespan=makespan,
        lanes=tuple(lanes),
        path=path,
        trust=_trust(program, path, confidence),
    )


def _counts(values: list[int], variant: Column) -> NDArray[np.uint32]:
    """A count for each op, the largest that the column holds where there is more."""
    most = np.iinfo(np.uint32).max
    return np.array([min(value, int(most)) for value in values], np.uint32)[variant]


def _trust(program: Program, path: Path, confidence: NDArray[np.uint8]) -> dict[str, float]:
    """Shares of the critical path by how sure its parts are: work by its cost, waits by the fact behind them."""
    works = np.zeros(len(CONFIDENCES), np.int64)
    on_path = path.row >= 0
    np.add.at(works, confidence[path.row[on_path]].astype(np.intp), path.work[on_path])
    total = dict(zip(CONFIDENCES, works.tolist(), strict=True))
    for reason, time in path.waits.items():
        total[confidence_of(program.arch, reason)] += time
    whole = sum(total.values())
    return {name: time / whole if whole else 0.0 for name, time in total.items()}
