"""The matrix multiplication of AWS's tutorials, stage by stage, against the published times.

Sources: kernel optimization tutorial (trn2, float32), profiles of its versions 2, 3 and 5; matrix multiplication
tutorial of SDK 2.20 (trn1, bfloat16), its table of latencies. M, K, N = 4096, 8192, 8192. The kernels here are our own,
with the tiles, loops and sizes that the tutorials describe.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.kernel_runtime.timing.test_walk import checked, path_checked
from tests.kernel_runtime.timing.timed import Timed, nisa, nl, timed

P, N = 128, 512


def load(source: Any, rows: int, columns: int, height: int, width: int) -> Any:
    """A fresh tile with a part of an HBM tensor."""
    part = nl.ndarray((height, width), source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(part, source[rows : rows + height, columns : columns + width])
    return part


def evict(out: Any, acc: Any, row: int, column: int) -> None:
    """Copy a PSUM tile into a result by way of SBUF."""
    ready = nl.ndarray((P, N), out.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(ready, acc)
    nisa.dma_copy(out[row : row + P, column : column + N], ready)


def tiled(lhs: Any, rhs: Any) -> Any:
    """Both operands are loaded for each product."""
    out = nl.ndarray((lhs.shape[1], rhs.shape[1]), lhs.dtype, buffer=nl.shared_hbm)
    for m in range(0, lhs.shape[1], P):
        for n in range(0, rhs.shape[1], N):
            acc = nl.ndarray((P, N), nl.float32, buffer=nl.psum)
            for k in range(0, lhs.shape[0], P):
                stationary, moving = load(lhs, k, m, P, P), load(rhs, k, n, P, N)
                nisa.nc_matmul(acc, stationary, moving)
            evict(out, acc, m, n)
    return out


def hoisted(lhs: Any, rhs: Any) -> Any:
    """A column of the left operand is loaded once, one of the right operand for each of them."""
    out = nl.ndarray((lhs.shape[1], rhs.shape[1]), lhs.dtype, buffer=nl.shared_hbm)
    depth = range(0, lhs.shape[0], P)
    for m in range(0, lhs.shape[1], P):
        left = [load(lhs, k, m, P, P) for k in depth]
        for n in range(0, rhs.shape[1], N):
            right = [load(rhs, k, n, P, N) for k in depth]
            acc = nl.ndarray((P, N), nl.float32, buffer=nl.psum)
            for stationary, moving in zip(left, right, strict=True):
                nisa.nc_matmul(acc, stationary, moving)
            evict(out, acc, m, n)
    return out


def blocked(lhs: Any, rhs: Any, high: int = 16, wide: int = 2, deep: int = 8) -> Any:
    """Blocks of 16 x 2 x 8 tiles, partial sums of a column of blocks in SBUF."""
    (K, M), width = lhs.shape, wide * N
    out = nl.ndarray((M, rhs.shape[1]), lhs.dtype, buffer=nl.shared_hbm)
    for n in range(0, rhs.shape[1], width):
        sums = [nl.ndarray((P, width), out.dtype, buffer=nl.sbuf) for _ in range(0, M, P)]
        for part in sums:
            nisa.memset(part, 0.0)
        for k in range(0, K, deep * P):
            right = [load(rhs, k + i * P, n, P, width) for i in range(deep)]
            for m in range(0, M, high * P):
                left = [load(lhs, k + i * P, m, P, high * P) for i in range(deep)]
                for column in range(wide):
                    for row in range(high):
                        add_block(sums[m // P + row], left, right, row, column)
        for row, part in enumerate(sums):
            nisa.dma_copy(out[row * P : (row + 1) * P, n : n + width], part)
    return out


def add_block(part: Any, left: list[Any], right: list[Any], row: int, column: int) -> None:
    """One tile of a block: its products in PSUM, added to what SBUF holds of it."""
    acc = nl.ndarray((P, N), nl.float32, buffer=nl.psum)
    for stationary, moving in zip(left, right, strict=True):
        nisa.nc_matmul(acc, stationary[:, row * P : (row + 1) * P], moving[:, column * N : (column + 1) * N])
    here = part[:, column * N : (column + 1) * N]
    nisa.tensor_tensor(here, here, acc, nl.add)


PUBLISHED = {
    ("trn2", "tiled"): 39.894938, ("trn2", "hoisted"): 28.197982, ("trn2", "blocked"): 28.301971,
    ("trn1", "hoisted"): 42.96, ("trn1", "blocked"): 6.97,
}  # fmt: skip
"""Milliseconds."""

STAGES = {"tiled": tiled, "hoisted": hoisted, "blocked": blocked}


@cache
def stage(target: str, name: str, size: tuple[int, int, int] = (4096, 8192, 8192)) -> Timed:
    m, k, n = size
    dtype = nl.float32 if target == "trn2" else nl.bfloat16
    return timed(STAGES[name], (k, m), (k, n), target=target, dtype=dtype)


def milliseconds(target: str, name: str) -> float:
    return stage(target, name).timing.makespan / 1e9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "slower", "faster"),
    [("trn2", "tiled", "hoisted"), ("trn2", "tiled", "blocked"), ("trn2", "hoisted", "blocked"),
     ("trn1", "hoisted", "blocked")],
)  # fmt: skip
def test_stages_compare_as_published(target: str, slower: str, faster: str) -> None:
    published = PUBLISHED[target, slower] / PUBLISHED[target, faster]
    assert milliseconds(target, slower) / milliseconds(target, faster) == pytest.approx(published, rel=0.25)


@pytest.mark.slow
@pytest.mark.parametrize(("target", "name"), PUBLISHED)
def test_stages_take_the_published_times(target: str, name: str) -> None:
    assert milliseconds(target, name) == pytest.approx(PUBLISHED[target, name], rel=0.15)


def own_work(lane: str, name: str) -> int:
    """Picoseconds that an engine's instructions take at full pace."""
    found = stage("trn2", name).lane(lane)
    return found.busy - sum(found.slowed.values())


@pytest.mark.slow
def test_the_engines_work_as_long_as_published() -> None:
    # The profiles' active times: of the Tensor Engine in all versions, of the Vector Engine in the last.
    for name in ("hoisted", "blocked"):
        assert own_work("tensor", name) / 1e9 == pytest.approx(28.16, rel=0.02)
    assert own_work("vector", "blocked") / 1e9 == pytest.approx(2.99, rel=0.10)


@pytest.mark.parametrize(("target", "name"), PUBLISHED)
def test_small_stages_keep_their_books(target: str, name: str) -> None:
    found = stage(target, name, (2048, 2048, 1024))
    checked(found)
    path_checked(found.timing)


def test_the_first_stage_waits_for_transfers_and_the_last_for_nothing_long() -> None:
    first, last = (stage("trn2", name, (2048, 2048, 1024)).timing for name in ("tiled", "blocked"))
    tensor = {name: lane for timing, name in ((first, "tiled"), (last, "blocked")) for lane in timing.lanes[:1]}
    assert tensor["blocked"].busy / last.makespan > tensor["tiled"].busy / first.makespan
    assert last.makespan < first.makespan
