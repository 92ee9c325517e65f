"""Operations of the run and of its lines, and the rates that bound them: the two sides of a roofline."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import whole
from nki_lab.kernel_runtime.recording.figures import hbm_bytes_per_ns, interval
from nki_lab.kernel_runtime.vocabulary import kind_of_lane
from nki_lab.plots.columns.frame import Frame, arch_of_run, cores_of, of_records, places, sums

_MULTIPLY_ADDS: Final = "multiply-adds"
_FLOPS: Final = 2  # of a multiplication and an addition
_COLUMNS: Final = (
    "what", "kind", "file", "line", "text", "instructions", "operations", "time_ns", "intensity", "tera_per_s",
    "low_tera_per_s", "high_tera_per_s",
)  # fmt: skip
_TEXTS: Final = ("what", "kind", "file", "text")


def roofline(recording: Recording) -> Frame:
    """Return the run and its lines as points: operations per byte of HBM traffic, and operations per second.

    `what` is `kernel` or `line`. Operations of the Tensor Engine are flops of matrix products; those of other engines
    are elements. The kernel has its products, or the elements of the Vector Engine where there are none. Its rate is
    over the whole run, with the bounds of the interval. A line's rate is over the time in which its instructions
    execute, on several cores side by side: it is to be compared with the roof of its engine. A line's intensity counts
    all HBM traffic of the run, so that those of one engine's lines add up to the kernel's; without traffic it is
    infinite.
    """
    traffic = _traffic(recording)
    lines = list(_lines(recording, traffic))
    records = [*_kernel(recording, lines, traffic), *lines]
    return of_records(_COLUMNS, records, _TEXTS)


def _traffic(recording: Recording) -> float:
    """Return the bytes read from and written to HBM, as the summary has them; NaN of one that does not."""
    summary = recording.summary
    return float(summary.get("hbm_read_bytes", math.nan)) + float(summary.get("hbm_write_bytes", math.nan))


def _kernel(recording: Recording, lines: Sequence[tuple[Any, ...]], traffic: float) -> Iterator[tuple[Any, ...]]:
    """Yield the point of the run: its products, or the elements of the Vector Engine where it has none."""
    flops, time = int(recording.summary.get("flops") or 0), recording.makespan
    kind = "tensor" if flops else "vector"
    place = _COLUMNS.index("operations")
    done = flops or sum(int(line[place]) for line in lines if line[_COLUMNS.index("kind")] == kind)
    if not done or not time:
        return
    bounds = interval(recording.summary)
    high, low = (done / bound if bound else math.nan for bound in bounds) if bounds else (math.nan, math.nan)
    name = str(recording.summary.get("kernel") or "the run")
    rate, count = done / time, recording.instructions
    yield ("kernel", kind, "", 0, name, count, done, time / 1000, _ratio(done, traffic), rate, low, high)


def _lines(recording: Recording, traffic: float) -> Iterator[tuple[Any, ...]]:
    rows, lanes = recording.rows, recording.lanes
    unit = np.array([name == _MULTIPLY_ADDS for name in recording.texts("ops", "work_unit")], np.bool_)
    kinds = list(dict.fromkeys(kind_of_lane(lane.name, lane.kind) for lane in lanes if lane.kind == "engine"))
    numbers = {lane.number: kinds.index(kind_of_lane(lane.name, lane.kind)) for lane in lanes if lane.kind == "engine"}
    line_of, lines = places(recording)
    engine_of = np.array([numbers.get(lane.number, -1) for lane in lanes], np.int64)
    kind, place = engine_of[whole(rows["lane"])], line_of[whole(rows["site"])]
    product = unit[whole(rows["op"])]
    tensor = kinds.index("tensor") if "tensor" in kinds else -2
    # What the Tensor Engine does beside products, transposes and loads of tiles, are no operations of the kernel.
    chosen = (kind >= 0) & recording.executed & (whole(rows["work"]) > 0) & ((kind != tensor) | product)
    found = np.flatnonzero(chosen)
    keys, group = np.unique(np.stack((place[found], kind[found]), axis=1), axis=0, return_inverse=True)
    group = np.asarray(group).reshape(-1)
    core = np.array([lane.core for lane in lanes], np.int64)[whole(rows["lane"])[found]]
    work, time = (sums(group, whole(rows[name])[found], len(keys)) for name in ("work", "duration"))
    count = np.bincount(group, minlength=len(keys))
    side_by_side = np.bincount(np.unique(np.stack((group, core), axis=1), axis=0)[:, 0], minlength=len(keys))
    for number, (where, engine) in enumerate(keys.tolist()):
        operations = int(work[number]) * (_FLOPS if engine == tensor else 1)
        spent = int(time[number]) / int(side_by_side[number])
        rate = operations / spent if spent else math.nan
        yield (
            "line", kinds[engine], *lines[where], int(count[number]), operations, spent / 1000,
            _ratio(operations, traffic), rate, math.nan, math.nan,
        )  # fmt: skip


def _ratio(operations: float, traffic: float) -> float:
    return operations / traffic if traffic else math.inf


def roofs(recording: Recording) -> Frame:
    """Return the bounds of the target, of the cores of the run together: `tera_per_s`, or `gb_s` of HBM, else NaN.

    The Tensor Engine's is what the summary's `mfu` compares with, that of bfloat16 where there is no product. The
    Vector Engine's is an element a cycle in each partition, and that of its fastest mode.
    """
    arch, cores = arch_of_run(recording), cores_of(recording)
    records = [] if arch is None else list(_roofs(recording, arch, cores))
    return of_records(("kind", "label", "tera_per_s", "gb_s"), records, ("kind", "label"))


def _roofs(recording: Recording, arch: Arch, cores: int) -> Iterator[tuple[str, str, float, float]]:
    mfu, flops = float(recording.summary.get("mfu") or 0), float(recording.summary.get("flops") or 0)
    compared = flops / recording.makespan / mfu if mfu and recording.makespan else cores * arch.tensor_tflops_bf16
    yield "tensor", "Tensor", compared, math.nan
    element = cores * arch.pmax * arch.vector_ghz / 1000
    fastest = max(arch.vector_fast_copy, arch.vector_fast_tensor_tensor, 1)
    yield "vector", "Vector", element, math.nan
    if fastest > 1:
        yield "vector", "Vector, fastest mode", element * fastest, math.nan
    yield "dma", "HBM", math.nan, hbm_bytes_per_ns(arch, cores, recording.ranks)
