"""Measures the checker on any kernels: faults found, false errors, calls covered, milliseconds.

    python tests/recall/measure.py FOLDER... [--faults 3] [--evaluate] [--missed]

Puts faults of 22 kinds (`mutations.py`) into each file that imports NKI, one at a time. Columns: faults seeded, found by
the syntax stage (no shapes, nothing evaluated), and with `--evaluate` found by the whole check, with the shapes that the
files give. Found means: an error at a line of the fault that the unchanged file does not have. Errors on unchanged files
are listed; whether they are false is for the reader.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import median

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import nki_lab
from nki_lab import check
from nki_lab.diagnostic import Diagnostic, NkiError
from nki_lab.isa.arch import arch_of
from nki_lab.query.call_sites import STATES, call_sites, counted
from nki_lab.query.evaluation_cache import EvaluationCache
from nki_lab.query.kernels import evaluated
from nki_lab.query.one_kernel import EvaluationRequest
from nki_lab.query.reach import Reach
from nki_lab.rules import check_syntax
from nki_lab.source import syntax_facts
from tests.recall.mutations import KINDS, Fault, Source, faults
from tests.recall.run import Subject, subjects_of

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Score:
    """Faults seeded and found by kind and stage, errors on unchanged files, and what became of the calls."""

    seeded: Counter[str] = field(default_factory=Counter)
    found: Counter[tuple[str, str]] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    errors: list[Diagnostic] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    slowness: list[float] = field(default_factory=list)

    def share(self, kinds: Iterable[str], stage: str = "syntax") -> float:
        """The share of the faults of some kinds that a stage finds."""
        chosen = set(kinds)
        seeded = sum(self.seeded[kind] for kind in chosen)
        return sum(self.found[kind, stage] for kind in chosen) / seeded if seeded else 1.0

    def table(self, stages: Sequence[str]) -> str:
        rows = [["kind", "seeded", *stages]]
        for kind in [kind for kind in KINDS if self.seeded[kind]]:
            shares = [f"{self.found[kind, stage]} ({self.share([kind], stage):.1%})" for stage in stages]
            rows.append([kind, str(self.seeded[kind]), *shares])
        rows.append(["all", str(sum(self.seeded.values())), *(f"{self.share(KINDS, stage):.1%}" for stage in stages)])
        return "\n".join("  ".join(cell.ljust(20) for cell in row) for row in rows)

    def coverage(self) -> str:
        total = sum(self.calls.values())
        parts = [f"{name} {self.calls[name]} ({self.calls[name] / max(1, total):.1%})" for name in STATES]
        return f"{total} call sites: {', '.join(parts)}"


def syntax_findings(text: str, file: str) -> list[Diagnostic]:
    """The findings of the syntax stage."""
    try:
        return check_syntax(syntax_facts(text, file))
    except NkiError as error:
        return list(error.diagnostics)


def all_findings(text: str, file: str) -> list[Diagnostic]:
    """The findings of the whole check: with shapes for the project's own kernels, else with those of the files."""
    own = subjects(file)
    return [item for kernel in own for item in kernel.findings(text)] if own else check(file, source=text)


@cache
def subjects(file: str) -> tuple[Subject, ...]:
    """The kernels of a file of this project with their arguments; none for others, which are never executed."""
    path = Path(file).resolve()
    has_shapes = path.is_relative_to(ROOT) and re.search(
        r"^def inputs|^ARGUMENTS", path.read_text("utf-8"), re.MULTILINE
    )
    return tuple(subjects_of(path)) if has_shapes else ()


STAGES = {"syntax": syntax_findings, "evaluated": all_findings}


def measure(files: Iterable[Path], most: int, stages: Sequence[str]) -> Score:
    """Put faults into files, and count."""
    score = Score()
    for file in files:
        text = file.read_text(encoding="utf-8")
        try:
            source = Source(text)
        except (SyntaxError, ValueError):
            continue
        if not any(name.partition(".")[0] in ("nki", "neuronxcc") for name in source.names.values()):
            continue
        clean = {stage: errors_of(STAGES[stage](text, str(file))) for stage in stages}
        score.errors += clean[stages[-1]]
        score.calls += covered(text, str(file), evaluate=len(stages) > 1)
        score.slowness.append(slowness(text, str(file)))
        for fault in faults(source, most):
            score.seeded[fault.kind] += 1
            for stage in stages:
                if is_found(fault, clean[stage], errors_of(STAGES[stage](fault.text, str(file)))):
                    score.found[fault.kind, stage] += 1
                else:
                    lines = f"{min(fault.lines)} to {max(fault.lines)}"
                    score.missed.append(f"{file}: lines {lines}: {stage} missed {fault.kind}, {fault.what}")
    return score


def errors_of(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    return [item for item in found if item.severity == "error"]


def is_found(fault: Fault, clean: Sequence[Diagnostic], found: Sequence[Diagnostic]) -> bool:
    """Whether there is an error at the fault that the unchanged text does not have."""
    before = Counter((item.code, item.line) for item in clean)
    now = Counter((item.code, item.line) for item in found if set(range(item.line, item.end_line + 1)) & fault.lines)
    return any(count > before[key] for key, count in now.items())


def covered(text: str, file: str, *, evaluate: bool) -> Counter[str]:
    """How much of the calls of functions of nki.isa and nki.language is checked, either dialect."""
    facts = syntax_facts(text, file)
    reach = Reach()
    if evaluate:
        reach = evaluated(facts, EvaluationRequest(arch=arch_of("trn2")), EvaluationCache()).reach
    return Counter[str](counted(call_sites(facts, reach)))


def slowness(text: str, file: str) -> float:
    """The time of the syntax stage in times of `ast.parse` of the same text: medians of five."""
    parse, stage = [], []
    for number in range(5):
        fresh = f"{text}\n# {number} {time.time()}\n"
        start = time.perf_counter()
        ast.parse(fresh)
        middle = time.perf_counter()
        check_syntax(syntax_facts(fresh, file))
        parse.append(middle - start)
        stage.append(time.perf_counter() - middle)
    return median(stage) / median(parse)


def files_in(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("paths", nargs="+", type=Path, help="files, or folders of them")
    parser.add_argument("--faults", type=int, default=3, help="at most so many of each kind in a file")
    parser.add_argument("--evaluate", action="store_true", help="measure the whole check as well")
    parser.add_argument("--missed", action="store_true", help="list the faults that were not found")
    given = parser.parse_args(arguments)
    nki_lab.activate()
    stages = ["syntax", "evaluated"] if given.evaluate else ["syntax"]
    score = measure(files_in(given.paths), given.faults, stages)
    if given.missed:
        print("\n".join(score.missed))
    print(score.table(stages))
    for item in score.errors:
        print(f"error on an unchanged file: {item.file}:{item.line}: {item.code} {item.message}")
    print(score.coverage())
    if score.slowness:
        print(
            f"syntax stage in times of ast.parse: median {median(score.slowness):.2f}, most {max(score.slowness):.2f}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
