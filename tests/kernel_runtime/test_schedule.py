"""Order: every dependency is there, nothing else is, and each op runs on its lane."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.kernel_runtime.allocate import Allocation, allocate
from nki_lab.kernel_runtime.footprint import cells, rectangles
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.schedule import EDGE_KINDS, Schedule, schedule, semaphores, verify
from nki_lab.kernel_runtime.schedule.dependencies import Edges, _neighbours, unique
from tests.kernel_runtime.drawn_kernels import Drawn, drawn_kernels, elements, nisa, nl, small, traced

FLOW, ANTI, OUTPUT, REUSE, USER = range(5)


# -- brute force -------------------------------------------------------------------------------------------------------


def touched(program: Program) -> list[tuple[set[Any], set[Any]]]:
    """For each op the bytes that it reads and writes. Bytes of placed tensors have physical addresses."""
    out = []
    for op in program.ops():
        reads: set[Any] = set()
        writes: set[Any] = set()
        for view, is_out in zip(op.views, op.variant.outs, strict=True):
            (writes if is_out else reads).update(places(view))
            if is_out and op.variant.instruction.accumulation is not None:
                reads.update(places(view))
            if view.indirect is not None and hasattr(view.indirect.index, "_view"):
                reads.update(places(program.views[view.indirect.index._view]))
        out.append((reads, writes))
    return out


def places(view: Any) -> set[Any]:
    buffer = view.buffer
    if buffer.address is None:
        return {(buffer.id, at) for at in elements(view)}
    partition, byte = buffer.address
    row = buffer.partition_bytes
    return {(buffer.space, partition + at // row, byte + at % row) for at in elements(view)}


def conflicts(program: Program) -> np.ndarray:
    """[later, earlier]: both touch a byte and one of them writes it."""
    found = touched(program)
    out = np.zeros((len(program), len(program)), bool)
    for later, (reads, writes) in enumerate(found):
        for earlier, (read, wrote) in enumerate(found[:later]):
            out[later, earlier] = bool(wrote & (reads | writes) or read & writes)
    return out


def tenancies(program: Program, allocation: Allocation) -> np.ndarray:
    """[later, earlier]: ops of two tensors that have bytes of the chip one after the other."""
    users: dict[int, list[int]] = {}
    for op in program.ops():
        for view in op.views:
            users.setdefault(view.buffer.id, []).append(op.index)
    out = np.zeros((len(program), len(program)), bool)
    chip = [b for b in program.buffers if b.on_chip and b.id in users and allocation.byte[b.id] >= 0]
    for a in chip:
        for b in chip:
            if max(users[a.id]) < min(users[b.id]) and share(allocation, a, b):
                out[np.ix_(users[b.id], users[a.id])] = True
    return out


def share(allocation: Allocation, a: Any, b: Any) -> bool:
    """Whether two tensors have a byte of a quadrant in common; PSUM tensors of several banks own these banks."""
    if a.space is not b.space:
        return False
    spans = []
    for buffer in (a, b):
        byte, partition = int(allocation.byte[buffer.id]), int(allocation.partition[buffer.id])
        size = buffer.partition_bytes
        if buffer.space == "psum" and size > 2048:
            size = -(-size // 2048) * 2048
        spans.append((byte, byte + size, partition // 32, (partition + buffer.partitions - 1) // 32))
    (x0, x1, p0, p1), (y0, y1, q0, q1) = spans
    return x0 < y1 and y0 < x1 and p0 <= q1 and q0 <= p1


def closure(direct: np.ndarray) -> np.ndarray:
    out = direct.copy()
    for k in range(len(out)):
        out |= np.outer(out[:, k], out[k])
    return out


def lane_order(found: Schedule) -> np.ndarray:
    out = np.zeros((len(found), len(found)), bool)
    for row in found.order:
        for number, op in enumerate(row):
            out[op, row[:number].astype(int)] = True
    return out


def stored(found: Schedule) -> np.ndarray:
    out = np.zeros((len(found), len(found)), bool)
    for op in range(len(found)):
        for pred, _ in found.waits(op):
            out[op, pred] = True
    return out


def scheduled(program: Program) -> tuple[Schedule, Allocation]:
    allocation = allocate(program)
    found = schedule(program, allocation)
    verify(found)
    return found, allocation


def edges_of(found: Schedule, kind: str | None = None) -> list[tuple[int, int]]:
    """(op, pred) of the stored edges of a kind."""
    return [(op, pred) for op in range(len(found)) for pred, what in found.waits(op) if kind in (None, what)]


# -- properties --------------------------------------------------------------------------------------------------------


@given(drawn_kernels())
def test_edges_and_lanes_order_exactly_what_memory_orders(kernel: Drawn) -> None:
    program = traced(kernel)
    found, allocation = scheduled(program)
    wanted = conflicts(program) | tenancies(program, allocation) | lane_order(found)
    assert np.array_equal(closure(stored(found) | lane_order(found)), closure(wanted))


@given(drawn_kernels(columns=40, most_tiles=8))
def test_the_same_holds_where_memory_is_short(kernel: Drawn) -> None:
    program = traced(kernel, target=small(sbuf=512))
    found, allocation = scheduled(program)
    wanted = conflicts(program) | tenancies(program, allocation) | lane_order(found)
    assert np.array_equal(closure(stored(found) | lane_order(found)), closure(wanted))


@given(drawn_kernels(columns=40))
def test_no_edge_joins_independent_ops(kernel: Drawn) -> None:
    program = traced(kernel, target=small(sbuf=512))
    found, allocation = scheduled(program)
    direct, tenants = conflicts(program), tenancies(program, allocation)
    sets = touched(program)
    for op, pred in edges_of(found):
        kind = dict(found.waits(op))[pred]
        assert (tenants if kind == "reuse" else direct)[op, pred]
        (reads, writes), (read, wrote) = sets[op], sets[pred]
        assert kind != "flow" or reads & wrote
        assert kind != "anti" or read & writes
        assert kind != "output" or wrote & writes


@given(drawn_kernels())
def test_a_reader_names_the_last_op_of_its_lane_that_it_reads_from(kernel: Drawn) -> None:
    program = traced(kernel)
    found, _ = scheduled(program)
    sets = touched(program)
    for op in range(len(program)):
        matmul = program.op(op).variant.instruction.accumulation is not None
        if matmul:
            continue
        wanted = -1
        for at in sets[op][0]:
            writers = [k for k in range(op) if at in sets[k][1]]
            if writers and found.lane[writers[-1]] == found.lane[op]:
                wanted = max(wanted, writers[-1])
        assert found.lane_flow[op] == wanted


@given(drawn_kernels(placed=False), st.data())
def test_user_edges_hold_and_as_little_as_possible_moves(kernel: Drawn, data: Any) -> None:
    program = traced(kernel)
    if len(program) < 2:
        return
    numbers = st.integers(0, len(program) - 1)
    user = data.draw(st.lists(st.tuples(numbers, numbers), max_size=3))
    program.user_edges = user
    found, _ = scheduled(program)
    wanted = conflicts(program)
    for op, pred in user:
        wanted[op, pred] = True
    loops = closure(wanted).diagonal().any()
    assert bool(found.diagnostics) == loops
    if loops:
        assert [item.code for item in found.diagnostics] == ["NKI402"]
        assert all((np.diff(row.astype(int)) > 0).all() for row in found.order)
        return
    have = closure(stored(found) | lane_order(found))
    assert not have.diagonal().any()
    assert not (closure(wanted) & ~have).any()
    if all(pred < op for op, pred in user):
        assert all((np.diff(row.astype(int)) > 0).all() for row in found.order)


@given(drawn_kernels())
def test_the_same_program_has_the_same_schedule(kernel: Drawn) -> None:
    (a, _), (b, _) = (scheduled(traced(kernel)) for _ in range(2))
    assert a.lanes == b.lanes
    for name in ("lane", "start", "pred", "kind", "lane_flow"):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name


@given(drawn_kernels())
def test_nothing_is_missing_where_cells_would_be_too_many(kernel: Drawn) -> None:
    program = traced(kernel)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "MOST_PAIRS", 1)
        patch.setattr(rectangles, "MOST_PAIRS", 1)
        found, _ = scheduled(program)
    assert not (conflicts(program) & ~closure(stored(found) | lane_order(found))).any()


# -- kernels -----------------------------------------------------------------------------------------------------------


def copied(x: Any) -> Any:
    """Load, copy, store."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    a = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    b = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(a, x)
    nisa.tensor_copy(b, a, engine=nisa.engine.vector)
    nisa.dma_copy(out, b)
    return out


