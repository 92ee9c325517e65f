"""What is certain of kernels with unknown shapes is confirmed by runs; `unknown_shapes.py` is the same over many more."""

from __future__ import annotations

import pytest

from tests.draws import Seeded
from tests.recall.unknown_kernels import BLOCKS, draw
from tests.recall.unknown_shapes import judge

pytestmark = pytest.mark.extended

NUMBERS = [*range(8), *range(9, 16), *range(18, 30)]  # the others have faults in long loops, which take seconds


def test_certain_findings_are_confirmed_and_kernels_without_a_fault_run() -> None:
    for number in NUMBERS:
        judged = judge(number, draws=2, search=5)
        assert judged.false == [], judged.kernel.text
        assert judged.unconfirmed == [], judged.kernel.text
        assert judged.ended or judged.kernel.fault, judged.kernel.text


def test_kernels_of_all_blocks_are_drawn_about_half_of_them_with_a_fault() -> None:
    kernels = [draw(Seeded(number)) for number in range(300)]
    assert {block for kernel in kernels for block in kernel.blocks} == set(BLOCKS)
    assert 100 < sum(bool(kernel.fault) for kernel in kernels) < 200
