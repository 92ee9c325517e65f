"""Transfers: who triggers them, how they follow each other, and how they share the engines."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.kernel_runtime.timing import STALL_REASONS
from nki_lab.kernel_runtime.timing.dma import NEVER
from tests.kernel_runtime.timing.engines import DmaEngines
from tests.kernel_runtime.timing.timed import Timed, nisa, nl, timed

TRANSFERS = st.lists(
    st.tuples(st.integers(0, 50_000), st.integers(1, 0xFFFF), st.integers(1, 90_000)), min_size=1, max_size=10
)
"""(start, engines, work)."""


def ends_of(transfers: list[tuple[int, int, int]], sharing: bool = True) -> list[int]:
    """When each of some transfers ends, started in order of time."""
    engines = DmaEngines(sharing)
    out = [0] * len(transfers)
    order = sorted(range(len(transfers)), key=lambda number: transfers[number][0])
    for number in order:
        start, mask, work = transfers[number]
        while engines.ends <= start:
            ended, time = engines.finish()
            out[order[ended]] = time
        engines.add(mask, work, 0, start)
    while engines.ends != NEVER:
        ended, time = engines.finish()
        out[order[ended]] = time
    return out


def fluid(transfers: list[tuple[int, int, int]]) -> list[Fraction]:
    """The same counted with fractions: each engine divides itself equally among the transfers that it has."""
    left = {number: Fraction(work) for number, (_, _, work) in enumerate(transfers)}
    out = [Fraction(0)] * len(transfers)
    now = Fraction(0)
    while left:
        active = [number for number in left if transfers[number][0] <= now]
        rate = {
            number: 1 / Fraction(max(_on(transfers, active, engine) for engine in _bits(transfers[number][1])))
            for number in active
        }
        coming = [Fraction(transfers[number][0]) - now for number in left if transfers[number][0] > now]
        step = min([left[number] / rate[number] for number in active] + coming)
        now += step
        for number in active:
            left[number] -= step * rate[number]
            if not left[number]:
                out[number] = now
        left = {number: rest for number, rest in left.items() if rest}
    return out


def _bits(mask: int) -> list[int]:
    return [bit for bit in range(16) if mask >> bit & 1]


def _on(transfers: list[tuple[int, int, int]], active: list[int], engine: int) -> int:
    return sum(transfers[number][1] >> engine & 1 for number in active)


@given(TRANSFERS)
def test_transfers_share_as_a_fluid_does(transfers: list[tuple[int, int, int]]) -> None:
    for found, exact in zip(ends_of(transfers), fluid(transfers), strict=True):
        assert abs(found - exact) <= len(transfers)  # ends are whole picoseconds, and each shifts those after it


@given(TRANSFERS)
def test_without_sharing_a_transfer_takes_its_own_time(transfers: list[tuple[int, int, int]]) -> None:
    assert ends_of(transfers, sharing=False) == [start + work for start, _, work in transfers]


@given(TRANSFERS)
def test_sharing_never_ends_a_transfer_earlier(transfers: list[tuple[int, int, int]]) -> None:
    alone = ends_of(transfers, sharing=False)
    assert all(together >= by_itself for together, by_itself in zip(ends_of(transfers), alone, strict=True))


def test_equal_transfers_take_turns_and_apart_ones_do_not() -> None:
    assert ends_of([(0, 0xFFFF, 1000)] * 4) == [4000] * 4
    assert ends_of([(0, 0x1, 1000), (0, 0x2, 1000)]) == [1000, 1000]
    assert ends_of([(0, 0x3, 1000), (0, 0x2, 1000), (0, 0x1, 1000)]) == [2000, 2000, 2000]
    assert ends_of([(0, 0xFFFF, 1000), (500, 0xFFFF, 1000)]) == [1500, 2000]


def loads(tensors: int, count: int, columns: int, **mode: Any) -> Any:
    """A kernel that loads tiles of some HBM tensors in turn."""

    def kernel(*inputs: Any) -> None:
        for i in range(count):
            tile = nl.ndarray((128, columns), nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(tile, inputs[i % tensors], **mode)

    return kernel


def walked(tensors: int, count: int, columns: int, target: str = "trn2", **mode: Any) -> Timed:
    return timed(loads(tensors, count, columns, **mode), *[(128, columns)] * tensors, target=target)


def steady(found: Timed) -> float:
    """Nanoseconds from the end of a transfer to that of the next, on average."""
    rows = found.rows("dma_copy")
    ends = sorted((found.timing.start + found.timing.duration)[rows].tolist())
    return float(ends[-1] - ends[4]) / (len(ends) - 5) / 1000


def test_one_tensor_keeps_the_interval_and_two_share_the_descriptor_generator() -> None:
    # Kernel optimization tutorial, first version on trn2: tiles of 512 B and 2 KiB rows, 66,048 transfers in 39.9 ms.
    assert steady(walked(1, 40, 128)) == pytest.approx(850, rel=0.01)
    assert steady(walked(2, 40, 128)) == pytest.approx(39.87e6 / 66048, rel=0.02)
    assert steady(walked(4, 40, 128)) == pytest.approx(600, rel=0.01)


def test_large_transfers_are_bound_by_the_bandwidth() -> None:
    for tensors in (1, 2, 3):
        found = walked(tensors, 24, 2048)
        whole = (found.timing.ready.max() - found.timing.start.min()) / 1000
        assert whole == pytest.approx(24 * 8 * 2048 * 4 / 23, rel=0.03)
    stretched = found.timing.duration > found.timing.busy
    assert stretched.any()
    assert {STALL_REASONS[reason] for reason in found.timing.throttle_reason[stretched]} == {"bandwidth"}


def test_without_sharing_every_queue_has_all_engines() -> None:
    found = timed(loads(3, 12, 2048), *[(128, 2048)] * 3, bandwidth_sharing=False)
    assert (found.timing.duration == found.timing.busy).all()


@pytest.mark.parametrize(
    ("mode", "target", "first"),
    [
        ({}, "trn2", 750), ({}, "trn1", 750),
        ({"dge_mode": nisa.dge_mode.none}, "trn2", 750),
        ({"dge_mode": nisa.dge_mode.hwdge, "engine": nisa.engine.scalar}, "trn2", 750),
        ({"dge_mode": nisa.dge_mode.swdge}, "trn2", 854 + 750),
    ],
)  # fmt: skip
@pytest.mark.parametrize("columns", [16, 512])
def test_first_data_comes_a_start_latency_after_the_trigger(
    columns: int, mode: dict[str, Any], target: str, first: int
) -> None:
    found = walked(1, 1, columns, target, **mode)
    row = 4 * columns / 27.2  # the first descriptor is read whole, at the engine's peak rate
    assert found.timing.start[0] == round((first + row) * 1000)
    assert found.timing.setup[0] == found.timing.start[0]


def test_a_transfer_of_more_engines_ends_later_and_takes_as_long() -> None:
    def kernel(rows: int) -> Any:
        def body(x: Any) -> None:
            tile = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(tile[0:rows], x[0:rows])
            nisa.activation(tile[0:rows], nl.relu, tile[0:rows])

        return body

    waits = []
    for rows in (8, 64, 128):
        found = timed(kernel(rows), (128, 512))
        load, use = found.rows("dma_copy")[0], found.rows("activation")[0]
        waits.append(int(found.timing.start[use] - found.timing.setup[use] - found.timing.start[load]))
    stagger = round(found.program.arch.dma_engine_stagger_ns * 1000)
    assert waits[1] - waits[0] == pytest.approx(stagger * 7 / 15, abs=2)
    assert waits[2] - waits[0] == stagger


def test_descriptors_of_software_take_longer_than_those_of_hardware() -> None:
    software = walked(4, 40, 128, dge_mode=nisa.dge_mode.swdge)
    arch = software.program.arch
    assert steady(software) == pytest.approx(arch.dge_software_ns + arch.sequencer_ns, rel=0.01)
    assert software.stall(20) == "dma trigger"


def test_gpsimd_writes_descriptors_or_computes() -> None:
    def kernel(x: Any) -> None:
        for i in range(8):
            tile = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(tile, x[i], dge_mode=nisa.dge_mode.swdge)
            nisa.iota(nl.ndarray((128, 512), nl.int32, buffer=nl.sbuf), pattern=[[1, 512]])

    busy = timed(kernel, (8, 128, 128))
    iotas = sum(busy.timing.busy[busy.rows("iota")]) / 1000
    assert busy.timing.makespan / 1000 >= iotas + 8 * busy.program.arch.dge_software_ns
    apart = timed(kernel, (8, 128, 128), bandwidth_sharing=False)
    assert apart.timing.makespan < busy.timing.makespan
    assert "dma trigger" in {busy.stall(row) for row in busy.rows("iota")}


def test_descriptors_that_stand_in_hbm_wait_for_nobody() -> None:
    found = walked(8, 32, 16, dge_mode=nisa.dge_mode.none)
    assert steady(found) < 300


def test_stores_and_loads_of_one_tensor_follow_each_other() -> None:
    def kernel(x: Any) -> None:
        for i in range(10):
            tile = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
            nisa.memset(tile, 0.0)
            nisa.dma_copy(x[i], tile)

    found = timed(kernel, (10, 128, 64))
    assert steady(found) == pytest.approx(850, rel=0.01)


def test_scattered_elements_take_a_descriptor_each() -> None:
    def kernel(step: int) -> Any:
        def body(x: Any) -> None:
            tile = nl.ndarray((128, 256), nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(tile, x[:, 0 : 256 * step : step])

        return body

    dense, strided = (timed(kernel(step), (128, 512)) for step in (1, 2))
    assert dense.timing.duration[0] == round((8 * 1024 / 23 + 8) * 1000)
    assert strided.timing.duration[0] == (8 * 256 + 1) * 8 * 1000  # eight rows, 8 ns for each element and the end


def test_a_copy_within_hbm_uses_all_engines() -> None:
    def kernel(x: Any) -> None:
        nisa.dma_copy(nl.ndarray((1024, 1024), nl.float32, buffer=nl.private_hbm), x)

    found = timed(kernel, (1024, 1024))
    assert found.timing.duration[0] / 1000 == pytest.approx((4 << 20) / (16 * 23) + 8, rel=1e-4)
    assert found.timing.bytes[0] == 4 << 20


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(1, 64)), min_size=1, max_size=24))
def test_transfers_between_many_tensors_all_end(pairs: list[tuple[int, int, int]]) -> None:
    def kernel(*tensors: Any) -> None:
        for source, target, columns in pairs:
            if source != target:
                half = 64 if source > target else 0  # never a byte of both halves, so that streams alone order them
                nisa.dma_copy(tensors[target][:, half : half + columns], tensors[source][:, half : half + columns])

    found = timed(kernel, *[(128, 128)] * 5)
    assert (found.timing.ready > found.timing.start).all()
    assert found.timing.path.length == found.timing.makespan


def test_a_cast_moves_the_wider_side() -> None:
    def kernel(x: Any) -> None:
        nisa.dma_copy(nl.ndarray((128, 512), nl.bfloat16, buffer=nl.sbuf), x, dge_mode=nisa.dge_mode.swdge)

    found = timed(kernel, (128, 512))
    assert found.timing.bytes[0] == 128 * 512 * 4
