"""Calls of drawn kernels that are made again, elsewhere, and with other threads."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

from nki_lab.kernel_runtime.numerics import repeating
from tests.draws import Seeded
from tests.fuzz import repeated

pytestmark = pytest.mark.extended


@pytest.mark.parametrize("seed", [8, 16, 33])
def test_a_product_that_failed_once_repeats(seed: int) -> None:
    assert not repeated.problem(repeated.product(Seeded(seed)))


def test_some_hundred_kernels_repeat(capsys: pytest.CaptureFixture[str]) -> None:
    assert repeated.main(["--kernels", "200", "--seed", "50000"]) == 0
    told = re.fullmatch(r"200 kernels, (\d+) calls by plans, (\d+) in full, 0 failed, \d+ s\n", capsys.readouterr().out)
    assert told is not None and int(told[1]) > int(told[2])


def test_some_kernels_give_the_same_bits_in_other_processes_and_with_other_threads() -> None:
    one, two = (repeated.elsewhere(60_000, 40, threads) for threads in (1, 2))
    assert one == two == [repeated.digest(number) for number in range(60_000, 60_040)]


def test_a_plan_that_keeps_an_argument_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: Any = repeating.RepeatableExecutor.again

    def again(self: Any, arrays: Any) -> None:
        kept(self, {number: np.zeros_like(array) for number, array in arrays.items()})

    monkeypatch.setattr(repeating.RepeatableExecutor, "again", again)
    counts: Counter[str] = Counter()
    problems = [repeated.problem(repeated.draw(number), counts) for number in range(16)]
    assert sum("by its plan" in item for item in problems) > 4
