"""Measures how time, memory and bytes grow with a kernel: 1,000 to 10,000,000 instructions, products of 512³ to 8192³.

    python -m benchmarks.scale [--instructions 10000000] [--matmul 8192]

Each size runs in a process of its own, whose peak of memory it is. `build/scale.json` keeps the figures, and
`build/scale.html` shows them, both axes logarithmic: what is linear is a line of slope 1. Seconds are those of the
processor but for products, which are compared with `a @ b` of the same process by the clock.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

ROOT: Final = Path(__file__).parents[1]
BUILD: Final = ROOT / "build"
INSTRUCTIONS: Final = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
MATMUL: Final = (512, 1024, 2048, 4096, 8192)

Point = Mapping[str, float]
SERIES: Final[Mapping[str, tuple[str, ...]]] = {
    "instructions": ("trace", "schedule", "walk", "record", "bytes", "peak"),
    "matmul": ("first", "again", "numpy", "peak"),
}
"""The columns of each series: seconds, but for `bytes` of the recording and the `peak` bytes of the process."""
LABELS: Final = {
    "trace": "tracing, s", "schedule": "allocation and schedule, s", "walk": "timing, s",
    "record": "all of these but tracing, and the recording, s", "bytes": "recording, bytes",
    "peak": "peak of the process, bytes", "first": "first run, s", "again": "second run, s",
    "numpy": "a @ b of NumPy, s",
}  # fmt: skip


def instructions(count: int) -> Point:
    """Measure a chain of so many instructions on one tile, without values."""
    import nki_lab
    from benchmarks import kernels
    from nki_lab.kernel_runtime.allocate import allocate
    from nki_lab.kernel_runtime.schedule import schedule
    from nki_lab.kernel_runtime.timing import walk
    from nki_lab.timeline.timeline import timeline

    tile = nki_lab.spec((128, 512), "float32")
    nki_lab.compile(kernels.chain, tile, 2, target="trn2")
    found: dict[str, float] = {}

    def timed(name: str, call: Callable[[], Any]) -> Any:
        begun = time.process_time()
        result = call()
        found[name] = time.process_time() - begun
        return result

    program = timed("trace", lambda: nki_lab.compile(kernels.chain, tile, count // 4, target="trn2"))

    allocation = timed("allocate", lambda: allocate(program))
    order = timed("schedule", lambda: schedule(program, allocation))
    timed("walk", lambda: walk(program, order, None, allocation, every_op=True))
    found["schedule"] += found.pop("allocate")
    recording = timed("record", lambda: timeline(program).record())
    found["bytes"] = float(sum(recording.table(name).nbytes for name in ("rows", "accesses", "edges")))
    return {"size": float(len(program)), **found, "peak": _peak()}


def matmul(size: int) -> Point:
    """Measure a tiled product of bf16 matrices, first and again, and the float32 product of NumPy."""
    import ml_dtypes

    import nki_lab
    from benchmarks import kernels

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, size), dtype=np.float32).astype(ml_dtypes.bfloat16) for _ in range(2))
    wide = a.astype(np.float32), b.astype(np.float32)
    begun = time.perf_counter()
    _ = wide[0].T @ wide[1]
    numpy = time.perf_counter() - begun
    times = [nki_lab.run(kernels.matmul, a, b, target="trn2").timings.numeric or 0.0 for _ in range(2)]
    begun = time.perf_counter()
    _ = wide[0].T @ wide[1]
    numpy = min(numpy, time.perf_counter() - begun)
    return {"size": float(size), "first": times[0], "again": times[1], "numpy": numpy, "peak": _peak()}


def _peak() -> float:
    """Return the most bytes that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def measured(series: str, sizes: Iterable[int]) -> list[Point]:
    """Return the points of a series, each of a process of its own."""
    points = []
    for size in sizes:
        command = [sys.executable, "-m", "benchmarks.scale", "--one", series, str(size)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{series} {size}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
            break
        points.append(json.loads(done.stdout))
        print(series, " ".join(f"{name} {value:.4g}" for name, value in points[-1].items()), flush=True)
    return points


def slope(points: Sequence[Point], name: str, *, power: int = 1) -> float:
    """Return the exponent with which a figure grows with the size, or the size to a power, over the larger half."""
    used = [point for point in points if point.get(name, 0) > 0][-3:]
    if len(used) < 2:
        return math.nan
    x = [power * math.log(point["size"]) for point in used]
    return float(np.polyfit(x, [math.log(point[name]) for point in used], 1)[0])


def plotted(figures: Mapping[str, Sequence[Point]], path: Path) -> None:
    """Write charts of the series, both axes logarithmic."""
    from bokeh.embed import file_html
    from bokeh.layouts import gridplot
    from bokeh.palettes import Category10_10
    from bokeh.plotting import figure
    from bokeh.resources import INLINE

    charts = []
    for series, points in figures.items():
        for unit in ("s", "bytes"):
            chart = figure(
                x_axis_type="log", y_axis_type="log", width=620, height=420, title=f"{series}: {unit}",
                x_axis_label="instructions" if series == "instructions" else "n of n x n x n", y_axis_label=unit,
            )  # fmt: skip
            names = [name for name in SERIES[series] if LABELS[name].endswith(f", {unit}")]
            for colour, name in zip(Category10_10, names, strict=False):
                x, y = [point["size"] for point in points], [point[name] for point in points]
                power = 3 if series == "matmul" else 1
                label = f"{LABELS[name].rpartition(',')[0]}, slope {slope(points, name, power=power):.2f}"
                chart.line(x, y, color=colour, legend_label=label, line_width=2)
                chart.scatter(x, y, color=colour, size=7)
            chart.legend.location = "top_left"
            charts.append(chart)
    path.parent.mkdir(parents=True, exist_ok=True)
    page = gridplot([charts[:2], charts[2:]])
    path.write_text(file_html(page, INLINE, "How nki_lab grows with a kernel"), encoding="utf-8")


def run(largest: int, side: int) -> dict[str, list[Point]]:
    """Measure both series up to the largest sizes, and write figures and charts to `build`."""
    figures = {
        "instructions": measured("instructions", [size for size in INSTRUCTIONS if size <= largest]),
        "matmul": measured("matmul", [size for size in MATMUL if size <= side]),
    }
    BUILD.mkdir(exist_ok=True)
    (BUILD / "scale.json").write_text(json.dumps(figures, indent=1), encoding="utf-8")
    plotted(figures, BUILD / "scale.html")
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instructions", type=int, default=INSTRUCTIONS[-1], help="the most instructions")
    parser.add_argument("--matmul", type=int, default=MATMUL[-1], help="the largest side of a product")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        import nki_lab

        nki_lab.activate()
        kind, size = arguments.one
        print(json.dumps((instructions if kind == "instructions" else matmul)(int(size))))
        return 0
    figures = run(arguments.instructions, arguments.matmul)
    for series, points in figures.items():
        power = 3 if series == "matmul" else 1
        told = (f"{LABELS[name]} {slope(points, name, power=power):.2f}" for name in SERIES[series])
        print(f"{series}, exponents of growth: {'; '.join(told)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
