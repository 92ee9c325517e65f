"""Draws legal and barely illegal calls of every declared instruction and holds them against the references.

    make fuzz N=100000
    python tests/fuzz/run.py --calls 10000 --seed 7 --instruction nc_matmul

A legal call must be accepted and give what the float64 reference gives; a call with one thing wrong must be refused
with a code, at the argument that is wrong. Each failure is printed as the smallest kernel that still fails.
Exit status 1 on failures.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nki_lab.diagnostic import NkiError
from nki_lab.isa.spec import TABLE
from tests.calls import Case, execute, source
from tests.draws import Choice, Replayed, Seeded
from tests.expected import differences, objections
from tests.strategies import arches, draw_illegal, draw_legal, instructions_of

SEEDS = Path(__file__).with_name("seeds.txt")


@dataclass(frozen=True)
class Attempt:
    """One drawn call: what it was, what is wrong with how nki_lab took it, and the draws that made it."""

    kind: str
    instruction: str
    case: Case
    problem: str
    tape: tuple[int, ...]

    @property
    def sort(self) -> str:
        """The problem without the numbers in it: a smaller kernel must have a problem of the same sort."""
        return self.kind + re.sub(r"[^a-zA-Z]+", " ", self.problem)[:24]


def attempt(choice: Choice, only: str = "") -> Attempt:
    """Draw one call, run it, and judge the outcome."""
    able = {arch: [item for item in instructions_of(arch) if only in ("", item.name)] for arch in arches()}
    arch = choice.pick([arch for arch, some in able.items() if some])
    instruction = choice.pick(able[arch])
    if choice.chance(40):
        illegal = draw_illegal(choice, instruction, arch)
        return Attempt("illegal", instruction.name, illegal.case, objections(illegal), tuple(choice.tape))
    final = not choice.chance(50)
    case = draw_legal(choice, instruction, arch)
    tape = tuple(choice.tape)
    return Attempt("legal", instruction.name, case, _problem(case, final), tape)


def _problem(case: Case, final: bool) -> str:
    try:
        return differences(case, execute(case, final=final))
    except NkiError as error:
        first = error.diagnostics[0]
        return f"{first.code} {first.message}"
    except Exception as error:  # noqa: BLE001 - whatever goes wrong is reported with its call
        return f"a bare {type(error).__name__}: {error}"


def smaller(tape: Sequence[int]) -> Iterator[list[int]]:
    """Tapes to try in place of one: stretches cut out or set to the simplest, single draws made smaller."""
    size = len(tape)
    width = size
    while width:
        for start in range(0, size, width):
            yield [*tape[:start], *tape[start + width :]]
            if any(tape[start : start + width]):
                yield [*tape[:start], *[0] * len(tape[start : start + width]), *tape[start + width :]]
        width //= 2
    for place, value in enumerate(tape):
        for less in sorted({value // 2, value - 1} - {value}):
            if 0 <= less < value:
                yield [*tape[:place], less, *tape[place + 1 :]]


def minimal(failed: Attempt, only: str, seconds: float) -> Attempt:
    """The attempt with the smallest tape found in that time whose problem is of the same sort."""
    end = time.perf_counter() + seconds
    best = failed
    improved = True
    while improved and time.perf_counter() < end:
        improved = False
        for tape in smaller(best.tape):
            if time.perf_counter() > end:
                break
            try:
                found = attempt(Replayed(tape), only)
            except Exception:  # noqa: BLE001 - a tape that no call can be drawn from
                continue
            if found.problem and found.sort == failed.sort and _weight(found.tape) < _weight(best.tape):
                best, improved = found, True
                break
    return best


def _weight(tape: Sequence[int]) -> tuple[int, int]:
    return len(tape), sum(tape)


def regressions() -> list[tuple[int, str, str]]:
    """The seeds of seeds.txt, each with the instruction and the name of the fault that it noticed."""
    lines = [line.partition("#")[0].split() for line in SEEDS.read_text(encoding="utf-8").splitlines()]
    return [(int(seed), instruction, fault) for seed, instruction, fault in filter(None, lines)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--calls", type=int, default=10_000, help="calls to draw")
    parser.add_argument("--seed", type=int, default=0, help="the first seed; call i has seed + i")
    parser.add_argument("--instruction", default="", choices=["", *TABLE], help="draw calls of this one only")
    parser.add_argument("--failures", type=int, default=10, help="stop after so many")
    given = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    failures = 0
    start = time.perf_counter()
    for seed in range(given.seed, given.seed + given.calls):
        before = time.perf_counter()
        found = attempt(Seeded(seed), given.instruction)
        counts[found.kind] += 1
        seconds[f"{found.instruction} {found.kind}"] += time.perf_counter() - before
        if found.problem:
            failures += 1
            small = minimal(found, given.instruction, seconds=20)
            print(f"seed {seed}, {small.kind} call on {small.case.target}: {small.problem}\n{source(small.case)}")
            if failures >= given.failures:
                break
    took = time.perf_counter() - start
    total = sum(counts.values())
    print(f"{total} calls in {took:.1f} s, {total / took:.0f} calls/s: {counts['legal']} legal, "
          f"{counts['illegal']} illegal, {failures} failed")  # fmt: skip
    for name, spent in seconds.most_common(6):
        print(f"  {spent:6.1f} s  {name}")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
