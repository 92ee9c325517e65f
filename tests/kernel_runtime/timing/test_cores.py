"""Two physical cores: each with lanes and memories of its own, side by side in time, and one HBM for both."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import nki
import numpy as np
import pytest
from hypothesis import given

import nki_lab
from nki_lab.export.text import brief
from nki_lab.isa.arch import arch_of
from nki_lab.kernel_runtime.allocate import allocate
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.recording.figures import hbm_bytes_per_ns
from nki_lab.kernel_runtime.schedule import schedule
from nki_lab.kernel_runtime.schedule import verify as verify_schedule
from nki_lab.kernel_runtime.timing import walk
from nki_lab.kernel_runtime.timing.dma import NEVER, UNITS, hbm_limit
from nki_lab.wire import encode
from nki_lab.wire.overview import capacity
from tests.kernel_runtime.drawn_kernels import Drawn, drawn_kernels, traced_on_cores
from tests.kernel_runtime.timing.engines import DmaEngines
from tests.kernel_runtime.timing.timed import PLAIN, Timed, nisa, nl, timed
from tests.wire.reader import read


def on_cores(kernel: Callable[..., Any], *shapes: tuple[int, ...], cores: int = 2, target: str = "trn2",
             **options: Any) -> Timed:  # fmt: skip
    """A kernel on several cores, as far as its times."""
    chosen = dataclasses.replace(Options(), **options)
    program = traced_on_cores([kernel] * cores, *shapes, target=target, options=chosen)
    allocation = allocate(program)
    order = schedule(program, allocation)
    verify_schedule(order)
    return Timed(program, allocation, order, walk(program, order, None, allocation))


def halves(x: Any) -> Any:
    """Each core works on its share of the rows."""
    rows = x.shape[0] // nl.num_programs()
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for start in range(nl.program_id(0) * rows, (nl.program_id(0) + 1) * rows, 128):
        tile = nl.load(x[start : start + 128])
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nl.store(out[start : start + 128], tile)
    return out


# -- bodies and lanes --------------------------------------------------------------------------------------------------


def test_bodies_follow_each_other_in_the_program() -> None:
    done = on_cores(halves, (1024, 512))
    program = done.program
    assert program.cores == 2
    assert program.stretches == [(0, 12, 0), (12, 24, 1)]
    assert [program.core_of(op) for op in (0, 11, 12, 23)] == [0, 0, 1, 1]
    assert {buffer.core for buffer in program.buffers if buffer.on_chip} == {0, 1}
    assert [buffer.core for buffer in program.buffers if not buffer.on_chip] == [0, 0]
    text = program.text()
    assert text.index("core 0:") < text.index("core 1:")
    assert "core" not in timed(halves, (1024, 512)).program.text()


def test_every_core_has_its_engines_and_the_queues_that_it_uses() -> None:
    done = on_cores(halves, (1024, 512))
    lanes = done.schedule.lanes
    names = [[lane.name for lane in lanes if lane.core == core] for core in (0, 1)]
    assert names[0] == names[1]
    assert names[0][:5] == ["tensor", "vector", "scalar", "gpsimd", "sync"]
    cores = np.array([lane.core for lane in lanes])[done.schedule.lane]
    assert cores.tolist() == [0] * 12 + [1] * 12
    assert [(lane.name, lane.core) for lane in done.timing.lanes] == [(lane.name, lane.core) for lane in lanes]


def test_cores_run_side_by_side() -> None:
    one, two = timed(halves, (1024, 512)).timing, on_cores(halves, (1024, 512)).timing
    half = timed(halves, (512, 512)).timing
    assert half.makespan <= two.makespan <= 1.05 * half.makespan
    assert two.makespan < 0.7 * one.makespan
    assert two.start[12] == two.start[0]
    assert two.makespan == two.ready.max()


def test_the_makespan_is_that_of_the_slower_core() -> None:
    def uneven(x: Any) -> None:
        for _ in range(1 + 7 * nl.program_id(0)):
            tile = nl.ndarray((128, 512), nl.float32)
            nisa.memset(dst=tile, value=0.0, engine=nisa.engine.gpsimd)

    timing = on_cores(uneven, (128, 1)).timing
    first, second = (next(lane for lane in timing.lanes if (lane.name, lane.core) == ("gpsimd", c)) for c in (0, 1))
    assert (first.ops, second.ops) == (1, 8)
    assert timing.ready[0] < timing.makespan == timing.ready[8]
    assert first.empty > second.empty
    assert set(timing.path.row.tolist()) <= set(range(1, 9))


def test_a_core_may_have_nothing_to_do() -> None:
    def lonely(x: Any) -> None:
        if nl.program_id(0) == 1:
            nisa.memset(dst=nl.ndarray((128, 512), nl.float32), value=0.0)

    done = on_cores(lonely, (128, 1))
    assert done.program.stretches == [(0, 0, 0), (0, 1, 1)]
    assert done.program.core_of(0) == 1
    assert done.timing.lanes[0].ops == 0


@given(drawn_kernels())
def test_what_shares_nothing_takes_as_long_on_two_cores_as_on_one(kernel: Drawn) -> None:
    alone = timed(kernel, **{name: getattr(PLAIN, name) for name in NO_SHARING})
    both = on_cores(kernel, **{name: getattr(PLAIN, name) for name in NO_SHARING})
    count = len(alone.program)
    for core in (0, 1):
        rows = slice(core * count, (core + 1) * count)
        assert both.timing.start[rows].tolist() == alone.timing.start.tolist()
        assert both.timing.ready[rows].tolist() == alone.timing.ready.tolist()
        assert both.allocation.byte[[b.id for b in both.program.buffers if b.core == core]].tolist() == (
            alone.allocation.byte.tolist()
        )
    assert both.timing.makespan == alone.timing.makespan


NO_SHARING = ("bandwidth_sharing",)


@given(drawn_kernels())
def test_times_of_two_cores_add_up_and_none_waits_for_the_other(kernel: Drawn) -> None:
    done = on_cores(kernel)
    timing, order = done.timing, done.schedule
    for lane in timing.lanes:
        assert lane.busy + sum(lane.stalls.values()) + lane.empty == timing.makespan
    assert timing.path.length == timing.makespan
    op = np.repeat(np.arange(len(order)), np.diff(order.start))
    core = np.array([done.program.core_of(row) for row in range(len(order))], np.int64)
    assert (core[op] == core[order.pred]).all()
    after = timing.critical_pred
    kept = after >= 0
    assert done.program.cores == 2
    if not any("dma" in lane.name for lane in order.lanes):
        assert (core[np.flatnonzero(kept)] == core[after[kept]]).all()


# -- memory ------------------------------------------------------------------------------------------------------------


def test_each_core_has_its_own_addresses() -> None:
    one, two = timed(halves, (512, 512)), on_cores(halves, (1024, 512))
    assert two.allocation.sbuf_peak == one.allocation.sbuf_peak
    tiles = [[b.id for b in two.program.buffers if b.on_chip and b.core == core] for core in (0, 1)]
    assert two.allocation.byte[tiles[0]].tolist() == two.allocation.byte[tiles[1]].tolist()
    assert all((earlier in tiles[0]) == (later in tiles[0]) for earlier, later in two.allocation.reuse.tolist())


def test_the_memories_of_cores_that_meet_are_not_added() -> None:
    """The second core's tiles live before those of the first one end: each has its own SBUF all the same."""

    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        mine, other = nl.program_id(0), 1 - nl.program_id(0)
        tile, received = (nl.ndarray((128, 512), x.dtype, buffer=nl.sbuf) for _ in range(2))
        nisa.dma_copy(dst=tile, src=x)
        nisa.sendrecv(src=tile, dst=received, send_to_rank=other, recv_from_rank=other, pipe_id=0)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=received, op=nl.add)
        nisa.dma_copy(dst=out[64 * mine : 64 * mine + 64], src=tile[64 * mine : 64 * mine + 64])
        return out

    run = nki_lab.profile(nki.jit(kernel)[2], nki_lab.spec((128, 512), "float32"), target="trn2")
    each = 2 * 512 * 4
    assert run.summary.sbuf_peak_bytes_per_partition == run.summary.sbuf_occupied_bytes_per_partition == each


