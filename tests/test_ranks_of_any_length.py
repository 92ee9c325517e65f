"""`all_gather_v` and `all_to_all_v`: what ranks exchange whose counts are known at run time."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki.collectives import ReplicaGroup

import nki_lab
from nki_lab import NkiError, spec

SLOT = 40


def exchange(x, metadata, group, known=False, placed=False, size=0):
    out = nl.ndarray((size or len(group.replica_groups[0]) * SLOT,), x.dtype, buffer=nl.shared_hbm)
    blank = nl.ndarray((1, out.shape[0]), x.dtype)
    nisa.memset(blank, value=-1.0)
    nisa.dma_copy(dst=out.reshape((1, out.shape[0])), src=blank)
    counts = nl.ndarray(metadata.shape, nl.uint32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=counts, src=metadata)
    ncc.all_to_all_v([x], [out], group, counts, recv_counts_known=known, has_rdispls=placed)
    return out, counts


def gather(x, metadata, group, known=False, copies=False):
    out = nl.ndarray((len(group.replica_groups[0]) * SLOT,), x.dtype, buffer=nl.shared_hbm)
    counts = nl.ndarray(metadata.shape, nl.uint32, buffer=nl.shared_hbm)
    if nl.program_id(0) == 0 or copies:
        nisa.dma_copy(dst=counts, src=metadata)
    ncc.all_gather_v([x], [out], group, counts, recv_counts_known=known)
    return out, counts


def drawn(rng: Any, ranks: int, elements: int) -> list[Any]:
    """For each rank numbers and places of what it sends to each, and the row that is written."""
    found = []
    for _ in range(ranks):
        counts = rng.integers(0, SLOT + 1, ranks)
        places = [int(rng.integers(0, elements - count + 1)) for count in counts]
        found.append(np.array([counts, places, np.full(ranks, 77)], np.uint32))
    return found


def expected(data: list[Any], metadata: list[Any], me: int, members: list[int], size: int, places: Any = None) -> Any:
    out = np.full(size, -1, data[0].dtype)
    for column, rank in enumerate(members):
        count, start = metadata[rank][:2, members.index(me)].astype(int)
        at = size // len(members) * column if places is None else places[column]
        out[at : at + count] = data[rank].reshape(-1)[start : start + count]
    return out


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_each_rank_gets_what_the_others_send_to_it(seed: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    data = [rng.normal(size=(8, 16)).astype(dtype) for _ in range(3)]
    metadata = drawn(rng, 3, 128)
    group = ReplicaGroup([[0, 1, 2]])
    made = nki_lab.run_ranks(exchange, [(x, m, group) for x, m in zip(data, metadata, strict=True)], target="trn2")
    for rank, run in enumerate(made):
        out, counts = run.outputs
        np.testing.assert_array_equal(out, expected(data, metadata, rank, [0, 1, 2], 3 * SLOT))
        np.testing.assert_array_equal(counts[2], [m[0, rank] for m in metadata])
        np.testing.assert_array_equal(counts[:2], metadata[rank][:2])


def test_groups_exchange_apart_in_their_own_order_and_known_counts_stay() -> None:
    rng = np.random.default_rng(1)
    data = [rng.normal(size=(128,)).astype(np.float32) for _ in range(4)]
    metadata = drawn(rng, 2, 128) + drawn(rng, 2, 128)
    group = ReplicaGroup([[2, 0], [1, 3]])
    given = [(x, m, group, True) for x, m in zip(data, metadata, strict=True)]
    made = nki_lab.run_ranks(exchange, given, target="trn2")
    for members in group.replica_groups:
        for rank in members:
            out, counts = made[rank].outputs
            np.testing.assert_array_equal(out, expected(data, metadata, rank, list(members), 2 * SLOT))
            np.testing.assert_array_equal(counts[2], [77, 77])


def test_places_of_the_receiver_decide_on_trn3() -> None:
    data = [np.arange(64, dtype=np.float32) + 100 * rank for rank in range(2)]
    metadata = [
        np.array([[5, 3], [0, 10], [0, 0], [20, 1]], np.uint32),
        np.array([[2, 7], [30, 40], [0, 0], [0, 50]], np.uint32),
    ]
    given = [(x, m, ReplicaGroup([[0, 1]]), False, True, 60) for x, m in zip(data, metadata, strict=True)]
    made = nki_lab.run_ranks(exchange, given, target="trn3")
    np.testing.assert_array_equal(made[0].outputs[0], expected(data, metadata, 0, [0, 1], 60, [20, 1]))
    np.testing.assert_array_equal(made[1].outputs[0], expected(data, metadata, 1, [0, 1], 60, [0, 50]))


@pytest.mark.parametrize("known", [False, True])
def test_gathering_sends_one_part_to_all_of_a_chip(known: bool) -> None:
    rng = np.random.default_rng(2)
    data = [rng.normal(size=(8, 16)).astype(np.float32) for _ in range(4)]
    sizes, starts = [40, 0, 7, 33], [88, 0, 3, 50]
    metadata = [
        np.array([[size, 9, 9, 9], [start, 9, 9, 9], [5] * 4], np.uint32)
        for size, start in zip(sizes, starts, strict=True)
    ]
    given = [(x, m, ReplicaGroup([[0, 1, 2, 3]]), known) for x, m in zip(data, metadata, strict=True)]
    for run in nki_lab.run_ranks(nki.jit(gather)[2], given, target="trn2"):
        out, counts = run.outputs
        for rank, (size, start) in enumerate(zip(sizes, starts, strict=True)):
            part = out[rank * SLOT : rank * SLOT + size]
            np.testing.assert_array_equal(part, data[rank].reshape(-1)[start : start + size])
        np.testing.assert_array_equal(counts[2], [5] * 4 if known else sizes)
        assert not [item for item in run.diagnostics if item.severity == "error"]


def test_data_of_the_second_core_is_refused_where_it_would_be_missing() -> None:
    given = [(np.zeros(64, np.float32), np.zeros((3, 4), np.uint32), ReplicaGroup([[0, 1, 2, 3]]), False, True)] * 4
    with pytest.raises(NkiError, match="NKI017 all_gather_v: the second core has written"):
        nki_lab.run_ranks(nki.jit(gather)[2], given, target="trn2")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[30, 0], [100, 0], [0, 0]], "rank 0 of the group sends elements 100 to 130 of src(.|\n)*src has 128"),
        ([[41, 0], [0, 0], [0, 0]], "rank 0 of the group sends 41 elements(.|\n)*dst has 80, of which 40 for each"),
    ],
)
def test_counts_that_do_not_fit_are_refused(rows: Any, message: str) -> None:
    metadata = [np.array(rows, np.uint32), np.zeros((3, 2), np.uint32)]
    given = [(np.zeros(128, np.float32), m, ReplicaGroup([[0, 1]])) for m in metadata]
    with pytest.raises(NkiError, match=f"NKI243 all_to_all_v: {message}"):
        nki_lab.run_ranks(exchange, given, target="trn2")


@pytest.mark.parametrize(("places", "message"), [([50, 0], "place 50 of dst"), ([0, 3], "overlap")])
def test_places_that_do_not_fit_are_refused(places: Any, message: str) -> None:
    metadata = [np.array([[20, 20], [0, 0], [0, 0], places], np.uint32)] * 2
    given = [(np.zeros(64, np.float32), m, ReplicaGroup([[0, 1]]), False, True, 60) for m in metadata]
    with pytest.raises(NkiError, match=f"NKI243 (.|\n)*{message}"):
        nki_lab.run_ranks(exchange, given, target="trn3")


def test_shapes_alone_are_timed_with_full_parts_and_it_is_said() -> None:
    arguments = [spec((8, 16), "float32"), spec((3, 4), "uint32"), ReplicaGroup([[0, 1, 2, 3]])]
    full = nki_lab.profile(exchange, *arguments, target="trn2")
    small = nki_lab.profile(exchange, *arguments, size=16, target="trn2")
    assert full.summary.makespan_ns > small.summary.makespan_ns
    (found,) = [item for item in full.diagnostics if item.code == "NKI242"]
    assert "each part fills its place" in found.limit
    pair = nki_lab.profile(nki.jit(gather)[2], *arguments, target="trn2")
    assert pair.summary.makespan_ns > 0


def test_a_group_of_one_rank_sends_to_itself() -> None:
    x, metadata = np.arange(16, dtype=np.float32), np.array([[5], [3], [0]], np.uint32)
    run = nki_lab.run(exchange, x, metadata, ReplicaGroup([[0]]), target="trn2", size=8)
    np.testing.assert_array_equal(run.outputs[0], [3, 4, 5, 6, 7, -1, -1, -1])
    np.testing.assert_array_equal(run.outputs[1][2], [5])
