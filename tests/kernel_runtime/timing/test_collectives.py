"""Collectives: hops, links, and what they wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nki
import nki.collectives as ncc
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nki.collectives import ReplicaGroup

import nki_lab
from nki_lab.isa.arch import V2, V3, V4, Arch
from nki_lab.kernel_runtime.ir import Arrival
from nki_lab.kernel_runtime.timing.collectives import hops, latency_ns, link_ns
from tests.kernel_runtime.drawn_kernels import nisa, nl

MB = 1 << 20
ARCHES = st.sampled_from((V2, V3, V4))


def arrival(ranks: int, rounds: int = 1, size: int = 1024, first: int = 0) -> Arrival:
    return Arrival(tuple(range(first, first + ranks)), rounds, size, (ranks - 1) / ranks if rounds else 1.0)


# Neuron documentation, intra-node collective communications, comparison of algorithms: mesh O(1) below 1 MB, recursive
# doubling O(log N) from 1 to 56 MB, rings of pairs O(N / 2) above.
@pytest.mark.parametrize(
    ("ranks", "rounds", "size", "expected"),
    [
        (4, 1, 1024, 1), (64, 1, 1024, 1), (64, 2, 1024, 2), (4, 1, 2 * MB, 2), (64, 1, 2 * MB, 6), (64, 2, 2 * MB, 12),
        (64, 1, 60 * MB, 32), (64, 2, 60 * MB, 64), (64, 0, 60 * MB, 1),
    ],
)  # fmt: skip
def test_hops_follow_the_algorithm_of_the_size(ranks: int, rounds: int, size: int, expected: int) -> None:
    assert hops(V3, arrival(ranks, rounds, size)) == expected


def test_a_hop_takes_one_to_two_microseconds_within_a_node_and_15_between_nodes() -> None:
    assert 1000 <= latency_ns(V3, arrival(4), 1) <= 2000
    assert latency_ns(V3, arrival(4, first=126), 1) == 15_000  # 16 chips of 8 cores
    assert latency_ns(V3, arrival(4, first=62), 2) == 15_000
    assert latency_ns(V3, arrival(4, first=62), 1) < 2000


def test_links_are_shared_by_the_cores_of_a_chip() -> None:
    whole = arrival(2, 0, 64 * MB)
    assert link_ns(V3, whole, 1) == pytest.approx(64 * MB / (1280 / 8))
    assert link_ns(V3, whole, 2) == pytest.approx(link_ns(V3, whole, 1) / 2)
    assert link_ns(V2, whole, 1) == pytest.approx(64 * MB / (384 / 2))


@given(ARCHES, st.integers(2, 64), st.integers(0, 2), st.integers(1, 1 << 28), st.sampled_from((1, 2)))
def test_more_bytes_and_more_ranks_never_take_less(arch: Arch, ranks: int, rounds: int, size: int, cores: int) -> None:
    def total(ranks: int, size: int) -> float:
        item = arrival(ranks, rounds, size)
        return latency_ns(arch, item, cores) + link_ns(arch, item, cores)

    assert total(ranks, size) <= total(ranks + 1, size)
    assert total(ranks, size) <= total(ranks, 2 * size)


def kernel_of(call: Callable[..., None], written: int = 0) -> Any:
    def kernel(x: Any, group: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        source = x
        if written:
            source = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            tile = nl.ndarray((128, x.shape[1]), x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(tile, x)
            for _ in range(written):
                nisa.activation(tile, nl.exp, tile)
            nisa.dma_copy(source, tile)
        call(source, out, group)
        return out

    return nki.jit(kernel)


def reduce_all(src: Any, dst: Any, group: Any) -> None:
    ncc.all_reduce([src], [dst], group, nl.add)


def exchange_all(src: Any, dst: Any, group: Any) -> None:
    ncc.all_to_all([src], [dst], group, 0)


def time_of(kernel: Any, columns: int, ranks: int, target: str = "trn2") -> float:
    x = nki_lab.spec((128, columns), "float32")
    return float(nki_lab.profile(kernel, x, ReplicaGroup([list(range(ranks))]), target=target).summary.makespan_ns)


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_a_kernel_takes_the_hops_longer(target: str) -> None:
    kernel = kernel_of(reduce_all)
    alone, together = (time_of(kernel, 16, ranks, target) for ranks in (1, 4))
    assert together - alone == pytest.approx(2 * 1500, rel=0.05)
    assert time_of(kernel_of(exchange_all), 16, 4, target) - alone == pytest.approx(1500, rel=0.05)


def test_long_tensors_take_the_links_time() -> None:
    kernel = kernel_of(exchange_all)
    size = 128 * 65536 * 4
    assert time_of(kernel, 65536, 4) == pytest.approx(1500 + size / 160, rel=0.02)


def test_a_collective_waits_for_what_it_sends() -> None:
    short, long = (time_of(kernel_of(reduce_all, written), 512, 4) for written in (1, 20))
    each = (512 + 355) / 1.2 + 27
    assert long - short == pytest.approx(19 * each, rel=0.05)


def test_ranks_of_two_cores_are_timed() -> None:
    x, group = nki_lab.spec((128, 65536), "float32"), ReplicaGroup([[0, 1, 2, 3]])
    one, two = (
        float(nki_lab.profile(kernel, x, group, target="trn2").summary.makespan_ns)
        for kernel in (kernel_of(exchange_all), kernel_of(exchange_all)[2])
    )
    assert two < 0.7 * one
    assert two > 128 * 65536 * 4 / 320


def test_times_of_ranks_are_those_of_a_profile() -> None:
    x, group = np.ones((128, 16), np.float32), ReplicaGroup([[0, 1]])
    kernel = kernel_of(reduce_all)
    runs = nki_lab.run_ranks(kernel, [(x, group), (x, group)], target="trn2")
    assert {run.summary.makespan_ns for run in runs} == {time_of(kernel, 16, 2)}
