"""Draws kernels and holds what the checker says of each against what running it says.

    python tests/fuzz/agreement.py --kernels 5000

A third are legal calls of instructions, a third calls with one thing wrong, a third kernels of the corpus with a fault
put in. The first fault must be the same, at the same place; without a fault the programs must be the same (so every
shape is), and so must the errors that `strict` refuses. Also counts the operations that the checker left unknown.
Exit status 1 where they differ.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import nki_lab
from nki_lab import session, spec
from nki_lab.diagnostic import Diagnostic, NkiError
from tests import calls
from tests.draws import Seeded
from tests.recall.run import Subject, subjects_of
from tests.recall.subjects import files
from tests.strategies import arches, draw_illegal, draw_legal, instructions_of
from tests.verdicts import evaluated, loaded

IMPORTS = "import nki.isa as nisa\nimport nki.language as nl\n"
UNKNOWN = ("NKI120", "NKI121", "NKI122")
RAISED = ("NKI007", "NKI106")
OUTSIDE = ("NKI106", "NKI113")
_Place = tuple[str, int, int]


@dataclass(frozen=True)
class Drawn:
    """A kernel: its text, and what it is called with."""

    kind: str
    text: str
    name: str
    arguments: tuple[Any, ...]
    target: str
    grid: tuple[int, ...] = ()


def draw(number: int, corpus: Sequence[Subject]) -> Drawn:
    """Kernel number `number`."""
    choice = Seeded(number)
    kind = ("legal", "illegal", "seeded")[number % 3]
    if kind == "seeded":
        subject = choice.pick(corpus)
        fault = subject.draw(number)
        return Drawn(f"seeded: {fault.kind}", fault.text, subject.name, subject.arguments, subject.target,
                     subject.grid)  # fmt: skip
    arch = choice.pick(arches())
    instruction = choice.pick(instructions_of(arch))
    illegal = kind == "illegal"
    case = draw_illegal(choice, instruction, arch).case if illegal else draw_legal(choice, instruction, arch)
    arguments = tuple(spec(memory.shape, memory.dtype) for memory in case.memories)
    return Drawn(kind, IMPORTS + calls.source(case), "kernel", arguments, arch.target)


def difference(kernel: Drawn, file: Path) -> tuple[str, bool]:
    """What the checker says otherwise than the run, empty where nothing; and whether it left something unknown."""
    seen, made = evaluated(kernel.text, file, kernel.arguments, kernel.target, name=kernel.name,
                           grid=kernel.grid)  # fmt: skip
    unknown = any(item.code in UNKNOWN for item in made.diagnostics)
    found = nki_lab.check(
        file, source=kernel.text, function=kernel.name, args=kernel.arguments, grid=kernel.grid,
        target=kernel.target,
    )  # fmt: skip
    checked = {_place(item) for item in found if item.severity == "error"}
    try:
        module = loaded(file, kernel.text)
    except SyntaxError:
        return ("" if checked else "it is no Python, and the checker says nothing"), unknown
    function = getattr(module, kernel.name)
    plain = getattr(function, "function", function)
    try:
        program, notes = session.specialise(session.Launch(plain, kernel.target, grid=kernel.grid), kernel.arguments)
    except NkiError as error:
        first = error.diagnostics[0]
        if first.code in RAISED and any(item.code in OUTSIDE for item in found):
            return "", unknown  # Python outside the language: the checker says so, and does not run it
        if (seen.code, seen.span) != (first.code, first.span):
            return f"run: {first.code} at {first.span}; checker: {seen.code} at {seen.span}", unknown
        missing = {_place(item) for item in error.diagnostics} - checked
        return (f"run refuses {missing}, check does not" if missing else ""), unknown
    if seen.code:
        return f"run accepts, checker: {seen.code} at {seen.span}", unknown
    if seen.program != program.text():
        return "the programs differ", unknown
    rejected = {_place(item) for item in notes if item.severity == "error"}
    return (f"errors: run {rejected - checked}, check {checked - rejected}" if rejected != checked else ""), unknown


def _place(item: Diagnostic) -> _Place:
    return item.code, item.line, item.column


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--kernels", type=int, default=5000, help="kernels to draw")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--failures", type=int, default=10, help="stop after so many")
    given = parser.parse_args(arguments)
    nki_lab.activate()
    corpus = [subject for file in files() for subject in subjects_of(file)]
    kinds: Counter[str] = Counter()
    unknown = failures = 0
    start = time.perf_counter()
    for number in range(given.seed, given.seed + given.kernels):
        kernel = draw(number, corpus)
        kinds[kernel.kind] += 1
        said, missed = difference(kernel, Path(f"drawn_{number}.py"))
        unknown += missed
        if said:
            failures += 1
            print(f"kernel {number} ({kernel.kind}): {said}\n{kernel.text}")
            if failures >= given.failures:
                break
    total = sum(kinds.values())
    print("\n".join(f"{kind:30} {count:6}" for kind, count in sorted(kinds.items())))
    print(f"{total} kernels, {failures} differ, something unknown in {unknown} ({unknown / total:.2%}); "
          f"{time.perf_counter() - start:.1f} s")  # fmt: skip
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