@nki.jit
def placed(x):
    """Both cores use the same address, and the second reads there what it has not written."""
    out = nl.ndarray((2, 128, 64), nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 64), nl.float32, address=(0, 0))
    nisa.memset(dst=tile, value=1.0 + nl.program_id(0))
    other = nl.ndarray((128, 64), nl.float32, address=(0, 128))
    if nl.program_id(0) == 0:
        nisa.memset(dst=other, value=7.0)
    nisa.dma_copy(dst=out[nl.program_id(0)], src=tile)
    return out


@pytest.mark.parametrize("memory", ["virtual", "physical"])
def test_the_same_address_of_two_cores_is_two_places(memory: str) -> None:
    run = nki_lab.run(placed[2], np.zeros((1, 1), np.float32), target="trn2", memory=memory)
    assert (run.outputs[0][1] == 2).all()
    assert (run.outputs[0][0, :, 32:] == 7).all()
    assert [item.code for item in run.diagnostics] == ["NKI317"]


def test_a_full_memory_is_said_once_for_all_cores() -> None:
    @nki.jit
    def full(x):
        first, second = nl.ndarray((128, 32768), nl.float32), nl.ndarray((128, 32768), nl.float32)
        nisa.memset(dst=first, value=0.0)
        nisa.memset(dst=second, value=0.0)
        nisa.dma_copy(dst=x, src=first)
        nisa.dma_copy(dst=x, src=second)
        return x

    run = nki_lab.profile(full[2], nki_lab.spec((128, 32768), "float32"), target="trn2")
    assert [item.code for item in run.diagnostics] == ["NKI315"]


# -- HBM ---------------------------------------------------------------------------------------------------------------