def test_a_store_waits_for_the_copy_and_the_copy_for_the_load() -> None:
    found, _ = scheduled(traced(copied, (128, 64)))
    assert [found.lanes[lane].name for lane in found.lane] == ["dma q0 sync", "vector", "dma q9 sync"]
    assert [found.waits(op) for op in range(3)] == [[], [(0, "flow")], [(1, "flow")]]
    assert semaphores(found).tolist() == [[1, 6, 1], [5, 1, 1]]


def test_an_empty_program_has_engines_and_nothing_else() -> None:
    def nothing() -> None:
        pass

    found, _ = scheduled(traced(nothing))
    assert [lane.name for lane in found.lanes] == ["tensor", "vector", "scalar", "gpsimd", "sync"]
    assert len(found) == len(found.pred) == 0
    assert all(len(row) == 0 for row in found.order)
    assert semaphores(found).shape == (0, 3)


def test_dependencies_pass_through_hbm() -> None:
    def kernel() -> None:
        rows = nl.ndarray((256, 64), nl.float32, buffer=nl.private_hbm)
        a = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
        b = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
        nisa.memset(a, 0.0, engine=nisa.engine.vector)
        nisa.dma_copy(rows[0:128, :], a)  # 1
        nisa.dma_copy(rows[128:256, :], a)  # 2
        nisa.dma_copy(b, rows[64:192, :])  # 3: reads from both
        nisa.dma_copy(rows[0:64, :], a[0:64, :])  # 4: nobody read that

    found, _ = scheduled(traced(kernel))
    assert found.waits(3) == [(1, "flow"), (2, "flow")]
    assert found.waits(4) == [(0, "flow"), (1, "output")]


