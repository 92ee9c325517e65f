"""Predict our own small kernels, and hold `benchmarks/accuracy.json` against what they give.

    python -m benchmarks.calibration.gate            # is the summary up to date, and no worse than before?
    python -m benchmarks.calibration.gate --write    # writes it; a step back needs --worse REASON

The summary holds the hash of the timing sources, the predictions of published facts about single instructions and
transfers, and the errors of the last `make calibration` with the hash that it had (`calibrated`);
`accuracy_history.csv` has a line for each one written.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import nki_lab
from benchmarks.calibration import running
from benchmarks.calibration.published import load

nki_lab.activate()

import nki  # noqa: E402 - the simulator's, activated above
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

SUMMARY = Path(__file__).parents[1] / "accuracy.json"
HISTORY = Path(__file__).parents[1] / "accuracy_history.csv"
COLUMNS = (
    "sources",
    "facts",
    "fact_error",
    "calibrated",
    "times",
    "error_A",
    "error_B",
    "error_B-",
    "roofline_A",
    "failures",
    "note",
)
TIMING = (
    "isa",
    "kernel_runtime/allocate",
    "kernel_runtime/backend",
    "kernel_runtime/options.py",
    "kernel_runtime/schedule",
    "kernel_runtime/timing",
)
"""The sources that determine a time once a program is there."""
TOLERANCE = 0.002
"""A mean error that is larger by less than this is no step back."""


@nki.jit
def products(a, b, count: int):
    """Independent products of one pair of tiles, and a copy of the last."""
    stationary, moving = nl.load(a), nl.load(b)
    out = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    for _ in range(count):
        product = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=product, stationary=stationary, moving=moving)
    nl.store(out, nl.copy(product))
    return out


@nki.jit
def copies(x, count: int, through_psum: bool):
    """Copies of one tile, of SBUF or of PSUM, each into a tile of its own."""
    tile = nl.load(x)
    if through_psum:
        source = nl.ndarray(tile.shape, dtype=x.dtype, buffer=nl.psum)
        nisa.memset(dst=source, value=0.0)
    else:
        source = tile
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for _ in range(count):
        copy = nl.ndarray(tile.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=copy, src=source, engine=nisa.vector_engine)
    nl.store(out, copy)
    return out


@nki.jit
def additions(x, count: int, with_psum: bool):
    """Sums of one tile and another, of SBUF or of PSUM, each into a tile of its own."""
    tile = nl.load(x)
    other = tile
    if with_psum:
        other = nl.ndarray(tile.shape, dtype=x.dtype, buffer=nl.psum)
        nisa.memset(dst=other, value=0.0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for _ in range(count):
        total = nl.ndarray(tile.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=total, data1=tile, data2=other, op=nl.add)
    nl.store(out, total)
    return out


@nki.jit
def exponentials(x, count: int):
    """Exponentials, each of the one before."""
    tile = nl.load(x)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for _ in range(count):
        nisa.activation(dst=tile, op=nl.exp, data=tile)
    nl.store(out, tile)
    return out


@nki.jit
def loads(x, count: int):
    """Loads of one tensor, each into a tile of its own."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for _ in range(count):
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
    nl.store(out, tile)
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What a published fact is measured on: `measure` of the timing, at the rows of the instruction `name`."""

    kernel: Any
    arguments: tuple[Any, ...]
    target: str
    name: str
    measure: Callable[[Any, Sequence[int]], float]


def interval(timing: Any, rows: Sequence[int]) -> float:
    """Return the nanoseconds between the starts of the last two rows."""
    return float(timing.start[rows[-1]] - timing.start[rows[-2]]) / 1000


def span(timing: Any, rows: Sequence[int]) -> float:
    """Return the nanoseconds from the start of the last row to its visible result."""
    return float(timing.ready[rows[-1]] - timing.start[rows[-1]]) / 1000


def setup(timing: Any, rows: Sequence[int]) -> float:
    """Return the nanoseconds of what the first row needs before: a table, a stationary tile."""
    return float(timing.setup[rows[0]]) / 1000


def duration(timing: Any, rows: Sequence[int]) -> float:
    """Return the nanoseconds that the first row occupies its lane."""
    return float(timing.duration[rows[0]]) / 1000


def rate(timing: Any, rows: Sequence[int]) -> float:
    """Return the bytes a nanosecond of the later two thirds of the rows."""
    ends = np.sort(timing.start[rows] + timing.duration[rows])
    first = len(rows) // 3
    return float(timing.bytes[rows[-1]]) * (len(rows) - 1 - first) / (float(ends[-1] - ends[first]) / 1000)


def _probes() -> Mapping[int, Probe]:
    """Return the probe of each published fact, by its number in `published.json`."""
    spec = nki_lab.spec
    wide, curve = spec((128, 512), "float32"), (32, 128, 512, 1024, 2048, 4096, 16384)
    found = {
        48: Probe(kernel=products, arguments=(spec((128, 128), "float32"), wide, 24), target="trn2",
                  name="nc_matmul", measure=lambda timing, rows: interval(timing, rows) / 2),
        50: Probe(kernel=products, arguments=(spec((128, 128), "float32"), wide, 1), target="trn2",
                  name="nc_matmul", measure=setup),
        52: Probe(kernel=copies, arguments=(wide, 6, True), target="trn2", name="tensor_copy", measure=span),
        53: Probe(kernel=additions, arguments=(wide, 6, True), target="trn2", name="tensor_tensor", measure=span),
        54: Probe(kernel=copies, arguments=(wide, 6, False), target="trn2", name="tensor_copy", measure=span),
        55: Probe(kernel=additions, arguments=(wide, 6, True), target="trn2", name="tensor_tensor", measure=interval),
        56: Probe(kernel=copies, arguments=(wide, 6, False), target="trn2", name="tensor_copy", measure=interval),
        58: Probe(kernel=loads, arguments=(spec((4, 4096), "bfloat16"), 1), target="trn2", name="dma_copy",
                  measure=duration),
        62: Probe(kernel=exponentials, arguments=(spec((4, 4096), "bfloat16"), 1), target="trn2", name="activation",
                  measure=setup),
        63: Probe(kernel=exponentials, arguments=(spec((4, 4096), "bfloat16"), 1), target="trn2", name="activation",
                  measure=span),
        70: Probe(kernel=exponentials, arguments=(spec((128, 128), "bfloat16"), 1), target="trn2", name="activation",
                  measure=span),
        84: Probe(kernel=exponentials, arguments=(spec((128, 1), "float32"), 8), target="trn1", name="activation",
                  measure=interval),
        85: Probe(kernel=exponentials, arguments=(spec((128, 1), "float32"), 8), target="trn1", name="activation",
                  measure=span),
        86: Probe(kernel=products, arguments=(spec((128, 1), "bfloat16"), spec((128, 128), "bfloat16"), 1),
                  target="trn1", name="nc_matmul", measure=setup),
        87: Probe(kernel=products, arguments=(spec((128, 128), "bfloat16"), spec((128, 128), "bfloat16"), 1),
                  target="trn1", name="nc_matmul", measure=span),
    }  # fmt: skip
    found[47] = found.pop(48)
    numbers = {32: 73, 64: 74, 128: 75, 256: 76, 512: 77, 1024: 78, 2048: 79, 4096: 80, 8192: 81, 16384: 82, 32768: 83}
    for size in curve:
        found[numbers[size]] = Probe(
            kernel=loads, arguments=(spec((128, size // 2), "bfloat16"), 6 if size >= 16384 else 40), target="trn2",
            name="dma_copy", measure=_share_of_full_rate,
        )  # fmt: skip
    return dict(sorted(found.items()))


def _share_of_full_rate(timing: Any, rows: Sequence[int]) -> float:
    from nki_lab.isa.arch import arch_of

    arch = arch_of("trn2")
    return rate(timing, rows[:-1]) / (arch.dma_engines * arch.dma_bytes_per_ns)


def facts() -> dict[str, dict[str, float]]:
    """Return {number: {"published": value, "predicted": value}} of the probed facts."""
    values = {figure.id: figure.value for figure in load().figures}
    found = {}
    for number, probe in _probes().items():
        done = nki_lab.profile(probe.kernel, *probe.arguments, target=probe.target)
        line = done._timeline
        assert line is not None
        rows = [op.index for op in line.program.ops() if op.variant.instruction.name == probe.name]
        predicted = probe.measure(line.timing, rows)
        found[str(number)] = {"published": values[number], "predicted": round(predicted, 4)}
    return found


def mean_error(found: Mapping[str, Mapping[str, float]]) -> float:
    """Return the mean absolute error of facts, as a share of what is published."""
    return sum(abs(fact["predicted"] / fact["published"] - 1) for fact in found.values()) / len(found)


def history(path: Path = HISTORY) -> list[dict[str, str]]:
    """Return the lines of the history, oldest first."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def complaints(
    summary: Mapping[str, Any],
    found: Mapping[str, Mapping[str, float]],
    sources: str,
    lines: Sequence[Mapping[str, str]],
) -> list[str]:
    """Return what is wrong with a committed summary: stale, not what the kernels give, or worse than the line before.

    A step back that its line in the history explains is none.
    """
    write = "write it anew: python -m benchmarks.calibration.gate --write"
    wrong = []
    if summary["sources"] != sources:
        wrong.append(f"accuracy.json is of timing sources {summary['sources']}, they are {sources} now; {write}")
    if summary["facts"] != found:
        changed = [number for number in found if summary["facts"].get(number) != found[number]]
        wrong.append(f"accuracy.json has other predictions of the facts {', '.join(changed) or 'left out'}; {write}")
    if not lines or lines[-1]["sources"] != summary["sources"]:
        wrong.append(f"the last line of accuracy_history.csv is not of {summary['sources']}; {write}")
    if len(lines) > 1 and not lines[-1]["note"]:
        wrong += worse(lines[-2], lines[-1])
    return wrong


