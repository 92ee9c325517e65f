"""Measures which faults in memories, dtypes and sizes are found in kernels without their shapes.

    python tests/recall/without_shapes.py [FILE...] [--faults 4] [--missed]

Changes the memory, the dtype or the shape of a new tensor, or the end of a slice, in files that define a kernel and its
arguments (`tests/recall/run.py`); without files in the project's own. A change is a fault where the check with the
arguments finds an error that the unchanged kernel does not have. Then the file is checked without any call or
annotation. Findings on unchanged files are listed: none of them is true. Some of these faults are none for other
shapes, so that no checker finds all of them.
"""

from __future__ import annotations

import argparse
import ast
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import nki_lab
from nki_lab.diagnostic import Diagnostic, NkiError
from nki_lab.isa.arch import arch_of
from nki_lab.kernel_runtime.interpreter import Launches
from nki_lab.query import kernels as query_kernels
from nki_lab.query.evaluation_cache import EvaluationCache
from nki_lab.query.kernels import evaluated
from nki_lab.query.one_kernel import EvaluationRequest
from nki_lab.rules import check_syntax
from nki_lab.source import syntax_facts
from tests.recall.measure import errors_of
from tests.recall.mutations import MAKERS, Source
from tests.recall.run import Subject, subjects_of

WANTED = {"buffer": 0.6, "dtype": 0.6, "size": 0.4, "slice": 0.4}
"""The share of the faults of each kind that has to be found."""
_TRIES = 6


class Change(NamedTuple):
    """A part of the text, and what takes its place."""

    kind: str
    node: ast.expr
    text: str


@dataclass
class Score:
    """Faults by kind, those found, and findings on unchanged files."""

    faults: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    false: list[Diagnostic] = field(default_factory=list)

    def share(self, kind: str) -> float:
        return self.found[kind] / self.faults[kind] if self.faults[kind] else 1.0


def changes(source: Source) -> Iterator[Change]:
    """Yield changes of memories, dtypes, shapes and slices."""
    nl = next((name for name, module in source.names.items() if module.endswith("nki.language")), "nl")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Slice) and node.upper is not None:
            text = ast.unparse(node.upper)
            yield from (Change("slice", node.upper, item) for item in (f"({text}) + 1", f"({text}) * 2"))
        if not isinstance(node, ast.Call) or source.dotted(node.func).rpartition(".")[2] not in MAKERS:
            continue
        given = dict(zip(("shape", "dtype", "buffer"), node.args, strict=False))
        given |= {item.arg: item.value for item in node.keywords if item.arg}
        if isinstance(buffer := given.get("buffer"), ast.Attribute):
            yield from (Change("buffer", buffer, f"{nl}.{item}") for item in ("sbuf", "psum", "hbm"))
        if (dtype := given.get("dtype")) is not None:
            yield from (Change("dtype", dtype, f"{nl}.{item}") for item in ("int32", "uint8", "float32", "bfloat16"))
        if isinstance(shape := given.get("shape"), ast.Tuple):
            for size in shape.elts:
                text = ast.unparse(size)
                yield from (Change("size", size, item) for item in (f"({text}) * 2", f"({text}) + 1", f"({text}) // 2"))


def with_shapes(subjects: Sequence[Subject], text: str) -> Counter[str]:
    """The errors of a text with the arguments of its kernels, by code."""
    return Counter(item.code for subject in subjects for item in errors_of(subject.findings(text)))


def without_shapes(file: Path, text: str) -> list[Diagnostic]:
    """The errors of a text as if nothing called its kernels."""

    def nothing(*_args: object, **_named: object) -> Launches:
        return Launches(own={}, other={}, called=frozenset(), reads={})

    kept = query_kernels.launches
    query_kernels.launches = nothing  # type: ignore[assignment]
    try:
        facts = syntax_facts(text, str(file.with_name(f"{file.stem}_alone.py")))
        found = evaluated(facts, EvaluationRequest(arch=arch_of("trn2")), EvaluationCache()).findings
        return errors_of([*check_syntax(facts), *found])
    except NkiError as error:
        return errors_of(error.diagnostics)
    finally:
        query_kernels.launches = kept


def measure(files: Sequence[Path], most: int) -> Score:
    """Put faults into files, at most so many of a kind, and count."""
    score, choice = Score(), random.Random(0)
    for file in files:
        text, subjects = file.read_text(encoding="utf-8"), subjects_of(file)
        source = Source(text)
        right, alone = with_shapes(subjects, text), without_shapes(file, text)
        score.false += alone
        known = Counter((item.code, item.line) for item in alone)
        by_kind: dict[str, list[Change]] = {}
        for change in changes(source):
            by_kind.setdefault(change.kind, []).append(change)
        for kind, possible in by_kind.items():
            before = score.faults[kind]
            for change in choice.sample(possible, min(len(possible), most * _TRIES)):
                if score.faults[kind] == before + most:
                    break
                changed = source.edited((*source.extent(change.node), change.text))
                if not with_shapes(subjects, changed) - right:
                    continue
                score.faults[kind] += 1
                if Counter((item.code, item.line) for item in without_shapes(file, changed)) - known:
                    score.found[kind] += 1
                else:
                    old = ast.unparse(change.node)
                    score.missed.append(f"{file}:{change.node.lineno}: {kind}, {old} as {change.text}")
    return score


def main(arguments: Sequence[str] | None = None) -> int:
    from tests.recall.subjects import files

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("files", nargs="*", type=Path, help="kernels; without them, the project's own")
    parser.add_argument("--faults", type=int, default=4, help="faults of each kind in a file")
    parser.add_argument("--missed", action="store_true", help="list the faults that were not found")
    given = parser.parse_args(arguments)
    nki_lab.activate()
    score = measure(given.files or files(), given.faults)
    if given.missed:
        print("\n".join(score.missed))
    for kind in sorted(score.faults):
        print(f"{kind:8} {score.found[kind]:5} of {score.faults[kind]:5}  {score.share(kind):.1%}")
    for item in score.false:
        print(f"error on an unchanged file: {item.file}:{item.line}: {item.code} {item.message}")
    return 0 if not score.false and all(score.share(kind) >= WANTED[kind] for kind in score.faults) else 1


if __name__ == "__main__":
    raise SystemExit(main())