def test_disjoint_strides_of_one_tile_are_independent() -> None:
    def kernel() -> None:
        a = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
        b = nl.ndarray((128, 32), nl.float32, buffer=nl.sbuf)
        nisa.memset(a[:, 0:64:2], 0.0, engine=nisa.engine.vector)
        nisa.memset(a[:, 1:64:2], 0.0, engine=nisa.engine.gpsimd)
        nisa.tensor_copy(b, a[:, 1:64:2], engine=nisa.engine.scalar)

    found, _ = scheduled(traced(kernel))
    assert edges_of(found) == [(2, 1)]


def test_a_write_waits_for_the_last_reader_of_each_lane_only() -> None:
    def kernel() -> None:
        a = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
        nisa.memset(a, 0.0, engine=nisa.engine.vector)
        for engine in (nisa.engine.scalar, nisa.engine.scalar, nisa.engine.gpsimd, nisa.engine.scalar):
            b = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(b, a, engine=engine)
        nisa.memset(a, 1.0, engine=nisa.engine.vector)

    found, _ = scheduled(traced(kernel))
    assert found.waits(5) == [(3, "anti"), (4, "anti")]


def test_matmuls_that_accumulate_stay_in_order_without_edges() -> None:
    def kernel(x: Any) -> None:
        acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
        w = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf)
        m = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(w, x[:, 0:128])
        nisa.dma_copy(m, x)
        for _ in range(3):
            nisa.nc_matmul(acc, w, m)
        nisa.tensor_copy(m, acc, engine=nisa.engine.vector)

    found, _ = scheduled(traced(kernel, (128, 512)))
    assert [found.waits(op) for op in (2, 3, 4)] == [[(0, "flow"), (1, "flow")]] * 3
    assert found.waits(5) == [(4, "flow")]
    assert found.lane_flow.tolist() == [-1] * 6