def streams(x: Any) -> None:
    """Large loads from tensors of the core's own, so that DMA engines are all that limits them."""
    source = [nl.ndarray((128, 8192), nl.float32, buffer=nl.private_hbm) for _ in range(4)]
    tiles = [nl.ndarray((128, 8192), nl.float32) for _ in range(4)]
    for k in range(4):
        nisa.dma_copy(dst=tiles[k], src=source[k])


def test_two_cores_that_ask_for_more_than_hbm_gives_take_as_long_as_hbm_needs() -> None:
    one, two = timed(streams, (1, 1)), on_cores(streams, (1, 1))
    assert two.timing.makespan > one.timing.makespan
    free = on_cores(streams, (1, 1), bandwidth_sharing=False)
    assert free.timing.makespan < one.timing.makespan
    limit = hbm_limit(two.program.arch, 2)
    moved = 8 * 128 * 8192 * 4
    data = (two.timing.start + two.timing.duration).max() - two.timing.start.min()
    assert moved / (data * 1e-12) == pytest.approx(limit, rel=0.02)
    assert "bandwidth" in two.timing.slowed


def test_hbm_of_a_pair_is_its_part_of_the_chip_and_a_core_alone_has_no_limit() -> None:
    assert hbm_limit(arch_of("trn2"), 2) == 725_000_000_000
    assert hbm_limit(arch_of("trn3"), 2) == 1_175_000_000_000
    assert hbm_limit(arch_of("trn2"), 1) == 0


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_mbu_and_the_line_of_the_counter_are_of_what_two_cores_get(target: str) -> None:
    arch = arch_of(target)
    assert hbm_bytes_per_ns(arch, 2) * 1e9 == hbm_limit(arch, 2) == capacity(target, 2)["hbm"]
    # Alone a core is measured by what the pair has, as the vendor's profiler does, and never by less.
    assert arch.mbu_bytes_per_ns == hbm_bytes_per_ns(arch, 1) <= hbm_bytes_per_ns(arch, 2)
    x = np.ones((1024, 512), np.float32)
    for cores in (1, 2):
        run = nki_lab.run(nki.jit(halves)[cores], x, target=target)
        moved = run.summary.hbm_read_bytes + run.summary.hbm_write_bytes
        assert moved == 2 * x.nbytes
        sent = read(encode(run.recording))[0]["capacity"]["hbm"]
        assert run.summary.mbu == pytest.approx(moved / (run.summary.makespan_ns * sent / 1e9))


def test_transfers_are_slowed_down_together_and_those_within_sbuf_are_not() -> None:
    engines = DmaEngines(True, limit=10**12)  # a byte a picosecond
    for mask, hbm_bytes in [(1, 1500), (2, 500), (4, 0)]:
        engines.add(mask, 1000, hbm_bytes, 0)
    assert engines.share == [UNITS // 2, UNITS // 2, UNITS]
    assert engines.finish()[1] == 1000
    assert engines.finish()[1] == 2000
    assert engines.finish()[1] == 2000
    assert engines.ends == NEVER


def test_without_sharing_nothing_is_slowed_down() -> None:
    engines = DmaEngines(False, limit=1)
    for _ in range(2):
        engines.add(1, 1000, 1 << 40, 0)
    assert [engines.finish()[1], engines.finish()[1]] == [1000, 1000]


# -- the run -----------------------------------------------------------------------------------------------------------


def test_a_run_sums_the_engines_and_numbers_the_cores() -> None:
    kernel = nki.jit(halves)
    x = np.ones((1024, 512), np.float32)
    one, two = (nki_lab.run(kernel[cores], x, target="trn2") for cores in (1, 2))
    np.testing.assert_array_equal(one.outputs[0], two.outputs[0])
    assert (one.summary.cores, two.summary.cores) == (1, 2)
    assert two.summary.engine_busy_ns["scalar"] == pytest.approx(one.summary.engine_busy_ns["scalar"], rel=0.01)
    assert two.summary.engine_busy_ns["dma"] <= 2 * two.summary.makespan_ns
    assert {lane.core for lane in two.recording.lanes} == {0, 1}
    assert [two.recording.row(row).core for row in (0, 12, 23)] == [0, 1, 1]
    assert two.recording.table("buffers")["core"].tolist().count(1) == 4
    assert two.recording.table("usage")["sbuf"].max() <= 4 * 512 * 4
    assert "core 1" in two.report()
    shares = [float(share) for share in re.findall(r"([\d.]+)\s?%", brief(two.recording))]
    assert shares
    assert max(shares) <= 100


def test_utilisation_counts_both_cores() -> None:
    @nki.jit
    def product(x):
        out = nl.ndarray((2, 128, 512), nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(x)
        acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=acc, stationary=tile[:, 0:128], moving=tile)
        nl.store(out[nl.program_id(0)], nl.copy(acc))
        return out

    spec = nki_lab.spec((128, 512), "float32")
    one, two = (nki_lab.profile(product[cores], spec, target="trn3").summary for cores in (1, 2))
    assert two.flops == 2 * one.flops
    assert two.mfu == pytest.approx(one.mfu, rel=0.05)
