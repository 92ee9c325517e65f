"""What is said about races, where, and that whole kernels have none until one of their meetings is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab import query, session
from nki_lab.diagnostic import Diagnostic
from nki_lab.kernel_runtime.race import races
from tests.two_cores import ONES, specialised
from tests.verdicts import kernel_file, loaded

TARGET = "trn2"


def found_in(text: str, name: str) -> list[Diagnostic]:
    """The races that the kernel of a file has with the file's text changed, as run and check both find them."""
    module = loaded(Path(f"changed_{name}.py"), text)
    program, noted = session.specialise(
        session.Launch(module.kernel.function, TARGET, grid=module.GRID), module.ARGUMENTS
    )
    found = [*races(program)]
    assert [item for item in noted if item.code in ("NKI407", "NKI408", "NKI409")] == found
    call = f"\n\nif __name__ == '__main__':\n    import numpy as np\n    kernel[2]({', '.join(map(_zeros, module.ARGUMENTS))})\n"
    checked = query.check(source=text + call, path=f"changed_{name}.py", target=TARGET)
    assert {(item.code, item.line) for item in checked if item.code in ("NKI407", "NKI408", "NKI409")} == {
        (item.code, item.line) for item in found
    }
    return found


def _zeros(spec: Any) -> str:
    return f"np.zeros({tuple(spec.shape)}, np.float32)"


@pytest.mark.parametrize("name", ["cores_matmul", "cores_softmax"])
def test_kernels_whose_cores_meet_have_no_race(name: str) -> None:
    assert not found_in(kernel_file(name).read_text(encoding="utf-8"), name)


def test_a_missing_barrier_is_found_at_the_read() -> None:
    text = kernel_file("cores_softmax").read_text(encoding="utf-8")
    (line,) = [line for line in text.split("\n") if "core_barrier" in line]
    (found,) = found_in(text.replace(f"{line}\n", ""), "cores_softmax")
    lines = text.replace(f"{line}\n", "").split("\n")
    assert found.code == "NKI407"
    assert "src=board" in lines[found.line - 1]
    (write, *_) = found.related
    assert write.span is not None
    assert "dst=board" in lines[write.span.line - 1]
    assert f"between lines {write.span.line} and {found.line}" in found.help


def test_an_exchange_that_is_missing_leaves_two_sums_of_which_one_stays() -> None:
    text = kernel_file("cores_matmul").read_text(encoding="utf-8")
    changed = text.replace("nisa.dma_copy(dst=out[part], src=mine[part])", "nisa.dma_copy(dst=out, src=mine)")
    assert changed != text
    # Both add up the same two halves, in another order, and what is kept of the numbers does not tell.
    assert [item.code for item in found_in(changed, "cores_matmul")] == ["NKI408"]


def test_a_finding_says_who_what_and_which_bytes() -> None:
    @nki.jit
    def kernel(x):
        me = nl.program_id(0)
        board = nl.ndarray((128, 128), x.dtype, buffer=nl.shared_hbm, name="board")
        tile = nl.load(x)
        if me == 0:
            nisa.dma_copy(dst=board[0:64, 0:64], src=tile[0:64])
        else:
            nisa.dma_copy(dst=tile[0:96], src=board[32:128, 32:96])
        nisa.dma_copy(dst=x[64 * me : 64 * me + 64], src=tile[0:64])
        return x

    program, _ = specialised(kernel, (128, 64))
    first, second = sorted(races(program), key=lambda item: item.line)
    assert first.message == "dma_copy: core 1 reads bytes of 'board' that core 0 may not have written yet"
    assert first.note == "rows 32 to 63 of 512 bytes, bytes 128 to 255 of each"
    assert [item.message for item in first.related] == ["core 0 writes them here", "'board' is allocated here"]
    assert second.message == "dma_copy: core 0 writes bytes of 'x' that core 1 may not have read yet"


@pytest.mark.parametrize(("ends", "codes"), [((4, 4), []), ((5, 4), ["NKI408"])])
def test_loops_on_the_device_are_laid_out(ends: tuple[int, int], codes: list[str]) -> None:
    @nki.jit
    def kernel(x):
        me = nl.program_id(0)
        out = nl.ndarray((8, 32, 64), x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x[0:32])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=float(me))
        for i in nl.dynamic_range(0 if me == 0 else ends[1], ends[0] if me == 0 else 8):
            nisa.dma_copy(dst=out.select(0, i), src=tile)
        return out

    program, noted = specialised(kernel, (128, 64))
    assert [item.code for item in races(program)] == codes
    assert [item.code for item in noted if item.code == "NKI408"] == codes