def test_a_vector_chain_names_what_it_waits_for_inside_its_lane() -> None:
    def kernel() -> None:
        a = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
        b = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
        nisa.memset(a, 0.0, engine=nisa.engine.vector)
        nisa.tensor_copy(b, a, engine=nisa.engine.vector)
        nisa.memset(a, 0.0, engine=nisa.engine.vector)
        nisa.tensor_copy(b, b, engine=nisa.engine.vector)

    found, _ = scheduled(traced(kernel))
    assert edges_of(found) == []
    assert found.lane_flow.tolist() == [-1, 0, -1, 1]


def test_tiles_that_get_the_memory_of_earlier_ones_wait_for_them() -> None:
    def kernel(x: Any) -> None:
        for _ in range(6):
            a = nl.ndarray((128, 256), nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(a, x)
            nisa.tensor_copy(a, a, engine=nisa.engine.vector)

    roomy, _ = scheduled(traced(kernel, (128, 256)))
    assert edges_of(roomy, "reuse") == []
    tight, _ = scheduled(traced(kernel, (128, 256), target=small(sbuf=2048)))
    assert edges_of(tight, "reuse") == [(4, 1), (6, 3), (8, 5), (10, 7)]


def test_placed_tensors_depend_on_each_other_by_their_bytes() -> None:
    def kernel() -> None:
        a = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf, address=(0, 0))
        b = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf, address=(0, 128))
        c = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
        nisa.memset(a, 0.0, engine=nisa.engine.vector)
        nisa.memset(b[:, 32:64], 0.0, engine=nisa.engine.gpsimd)  # behind a
        nisa.tensor_copy(c[:, 0:32], b[:, 0:32], engine=nisa.engine.scalar)  # the second half of a
        nisa.tensor_copy(c[:, 32:64], a[:, 0:32], engine=nisa.engine.scalar)

    found, _ = scheduled(traced(kernel))
    assert edges_of(found) == [(2, 0), (3, 0)]


def test_an_access_computed_at_run_time_depends_on_the_whole_tensor_and_on_its_index() -> None:
    def kernel(x: Any) -> None:
        table = nl.ndarray((256, 64), nl.float32, buffer=nl.private_hbm)
        index = nl.ndarray((128, 1), nl.int32, buffer=nl.sbuf)
        rows = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(table[0:8, :], x[0:8, :])  # 0
        nisa.memset(index, 0, engine=nisa.engine.gpsimd)  # 1
        nisa.dma_copy(rows, table.ap([[64, 128], [1, 64]], vector_offset=index, indirect_dim=0))  # 2
        nisa.memset(index, 1, engine=nisa.engine.vector)  # 3
        nisa.dma_copy(table[255:256, :], x[0:1, :])  # 4

    found, _ = scheduled(traced(kernel, (128, 64)))
    assert found.waits(2) == [(0, "flow"), (1, "flow")]
    assert found.waits(3) == [(2, "anti")]
    assert found.waits(4) == [(2, "anti")]
    assert found.lanes[found.lane[2]].trigger == "gpsimd"


def test_a_buffer_seen_in_two_dtypes_is_one_memory() -> None:
    def kernel() -> None:
        a = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
        b = nl.ndarray((128, 2), nl.int8, buffer=nl.sbuf)
        nisa.memset(a[:, 0:1], 0.0, engine=nisa.engine.vector)
        nisa.memset(a[:, 1:2], 0.0, engine=nisa.engine.gpsimd)
        nisa.tensor_copy(b, a.view(nl.int8)[:, 3:5], engine=nisa.engine.scalar)
        nisa.tensor_copy(b, a.view(nl.int8)[:, 5:7], engine=nisa.engine.scalar)

    found, _ = scheduled(traced(kernel))
    assert found.waits(2) == [(0, "flow"), (1, "flow")]
    assert found.waits(3) == [(1, "flow")]


