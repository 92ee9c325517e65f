"""Every number of a target is read: the code names it, and a constant of time changes the time of something."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import nki
import nki.collectives as ncc
import numpy as np
import pytest
from nki.collectives import ReplicaGroup

import nki_lab
from nki_lab.isa.arch import V2, V3, V4, Arch, Fact
from nki_lab.kernel_runtime.ir import Arrival
from nki_lab.kernel_runtime.timing.collectives import latency_ns, link_ns
from tests.kernel_runtime.drawn_kernels import nisa, nl
from tests.kernel_runtime.timing.timed import timed

ARCHES = [V2, V3, V4]
NUMBERS = [item.name for item in dataclasses.fields(Arch) if item.name not in ("name", "generation", "target", "facts")]
OF_TIME = re.compile(
    r"_(ns|cycles|ghz|share|factor|floor|interval)$|_bytes_per_ns$|_fast_|_fp32_copy$|_width|^dma_|^dge_|_lock$"
)
PEAKS = {"mbu_bytes_per_ns"}  # what utilisations divide by
EXPORTED = {"sync_ghz"}  # costs of its instructions are nanoseconds; exports name the clock
SIZES = {"vector_fast_bytes", "scalar_fast_bytes", "dma_efficient_bytes", "dma_qos_classes"}


# -- the code ----------------------------------------------------------------------------------------------------------


def test_the_code_reads_every_number() -> None:
    root = Path(nki_lab.__file__).parent
    named: set[str] = set()
    for file in root.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Attribute):
                named.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and file.name != "arch.py":
                named.update(re.findall(r"\w+", node.value))  # limits, and facts by name
    engines = {f"{engine}_{what}" for engine in ("tensor", "vector", "scalar", "gpsimd", "sync") for what in ("ghz",)}
    engines |= {f"{engine}_start_cycles" for engine in ("vector", "scalar", "gpsimd")}
    engines |= {f"{engine}_issue_overhead_cycles" for engine in ("vector", "scalar")}
    assert set(NUMBERS) - named - engines == set()


# -- the clock ---------------------------------------------------------------------------------------------------------


def tile(columns: int, dtype: Any = nl.float32, buffer: Any = nl.sbuf, rows: int = 128) -> Any:
    return nl.ndarray((rows, columns), dtype, buffer=buffer)


def engines(x: Any) -> None:
    """Something on each engine, with operands of several dtypes and memories, strided ones too."""
    a, b, c, d = tile(64), tile(512, nl.bfloat16), tile(512), tile(512, nl.bfloat16)
    for one in (a, b, c, d):
        nisa.memset(one, 1.0)
    for dtype in (nl.float32, nl.bfloat16):
        m = tile(128, dtype)
        nisa.memset(m, 1.0)
        acc = tile(64, nl.float32, nl.psum)
        for _ in range(2):
            nisa.nc_matmul(acc, m, a if dtype is nl.float32 else b[:, 0:64])
            nisa.tensor_copy(a, acc)
            nisa.activation(c[:, 0:64], nl.exp, acc, bias=a[:, 0:1])
        nisa.nc_transpose(tile(128, dtype, nl.psum), m)
    nisa.nc_matmul(tile(16, nl.float32, nl.psum), b[:, 0:128], b[:, 0:16])
    nisa.nc_matmul(tile(16, nl.float32, nl.psum), b[:, 0:512:4], b[:, 0:16])
    nisa.tensor_copy(d, b)
    nisa.tensor_copy(tile(256, nl.bfloat16), b[:, 0:512:2])
    nisa.tensor_copy(tile(128), c[:, 0:512:4])
    nisa.tensor_copy(tile(64), c[:, 0:512:8])
    nisa.tensor_copy(tile(512), c)
    nisa.tensor_tensor(tile(512, nl.bfloat16), b, d, nl.add)
    nisa.tensor_tensor(tile(4), a[:, 0:4], a[:, 4:8], nl.add)
    nisa.reciprocal(tile(512), c)
    nisa.iota(tile(64, nl.int32), pattern=[[1, 64]])
    nisa.activation_reduce(tile(64), nl.exp, a, nl.add, tile(1), bias=a[:, 0:1])
    nisa.dma_copy(x[:, 0:64], a)


def wide_engines(x: Any) -> None:
    """What the Scalar Engine has from NeuronCore-v3 on."""
    b = tile(512, nl.bfloat16)
    nisa.memset(b, 1.0)
    nisa.tensor_scalar(tile(512, nl.bfloat16), b, nl.multiply, 2.0, engine=nisa.engine.scalar)


def exponentials(x: Any) -> None:
    """What the Vector Engine has from NeuronCore-v4 on."""
    b = tile(512, nl.bfloat16)
    nisa.memset(b, 1.0)
    nisa.exponential(tile(512), b)


def conflicts(x: Any) -> None:
    """Engines that want the same memories at the same time."""
    s, p = tile(512), tile(512, nl.float32, nl.psum)
    nisa.memset(s, 1.0)
    nisa.memset(p, 1.0)
    for _ in range(3):
        nisa.tensor_copy(tile(512), p)
        nisa.activation(tile(512), nl.relu, p, bias=s[:, 0:1])
        nisa.iota(tile(512, nl.int32), pattern=[[1, 512]])


def transfers(x: Any) -> None:
    """Loads and stores of long, short and single rows, by all ways to describe them."""
    for columns in (1, 8, 16, 128, 2048):
        for _ in range(3):
            t = tile(columns)
            nisa.dma_copy(t, x[:, 0:columns])
            nisa.dma_copy(x[:, 0:columns], t)
    for _ in range(6):
        nisa.dma_copy(tile(16), x[:, 0:16])
    nisa.dma_copy(tile(4096, rows=4), x[0:4])
    nisa.dma_copy(tile(128), x[:, 0:256:2])
    small = tile(64)
    nisa.memset(small, 0.0)
    nisa.dma_copy(tile(64), small)
    nisa.dma_copy(x[:, 0:64], small, dge_mode=nisa.dge_mode.swdge)
    nisa.activation(small, nl.relu, small, bias=small[:, 0:1])
    nisa.dma_compute(small, [x[:, 0:64], x[:, 64:128]], nl.add)


def transposes(x: Any) -> None:
    """Transposes by DMA, of HBM and of SBUF."""
    y = nl.ndarray((128, 64), nl.bfloat16, buffer=nl.private_hbm)
    t, u = tile(128, nl.bfloat16, rows=64), tile(64, nl.bfloat16)
    nisa.dma_transpose(t, y)
    nisa.dma_transpose(u, t)


PROGRAMS: list[tuple[int, Callable[..., None]]] = [
    (2, engines), (3, wide_engines), (4, exponentials), (2, conflicts), (2, transfers), (2, transposes),
]  # fmt: skip
"""With the first generation that has them."""

GROUP = ReplicaGroup([[0, 1]])


def both_cores(x):
    t = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
    u = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
    other = 1 - nl.program_id(0)
    nisa.dma_copy(t, x[:, 0:64])
    nisa.sendrecv(t, u, other, other, 0)
    nisa.sendrecv(t, u, other, other, 1, dma_engine=nisa.dma_engine.gpsimd_dma)
    nisa.core_barrier(x, (0, 1))
    big = nl.ndarray((128, 4096), nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(big, x)
    nisa.dma_copy(big, x)
    return x


def in_a_loop(x, count):
    number = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
    t = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(number, count)
    stop = nisa.register_alloc(0)
    nisa.register_load(stop, number)

    def step(i):
        nisa.memset(t, 1.0)

    nl.fori_loop(0, stop, step)
    nisa.dma_copy(x[:, 0:64], t)
    return x


def moved_by_a_register(x, count):
    number = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
    t = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
    nisa.memset(number, 0)
    nisa.memset(t, 0.0)
    nisa.tensor_copy(t[:, 0:8], t.ap([[64, 128], [1, 8]], scalar_offset=number, indirect_dim=1))
    nisa.dma_copy(x[:, 0:64], t)
    return x


def reduced(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ncc.all_reduce([x], [out], GROUP, nl.add)
    return out


@cache
def times(arch: Arch) -> tuple[Any, ...]:
    """All times that a target leads to: columns of walks, and those of collectives of all sizes."""
    found: list[Any] = []
    for kernel in (kernel for since, kernel in PROGRAMS if since <= arch.generation):
        walked = timed(kernel, (128, 4096), target=arch, launch_overhead=True).timing
        found += [walked.start.tobytes(), walked.duration.tobytes(), walked.ready.tobytes(), walked.makespan]
    x = nki_lab.spec((128, 4096), "float32")
    runs = [nki_lab.profile(reduced, x, target=arch, launch_overhead=True)]
    if arch.generation > 2:
        runs.append(nki_lab.profile(nki.jit(both_cores), x, target=arch, grid=2, launch_overhead=True))
    runs.append(nki_lab.run(in_a_loop, np.ones((128, 4096), np.float32), np.array([[3]], np.int32), target=arch))
    runs.append(
        nki_lab.run(moved_by_a_register, np.ones((128, 4096), np.float32), np.array([[3]], np.int32), target=arch)
    )
    for run in runs:
        table = run.recording.table("rows")
        found += [table[name][:].tobytes() for name in ("start", "duration", "ready")] + [run.summary.makespan_ns]
    for size in (1 << 10, (1 << 20) + 1, 2 << 20, (1 << 26) + 1):
        for ranks in ((0, 1, 2, 3, 4, 5), (15 * arch.cores_per_chip, 16 * arch.cores_per_chip)):
            item = Arrival(ranks, 2, size, 0.5)
            found += [latency_ns(arch, item, 1), link_ns(arch, item, 1)]
    return tuple(found)


def load(x):
    t = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(t, x[:, 0:64])
    return x


def changed(arch: Arch, name: str) -> Arch:
    """The target with one number twice as large; of locks, without engines or with two."""
    fact = arch.fact(name)
    value = fact.value
    other: Any = (
        (() if value else ("vector", "gpsimd")) if isinstance(value, tuple) else value * 2 if value else type(value)(1)
    )
    facts = MappingProxyType(dict(arch.facts) | {name: Fact(other, fact.source, fact.confidence)})
    return dataclasses.replace(arch, facts=facts, **{name: other})


def timed_numbers() -> list[str]:
    return [name for name in NUMBERS if OF_TIME.search(name) and name not in PEAKS | SIZES | EXPORTED]


@pytest.mark.parametrize("name", timed_numbers())
def test_a_constant_of_time_changes_a_time(name: str) -> None:
    assert any(times(changed(arch, name)) != times(arch) for arch in ARCHES), name


@pytest.mark.parametrize("name", sorted(PEAKS))
def test_a_peak_changes_a_utilisation(name: str) -> None:
    x = nki_lab.spec((128, 4096), "float32")
    runs = [nki_lab.profile(nki.jit(load), x, target=arch).summary.mbu for arch in (V3, changed(V3, name))]
    assert runs[0] == pytest.approx(2 * runs[1])
