"""Order that the user asks for: what it becomes in the program, and that queues and times obey it."""

from __future__ import annotations

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab import query
from nki_lab.diagnostic import NkiError

ONE = nki_lab.spec((128, 512), "float32")


@nki.jit
def apart(x):
    """A slow instruction and a quick one on another engine, which have nothing to do with each other."""
    slow = nl.ndarray((128, 512), nl.float32)
    quick = nl.ndarray((128, 512), nl.float32)
    more = nl.ndarray((128, 512), nl.float32)
    nisa.memset(dst=slow, value=1.0, engine=nisa.engine.gpsimd, name="slow")
    nisa.memset(dst=quick, value=2.0, engine=nisa.engine.vector, name="quick")
    nisa.activation(dst=more, op=nl.exp, data=quick, name="more")
    out = nl.ndarray((3, 128, 512), nl.float32, buffer=nl.shared_hbm)
    for i, tile in enumerate((slow, quick, more)):
        nisa.dma_copy(dst=out[i], src=tile, name=f"store{i}")
    return out


def rows(run: Any) -> dict[str, Any]:
    """The rows by the instruction's name."""
    return {name: run.recording.row(op) for op, name in run.program.op_names.items()}


def test_without_edges_independent_instructions_start_together() -> None:
    plain = rows(nki_lab.profile(apart, ONE, target="trn2"))
    assert plain["quick"].start == plain["slow"].start == 0


@pytest.mark.parametrize("edge", [("quick", "slow"), ("quick", ["slow"]), ["quick", ("slow",)]])
def test_a_consumer_starts_after_its_producer_and_says_why(edge: Any) -> None:
    scheduled = apart.with_schedule([edge])
    run = nki_lab.profile(scheduled, ONE, target="trn2")
    found = rows(run)
    assert not run.diagnostics
    assert found["quick"].start > found["slow"].ready
    assert found["quick"].stall == "user order"
    assert run.summary.makespan_ns > nki_lab.profile(apart, ONE, target="trn2").summary.makespan_ns


def test_a_consumer_may_come_before_its_producer_in_the_program() -> None:
    run = nki_lab.profile(apart.with_schedule([("slow", "more"), ("store0", ["store1", "store2"])]), ONE, target="trn2")
    found = rows(run)
    assert not run.diagnostics
    assert found["slow"].start > found["more"].ready
    assert found["store0"].start > max(found["store1"].ready, found["store2"].ready)


def test_edges_change_times_and_no_values() -> None:
    x = np.ones((128, 512), np.float32)
    plain = nki_lab.run(apart, x, target="trn2")
    again = nki_lab.run(apart.with_schedule([("quick", "slow")]), x, target="trn2")
    assert np.array_equal(plain.outputs[0], again.outputs[0])
    assert again.summary.makespan_ns > plain.summary.makespan_ns
    # The program of the call without edges is not that of the call with them, nor the other way round.
    assert nki_lab.run(apart, x, target="trn2").summary.makespan_ns == plain.summary.makespan_ns


def test_edges_add_up() -> None:
    both = apart.with_schedule([("quick", "slow")]).with_schedule(iter([("store0", "store2")]))
    program = nki_lab.compile(both, ONE, target="trn2")
    assert program.user_edges == [(1, 0), (3, 5)]


def test_an_edge_holds_for_all_instructions_of_a_name() -> None:
    @nki.jit
    def kernel(x):
        tiles = [nl.ndarray((128, 8), nl.float32) for _ in range(3)]
        for tile in tiles:
            nisa.memset(dst=tile, value=0.0, name="fill")
        nisa.dma_copy(dst=x[:, 0:8], src=tiles[0], name="store")
        nisa.dma_copy(dst=x[:, 8:16], src=tiles[1], name="store")
        return x

    program = nki_lab.compile(kernel.with_schedule([("store", "fill")]), ONE, target="trn2")
    assert sorted(program.user_edges) == [(3, 0), (3, 1), (3, 2), (4, 0), (4, 1), (4, 2)]


def test_each_core_has_its_own_edges() -> None:
    program = nki_lab.compile(apart[2].with_schedule([("quick", "slow")]), ONE, target="trn2")
    assert program.core_starts == [0, 6]
    assert program.user_edges == [(1, 0), (7, 6)]


def test_an_unknown_name_is_said_with_the_nearest_one_and_the_kernel() -> None:
    run = nki_lab.profile(apart.with_schedule([("quick", ["slwo", "slow"])]), ONE, target="trn2")
    (item,) = run.diagnostics
    assert (item.code, item.outcome, item.line) == ("NKI403", "reject", apart.__code__.co_firstlineno)
    assert "'slwo'" in item.message
    assert "slow" in item.help
    assert rows(run)["quick"].stall == "user order"
    with pytest.raises(NkiError, match="NKI403"):
        nki_lab.profile(apart.with_schedule([("quick", "slwo")]), ONE, target="trn2", strict=True)


@pytest.mark.parametrize("edges", ["ab", [("a",)], [("a", "b", "c")], [("a", 1)], [(1, "a")], [("a", [1])], [None]])
def test_what_is_no_pair_of_names_is_refused_at_the_call(edges: Any) -> None:
    with pytest.raises(ValueError, match=r"NKI012.*is no edge") as caught:
        apart.with_schedule(edges)
    (item,) = caught.value.diagnostics  # type: ignore[attr-defined]
    assert item.file == __file__


def test_a_circle_of_edges_and_data_is_named_and_left_out() -> None:
    run = nki_lab.profile(apart.with_schedule([("quick", "more")]), ONE, target="trn2")
    (item,) = run.diagnostics
    assert item.code == "NKI402"
    assert "'quick'" in item.message
    assert "'more'" in item.message
    assert run.summary.makespan_ns == nki_lab.profile(apart, ONE, target="trn2").summary.makespan_ns


