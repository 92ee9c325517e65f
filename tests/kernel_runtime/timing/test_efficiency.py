"""The curve of DMA efficiency that views draw is what the walk does."""

from __future__ import annotations

import pytest

from nki_lab.isa.arch import TARGETS
from nki_lab.kernel_runtime.timing import cadence, costs_of, curve
from nki_lab.kernel_runtime.timing.efficiency import SIZES
from tests.kernel_runtime.timing.test_micro_facts import efficiency
from tests.kernel_runtime.timing.timed import nisa, nl, timed


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_the_curve_is_the_rate_of_copies_in_the_walk(target: str) -> None:
    points = dict(curve(TARGETS[target]))
    assert tuple(points) == SIZES == (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
    for size in (32, 64, 512, 2048, 8192):
        assert efficiency(size, target) == pytest.approx(points[size], rel=0.005)


@pytest.mark.parametrize(("partitions", "columns"), [(128, 16), (64, 512), (4, 4096), (128, 4096), (1, 1)])
def test_transfers_of_one_tensor_follow_each_other_at_their_cadence(partitions: int, columns: int) -> None:
    def kernel(x: object) -> None:
        tiles = [nl.ndarray((partitions, columns), nl.bfloat16, buffer=nl.sbuf) for _ in range(12)]
        for tile in tiles:
            nisa.dma_copy(tile, x)

    found = timed(kernel, (partitions, columns), dtype=nl.bfloat16)
    ends = sorted((found.timing.start + found.timing.duration).tolist())
    (cost,) = costs_of(found.program)
    assert ends[-1] - ends[-2] == cadence(found.program.arch, cost)
    assert cost.descriptors == partitions
    assert cost.descriptor_bytes == 2 * columns


def test_instructions_of_engines_have_no_cadence() -> None:
    def kernel(x: object) -> None:
        tile = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
        nisa.memset(tile, 0.0)

    found = timed(kernel, (128, 64))
    assert [cadence(found.program.arch, cost) for cost in costs_of(found.program)] == [0]
