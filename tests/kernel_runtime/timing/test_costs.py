"""The cost faces: each law at several sizes, dtypes and targets, in cycles of the engine or bytes of a DMA engine.

The laws are those of the NKI API documentation of SDK 2.26 (NeuronCore-v2), of the architecture guides (fast modes of
later ones), and of published profiles (trn2; of reciprocal, trn1); each case says which cycles it expects, by formula.
"""

from __future__ import annotations

from typing import Any

import pytest

from nki_lab.isa.arch import GENERATIONS, Arch, arch_of
from nki_lab.isa.spec import TABLE, Cost, Unmodelled
from nki_lab.kernel_runtime.timing.costs import CONFIDENCES, costs_of
from tests.kernel_runtime.drawn_kernels import traced
from tests.kernel_runtime.timing.timed import nisa, nl

F32, BF16, F16, I32 = nl.float32, nl.bfloat16, nl.float16, nl.int32


def tile(columns: int, dtype: Any = F32, buffer: Any = nl.sbuf, rows: int = 128) -> Any:
    return nl.ndarray((rows, columns), dtype, buffer=buffer)


def cost(call: Any, target: str) -> tuple[Cost, float]:
    """Cost of the only instruction of a kernel, and its interval in cycles as the walk takes it."""
    program = traced(call, target=target)
    (variant,) = program.variants
    assert not isinstance(variant.instruction.cost, Unmodelled)
    declared = variant.instruction.cost(variant.use)
    (walked,) = costs_of(program)
    clock = 1.0 if variant.engine == "dma" else program.arch.ghz(variant.engine)
    return declared, walked.interval * clock / 1000


def add(n: int, dtype: Any = F32, other: Any = nl.sbuf, op: Any = nl.add, engine: Any = nisa.engine.unknown) -> Any:
    return lambda: nisa.tensor_tensor(tile(n, dtype), tile(n, dtype), tile(n, dtype, other), op, engine=engine) and None


def scale(n: int, dtype: Any = F32, source: Any = nl.sbuf, **more: Any) -> Any:
    return lambda: nisa.tensor_scalar(tile(n, dtype), tile(n, dtype, source), nl.multiply, 2.0, **more) and None


def copy(n: int, dtype: Any = F32, source: Any = nl.sbuf, to: Any = None, **more: Any) -> Any:
    return lambda: nisa.tensor_copy(tile(n, to or dtype), tile(n, dtype, source), **more) and None


def fused(n: int, dtype: Any = F32, op0: Any = nl.multiply, op1: Any = nl.add) -> Any:
    return lambda: nisa.scalar_tensor_tensor(tile(n, dtype), tile(n, dtype), op0, 2.0, op1, tile(n, dtype)) and None


def total(n: int, dtype: Any = F32, op: Any = nl.add) -> Any:
    return lambda: nisa.tensor_reduce(tile(1, dtype), op, tile(n, dtype), axis=1) and None


def fill(n: int, dtype: Any = F32, value: float = 0.0) -> Any:
    return lambda: nisa.memset(tile(n, dtype), value) and None


def inverse(n: int, dtype: Any = F32) -> Any:
    return lambda: nisa.reciprocal(tile(n, dtype), tile(n, dtype)) and None


def count(n: int) -> Any:
    return lambda: nisa.iota(tile(n, I32), pattern=[[1, n]]) and None


def function(n: int, dtype: Any = F32, summed: bool = False) -> Any:
    def call() -> None:
        more = (
            {"reduce_op": nl.add, "reduce_cmd": nisa.reduce_cmd.reset_reduce, "reduce_res": tile(1)} if summed else {}
        )
        nisa.activation(tile(n, dtype), nl.exp, tile(n, dtype), bias=tile(1), **more)

    return call


def product(m: int, n: int, dtype: Any = F32, k: int = 128) -> Any:
    return lambda: nisa.nc_matmul(tile(n, F32, nl.psum, m), tile(m, dtype, rows=k), tile(n, dtype, rows=k)) and None


def strided(m: int, n: int, dtype: Any = BF16) -> Any:
    def call() -> None:
        wide = tile(m * 4, dtype)
        nisa.nc_matmul(tile(n, F32, nl.psum, m), wide[:, 0 : m * 4 : 4], tile(n, dtype))

    return call