@pytest.mark.parametrize(("whole", "codes"), [(True, ["NKI407"]), (False, [])])
def test_addresses_from_run_time_meet_what_covers_all(whole: bool, codes: list[str]) -> None:
    @nki.jit
    def kernel(x):
        me = nl.program_id(0)
        board = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
        tile, rows = nl.load(x), nl.ndarray((128, 1), nl.int32)
        nisa.iota(dst=rows, pattern=[[0, 1]], channel_multiplier=1)
        if me == 0:
            nisa.dma_copy(dst=board if whole else board[0:64], src=tile if whole else tile[0:64])
        else:
            nisa.dma_copy(dst=tile, src=board.vector_select(0, rows))
        nisa.dma_copy(dst=x[64 * me : 64 * me + 64], src=tile[64 * me : 64 * me + 64])
        return x

    program, _ = specialised(kernel, (128, 64))
    assert [item.code for item in races(program) if "board" in item.message or "(128, 64)" in item.message] == codes


def test_two_sums_into_one_place_are_a_race() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=x)
        nisa.core_barrier(out, (0, 1))
        nisa.dma_compute(dst=out, srcs=[out, nl.load(x)], reduce_op=nl.add)
        return out

    program, _ = specialised(kernel, (128, 64))
    assert [item.code for item in races(program)] == ["NKI407"]


def test_an_exchange_in_place_sends_what_comes_in() -> None:
    @nki.jit
    def kernel(x):
        me = nl.program_id(0)
        tile = nl.load(x)
        nisa.sendrecv(tile, tile, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=0)
        nisa.sendrecv(tile, tile, send_to_rank=me, recv_from_rank=me, pipe_id=0)
        return x

    program, _ = specialised(kernel, (128, 64))
    (found,) = races(program)
    assert found.code == "NKI410"
    assert "that come in at the same time" in found.message


def test_work_that_depends_on_registers_may_be_done_twice() -> None:
    @nki.jit
    def kernel(x, count):
        out = nl.ndarray((4, 128, 64), x.dtype, buffer=nl.shared_hbm)
        scratch = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
        tile, numbers = nl.load(x), nl.load(count)
        rounds = nisa.register_alloc()
        nisa.register_load(rounds, numbers)
        nisa.dma_copy(dst=scratch, src=tile)
        for i in nl.dynamic_range(0, rounds):
            nisa.dma_copy(dst=tile, src=scratch)
            nisa.dma_copy(dst=out.select(0, i), src=tile)
        return out

    x = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)
    run = nki_lab.run(kernel[2], x, np.full((1, 1), 4, np.int32), target=TARGET)
    assert np.array_equal(run.output, np.broadcast_to(x, (4, 128, 64)))
    assert not [item.code for item in run.diagnostics if item.code.startswith("NKI4")]


def test_tensors_at_one_address_keep_the_order_of_the_program_whatever_the_user_asks() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((2, 128, 64), x.dtype, buffer=nl.shared_hbm)
        for number in range(2):
            tile = nl.ndarray((128, 64), x.dtype, buffer=nl.sbuf, address=(0, 0))
            nisa.dma_copy(dst=tile, src=x, name=f"load{number}")
            nisa.dma_copy(dst=out[number], src=tile, name=f"store{number}")
        return out

    assert not [item for item in nki_lab.run(kernel, ONES, target=TARGET).diagnostics if item.severity != "information"]
    turned = nki_lab.run(kernel.with_schedule([("store0", "load1")]), ONES, target=TARGET)
    assert [item.code for item in turned.diagnostics if item.severity != "information"] == ["NKI402"]


# -- scatters, and edges between cores -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "values", "adds", "codes"),
    [
        ("apart", "apart", False, []),
        ("twice", "apart", False, ["NKI412"]),
        ("twice", "alike", False, []),
        ("twice", "alike", True, ["NKI412"]),
        ("apart", "alike", True, []),
    ],
)
def test_a_scatter_that_names_a_row_twice_is_found_when_it_runs(
    rows: str, values: str, adds: bool, codes: list[str]
) -> None:
    @nki.jit
    def kernel(x, index):
        out = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
        tile, where = nl.load(x), nl.load(index)
        nisa.dma_copy(dst=out, src=tile)
        picked = out.vector_select(0, where)
        if adds:
            nisa.dma_compute(dst=picked, srcs=[picked, tile], reduce_op=nl.add)
        else:
            nisa.dma_copy(dst=picked, src=tile)
        return out

    index = np.arange(128, dtype=np.int32)[:, None] // (1 if rows == "apart" else 2)
    x = ONES if values == "alike" else np.arange(128 * 64, dtype=np.float32).reshape(128, 64)
    run = nki_lab.run(kernel, x, index, target=TARGET)
    assert [item.code for item in run.diagnostics if item.code == "NKI412"] == codes
    if codes:
        (found,) = [item for item in run.diagnostics if item.code == "NKI412"]
        assert "rows 0 and 1 both go to index 0 of dimension 0" in found.message


def test_an_edge_between_two_cores_orders_nothing() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=out[0:64], src=tile[0:64], name="put")
        else:
            nisa.dma_copy(dst=out[64:128], src=tile[64:128], name="get")
        return out

    run = nki_lab.run(kernel.with_schedule([("get", "put")])[2], ONES, target=TARGET)
    assert [(item.code, item.severity) for item in run.diagnostics] == [("NKI413", "warning")]
    assert "'get', on core 1, waits for 'put', on core 0" in run.diagnostics[0].message
