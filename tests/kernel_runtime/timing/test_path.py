"""The critical path of kernels whose path is known."""

from __future__ import annotations

from typing import Any

from nki_lab.kernel_runtime.timing import CONFIDENCES, STALL_REASONS
from tests.kernel_runtime.timing.timed import Timed, nisa, nl, timed


def named(found: Timed) -> list[tuple[str, str]]:
    """(instruction, reason of its wait) for each step of the path."""
    path, out = found.timing.path, []
    for row, reason in zip(path.row.tolist(), path.reason.tolist(), strict=True):
        name = found.program.op(row).variant.instruction.name if row >= 0 else "end"
        out.append((name, STALL_REASONS[reason]))
    return out


def chain() -> Any:
    """Load, activate, reduce, store, one after the other; a copy beside it that nobody waits for."""

    def kernel(x: Any) -> Any:
        out = nl.ndarray((128, 1), nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)
        result = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
        aside = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
        nisa.memset(aside, 0.0, engine=nisa.engine.gpsimd)
        nisa.dma_copy(tile, x)
        nisa.activation(result, nl.exp, tile)
        nisa.tensor_reduce(total, nl.add, result, axis=1)
        nisa.dma_copy(out, total)
        return out

    return kernel


def test_the_path_of_a_chain_is_the_chain() -> None:
    found = timed(chain(), (128, 512))
    assert named(found) == [
        ("dma_copy", "dma start"),
        ("activation", "data from dma"),
        ("activation", "table load"),
        ("tensor_reduce", "data from scalar"),
        ("dma_copy", "data from vector"),
        ("dma_copy", "dma start"),
    ]
    assert found.timing.path.length == found.timing.makespan


def test_works_of_the_path_are_the_spans_of_its_rows() -> None:
    found = timed(chain(), (128, 512))
    timing, path = found.timing, found.timing.path
    spans = {row: int(timing.ready[row] - timing.start[row]) for row in set(path.row.tolist())}
    works: dict[int, int] = {}
    for row, work in zip(path.row.tolist(), path.work.tolist(), strict=True):
        works[row] = works.get(row, 0) + work
    assert works == spans


def test_the_longer_of_two_branches_is_the_path() -> None:
    def kernel() -> None:
        small, large = (nl.ndarray((128, n), nl.float32, buffer=nl.sbuf) for n in (64, 4096))
        both = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
        nisa.memset(small, 0.0, engine=nisa.engine.gpsimd)
        nisa.memset(large, 0.0)
        nisa.tensor_tensor(both, small, large[:, 0:64], nl.add)

    found = timed(kernel)
    assert found.timing.path.row.tolist() == [1, 2]


def test_an_engine_that_is_always_busy_is_the_whole_path() -> None:
    def kernel() -> None:
        for _ in range(20):
            nisa.memset(nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf), 0.0)

    found = timed(kernel)
    assert found.timing.path.row.tolist() == list(range(20))
    assert not found.timing.path.waits


def test_trust_is_that_of_the_costs_on_the_path() -> None:
    def kernel() -> None:
        nisa.memset(nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf), 0.0)

    assert timed(kernel, target="trn1").timing.trust == dict.fromkeys(CONFIDENCES, 0.0) | {"documented": 1.0}
    assert timed(kernel, target="trn2").timing.trust == dict.fromkeys(CONFIDENCES, 0.0) | {"inferred": 1.0}


def test_a_ramp_and_a_shared_engine_are_waits_on_the_path() -> None:
    def kernel(x: Any, y: Any) -> None:
        for source in (x, y):
            tile = nl.ndarray((128, 8192), nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(tile, source)

    found = timed(kernel, (128, 8192), (128, 8192))
    assert STALL_REASONS.index("bandwidth") in found.timing.path.waits
    assert found.timing.path.length == found.timing.makespan
