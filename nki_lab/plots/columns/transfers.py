"""DMA transfers: bytes to and from HBM over time, and sizes of descriptors with what they cost."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from nki_lab.isa.dtype import DTYPES
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array, whole
from nki_lab.kernel_runtime.recording.figures import hbm_bytes_per_ns
from nki_lab.kernel_runtime.timing import curve
from nki_lab.kernel_runtime.vocabulary import DESCRIPTOR_MODES, MEMORY_OF, ROLES, SPACES
from nki_lab.plots.columns.frame import (
    BINS,
    Frame,
    arch_of_run,
    cores_of,
    edges,
    nanoseconds,
    of_records,
    places,
    sums,
)

_IN_HBM: Final = tuple(number for number, space in enumerate(SPACES) if MEMORY_OF[space] == "hbm")


def hbm_bytes(recording: Recording) -> tuple[Array, Array]:
    """Return the bytes that each row reads from HBM and writes there; rows of engines, which do not reach it, none."""
    rows, accesses, views = recording.rows, recording.table("accesses"), recording.table("views")
    in_hbm = np.isin(whole(recording.table("buffers")["space"])[whole(views["buffer"])], _IN_HBM)
    size = np.where(in_hbm, _pattern_bytes(recording)[whole(views["pattern"])], 0)[whole(accesses["view"])]
    bounds = np.append(whole(rows["access"]).astype(np.int64), len(accesses))
    row, reads = np.repeat(np.arange(len(rows)), np.diff(bounds)), whole(accesses["role"]) == ROLES.index("read")
    reaches = np.array([lane.kind != "engine" for lane in recording.lanes], np.bool_)[whole(rows["lane"])]
    reaches = reaches & recording.executed
    out = np.zeros((2, len(rows)))
    np.add.at(out[0], row[reads], size[reads])
    np.add.at(out[1], row[~reads], size[~reads])
    read, written = np.where(reaches, out, 0).astype(np.int64)
    return read, written


def _pattern_bytes(recording: Recording) -> Array:
    """Return the bytes of each pattern; 0 of a dtype that nobody knows."""
    found = (recording.pattern(number) for number in range(len(recording.table("patterns"))))
    return np.array([DTYPES[kind].nbytes * math.prod(sizes) if kind in DTYPES else 0 for kind, sizes, _ in found])


def bandwidth(recording: Recording, *, bins: int = BINS, bin_ns: float | None = None) -> Frame:
    """Return the bytes that move to and from HBM, of all cores, by bin of time.

    A transfer moves its bytes evenly over its duration. Over the bins, bytes add up to those of the summary.
    `limit_gb_s` is what the summary's `mbu` compares with; 0 where the target is not known.
    """
    bounds, arch = edges(recording, bins, bin_ns), arch_of_run(recording)
    moved = [
        np.diff(np.rint(_moved_before(recording, values, bounds)).astype(np.int64)) for values in hbm_bytes(recording)
    ]
    width = nanoseconds(np.diff(bounds))
    limit = 0.0 if arch is None else hbm_bytes_per_ns(arch, cores_of(recording), recording.ranks)
    return {
        "begin_ns": nanoseconds(bounds[:-1]),
        "end_ns": nanoseconds(bounds[1:]),
        "read_bytes": moved[0],
        "written_bytes": moved[1],
        "read_gb_s": moved[0] / width,
        "written_gb_s": moved[1] / width,
        "limit_gb_s": np.full(len(width), limit),
    }


def _moved_before(recording: Recording, size: Array, bounds: Array) -> Array:
    """Return the bytes that rows have moved up to each of some times."""
    total = np.zeros(len(bounds))
    in_lanes = recording.table("lane_rows")
    for lane in recording.lanes:
        low, high = recording.lane_span(lane.number)
        mine = size[in_lanes["row"][low:high]]
        if mine.any():
            start = in_lanes["start"][low:high].astype(np.int64)
            ends = np.stack((start, start + in_lanes["duration"][low:high]), axis=1)
            done = np.cumsum(mine)
            # Rows of a lane follow each other: between its start and its end a row adds its own bytes.
            total += np.interp(bounds, ends.reshape(-1), np.stack((done - mine, done), axis=1).reshape(-1))
    return total


def dma_sizes(recording: Recording) -> Frame:
    """Return the transfers of the run by line and kind: how long their contiguous runs are, and how well that does.

    `descriptor_bytes` is the run that each descriptor moves, `efficiency` the share of the peak of their DMA engines
    that such transfers reach back to back, NaN where that is not known. `bytes` add up to `dma_bytes` of the summary.
    """
    rows, ops, arch = recording.rows, recording.table("ops"), arch_of_run(recording)
    is_dma = np.array([lane.kind == "dma" for lane in recording.lanes], np.bool_)[whole(rows["lane"])]
    chosen = np.flatnonzero(is_dma & recording.executed & (whole(rows["bytes"]) > 0))
    line_of, lines = places(recording)
    op, line = whole(rows["op"])[chosen].astype(np.int64), line_of[whole(rows["site"])[chosen]]
    keys, group = np.unique(np.stack((line, op), axis=1), axis=0, return_inverse=True)
    group = np.asarray(group).reshape(-1)
    count = np.bincount(group, minlength=len(keys))
    moved, busy = (sums(group, whole(rows[name])[chosen], len(keys)) for name in ("bytes", "duration"))
    names = recording.texts("ops", "name")
    records = []
    for number, (place, kind) in enumerate(keys.tolist()):
        engines, cadence = int(ops["engines"][kind]).bit_count(), int(ops["cadence"][kind])
        peak = 0.0 if arch is None else engines * arch.dma_bytes_per_ns * cadence / 1000
        records.append((
            *lines[place], names[kind], DESCRIPTOR_MODES[int(ops["mode"][kind])], int(ops["descriptor_bytes"][kind]),
            engines, int(count[number]), int(moved[number]), int(busy[number]) / 1000,
            moved[number] / count[number] / peak if peak else math.nan,
        ))  # fmt: skip
    columns = ("file", "line", "text", "instruction", "mode", "descriptor_bytes", "engines", "transfers", "bytes",
               "busy_ns", "efficiency")  # fmt: skip
    return of_records(columns, records, ("file", "text", "instruction", "mode"))


def dma_curve(recording: Recording) -> Frame:
    """Return the share of the full rate of DMA that loads of one contiguous run a partition reach, by its bytes."""
    arch = arch_of_run(recording)
    return of_records(("descriptor_bytes", "efficiency"), [] if arch is None else list(curve(arch)))