def turned(p: int, f: int, dtype: Any = F32, buffer: Any = nl.psum) -> Any:
    return lambda: nisa.nc_transpose(tile(p, dtype, buffer, f), tile(f, dtype, rows=p)) and None


V2_LAWS = [
    (add(512), 1024 + 58), (add(200), 400 + 58), (add(512, BF16), 512 + 58), (add(512, F16), 1024 + 58),
    (add(512, BF16, op=nl.maximum), 1024 + 58), (add(512, F32, nl.psum), 512 + 58), (add(512, BF16, nl.psum), 512 + 58),
    (add(2), 64), (add(40), 80 + 58), (add(512, I32), 150 + 512), (scale(512), 512 + 58), (scale(512, BF16), 512 + 58),
    (scale(3), 64), (copy(512), 512 + 58), (copy(700, BF16), 700 + 58), (copy(512, F32, nl.psum), 512 + 58),
    (copy(512, engine=nisa.engine.gpsimd), 662), (fused(512), 1024 + 58), (fused(512, BF16), 1024 + 58),
    (fused(512, BF16, nl.subtract, nl.multiply), 512 + 58), (fused(511, BF16, nl.subtract, nl.multiply), 1022 + 58),
    (total(512), 512 + 58), (total(512, BF16), 256 + 58), (total(512, BF16, nl.maximum), 256 + 58),
    (total(512, BF16, nl.minimum), 512 + 58), (fill(512), 512 + 58), (fill(512, BF16), 256 + 58),
    (fill(512, BF16, 1.0), 512 + 58), (fill(4), 64), (inverse(512), 1024 + 58), (inverse(2), 64), (count(512), 662),
    (count(1), 151), (function(512), 512 + 58), (function(1), 64), (function(512, summed=True), 576 + 58),
    (function(2048, BF16), 2048 + 58), (product(128, 512, BF16), 512), (product(128, 512), 4 * (512 + 57)),
    (product(128, 16, BF16), 64), (product(16, 16, BF16), 16), (product(128, 1, BF16), 64),
    (product(64, 100, F16), 100), (turned(128, 128, BF16), 128), (turned(32, 128, BF16), 64),
    (turned(128, 20, BF16), 128), (turned(32, 32, BF16, nl.sbuf), 32 + 58), (strided(128, 16), 64),
]  # fmt: skip
V3_LAWS = [
    (add(512), 512 + 70), (add(300), 300 + 70), (add(512, BF16), 256 + 70), (add(512, F32, nl.psum), 512 + 70),
    (add(512, BF16, nl.psum), 512 + 70), (scale(512), 256 + 70), (scale(512, BF16), 128 + 70),
    (scale(512, BF16, nl.psum), 256 + 70), (scale(4), 72), (scale(512, engine=nisa.engine.scalar), 512),
    (copy(512), 256 + 70), (copy(512, BF16), 128 + 70), (copy(512, F16, nl.psum), 256 + 70),
    (copy(512, F32, nl.psum), 512 + 70), (copy(512, F32, nl.psum, BF16), 512 + 70),
    (copy(512, F32, nl.sbuf, BF16), 256 + 70), (copy(512, engine=nisa.engine.scalar), 512),
    (total(512, BF16), 256 + 70), (fused(512), 512 + 70), (inverse(512), 1024 + 70), (fill(512), 512 + 70),
    (function(512), 512), (function(4096, BF16), 4096), (count(512), 662), (product(128, 512), 4 * 512 + 14),
    (product(128, 100), 4 * 100 + 14), (product(128, 512, BF16), 512), (turned(128, 128, BF16), 128),
    (turned(128, 128), 256), (strided(128, 16), 2 * 128), (strided(128, 512), 512), (strided(1, 512), 512),
]  # fmt: skip
V4_LAWS = [
    (copy(512, BF16), 128 + 70), (copy(512, nl.float8_e4m3), 128 + 70), (add(512, nl.float8_e5m2), 256 + 70),
    (copy(512, BF16, engine=nisa.engine.scalar), 256), (copy(512, engine=nisa.engine.scalar), 512),
    (scale(512, BF16, engine=nisa.engine.scalar), 256), (function(512, BF16), 512), (product(128, 4096, BF16), 4096),
    (product(128, 512), 4 * 512 + 14),
]  # fmt: skip
LAWS = [
    pytest.param(call, target, cycles, id=f"{target}-{number}")
    for target, laws in (("trn1", V2_LAWS), ("trn2", V3_LAWS), ("trn3", V4_LAWS))
    for number, (call, cycles) in enumerate(laws)
]