def worse(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the mean errors that grew from one line of the history to the next."""
    return [
        f"{name} grew from {before[name]} to {now[name]}: improve it, or say why with --worse REASON"
        for name in ("fact_error", "error_A", "error_B", "error_B-")
        if before[name] and now[name] and float(now[name]) > float(before[name]) + TOLERANCE
    ]


def line_of(summary: Mapping[str, Any], note: str) -> dict[str, str]:
    """Return the line of the history for a summary."""
    measured = summary.get("calibration", {})
    values = {
        "sources": summary["sources"],
        "facts": len(summary["facts"]),
        "fact_error": f"{mean_error(summary['facts']):.4f}",
        **{name: measured.get(name, "") for name in COLUMNS[3:-1]},
        "note": note,
    }
    return {name: str(values[name]) for name in COLUMNS}


def write(calibration: Mapping[str, Any] | None, note: str) -> list[str]:
    """Write the summary and a line of the history; return what grew, and write nothing then unless there is a note.

    `calibration` are the errors of a new calibration; without them those of the last one stay.
    """
    known = json.loads(SUMMARY.read_text()) if SUMMARY.exists() else {}
    sources = running.source_hash(TIMING)
    chosen = known.get("calibration", {}) if calibration is None else {"calibrated": sources, **calibration}
    summary = {"sources": sources, "facts": facts(), "calibration": chosen}
    lines, line = history(), line_of(summary, note)
    if lines and lines[-1] == line:
        return []
    grown = worse(lines[-1], line) if lines else []
    if grown and not note:
        return grown
    if lines and lines[-1]["sources"] == line["sources"]:
        lines.pop()  # the same sources again: with a new calibration
    SUMMARY.write_text(json.dumps(summary, indent=1) + "\n")
    with HISTORY.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows([*lines, line])
    return []


def main() -> int:
    """Run the command line; return 1 if the summary is stale or worse."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.gate", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the summary and a line of the history")
    parser.add_argument("--worse", default="", metavar="REASON", help="why a larger error is right")
    options = parser.parse_args()
    if options.write:
        wrong = write(None, options.worse)
    else:
        wrong = complaints(json.loads(SUMMARY.read_text()), facts(), running.source_hash(TIMING), history())
    for text in wrong:
        print(text, file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