def test_dma_queues_go_by_trigger_direction_and_turn() -> None:
    def kernel(x: Any) -> None:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
        modes = nisa.dge_mode
        for _ in range(11):
            a = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(a, x)
        nisa.dma_copy(out, a)
        nisa.dma_copy(a, x, dge_mode=modes.hwdge)
        nisa.dma_copy(a, x, dge_mode=modes.hwdge, engine=nisa.engine.scalar)
        nisa.dma_copy(a, x, dge_mode=modes.swdge)

    found, _ = scheduled(traced(kernel, (128, 64)))
    names = [found.lanes[lane].name for lane in found.lane]
    assert names[:11] == [f"dma q{number % 9} sync" for number in range(11)]
    assert names[11:] == ["dma q9 sync", "dma q13 sync", "dma q14 scalar", "dma q15 gpsimd"]
    assert {lane.trigger for lane in found.lanes if lane.kind == "dma"} == {"sync", "scalar", "gpsimd"}


def test_static_transfers_share_no_queue_with_those_that_hardware_describes() -> None:
    def kernel(x: Any) -> None:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
        for mode in (nisa.dge_mode.unknown, nisa.dge_mode.none):
            for _ in range(6):
                a = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
                nisa.dma_copy(a, x, dge_mode=mode)
            nisa.dma_copy(out, a, dge_mode=mode)

    found, _ = scheduled(traced(kernel, (128, 64)))
    names = [found.lanes[lane].name for lane in found.lane]
    assert names[:7] == [f"dma q{number} sync" for number in (0, 1, 2, 3, 4, 5, 9)]
    assert names[7:] == ["dma q8"] * 6 + ["dma q12"]


def test_transposes_that_hardware_cannot_describe_have_static_descriptors() -> None:
    def kernel(x: Any, *, rows: int, mode: Any) -> None:
        a = nl.ndarray((64, rows), x.dtype, buffer=nl.sbuf)
        nisa.dma_transpose(a, x[0:rows], dge_mode=mode)

    for rows, mode, trigger in (
        (16, nisa.dge_mode.unknown, "sync"),
        (128, nisa.dge_mode.unknown, ""),
        (16, nisa.dge_mode.hwdge, "sync"),
        (16, nisa.dge_mode.none, ""),
    ):
        found, _ = scheduled(traced(partial(kernel, rows=rows, mode=mode), (128, 64), dtype=nl.bfloat16))
        assert found.lanes[found.lane[0]].trigger == trigger


def test_priorities_have_queues_of_their_own() -> None:
    def kernel(x: Any) -> None:
        for level in (None, 0, 3, None):
            a = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(a, x, priority=level)

    found, _ = scheduled(traced(kernel, (128, 64), target="trn3"))
    assert [found.lanes[lane].queue for lane in found.lane] == [0, 9, 12, 1]


def test_a_scalar_offset_needs_descriptors_made_at_run_time() -> None:
    def kernel(x: Any) -> None:
        index = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
        rows = nl.ndarray((1, 64), nl.float32, buffer=nl.sbuf)
        nisa.memset(index, 0, engine=nisa.engine.vector)
        nisa.dma_copy(rows, x.ap([[64, 1], [1, 64]], scalar_offset=index, indirect_dim=0))

    for target, trigger in (("trn1", "gpsimd"), ("trn2", "sync")):
        found, _ = scheduled(traced(kernel, (128, 64), target=target))
        assert found.lanes[found.lane[1]].trigger == trigger


# -- what users say ----------------------------------------------------------------------------------------------------


def three(x: Any) -> None:
    """Three independent copies with names, on two engines."""
    for name, engine in (("first", nisa.engine.vector), ("second", nisa.engine.scalar), ("third", nisa.engine.vector)):
        a = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
        nisa.memset(a, 0.0, engine=nisa.engine.gpsimd)
        b = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(b, a, engine=engine, name=name)


def with_edges(edges: list[tuple[int, int]], fences: list[tuple[int, int]] | None = None) -> tuple[Program, Schedule]:
    program = traced(three, (128, 64))
    program.user_edges = edges
    program.fences = fences or []
    return program, scheduled(program)[0]


def test_a_user_edge_is_a_wait() -> None:
    _, found = with_edges([(3, 1)])
    assert found.waits(3) == [(1, "user"), (2, "flow")]