@pytest.mark.parametrize(("call", "target", "cycles"), LAWS)
def test_intervals_follow_their_laws(call: Any, target: str, cycles: float) -> None:
    declared, walked = cost(call, target)
    assert declared.interval == pytest.approx(cycles)
    assert walked == pytest.approx(cycles, abs=0.01)
    assert declared.latency >= declared.interval
    assert declared.confidence in CONFIDENCES
    assert len(declared.source) > 5


def test_a_strided_operand_halves_the_port_on_trn1() -> None:
    def call(step: int) -> Any:
        def body() -> None:
            nisa.tensor_copy(tile(64), tile(64 * step)[:, 0 : 64 * step : step])

        return body

    assert [cost(call(step), "trn1")[0].interval for step in (1, 4, 5)] == [64 + 58, 64 + 58, 128 + 58]
    assert cost(call(5), "trn2")[0].interval == 64 + 70  # strided: not the fast mode, and no penalty published


def test_double_rows_multiply_twice_as_many_in_the_same_time() -> None:
    def call() -> None:
        shape = (128, 2, 128)
        a, b = nl.ndarray(shape, nl.float8_e4m3), nl.ndarray((128, 2, 512), nl.float8_e4m3)
        mode = nisa.matmul_perf_mode.double_row
        nisa.nc_matmul(nl.ndarray((128, 512), F32, buffer=nl.psum), a, b, perf_mode=mode)

    program = traced(call, target="trn2")
    (walked,) = costs_of(program)
    assert walked.interval == round(512 / 2.4 * 1000)


@pytest.mark.parametrize("arch", GENERATIONS.values(), ids=str)
def test_costs_grow_with_the_tile(arch: Arch) -> None:
    for make in (add, scale, copy, fused, total, fill, inverse, function):
        sizes = [cost(make(n), arch.target)[0].interval for n in (1, 2, 64, 100, 512, 2000)]
        assert sizes == sorted(sizes), make
        assert sizes[-1] > 3 * sizes[3], make


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize(("columns", "dtype"), [(512, F32), (1024, F32), (512, BF16), (64, BF16)])
def test_a_dma_moves_its_bytes_at_the_sustained_rate(target: str, columns: int, dtype: Any) -> None:
    def call() -> None:
        nisa.dma_copy(tile(columns, dtype), nl.ndarray((128, columns), dtype, buffer=nl.private_hbm))

    declared, _ = cost(call, target)
    size = columns * dtype.itemsize
    assert declared.bytes == 128 * size
    arch = arch_of(target)
    least = arch.dma_semaphore_write_ns  # once more when all is written
    assert declared.fixed_ns == pytest.approx(8 * max(size / arch.dma_bytes_per_ns, least) + least)
    assert declared.descriptor_bytes == size


@pytest.mark.parametrize(
    ("rows", "start", "busiest"), [(128, 0, 8), (8, 0, 8), (9, 0, 8), (4, 0, 4), (32, 32, 8), (1, 96, 1)]
)
def test_a_dma_is_as_slow_as_its_fullest_engine(rows: int, start: int, busiest: int) -> None:
    def call() -> None:
        whole = nl.ndarray((128, 512), F32, buffer=nl.sbuf)
        nisa.dma_copy(whole[start : start + rows], nl.ndarray((rows, 512), F32, buffer=nl.private_hbm))

    assert cost(call, "trn2")[0].fixed_ns == pytest.approx(busiest * 2048 / 23 + 8)


def test_every_declared_cost_is_a_value_or_says_why_not() -> None:
    for instruction in TABLE.values():
        assert isinstance(instruction.cost, Unmodelled) or callable(instruction.cost)
