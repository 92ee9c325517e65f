"""Runs every fuzzer of this folder for a number of draws, on all processors.

    make fuzz N=100000
    python tests/fuzz/every.py 100000 --seed 7000000 --parts 400

The draws are split into parts with seeds of their own, which processes take one after the other; each ends with a line
of its own. What failed is printed in full, with the seed that draws it again. Exit status 1 on failures.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nki_lab.processors import processor_count

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]


@dataclass(frozen=True, slots=True)
class Fuzzer:
    """A script of this folder: `option` says how many draws it makes, one for `share` of those asked for."""

    script: str
    option: str
    share: int = 1
    others: tuple[str, ...] = ()


FUZZERS: Final = (
    Fuzzer("run.py", "--calls"),
    Fuzzer("typing_again.py", "--texts"),
    Fuzzer("hostile_calls.py", "--kernels", 10),
    Fuzzer("recordings.py", "--mutations", 2),
    Fuzzer("repeated.py", "--kernels", 2, ("--processes",)),
)
"""Calls, legal and barely illegal ones; texts that are typed; hostile calls; forged recordings; repeated kernels."""


@dataclass(frozen=True, slots=True)
class Part:
    """Draws of one fuzzer: so many, from a seed on."""

    fuzzer: Fuzzer
    count: int
    seed: int

    def __str__(self) -> str:
        return f"{self.fuzzer.script} {self.fuzzer.option} {self.count} --seed {self.seed}"

    def run(self) -> tuple[int, str]:
        """Return the exit status and what was printed."""
        command = [sys.executable, str(HERE / self.fuzzer.script), self.fuzzer.option, str(self.count)]
        command += ["--seed", str(self.seed), *self.fuzzer.others]
        done = subprocess.run(
            command,
            cwd=ROOT,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        return done.returncode, done.stdout


def split(number: int, seed: int, parts: int) -> Iterator[Part]:
    """Yield the parts of `number` draws, those of the fuzzers in turn: what ends early has seen something of each."""
    for index in range(parts):
        for fuzzer in FUZZERS:
            draws = max(1, number // fuzzer.share)
            first, last = draws * index // parts, draws * (index + 1) // parts
            if last > first:
                yield Part(fuzzer, last - first, seed + first)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "number",
        type=int,
        help="calls and typed texts; half as many recordings and kernels, a tenth as many hostile calls",
    )
    parser.add_argument("--seed", type=int, default=0, help="the first seed of each fuzzer")
    parser.add_argument("--parts", type=int, default=0, help="parts of each fuzzer's draws (default: one for 1000)")
    given = parser.parse_args(arguments)
    parts = list(split(given.number, given.seed, given.parts or max(1, given.number // 1000)))
    failed, start = 0, time.perf_counter()
    with ThreadPoolExecutor(processor_count()) as pool:
        for number, (part, (status, told)) in enumerate(zip(parts, pool.map(Part.run, parts), strict=True), 1):
            failed += status != 0
            lines = told.splitlines()
            last = next((line for line in reversed(lines) if not line.startswith(" ")), "")
            shown = told.rstrip() if status else last
            print(f"{number}/{len(parts)} {part}: {shown}", flush=True)
    print(f"{len(parts)} parts, {failed} with failures; {time.perf_counter() - start:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
