"""Draws kernels with unknown shapes, and holds what is certain of them against runs with shapes drawn from contracts.

    python tests/recall/unknown_shapes.py --kernels 1000 [--seed 0] [--draws 4] [--search 60]

Each kernel is checked without a call and then run, with arguments of its contract, which its asserts state or not. Of a
kernel with a certain finding `--search` more calls are tried, whose sizes stand in other relations. Exit status 1 where
a call ends well although it executes the line of a certain finding, or where no call confirms one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

import nki_lab
from nki_lab import check, spec
from nki_lab.diagnostic import Diagnostic, NkiError
from tests.draws import Seeded
from tests.recall.unknown_kernels import Unknown, arguments, draw
from tests.verdicts import loaded

TARGET = "trn2"


@dataclass
class Outcome:
    """What a call came to: `ended` well, or the `errors` of it, or neither where it refuses its arguments."""

    ended: bool
    errors: list[Diagnostic] = field(default_factory=list)
    lines: set[int] = field(default_factory=set)

    def confirms(self, finding: Diagnostic) -> bool:
        """Whether the call is refused at the line of a finding; a run tells the first fault there only."""
        return any(item.line == finding.line for item in self.errors)


@dataclass
class Judged:
    """A kernel, its certain findings, and of these the false ones, those not confirmed and those behind others.

    Of the last ones the check with shapes has the same, which goes on after a fault.
    """

    kernel: Unknown
    certain: list[Diagnostic]
    ended: int = 0
    false: list[str] = field(default_factory=list)
    unconfirmed: list[str] = field(default_factory=list)
    behind: int = 0
    unexecuted: int = 0


def called(module: Any, file: Path, values: Sequence[Any]) -> Outcome:
    """Run the kernel with arrays, or, with specifications of arrays, make its program only."""
    outcome = Outcome(ended=False)

    def line(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != str(file):
            return None
        if event == "line":
            outcome.lines.add(frame.f_lineno)
        return line

    plain = all(not hasattr(value, "dtype") or hasattr(value, "__array__") for value in values)
    before = sys.gettrace()
    sys.settrace(line)
    try:
        if plain:
            found = list(nki_lab.run(module.kernel, *values, target=TARGET).diagnostics)
        else:
            found = list(nki_lab.compile(module.kernel, *values, target=TARGET).diagnostics)
        outcome.errors = [item for item in found if item.severity == "error"]
        outcome.ended = not outcome.errors
    except NkiError as error:
        outcome.errors = list(error.diagnostics)
    except (AssertionError, ValueError, ZeroDivisionError, IndexError, TypeError):
        pass  # the kernel's own
    finally:
        sys.settrace(before)
    return outcome


def judge(number: int, draws: int, search: int) -> Judged:
    """Check kernel `number`, and run it."""
    kernel = draw(Seeded(number))
    file = Path(f"unknown_{number}.py")
    judged = Judged(kernel, [item for item in check(file, source=kernel.text) if item.severity == "error"])
    module = loaded(file, kernel.text)
    outcomes: list[Outcome] = []
    calls: list[list[Any]] = []
    for attempt in range(draws + (search if judged.certain else 0)):
        shapes = kernel.shapes(Seeded(1000 * number + attempt), loose=attempt >= draws)
        values = arguments(module, shapes, spec if attempt else np.ones)
        outcome = called(module, file, values)
        outcomes.append(outcome)
        if attempt < draws:
            calls.append(values)
        judged.ended += outcome.ended
        for item in judged.certain:
            if outcome.ended and item.line in outcome.lines:
                judged.false.append(f"{item.code} {item.line}: {item.message}; ends well with {shapes}")
    for item in judged.certain:
        if any(outcome.confirms(item) for outcome in outcomes):
            continue
        if any(_same(item, found) for values in calls for found in _checked(file, kernel, values)):
            judged.behind += 1  # a run ends at one fault, which may come later than the allocation of a tensor
        elif any(item.line in outcome.lines for outcome in outcomes):
            judged.unconfirmed.append(f"{item.code} {item.line}: {item.message}")
        else:
            judged.unexecuted += 1
    return judged


def _same(finding: Diagnostic, other: Diagnostic) -> bool:
    return (finding.code, finding.line) == (other.code, other.line)


def _checked(file: Path, kernel: Unknown, values: Sequence[Any]) -> list[Diagnostic]:
    """Check the kernel with the arguments of a call."""
    return check(file, source=kernel.text, function="kernel", args=values, target=TARGET)


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--kernels", type=int, default=1000, help="kernels to draw")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--draws", type=int, default=4, help="calls of each kernel by its contract")
    parser.add_argument("--search", type=int, default=60, help="more calls where something is certain")
    options = parser.parse_args(given)
    nki_lab.activate()
    counts: Counter[str] = Counter()
    start = time.perf_counter()
    for number in range(options.seed, options.seed + options.kernels):
        judged = judge(number, options.draws, options.search)
        if number % 100 == 99:
            print(f"{number + 1} kernels, {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
        seeded = "with a fault" if judged.kernel.fault else "without a fault"
        counts[f"kernels {seeded}"] += 1
        counts[f"kernels {seeded} that ended well at least once"] += judged.ended > 0
        counts[f"kernels {seeded} with something certain"] += bool(judged.certain)
        counts["certain findings"] += len(judged.certain)
        counts["certain findings behind another fault, confirmed by the check with shapes"] += judged.behind
        counts["certain findings at lines that no call executed"] += judged.unexecuted
        counts["false certain findings"] += bool(judged.false)
        counts["unconfirmed certain findings"] += bool(judged.unconfirmed)
        for problem in judged.false[:1] + judged.unconfirmed[:1]:
            body = judged.kernel.text.partition("@nki.jit")[2]
            print(f"kernel {number} ({judged.kernel.fault}): {problem}{body}", flush=True)
    print("\n".join(f"{name:80} {count:6}" for name, count in sorted(counts.items())))
    print(f"{time.perf_counter() - start:.1f} s")
    return int(counts["false certain findings"] + counts["unconfirmed certain findings"] > 0)


if __name__ == "__main__":
    raise SystemExit(main())