# -- depends_on --------------------------------------------------------------------------------------------------------


def test_depends_on_takes_several_producers_and_gives_the_consumer() -> None:
    @nki.jit
    def kernel(x):
        tiles = [nl.ndarray((128, 512), nl.float32) for _ in range(3)]
        engines = (nisa.engine.gpsimd, nisa.engine.vector, nisa.engine.scalar)
        first = nisa.memset(dst=tiles[0], value=0.0, engine=engines[0], name="first")
        second = nisa.memset(dst=tiles[1], value=0.0, engine=engines[1], name="second")
        third = nisa.tensor_copy(dst=tiles[2], src=tiles[1], engine=engines[2], name="third")
        assert third.depends_on(first, second) is third
        assert second.depends_on(first).depends_on() is second
        nisa.dma_copy(dst=x, src=tiles[2])
        return x

    run = nki_lab.profile(kernel, ONE, target="trn2")
    assert run.program.user_edges == [(2, 0), (2, 1), (1, 0)]
    found = rows(run)
    assert found["second"].start > found["first"].ready


@pytest.mark.parametrize("producer", ["'first'", "None", "tile", "3"])
def test_depends_on_takes_instructions_only(producer: str) -> None:
    scope: dict[str, Any] = {"nl": nl, "nisa": nisa}
    text = f"""
def kernel(x):
    tile = nl.ndarray((128, 8), nl.float32)
    nisa.memset(dst=tile, value=0.0).depends_on({producer})
"""
    exec(text, scope)
    with pytest.raises(ValueError, match=r"NKI012.*no instruction"):
        nki_lab.compile(scope["kernel"], ONE, target="trn2")


# -- no_reorder --------------------------------------------------------------------------------------------------------


def fill(tile, engine, name):
    nisa.memset(dst=tile, value=0.0, engine=engine, name=name)


@nki.jit
def blocks(x, keep):
    tiles = [nl.ndarray((128, 512), nl.float32) for _ in range(4)]
    engines = [nisa.engine.gpsimd, nisa.engine.vector, nisa.engine.gpsimd, nisa.engine.vector]
    if keep:
        with nl.no_reorder():
            for i in nl.static_range(4):
                fill(tiles[i], engines[i], f"fill{i}")
    else:
        for i in nl.static_range(4):
            fill(tiles[i], engines[i], f"fill{i}")
    nisa.dma_copy(dst=x, src=tiles[3], name="store")
    return x


def test_a_block_runs_one_instruction_after_the_other_in_called_functions_too() -> None:
    kept, free = (nki_lab.profile(blocks, ONE, keep, target="trn2") for keep in (True, False))
    found = rows(kept)
    assert kept.program.fences == [(0, 4)]
    assert not free.program.fences
    for i in range(1, 4):
        assert found[f"fill{i}"].start > found[f"fill{i - 1}"].ready
    assert rows(free)["fill1"].start == rows(free)["fill0"].start == 0
    assert kept.summary.makespan_ns > free.summary.makespan_ns


def test_nested_blocks_are_one_and_short_ones_say_nothing() -> None:
    @nki.jit
    def kernel(x):
        tile = nl.ndarray((128, 8), nl.float32)
        with nl.no_reorder():
            pass
        with nl.no_reorder():
            nisa.memset(dst=tile, value=0.0)
        with nl.no_reorder() as nothing:
            assert nothing is None
            nisa.memset(dst=tile, value=0.0)
            with nl.no_reorder():
                nisa.memset(dst=tile, value=1.0)
                nisa.memset(dst=tile, value=2.0)
            nisa.memset(dst=tile, value=3.0)
        return x

    assert nki_lab.compile(kernel, ONE, target="trn2").fences == [(1, 5)]


def test_a_block_outside_a_kernel_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"NKI005.*nl\.no_reorder"), nl.no_reorder():
        pass


def test_a_block_that_an_error_leaves_is_closed() -> None:
    @nki.jit
    def kernel(x):
        try:
            with nl.no_reorder():
                raise KeyError(1)
        except KeyError:
            pass
        tiles = [nl.ndarray((128, 8), nl.float32) for _ in range(2)]
        for tile in tiles:
            nisa.memset(dst=tile, value=0.0)
        return x

    assert not nki_lab.compile(kernel, ONE, target="trn2").fences


# -- the editor --------------------------------------------------------------------------------------------------------

SOURCE = '''import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

@nki.jit
def kernel(x):
    a, b = nl.ndarray(x.shape, x.dtype), nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(dst=a, src=x, name="load")
    nisa.tensor_copy(dst=b, src=a, name="copy")
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=b, name="store")
    return out

x = np.zeros((128, 64), np.float32)
'''  # fmt: skip


def found(launch: str) -> list[tuple[str, int]]:
    return [(item.code, item.line) for item in query.check(source=SOURCE + launch, target="trn2")]


def test_the_editor_knows_the_edges_of_a_launch() -> None:
    assert not found('kernel.with_schedule([("store", "copy")])(x)\n')
    assert found('kernel.with_schedule([("store", "cpy")])(x)\n') == [("NKI403", 7)]
    assert found('edges = [("load", name) for name in ("copy",)]\nkernel.with_schedule(edges)[1](x)\n') == [
        ("NKI402", 9)
    ]
    assert found('ready = kernel[2].with_schedule([("load", "copy")])\nready(x)\n') == [("NKI402", 9)]


def test_the_editor_says_nothing_of_edges_that_it_does_not_know() -> None:
    assert not found("import other\nkernel.with_schedule(other.edges())(x)\n")
    assert not found('import other\nkernel.with_schedule([("load", other.name)])(x)\n')
