"""Fit the few free constants to published times: `python -m benchmarks.calibration.fit --kernels DIR [--write]`.

A constant is free where its declaration in `isa/arch.py` has values to try (`Fact.fit`). Kernels are traced once; then
the constants are searched in turn, each for the value with the least mean error, until none changes. `--write` alone
changes the declared values, and benchmarks/fit.json, from which the page on accuracy has its table.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from benchmarks.calibration import clones, running, worker
from benchmarks.calibration.comparison import TIME
from benchmarks.calibration.published import Published, load
from benchmarks.calibration.statistics import quantile
from nki_lab.isa.arch import GENERATIONS, Arch

SOURCE: Final = running.PACKAGE / "isa" / "arch.py"
TABLE: Final = running.ROOT / "benchmarks" / "fit.json"
DRAWS: Final = 40

Values = Mapping[str, float]
Predict = Callable[[Values], Sequence[float]]
"""Nanoseconds of each sample, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A published time in nanoseconds, and the family of its kernel."""

    family: str
    published: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A constant: its value, the 80 % interval of it when the samples are drawn again, and what was declared."""

    name: str
    declared: float
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The constants; the mean error with them and as declared; that of each family with constants of the others."""

    constants: tuple[Fitted, ...]
    samples: int
    error: float
    declared_error: float
    left_out: Mapping[str, float]


def error(samples: Sequence[Sample], times: Sequence[float], rows: Sequence[int]) -> float:
    """Return the mean of the absolute differences over the published times, of some rows; rows may repeat."""
    return sum(abs(times[row] / samples[row].published - 1) for row in rows) / len(rows)


def search(start: Values, tried: Mapping[str, Sequence[float]], loss: Callable[[Values], float]) -> dict[str, float]:
    """Return values with the least loss that changes of one constant at a time reach.

    The nearest to the start wins among equals. The loss of the same values is asked for once.
    """
    known: dict[tuple[float, ...], float] = {}

    def of(values: Values) -> float:
        key = tuple(values[name] for name in tried)
        if key not in known:
            known[key] = loss(values)
        return known[key]

    best = dict(start)
    while True:
        before = dict(best)
        for name, candidates in tried.items():
            options = [best[name], *candidates]
            found = min(options, key=lambda value: (of({**best, name: value}), abs(value - best[name])))
            best = {**best, name: found}
        if best == before:
            return best


def fit(
    samples: Sequence[Sample],
    predict: Predict,
    tried: Mapping[str, Sequence[float]],
    start: Values,
    draws: int = DRAWS,
    seed: int = 0,
) -> Result:
    """Fit the constants to all samples, to those of all families but one, and to samples that are drawn again."""
    known: dict[tuple[float, ...], Sequence[float]] = {}

    def times(values: Values) -> Sequence[float]:
        key = tuple(values[name] for name in tried)
        if key not in known:
            known[key] = predict(values)
        return known[key]

    def fitted(rows: Sequence[int], begin: Values) -> dict[str, float]:
        return search(begin, tried, lambda values: error(samples, times(values), rows))

    every = range(len(samples))
    best = fitted(every, start)
    families = sorted({sample.family for sample in samples})
    left: dict[str, float] = {}
    for name in families:
        mine = [row for row in every if samples[row].family == name]
        others = [row for row in every if samples[row].family != name]
        if others:
            left[name] = error(samples, times(fitted(others, best)), mine)
    source = random.Random(seed)
    again = [fitted(source.choices(every, k=len(samples)), best) for _ in range(draws)]
    constants = []
    for name in tried:
        drawn = sorted(values[name] for values in again) or [best[name]]
        low, high = quantile(drawn, 0.1), quantile(drawn, 0.9)
        constants.append(Fitted(name=name, declared=start[name], value=best[name], low=low, high=high))
    return Result(
        constants=tuple(constants),
        samples=len(samples),
        error=error(samples, times(best), every),
        declared_error=error(samples, times(start), every),
        left_out=left,
    )


def rewritten(text: str, values: Values) -> str:
    """Return a source with other values of the constants that `_fitted` declares; KeyError where one is not there."""
    for name, value in values.items():
        pattern = re.compile(rf"(\| _fitted\((?:(?!\| _).)*?\b{name}=)[-\d.e_]+", re.DOTALL)
        text, count = pattern.subn(rf"\g<1>{float(value)}", text)
        if count != 1:
            raise KeyError(f"{name} is declared {count} times by _fitted, it has to be once")
    return text


def table(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the page's section, from what TABLE holds."""
    yield "| constant | fitted | 80 % interval |"
    yield "|-|-:|-:|"
    for item in result["constants"]:
        yield f"| `{item['name']}` | {item['value']:,g} | {item['low']:,g} to {item['high']:,g} |"
    yield ""
    yield f"Mean error of the {result['samples']} times that they are fitted to: {result['error']:.1%}."
    yield ""
    yield "| left out | mean error with constants of the others |"
    yield "|-|-:|"
    for family, value in result["left_out"].items():
        yield f"| {family} | {value:.1%} |"


