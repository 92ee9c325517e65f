"""Seeds that failed once, a few hundred new draws, and the fuzzer's own parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nki_lab.isa.spec import TABLE
from tests.draws import Replayed, Seeded
from tests.expected import Expected
from tests.fuzz import every, run
from tests.fuzz.faults import FAULTS
from tests.reference.activation import ERROR

pytestmark = pytest.mark.extended


@pytest.mark.parametrize(("seed", "instruction", "fault"), run.regressions())
def test_a_seed_that_failed_once_passes_and_would_fail_again(
    seed: int, instruction: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not run.attempt(Seeded(seed), instruction).problem
    FAULTS[fault](monkeypatch)
    assert run.attempt(Seeded(seed), instruction).problem


def test_what_a_call_computed_spreads_in_the_next_as_its_function_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """exp(z) of a z that may be off by d may be off by the factor exp(d): one unit in the last place of 34 is 4e-6."""
    found = run.attempt(Seeded(3043590))
    assert not found.problem
    first, both = (Expected(replace(found.case, calls=calls)) for calls in (found.case.calls[:1], found.case.calls))
    inner = found.case.call.arguments["scale"] * np.maximum(1, first.arrays[0].astype(float))
    spread = (both.high[0].astype(float) - both.low[0]) / np.maximum(1, both.arrays[0])
    inner += np.abs(first.arrays[1].astype(float))  # the bias: sums are rounded as well
    assert np.all(spread <= (2 * ERROR + 2.0**-22) * (1 + inner))  # to both sides; each number is stored as float32
    monkeypatch.setattr(Expected, "_reads_intervals", lambda *_: False)
    assert "elements are wrong" in run.attempt(Seeded(3043590)).problem


def test_a_few_hundred_calls_pass() -> None:
    assert run.main(["--calls", "300", "--seed", "20000"]) == 0


def test_a_tape_gives_the_same_call_again() -> None:
    for seed in range(40):
        first = run.attempt(Seeded(seed))
        again = run.attempt(Replayed(first.tape))
        assert (again.kind, repr(again.case)) == (first.kind, repr(first.case))  # NaN is not equal to itself


def test_a_fault_in_an_instruction_is_found_and_made_small(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    honest: Any = TABLE["reciprocal"].numerics

    def numerics(out: Any, ins: Any, use: Any, state: Any) -> None:
        honest(out, ins, use, state)
        if out.dst.size > 7:
            out.dst.flat[7] = 12.5

    monkeypatch.setitem(TABLE, "reciprocal", replace(TABLE["reciprocal"], numerics=numerics))
    assert run.main(["--calls", "60", "--instruction", "reciprocal", "--failures", "1"]) == 1
    told = capsys.readouterr().out
    kernel = told[told.index("def kernel") : told.index("    return")]
    assert len(kernel.splitlines()) <= 6
    assert "nisa.reciprocal(dst=t1, data=t0)" in kernel
    assert "1 failed" in told


def test_an_instruction_that_accepts_too_much_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nki_lab.kernel_runtime.issue.legality.partition_problems", lambda *_: ())
    problems = {run.attempt(Seeded(seed), "memset").problem for seed in range(300)}
    assert any("beyond 128 partitions: accepted" in problem for problem in problems)


@pytest.mark.parametrize(("number", "parts"), [(1, 1), (7, 3), (100, 3), (1000, 7)])
def test_parts_have_each_draw_once(number: int, parts: int) -> None:
    split = list(every.split(number, 50, parts))
    for fuzzer in every.FUZZERS:
        seeds = [seed for part in split if part.fuzzer is fuzzer for seed in range(part.seed, part.seed + part.count)]
        assert sorted(seeds) == list(range(50, 50 + max(1, number // fuzzer.share)))


def test_every_fuzzer_runs_and_a_failure_is_told(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert every.main(["4", "--seed", "30"]) == 0
    assert capfd.readouterr().out.count(" 0 ") >= len(every.FUZZERS)
    (tmp_path / "broken.py").write_text("import sys\nprint('what failed')\nprint('the end')\nsys.exit(1)\n")
    monkeypatch.setattr(every, "HERE", tmp_path)
    monkeypatch.setattr(every, "FUZZERS", (every.Fuzzer("broken.py", "--draws"),))
    assert every.main(["1"]) == 1
    assert "what failed\nthe end" in capfd.readouterr().out
