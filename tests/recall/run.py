"""Puts single faults into kernels and counts which the checker finds, with the right code at the right line.

    python tests/recall/run.py --faults 50
    python tests/recall/run.py --faults 50 my_kernel.py ...

Each file defines `kernel` and its `ARGUMENTS` (specs), or `KERNELS` and `inputs()` (arrays); and where it needs them
`GRID` and `TARGETS`. Prints the faults
that were missed and a table of the kinds. Exit status 1 where fewer than 95 % are found, or where a kernel without a
fault has an error.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import nki_lab
from nki_lab import check, spec
from nki_lab.diagnostic import Diagnostic
from tests.draws import Seeded as Draws
from tests.recall.seeding import Kernel, Seeded, seed
from tests.verdicts import loaded

WANTED = 0.95


@dataclass(frozen=True)
class Subject:
    """A kernel that faults are put into."""

    file: Path
    text: str
    name: str
    arguments: tuple[Any, ...]
    target: str
    grid: tuple[int, ...] = ()

    def findings(self, text: str) -> list[Diagnostic]:
        """What the checker says of the kernel with this text."""
        return check(self.file, source=text, function=self.name, args=self.arguments, grid=self.grid,
                     target=self.target)  # fmt: skip

    def errors(self) -> list[Diagnostic]:
        """The errors that the checker finds in the kernel as it is; none of them is true."""
        return [item for item in self.findings(self.text) if item.severity == "error"]

    def draw(self, number: int) -> Seeded:
        return seed(Kernel(self.text, self.name, self.target), Draws(number))


def subjects_of(file: Path) -> list[Subject]:
    """The kernels of a file, with arguments without values."""
    module = loaded(file)
    kernels = getattr(module, "KERNELS", None) or (module.kernel,)
    given = module.ARGUMENTS if hasattr(module, "ARGUMENTS") else [spec_of(item) for item in module.inputs()]
    targets = getattr(module, "TARGETS", ("trn2",))
    return [
        Subject(
            file=file,
            text=file.read_text(encoding="utf-8"),
            name=getattr(kernel, "__name__", "kernel"),
            arguments=tuple(given),
            target="trn2" if "trn2" in targets else targets[0],
            grid=tuple(getattr(kernel, "grid", ()) or getattr(module, "GRID", ())),
        )
        for kernel in kernels
    ]


def spec_of(value: Any) -> Any:
    """An array as its shape and dtype; anything else as it is."""
    return spec(value.shape, str(value.dtype)) if isinstance(value, np.ndarray) else value


def is_found(fault: Seeded, findings: Sequence[Diagnostic]) -> bool:
    """Whether one of the codes is reported at the fault."""
    return any(item.code in fault.codes and fault.first <= item.line <= fault.last for item in findings)


@dataclass
class Score:
    """Faults found and put in, by kind."""

    found: Counter[str] = field(default_factory=Counter)
    seeded: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)

    def add(self, subject: Subject, fault: Seeded, findings: Sequence[Diagnostic]) -> None:
        self.seeded[fault.kind] += 1
        if is_found(fault, findings):
            self.found[fault.kind] += 1
            return
        said = ", ".join(f"{item.code} line {item.line}" for item in findings[:6]) or "nothing"
        self.missed.append(
            f"{subject.file.name}: {fault.kind}, {fault.what}: wanted {'/'.join(fault.codes)} in lines {fault.first} "
            f"to {fault.last}, got {said}"
        )

    @property
    def share(self) -> float:
        return sum(self.found.values()) / max(1, sum(self.seeded.values()))

    def table(self) -> str:
        rows = [f"{kind:20} {self.found[kind]:6} of {count:6}" for kind, count in sorted(self.seeded.items())]
        total = f"{'all':20} {sum(self.found.values()):6} of {sum(self.seeded.values()):6}  {self.share:.2%}"
        return "\n".join([*rows, total])


def main(arguments: Sequence[str] | None = None) -> int:
    from tests.recall.subjects import files

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("files", nargs="*", type=Path, help="kernels; without them, the project's own")
    parser.add_argument("--faults", type=int, default=50, help="faults for each kernel")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    given = parser.parse_args(arguments)
    nki_lab.activate()
    score, false = Score(), 0
    start = time.perf_counter()
    for place, subject in enumerate(item for file in given.files or files() for item in subjects_of(file)):
        wrong = subject.errors()
        false += len(wrong)
        for item in wrong:
            print(f"false: {item.file}:{item.line}: {item.code} {item.message}")
        for number in range(given.seed, given.seed + given.faults):
            fault = subject.draw(1000 * number + place)
            score.add(subject, fault, subject.findings(fault.text))
    print("\n".join(score.missed))
    print(score.table())
    print(f"{false} errors on kernels without a fault; {time.perf_counter() - start:.1f} s")
    return 0 if score.share >= WANTED and not false else 1


if __name__ == "__main__":
    raise SystemExit(main())
