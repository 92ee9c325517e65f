"""Measures the budgets of the design, each as a ratio to, or beside, a reference taken in the same process.

    python benchmarks/run.py [B1 B2 ...] [--note TEXT]

Prints one line a figure with its verdict, and appends the figures to `benchmarks/history.csv`. With a real kernel
module in `NKI_LAB_REAL_MODULE`, as `file.py` or `file.py::pyproject.toml` where the table `[tool.nki-lab.shapes]` of
another project has the shapes of its kernels, B7 measures keystrokes and edits of single functions in it too; with
one of Beta 1 in `NKI_LAB_BETA1_MODULE` it measures the migration of a thousand lines.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import csv
import datetime
import gc
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np

HISTORY = Path(__file__).parent / "history.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured number: what it is compared with, and the budget it is held to."""

    row: str
    name: str
    value: float
    unit: str
    reference: str
    budget: float

    @property
    def met(self) -> bool:
        return self.value <= self.budget


def best(call: Callable[[], object], rounds: int = 5) -> float:
    """Seconds of the fastest of some rounds."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def b1_matmul() -> Iterator[Figure]:
    """Tiled matmul over NumPy's float32 product, of operands that it need not convert.

    The numeric seconds of the first run of a process, the median of three: slabs are found, and memory is new; `a @ b`
    has had its own before. And the median of whole calls by the plan, with all conversions.
    """
    import first_runs
    import kernels

    rng = np.random.default_rng(0)
    for size in (1024, 2048, 4096):
        for kind in (ml_dtypes.bfloat16, np.float32):
            a, b = (rng.standard_normal((size, size), dtype=np.float32).astype(kind) for _ in range(2))
            wide = a.astype(np.float32), b.astype(np.float32)
            first = first_runs.median("product", str(size), np.dtype(kind).name)
            kernels.matmul(a, b)
            ratios = []
            plain = 0.0
            for _ in range(5):
                plain = best(lambda: wide[0].T @ wide[1], 2)  # noqa: B023 - called at once
                ratios.append(best(lambda: kernels.matmul(a, b), 2) / plain)  # noqa: B023
            for which, value, budget in (("by plan", statistics.median(ratios), 1.25), ("first run", first, 1.35)):
                yield Figure(row="B1", name=f"matmul {size} {np.dtype(kind).name}, {which}", value=value, unit="x",
                             reference=f"a @ b {plain * 1e3:.1f} ms", budget=budget)  # fmt: skip


def flash_attention() -> Iterator[Figure]:
    """Flash attention of 4,096 tokens over the same algorithm in NumPy: calls by their plan, and the first run."""
    import attention
    import first_runs

    module = attention.example()
    arrays = module.inputs(heads=1, S=4096)
    q, k, v = (array.astype(np.float32) for array in arrays)

    def plain() -> None:
        attention.in_numpy(q, k, v, module.P, module.KEYS)

    first = first_runs.median("attention")
    module.flash_attention(*arrays)
    reference, ratios = 0.0, []
    for _ in range(5):
        reference = best(plain, 2)
        ratios.append(best(lambda: module.flash_attention(*arrays), 2) / reference)
    for which, value in (("by plan", statistics.median(ratios)), ("first run", first)):
        yield Figure(row="flash", name=f"attention of 4096 tokens, {which}", value=value, unit="x",
                     reference=f"NumPy in the same tiles {reference * 1e3:.0f} ms", budget=2.0)  # fmt: skip


def b2_overhead() -> Iterator[Figure]:
    """Numeric time an instruction beyond the bare NumPy calls on the same tile."""
    import kernels

    import nki_lab

    for free, rounds in ((512, 500), (8, 2500)):
        x = np.ones((128, free), np.float32)
        a, b, c = x.copy(), x.copy(), x.copy()

        def bare() -> None:
            for _ in range(rounds):  # noqa: B023 - called at once
                np.add(a, b, out=c)  # noqa: B023
                np.multiply(c, np.float32(0.25), out=b)  # noqa: B023
                np.add(b, np.float32(0.5), out=b)  # noqa: B023
                np.multiply(b, np.float32(-1), out=c)  # noqa: B023
                np.exp(c, out=c)  # noqa: B023
                np.copyto(b, c)  # noqa: B023

        overheads, plain = [], 0.0
        for _ in range(3):
            plain = best(bare, 3)
            run = nki_lab.run(kernels.chain, x, rounds, target="trn2")
            overheads.append((run.timings.numeric - plain) / (4 * rounds) * 1e6)
        yield Figure(row="B2", name=f"overhead, tile 128x{free}", value=statistics.median(overheads), unit="us",
                     reference=f"bare NumPy {plain / (4 * rounds) * 1e6:.2f} us", budget=8.0)  # fmt: skip


def second_calls() -> Iterator[Figure]:
    """Time of a second call of a kernel beyond the bare NumPy calls on the same tiles, in all and an instruction."""
    import kernels

    x = np.ones((128, 8), np.float32)
    a, b, c = x.copy(), x.copy(), x.copy()

    def bare(rounds: int) -> None:
        np.copyto(a, x)
        np.copyto(b, x)
        for _ in range(rounds):
            np.add(a, b, out=c)
            np.multiply(c, np.float32(0.25), out=b)
            np.add(b, np.float32(0.5), out=b)
            np.multiply(b, np.float32(-1), out=c)
            np.exp(c, out=c)
            np.copyto(b, c)

    beyond: dict[int, float] = {}
    for rounds in (1, 1000):
        kernels.chain(x, rounds)
        plain = best(lambda: bare(rounds), 30)  # noqa: B023 - called at once
        beyond[rounds] = best(lambda: kernels.chain(x, rounds), 30) - plain  # noqa: B023
    each = (beyond[1000] - beyond[1]) / 3996
    yield Figure(row="again", name="second call", value=(beyond[1] - 7 * each) * 1e6, unit="us",
                 reference="bare NumPy calls taken off", budget=30.0)  # fmt: skip
    yield Figure(row="again", name="second call, an instruction", value=each * 1e6, unit="us",
                 reference="bare NumPy calls taken off", budget=0.5)  # fmt: skip


def b3_tracing() -> Iterator[Figure]:
    """Microseconds to specialise one instruction, without values."""
    import kernels

    import nki_lab

    spec = nki_lab.spec((4096, 4096), "bfloat16")
    times, count = [], 0
    for _ in range(3):
        start = time.perf_counter()
        program = nki_lab.compile(kernels.matmul, spec, spec, target="trn2")
        times.append(time.perf_counter() - start)
        count = len(program)
    loop = best(lambda: [None for _ in range(1_000_000)], 3)
    yield Figure(row="B3", name=f"tracing, {count} instructions", value=statistics.median(times) / count * 1e6,
                 unit="us", reference=f"empty Python loop {loop * 1e3:.0f} ns a turn", budget=8.0)  # fmt: skip


def small_tiles(least: int = 1000) -> Iterator[Figure]:
    """Microseconds an instruction of a whole `nki_lab.run` on tiles of 128 x 8, recording included, and its parts.

    The kernel has ten instructions for each of at least `least` rounds.
    """
    import kernels

    import nki_lab

    x = np.random.default_rng(0).standard_normal((2048, 8), dtype=np.float32)
    loop = best(lambda: [None for _ in range(1_000_000)], 3)
    runs = []
    for number in range(5):  # another count each time, so that none finds the program of the one before
        rounds = least + number
        parts: dict[str, float] = {}
        start = time.perf_counter()
        with _stopwatch(parts):
            run = nki_lab.run(kernels.mixed, x, rounds, target="trn2")
            _ = run.recording
        parts["whole run"] = time.perf_counter() - start
        parts |= {name: run.timings[name] or 0.0 for name in ("specialize", "check", "numeric")}
        parts["other"] = 2 * parts["whole run"] - sum(parts.values())
        runs.append({name: seconds / (10 * rounds) * 1e6 for name, seconds in parts.items()})
    chosen = sorted(runs, key=lambda parts: parts["whole run"])[0]
    budgets = {"whole run": 40.0, "numeric": 10.0}
    for name in sorted(chosen, key=lambda name: (name not in budgets, -chosen[name])):
        share = f", {chosen[name] / chosen['whole run']:.0%} of it" if name != "whole run" else ""
        yield Figure(row="small", name=f"128x8, {name}{share}", value=chosen[name], unit="us",
                     reference=f"empty Python loop {loop * 1e3:.0f} ns a turn",
                     budget=budgets.get(name, 40.0))  # fmt: skip


@contextlib.contextmanager
def _stopwatch(parts: dict[str, float]) -> Iterator[None]:
    """Put down the seconds of the stages that a run does not tell apart."""
    from nki_lab.timeline import timeline

    stages = {"allocate": (timeline, "allocate"), "schedule": (timeline, "schedule"), "timing": (timeline, "walk"),
              "recording": (timeline.Timeline, "record")}  # fmt: skip
    former = {name: getattr(*place) for name, place in stages.items()}

    def timed(name: str) -> Callable[..., object]:
        def call(*args: object, **keywords: object) -> object:
            start = time.perf_counter()
            try:
                return former[name](*args, **keywords)
            finally:
                parts[name] = parts.get(name, 0.0) + time.perf_counter() - start

        return call

    for name, place in stages.items():
        setattr(*place, timed(name))
    try:
        yield
    finally:
        for name, place in stages.items():
            setattr(*place, former[name])


def b4_timing() -> Iterator[Figure]:
    """Microseconds to walk one instruction through time, and bytes that a recording keeps of it."""
    import kernels

    import nki_lab
    from nki_lab.kernel_runtime.allocate import allocate
    from nki_lab.kernel_runtime.schedule import schedule
    from nki_lab.kernel_runtime.timing import walk
    from nki_lab.timeline.timeline import timeline

    loop = best(lambda: [None for _ in range(1_000_000)], 3)
    matrix, tile = nki_lab.spec((4096, 4096), "bfloat16"), nki_lab.spec((128, 512), "float32")
    kinds = {"matmul": (kernels.matmul, matrix, matrix), "chain": (kernels.chain, tile, 5000),
             "varied": (kernels.varied, tile, 20_000)}  # fmt: skip
    for name, (kernel, *arguments) in kinds.items():
        program = nki_lab.compile(kernel, *arguments, target="trn2")
        allocation = allocate(program)
        order = schedule(program, allocation)
        # Of every instruction; then as a run does it: nothing repeats in `varied`, where that is to cost nothing.
        ways = {"walk": (True, 2.5), "walk with repetitions filled in": (False, 2.5 if name == "varied" else 1.25)}
        for what, (every, budget) in ways.items():
            seconds = best(lambda: walk(program, order, None, allocation, every_op=every), 3)  # noqa: B023
            yield Figure(row="B4", name=f"{what} of {name}, {len(program)} instructions",
                         value=seconds / len(program) * 1e6, unit="us",
                         reference=f"empty Python loop {loop * 1e3:.0f} ns a turn", budget=budget)  # fmt: skip
        if name == "varied":
            continue
        recording = timeline(program).record()
        for table, budget in (("rows", 64), ("accesses", 16), ("edges", 24)):
            columns = recording.table(table)
            yield Figure(row="B4", name=f"bytes of one of {len(columns)} {table}", value=columns.nbytes / len(columns),
                         unit="B", reference="columns in memory", budget=budget)  # fmt: skip
    yield from compiled_walks()


def compiled_walks() -> Iterator[Figure]:
    """Microseconds to walk each instruction by machine code: in the event loop, and in all with columns, sums and path.

    Nothing without the extra `fast`.
    """
    import kernels

    import nki_lab
    from nki_lab.kernel_runtime.allocate import allocate
    from nki_lab.kernel_runtime.schedule import schedule
    from nki_lab.kernel_runtime.timing import costs_of, walk
    from nki_lab.kernel_runtime.timing.compiled import EVENT_LOOP, EVENTS, as_arrays
    from nki_lab.kernel_runtime.timing.machine import machine_of

    loop = EVENT_LOOP.get()
    if loop is None:
        return
    matrix, tile = nki_lab.spec((4096, 4096), "bfloat16"), nki_lab.spec((128, 512), "float32")
    kinds = {"matmul": (kernels.matmul, matrix, matrix), "chain": (kernels.chain, tile, 25_000)}
    for name, (kernel, *arguments) in kinds.items():
        program = nki_lab.compile(kernel, *arguments, target="trn2")
        allocation = allocate(program)
        order = schedule(program, allocation)
        walk(program, order, None, allocation, every_op=True)  # compiles
        whole = best(lambda: walk(program, order, None, allocation, every_op=True), 5)  # noqa: B023 - called at once
        inner = []
        for _ in range(5):
            state = as_arrays(machine_of(program, order, program.options, allocation, costs_of(program), {}))
            start = time.perf_counter()
            while loop(*state, EVENTS):
                pass
            inner.append(time.perf_counter() - start)
        for what, seconds, budget in (("event loop", min(inner), 0.2), ("walk", whole, 0.5)):
            each = seconds / len(program) * 1e6
            yield Figure(row="B4", name=f"{what} of {name}, compiled, {len(program)} instructions", value=each,
                         unit="us", reference="extra fast", budget=budget)  # fmt: skip


def b5_sums() -> Iterator[Figure]:
    """Milliseconds to sum up ten million rows over a stretch of time, of any length and anywhere in the run."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from nki_lab.kernel_runtime.recording import Recording
    from tests.recordings import synthetic

    recording = Recording(synthetic(10_000_000))
    recording.table("lane_sums")
    end, times = recording.makespan, []
    for part in (1, 2, 10, 30, 100, 300, 1000, 10_000):
        for place in range(6):
            begin = (end - end // part) * place // 5
            times.append(best(lambda: recording.sums(begin, begin + end // part, 1024), 2) * 1e3)  # noqa: B023
    loop = best(lambda: [None for _ in range(1_000_000)], 3)
    for name, value in (("median", statistics.median(times)), ("slowest", max(times))):
        yield Figure(row="B5", name=f"sums of a stretch, 10,000,000 rows, {name}", value=value, unit="ms",
                     reference=f"empty Python loop {loop * 1e3:.0f} ns a turn", budget=20.0)  # fmt: skip


def b6_views() -> Iterator[Figure]:
    """Milliseconds to the first paint of a run, and from a step or a move of the slider to its paint, in Chromium."""
    import views

    for told in (*views.pages(), *views.notebooks()):
        yield Figure(row="B6", **told)


def b8_load() -> Iterator[Figure]:
    """Milliseconds of `%load_ext nki_lab` in a shell that has NumPy."""
    script = (
        "import time, numpy; from IPython.core.interactiveshell import InteractiveShell as Shell;"
        "from traitlets.config import Config; c = Config(); c.HistoryManager.enabled = False;"
        "shell = Shell.instance(config=c); t = time.perf_counter();"
        "shell.run_line_magic('load_ext', {0!r}); print(time.perf_counter() - t)"
    )
    times: dict[str, list[float]] = {"nki_lab": [], "autoreload": []}
    for _ in range(5):
        for name, found in times.items():
            done = subprocess.run(
                [sys.executable, "-c", script.format(name)], capture_output=True, text=True, check=True
            )
            found.append(float(done.stdout))
    yield Figure(row="B8", name="%load_ext nki_lab", value=statistics.median(times["nki_lab"]) * 1e3, unit="ms",
                 reference=f"%load_ext autoreload {statistics.median(times['autoreload']) * 1e3:.0f} ms",
                 budget=600.0)  # fmt: skip


REAL_MODULE = "NKI_LAB_REAL_MODULE"
"""Names a real kernel module for B7, and its shapes; none is part of the project."""
BETA1_MODULE = "NKI_LAB_BETA1_MODULE"
"""Names a real module of Beta 1 kernels for B7; none is part of the project."""
IDLE_TURN_NS = 21.0
"""A turn of an empty Python loop on the idle machine that the budgets of B7 were set on."""


def b7_editor() -> Iterator[Figure]:
    """Milliseconds from a keystroke until a real server has told the findings: of the syntax, then with shapes."""
    import modules

    sources = {f"{count} kernels": modules.module(count, 3600) for count in (10, 1)}
    if os.environ.get(REAL_MODULE):
        sources["real module"] = Path(os.environ[REAL_MODULE].partition("::")[0]).read_text(encoding="utf-8")
    for name, source in sources.items():
        count = source.count("\n")
        kinds = zip(("syntax", "shapes"), _keystrokes(source), (150.0, 1000.0), strict=True)
        parse = best(lambda: ast.parse(source), 3) * 1e3  # noqa: B023 - called at once
        turn = best(lambda: [None for _ in range(1_000_000)], 3) * 1e3
        slowness = max(1.0, turn / IDLE_TURN_NS)
        for what, times, budget in kinds:
            for share, value in (("median", statistics.median(times)), ("p95", sorted(times)[int(len(times) * 0.95)])):
                yield Figure(row="B7", name=f"{what} {share}, {name}, {count} lines", value=value * 1e3, unit="ms",
                             reference=f"ast.parse {parse:.0f} ms, empty loop {turn:.0f} ns a turn",
                             budget=budget * slowness)  # fmt: skip


def b7_answers() -> Iterator[Figure]:
    """Milliseconds from a question of the editor's to its answer while somebody types and kernels are evaluated."""
    import editor
    import modules

    name, source = "1 kernel", modules.module(1, 3600)
    uri = "file:///big.py"
    if os.environ.get(REAL_MODULE):
        path = Path(os.environ[REAL_MODULE].partition("::")[0]).resolve()
        name, source, uri = "real module", path.read_text(encoding="utf-8"), path.as_uri()
    parse, turn = editor.references(source)
    for method, times in editor.answer_seconds(source, uri).items():
        value = editor.p95(times) * 1e3
        yield Figure(row="B7", name=f"{method} p95, {name}, {source.count(chr(10))} lines", value=value, unit="ms",
                     reference=f"{value / parse:.2f} x ast.parse, empty loop {turn:.0f} ns a turn",
                     budget=editor.BUDGET_MS * max(1.0, turn / IDLE_TURN_NS))  # fmt: skip


def b7_checking() -> Iterator[Figure]:
    """What a check of a whole project costs, and how much of it is left unknown."""
    import checking

    yield Figure(row="B7", name=f"check {checking.FILES} kernel files", value=checking.files_seconds(), unit="s",
                 reference=f"{os.cpu_count()} processors, start included", budget=5.0)  # fmt: skip
    costs = list(checking.growth_milliseconds())
    (fewest, least), (most, last) = costs[0], costs[-1]
    yield Figure(row="B7", name=f"growth to {most} lines", value=last / least, unit="x",
                 reference=f"CPU for 1,000 lines: {least:.0f} ms of {fewest}, {last:.0f} of {most}",
                 budget=1.5)  # fmt: skip
    if os.environ.get(REAL_MODULE):
        found = list(checking.edits(os.environ[REAL_MODULE]))
        for share, quantile in (("median", 0.5), ("p95", 0.95)):
            wall, busy, ratio = (
                sorted(values)[int(len(found) * quantile)]
                for values in ([item.wall for item in found], [item.cpu for item in found],
                               [item.cpu / item.parse for item in found])
            )  # fmt: skip
            yield Figure(row="B7", name=f"edit {share}, real module", value=wall * 1e3, unit="ms",
                         reference=f"{len(found)} edits, {busy * 1e3:.0f} ms of the processor, {ratio:.1f} x ast.parse",
                         budget=500.0)  # fmt: skip
    if os.environ.get(BETA1_MODULE):
        seconds, lines = checking.migration_seconds(os.environ[BETA1_MODULE])
        yield Figure(row="B7", name="migrate 1,000 lines", value=seconds, unit="s",
                     reference=f"{lines} lines of Beta 1, CPU", budget=2.0)  # fmt: skip
    examples = Path(__file__).parents[1] / "examples"
    unknown, operations = checking.unknown_share(examples)
    yield Figure(row="B7", name="unknown operations, examples", value=100 * unknown / max(1, operations), unit="%",
                 reference=f"{unknown} of {operations} calls", budget=2.0)  # fmt: skip


def _keystrokes(source: str, rounds: int = 21) -> tuple[list[float], list[float]]:
    """Seconds until the first and the last word on a text in which a fault comes and goes.

    This process, which no editor is, collects no garbage meanwhile: it keeps all messages, and takes 40 to 120 ms.
    """
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.lsp.client import connect

    lines = source.split("\n")
    starts = ("nisa.", "nl.", "assert ", "return")
    at = next(i for i in range(len(lines) // 2, len(lines)) if lines[i].strip().startswith(starts))
    indent = " " * (len(lines[at]) - len(lines[at].lstrip()))
    half, whole = f"{indent}x = (", f"{indent}undefined_name; lambda: 0"
    uri, client = "file:///big.py", connect()
    client.initialize()
    client.open(uri, "\n".join([*lines[:at], half, *lines[at:]]))
    client.pulled(uri)  # answered when everything is known
    first, last = [], []
    gc.disable()
    try:
        for number in range(rounds):
            start = time.perf_counter()
            version = client.change(uri, (at, 0, at, 10_000, half if number % 2 else whole))
            client.published(uri, version)
            first.append(time.perf_counter() - start)
            client.pulled(uri)
            last.append(time.perf_counter() - start)
    finally:
        gc.enable()
    client.leave()
    return first, last


def b8_import() -> Iterator[Figure]:
    """Milliseconds that `import nki_lab` adds to `import numpy`."""
    command = "import time; t = time.perf_counter(); import {0}; print(time.perf_counter() - t)"
    pairs = []
    for _ in range(7):
        pair = [
            float(subprocess.run([sys.executable, "-c", f"import numpy; {command.format(name)}"], capture_output=True,
                                 text=True, check=True).stdout)
            for name in ("numpy", "nki_lab")
        ]  # fmt: skip
        pairs.append(pair[1] - pair[0])
    yield Figure(row="B8", name="import nki_lab over numpy", value=statistics.median(pairs) * 1e3, unit="ms",
                 reference="import numpy in the same process", budget=150.0)  # fmt: skip
    yield from b8_load()


def races_of_cores() -> Iterator[Figure]:
    """Seconds to look for races in 100,000 instructions of two cores: with their barriers, without, and on one core."""
    import kernels

    import nki_lab
    from nki_lab import session
    from nki_lab.kernel_runtime.race import races

    loop = best(lambda: [None for _ in range(1_000_000)], 3)
    wide = nki_lab.spec((5000 * 128, 128), "float32")
    for name, barriers, budget in (("two cores", True, 0.5), ("two cores that race", False, 2.0)):
        launch = session.Launch(kernels.halves.function, "trn2", grid=(2,))
        program, _ = session.specialise(launch, (wide, 5000, barriers))
        yield Figure(row="race", name=f"{name}, {len(program)} instructions", value=best(lambda: races(program), 3),  # noqa: B023
                     unit="s", reference=f"empty Python loop {loop * 1e3:.0f} ns a turn", budget=budget)  # fmt: skip
    launch = session.Launch(kernels.mixed.function, "trn2")
    program, _ = session.specialise(launch, (nki_lab.spec((128, 64), "float32"), 10_000))
    yield Figure(row="race", name=f"one core, {len(program)} instructions", value=best(lambda: races(program), 3),
                 unit="s", reference=f"empty Python loop {loop * 1e3:.0f} ns a turn", budget=0.5)  # fmt: skip


ROWS: dict[str, Callable[[], Iterator[Figure]]] = {
    "B1": b1_matmul, "flash": flash_attention, "B2": b2_overhead, "again": second_calls, "B3": b3_tracing,
    "B4": b4_timing, "B5": b5_sums, "B6": b6_views,
    "B7": b7_editor, "B7a": b7_answers, "B7c": b7_checking, "B8": b8_import, "race": races_of_cores,
    "small": small_tiles,
}  # fmt: skip


def record(figures: list[Figure], note: str) -> None:
    """Append figures to the history."""
    new = not HISTORY.exists()
    revision = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    with HISTORY.open("a", newline="") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow(
                ["date", "revision", "python", "numpy", "row", "name", "value", "unit", "reference", "note"]
            )
        for item in figures:
            writer.writerow([
                datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"), revision.stdout.strip(),
                platform.python_version(), np.__version__, item.row, item.name, f"{item.value:.3f}", item.unit,
                item.reference, note,
            ])  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", choices=[*ROWS, []], help="budgets to measure; all without")
    parser.add_argument("--note", default="", help="a remark kept in the history")
    arguments = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    import nki_lab

    nki_lab.activate()
    figures: list[Figure] = []
    for row in arguments.rows or ROWS:
        for item in ROWS[row]():
            figures.append(item)
            verdict = "ok" if item.met else "OVER"
            print(f"{item.row}  {item.name:36s} {item.value:9.2f} {item.unit:3s} budget {item.budget:g}  {verdict:5s} "
                  f"({item.reference})", flush=True)  # fmt: skip
    record(figures, arguments.note)
    return 0


if __name__ == "__main__":
    sys.exit(main())