@contextmanager
def constants(arch: Arch, values: Values) -> Iterator[None]:
    """Give an architecture other numbers for a while, in a process of one thread."""
    before = {name: getattr(arch, name) for name in values}, arch.facts
    facts = dict(arch.facts) | {name: replace(arch.facts[name], value=value) for name, value in values.items()}
    try:
        for name, value in (*values.items(), ("facts", MappingProxyType(facts))):
            object.__setattr__(arch, name, value)
        yield
    finally:
        for name, value in (*before[0].items(), ("facts", before[1])):
            object.__setattr__(arch, name, value)


@dataclass(slots=True)
class Programs:
    """Traced runs, and what they take without a launch, by the other constants."""

    arch: Arch
    lines: list[Any] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    walked: dict[tuple[tuple[str, float], ...], list[float]] = field(default_factory=dict)

    def predict(self, values: Values) -> list[float]:
        """Return the time of each run in nanoseconds."""
        with constants(self.arch, values):
            inside = self._inside(values)
            return [
                time + self.arch.envelope_ns(line.chip.cores) for time, line in zip(inside, self.lines, strict=True)
            ]

    def _inside(self, values: Values) -> list[float]:
        from nki_lab.kernel_runtime.timing import walk

        key = tuple((name, value) for name, value in values.items() if not name.startswith("launch"))
        if key not in self.walked:
            self.walked[key] = []
            for line in self.lines:
                options = replace(line.chip.options, launch_overhead=False)
                self.walked[key].append(walk(line.chip, line.schedule, options, line.chip_allocation).makespan / 1000)
        return self.walked[key]


def traced(published: Published, kernels: Path, arch: Arch, tiers: set[str], only: set[str]) -> Programs:
    """Return the runs on a target that have a published time of some tiers, traced."""
    import nki_lab

    nki_lab.activate()
    found = Programs(arch)
    for run in published.runs.values():
        times = [
            figure
            for figure in published.of_run[run.id]
            if figure.metric == TIME and figure.kind != "ceiling" and figure.tier in tiers
        ]
        if run.target != arch.target or not times or not ({run.id, run.family} & only if only else True):
            continue
        kernel = published.kernels[run.kernel]
        folder, module = clones.place(kernel, kernels, running.BUILD / "kernels")
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
        worker.stand_in(list(kernel.stubs))
        try:
            function = getattr(importlib.import_module(module), kernel.function)
            with redirect_stdout(sys.stderr):  # what kernels print is no result
                line = worker.profiled(function, asdict(run), running.OPTIONS, module)._timeline
        except Exception as problem:  # noqa: BLE001 - a run that fails is left out, and said to be
            print(run.id, worker.described(problem), file=sys.stderr)
            continue
        found.lines.append(line)
        found.samples.append(Sample(family=run.family, published=times[0].value))
    return found


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.fit", description=__doc__)
    parser.add_argument("--kernels", type=Path, required=True, help="folder of the clones")
    parser.add_argument("--tiers", default="B", help="tiers of the times to fit to; default: %(default)s")
    parser.add_argument("--only", default="", help="runs or families, separated by commas")
    parser.add_argument("--write", action="store_true", help="write the constants where they are declared")
    chosen = parser.parse_args()
    text, tables = SOURCE.read_text(), []
    for arch in GENERATIONS.values():
        tried = {name: fact.fit for name, fact in arch.facts.items() if fact.fit}
        if not tried:
            continue
        only = set(filter(None, chosen.only.split(",")))
        programs = traced(load(), chosen.kernels, arch, set(chosen.tiers.split(",")), only)
        start = {name: float(arch.facts[name].value) for name in tried}
        result = fit(programs.samples, programs.predict, tried, start)
        text = rewritten(text, {item.name: item.value for item in result.constants})
        tables.append({"target": arch.target, **asdict(result)})
        print(arch.target, *table(tables[-1]), f"As declared: {result.declared_error:.1%}.", sep="\n")
    if chosen.write:
        SOURCE.write_text(text)
        TABLE.write_text(json.dumps(tables, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