def test_a_consumer_that_stands_first_lets_its_producer_pass() -> None:
    _, found = with_edges([(1, 5)])
    assert found.order[1].tolist() == [5, 1]
    assert edges_of(found, "user") == []
    assert found.order[3].tolist() == [0, 2, 4]
    _, found = with_edges([(1, 3)])
    assert found.waits(1) == [(0, "flow"), (3, "user")]
    assert found.order[1].tolist() == [1, 5]


def test_a_fence_keeps_program_order_across_lanes() -> None:
    _, found = with_edges([], [(1, 6)])
    assert [found.waits(op) for op in range(6)] == [
        [],
        [(0, "flow")],
        [(1, "user")],
        [(2, "flow")],
        [(3, "user")],
        [(4, "flow")],
    ]


def test_a_fence_of_one_op_says_nothing() -> None:
    _, found = with_edges([], [(2, 3), (4, 4)])
    assert edges_of(found, "user") == []


def test_a_circle_is_named_with_its_lines() -> None:
    program, found = with_edges([(1, 3), (3, 5), (5, 1)])
    (item,) = found.diagnostics
    line = program.sites[program.op_site[1]].line
    assert item.code == "NKI402"
    assert item.outcome == "reject"
    wanted = f"'first' (line {line}) waits for 'second' (line {line}) waits for 'third' (line {line})"
    assert item.message == f"{wanted}, which waits for 'first' again"
    assert (item.file, item.line) == (__file__, line)
    assert [entry.span.line for entry in item.related if entry.span] == [line, line]
    assert edges_of(found, "user") == []


def test_an_edge_against_the_data_is_a_circle() -> None:
    _, found = with_edges([(0, 1)])
    (item,) = found.diagnostics
    assert "memset (line" in item.message
    assert "waits for 'first'" in item.message


def test_an_op_that_waits_for_itself_is_a_circle() -> None:
    _, found = with_edges([(3, 3)])
    assert found.diagnostics[0].message.endswith("waits for itself")


def test_a_fence_against_a_user_edge_is_a_circle() -> None:
    _, found = with_edges([(1, 5)], [(0, 6)])
    assert [item.code for item in found.diagnostics] == ["NKI402"]


def test_memory_that_was_shared_in_program_order_does_not_forbid_another_order() -> None:
    def kernel(x: Any) -> None:
        for _ in range(2):
            a = nl.ndarray((128, 256), nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(a, x)
            nisa.tensor_copy(a, a, engine=nisa.engine.vector)

    program = traced(kernel, (128, 256), target=small(sbuf=1024))
    assert edges_of(scheduled(program)[0], "reuse") == [(2, 1)]
    program.user_edges = [(1, 3)]
    found, _ = scheduled(program)
    assert not found.diagnostics
    assert found.order[1].tolist() == [3, 1]


# -- verify, and size --------------------------------------------------------------------------------------------------


def back_and_forth() -> None:
    """Vector, Scalar, Vector, each reading what the one before wrote."""
    a, b, c = (nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf) for _ in range(3))
    nisa.memset(a, 0.0, engine=nisa.engine.vector)
    nisa.tensor_copy(b, a, engine=nisa.engine.scalar)
    nisa.tensor_copy(c, b, engine=nisa.engine.vector)


def broken(found: Schedule, **changes: Any) -> Schedule:
    return dataclasses.replace(found, **changes)


def test_verify_finds_what_is_broken() -> None:
    found, _ = scheduled(traced(copied, (128, 64)))
    to_and_fro, _ = scheduled(traced(back_and_forth))
    reverse = tuple(row[::-1] for row in to_and_fro.order)
    cases: list[tuple[Schedule, str]] = [
        (broken(found, start=found.start[:-1]), "different length"),
        (broken(found, kind=found.kind[:-1]), "different length"),
        (broken(found, pred=found.pred + np.uint32(7)), "leads nowhere"),
        (broken(found, kind=found.kind + np.uint8(9)), "leads nowhere"),
        (broken(found, pred=np.array([1, 1], np.uint32)), "inside a lane"),
        (broken(found, order=found.order[:-1]), "orders"),
        (broken(found, order=(*found.order[:-1], found.order[0])), "does not run each of its ops once"),
        (broken(found, pred=np.array([2, 1], np.uint32)), "wait for each other"),
        (broken(found, start=np.array([0, 0, 2, 2]), pred=np.array([0, 0], np.uint32)), "twice"),
        (broken(to_and_fro, order=reverse), "wait for each other"),
    ]
    for case, complaint in cases:
        with pytest.raises(AssertionError, match=f"scheduled: .*{complaint}"):
            verify(case)


def tiled(x: Any, y: Any) -> Any:
    """A matmul in tiles: the pattern of most kernels."""
    (K, M), (_, N) = x.shape, y.shape
    out = nl.ndarray((M, N), x.dtype, buffer=nl.shared_hbm)
    for m in range(M // 128):
        for n in range(N // 512):
            acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
            for k in range(K // 128):
                a = nl.ndarray((128, 128), x.dtype, buffer=nl.sbuf)
                b = nl.ndarray((128, 512), x.dtype, buffer=nl.sbuf)
                nisa.dma_copy(a, x[k * 128 : (k + 1) * 128, m * 128 : (m + 1) * 128])
                nisa.dma_copy(b, y[k * 128 : (k + 1) * 128, n * 512 : (n + 1) * 512])
                nisa.nc_matmul(acc, a, b)
            r = nl.ndarray((128, 512), x.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(r, acc)
            nisa.dma_copy(out[m * 128 : (m + 1) * 128, n * 512 : (n + 1) * 512], r)
    return out


def test_a_tiled_matmul_has_few_edges_an_op() -> None:
    program = traced(tiled, (1024, 1024), (1024, 1024), dtype=nl.bfloat16)
    found, _ = scheduled(program)
    assert len(found.pred) < 2 * len(program)
    flows = edges_of(found, "flow")
    assert len(flows) == 8 * 2 * 8 * 2 + 8 * 2 * 2
    assert not edges_of(found, "output")
    assert found.start.dtype == np.int64
    assert (found.pred.dtype, found.kind.dtype, found.lane.dtype) == (np.uint32, np.uint8, np.uint16)
    assert EDGE_KINDS[USER] == "user"


def test_a_thousand_slices_and_a_whole_read_stay_exact() -> None:
    def kernel(x: Any) -> None:
        table = nl.ndarray((1024, 64), nl.float32, buffer=nl.private_hbm)
        a = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)
        nisa.memset(a, 0.0, engine=nisa.engine.vector)
        for row in range(1024):
            nisa.dma_copy(table[row : row + 1, :], a[0:1, 0:64])
        nisa.dma_copy(a, table)

    found, _ = scheduled(traced(kernel, (1, 1)))
    assert found.waits(1025) == [(0, "output"), *((row, "flow") for row in range(1, 1025))]
    assert all(found.waits(op) == [(0, "flow")] for op in range(1, 1025))


def test_the_nearest_writes_of_a_row_are_those_of_its_cell() -> None:
    rng = np.random.default_rng(0)
    for count in (0, 1, 2, 60):
        for _ in range(20):
            cell, write = np.sort(rng.integers(0, 6, count)), rng.random(count) < 0.4
            rows = [[row for row in range(count) if write[row] and cell[row] == own] for own in cell]
            before, after = _neighbours(cell, write)
            assert before.tolist() == [max((r for r in own if r < at), default=-1) for at, own in enumerate(rows)]
            assert after.tolist() == [min((r for r in own if r > at), default=-1) for at, own in enumerate(rows)]


def test_each_pair_of_ops_has_one_edge_of_its_lowest_kind() -> None:
    rng = np.random.default_rng(1)
    for count in (0, 1, 300):
        given = Edges(*(rng.integers(0, most, count) for most in (9, 9, 7)))
        lowest: dict[tuple[int, int], int] = {}
        for op, pred, kind in zip(*map(np.ndarray.tolist, given), strict=True):
            if op != pred:
                lowest[op, pred] = min(kind, lowest.get((op, pred), kind))
        found = zip(*map(np.ndarray.tolist, unique(given, 9)), strict=True)
        assert [((op, pred), kind) for op, pred, kind in found] == sorted(lowest.items())
