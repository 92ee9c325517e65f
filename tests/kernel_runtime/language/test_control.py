"""Device loops and registers in the front end: what is recorded, once; and what is refused or said."""

from __future__ import annotations

import io
import sys
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab.diagnostic import NkiError

X = nki_lab.spec((4, 128, 64), "float32")
N = nki_lab.spec((1, 1), "int32")


@nki.jit
def mixed(x, n):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = nisa.register_alloc()
    nisa.register_load(rows, nl.load(n))
    for i in nl.dynamic_range(1, rows, 2):
        tile = nl.load(x[i])

        def columns(k):
            nisa.tensor_copy(dst=tile[:, nl.ds(k, 1)], src=tile[:, 0:1])  # noqa: B023 - called at once

        nl.fori_loop(0, 8, columns)
        nl.store(out[i], tile)
    while rows:
        nisa.register_move(rows, 0)
    return out


def test_a_program_holds_each_body_once() -> None:
    program = nki_lab.compile(mixed, X, N, target="trn2")
    text = program.text().replace("\n      ", "\n")
    body = text[text.index("1  sync") :]
    lines = [line.partition("  ; line")[0].strip() for line in body.splitlines()]
    assert lines == [
        "1  sync.register_load(dst=r0, src=%3)",
        "for r1 in 1 to r0 step 2: i",
        "2    dma.dma_copy(dst=%4, src=%0@0[[64, 128], [1, 64]] + r1 * 8192)",
        "for r2 in 0 to 8 step 1: k columns",
        "3      vector.tensor_copy(dst=%4@0[[64, 128], [1, 1]] + r2 * 1, src=%4@0[[64, 128], [1, 1]])",
        "4    dma.dma_copy(dst=%2@0[[64, 128], [1, 64]] + r1 * 8192, src=%4)",
        "while r0, at first r0, then r0: rows",
        "5    sync.register_move(dst=r0, src=0)",
        "return %2",
    ]


def test_the_size_of_a_program_does_not_depend_on_the_passes() -> None:
    @nki.jit
    def kernel(x, passes):
        tile = nl.load(x[0])
        for _ in nl.dynamic_range(passes):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nl.store(x[0], tile)
        return x

    small, large = (nki_lab.compile(kernel, X, passes, target="trn2") for passes in (1, 10**6))
    assert len(small) == len(large) == 3
    (region,) = large.regions
    assert (region.first, region.end, region.trip_count) == (1, 2, 10**6)


def codes(kernel: Any, *arguments: Any) -> list[str]:
    """What compiling finds, or the fault that it ends with."""
    try:
        return [item.code for item in nki_lab.compile(kernel, *arguments, target="trn2").diagnostics]
    except NkiError as error:
        return [error.diagnostics[0].code]


def test_statements_are_deprecated_and_functions_are_not() -> None:
    @nki.jit
    def statements(x):
        for _ in nl.dynamic_range(2):
            nl.store(x[0], nl.load(x[1]))
        register = nisa.register_alloc(1)
        while register:
            nisa.register_move(register, 0)
        return x

    @nki.jit
    def functions(x):
        def body(i):
            nl.store(x[0], nl.load(x[1]))

        def until(r):
            return nisa.register_alloc(0)

        nl.fori_loop(0, 2, body)
        nl.while_loop(nisa.register_alloc(1), until)
        nki.experimental.while_loop(nisa.register_alloc(1), until)
        return x

    found = nki_lab.compile(statements, X, target="trn2").diagnostics
    assert [item.code for item in found if item.code != "NKI607"] == ["NKI601", "NKI601"]
    assert ["nl.fori_loop" in found[0].help, "nl.while_loop" in found[1].help] == [True, True]
    assert "NKI601" not in codes(functions, X)


def test_a_tensor_of_a_body_is_not_used_after_the_loop() -> None:
    @nki.jit
    def kept(x):
        tiles = []

        def body(i):
            tiles.append(nl.load(x[0]))

        nl.fori_loop(0, 2, body)
        nl.store(x[0], tiles[0])
        return x

    @nki.jit
    def returned(x):
        for _ in nl.dynamic_range(2):
            out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
            nl.store(out, nl.load(x[0]))
        return out

    @nki.jit
    def from_inside(x):
        for _ in nl.dynamic_range(2):
            for _ in nl.dynamic_range(2):
                tile = nl.load(x[0])
            nl.store(x[0], tile)
        return x

    for kernel, how in ((kept, "used"), (returned, "returned"), (from_inside, "used")):
        found = [item for item in nki_lab.compile(kernel, X, target="trn2").diagnostics if item.code == "NKI314"]
        assert len(found) == 1
        assert f"and {how} after it" in found[0].message
        assert found[0].severity == "error"
        with pytest.raises(NkiError):
            nki_lab.compile(kernel, X, target="trn2", strict=True)


def test_a_register_belongs_to_its_kernel() -> None:
    kept: list[Any] = []

    @nki.jit
    def first(x):
        kept.append(nisa.register_alloc(1))
        nl.store(x[0], nl.load(x[1]))
        return x

    @nki.jit
    def moved(x):
        nisa.register_move(kept[0], 3)
        return x

    @nki.jit
    def indexed(x):
        nl.store(x[0], nl.load(x[kept[0]]))
        return x

    @nki.jit
    def bounded(x):
        nl.fori_loop(0, kept[0], lambda i: None)
        return x

    @nki.jit
    def bare(x):
        nisa.register_move(nisa.VirtualRegister(), 3)
        return x

    nki_lab.compile(first, X, target="trn2")
    for kernel in (moved, indexed, bounded, bare):
        assert codes(kernel, X) == ["NKI314"]


def test_uninitialised_registers_and_tiles_of_the_first_pass_are_found() -> None:
    @nki.jit
    def register(x):
        count = nisa.register_alloc()
        for _ in nl.dynamic_range(count):
            nl.store(x[0], nl.load(x[1]))
        return x

    @nki.jit
    def address(x):
        row = nisa.register_alloc()
        nl.store(x[0], nl.load(x[row]))
        return x

    @nki.jit
    def carried(x):
        total = nl.ndarray((128, 64), dtype=nl.float32)
        for _ in nl.dynamic_range(2):
            nisa.tensor_scalar(dst=total, data=total, op0=nl.add, operand0=1.0)
        nl.store(x[0], total)
        return x

    @nki.jit
    def written_later(x):
        total = nl.ndarray((128, 64), dtype=nl.float32)
        row = nisa.register_alloc()
        for i in nl.dynamic_range(2):
            nl.store(x[0], total)
            nisa.memset(dst=total, value=0.0)
            nisa.register_move(row, i)
        nl.store(x[0], nl.load(x[row]))
        return x

    @nki.jit
    def never_runs(x):
        total = nl.ndarray((128, 64), dtype=nl.float32)
        for _ in nl.dynamic_range(0):
            nl.store(x[0], total)
            nisa.memset(dst=total, value=0.0)
        nl.store(x[1], total)
        return x

    for kernel in (register, address, carried, written_later, never_runs):
        assert [code for code in codes(kernel, X) if code == "NKI301"] == ["NKI301"], kernel.__name__


def test_capacity_counts_what_a_body_holds_for_the_whole_loop() -> None:
    @nki.jit
    def kernel(x, width, device):
        total = nl.zeros((128, width), dtype=nl.float32)
        for _ in nl.dynamic_range(2) if device else range(2):
            first = nl.ndarray((128, width), dtype=nl.float32)
            nisa.memset(dst=first, value=1.0)
            nisa.tensor_tensor(dst=total, data1=total, data2=first, op=nl.add)
            second = nl.ndarray((128, width), dtype=nl.float32)
            nisa.memset(dst=second, value=1.0)
            nisa.tensor_tensor(dst=total, data1=total, data2=second, op=nl.add)
        nl.store(x[0], total[:, 0:64])
        return x

    peaks = [nki_lab.profile(kernel, X, 4096, device, target="trn2").summary.sbuf_peak_bytes_per_partition
             for device in (False, True)]  # fmt: skip
    assert peaks == [2 * 4096 * 4, 3 * 4096 * 4]
    assert "NKI315" in [item.code for item in nki_lab.profile(kernel, X, 20_000, True, target="trn2").diagnostics]


@pytest.mark.parametrize("look", ["numpy", "print", "device_print", "repr"])
def test_looking_at_values_in_a_body_is_refused_and_after_it_is_not(look: str) -> None:
    def looks(tile: Any) -> None:
        if look == "numpy":
            tile.numpy()
        elif look == "print":
            print(tile, file=io.StringIO())
        elif look == "device_print":
            nl.device_print("tile", tile)
        else:
            repr(tile)

    @nki.jit
    def inside(x):
        tile = nl.load(x[0])
        for _ in nl.dynamic_range(2):
            looks(tile)
        return x

    @nki.jit
    def after(x):
        tile = nl.load(x[0])
        for _ in nl.dynamic_range(2):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        looks(tile)
        for _ in nl.dynamic_range(2):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nl.store(x[0], tile)
        return x

    x = np.zeros((4, 128, 64), np.float32)
    with pytest.raises(NkiError) as caught:
        nki_lab.run(inside, x, target="trn2")
    assert caught.value.diagnostics[0].code == "NKI017"
    assert "device loop" in str(caught.value)
    assert (nki_lab.run(after, x, target="trn2").outputs[0][0] == 4).all()


def test_a_while_without_its_source_is_refused_with_the_function_instead() -> None:
    text = (
        "def kernel(x):\n    r = nisa.register_alloc(1)\n    while r:\n        nisa.register_move(r, 0)\n    return x\n"
    )
    names: dict[str, Any] = {"nisa": nisa}
    exec(compile(text, "<nowhere to be seen>", "exec"), names)
    with pytest.raises(NkiError) as caught:
        nki_lab.compile(nki.jit(names["kernel"]), X, target="trn2")
    assert caught.value.diagnostics[0].code == "NKI017"
    assert "nl.while_loop" in str(caught.value)


def test_a_tensor_given_to_register_alloc_is_loaded_and_noted() -> None:
    @nki.jit
    def kernel(x, n):
        register = nisa.register_alloc(nl.load(n))
        tile = nl.load(x[0])
        for _ in nl.dynamic_range(register):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nl.store(x[0], tile)
        return x

    done = nki_lab.run(kernel, np.zeros((4, 128, 64), np.float32), np.array([[5]], np.int32), target="trn2")
    assert (done.outputs[0][0] == 5).all()
    assert "NKI606" in [item.code for item in done.diagnostics]


def test_frames_are_let_go_when_the_kernel_is_over() -> None:
    class Watched:
        gone = 0

        def __del__(self) -> None:
            Watched.gone += 1

    @nki.jit
    def kernel(x):
        watched = Watched()
        for _ in range(2):
            nl.store(x[0], nl.load(x[1]))
        assert watched is not None
        return x

    nki_lab.compile(kernel, X, target="trn2")
    assert sys.getrefcount(Watched) > 0
    assert Watched.gone == 1


def test_an_edge_across_the_border_of_a_loop_is_rejected() -> None:
    @nki.jit
    def kernel(x):
        tile = nl.load(x[0])
        first = nisa.memset(dst=tile, value=0.0, name="first")

        def body(i):
            added = nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0, name="added")
            added.depends_on(first)
            nisa.activation(dst=tile, op=nl.exp, data=tile, name="last").depends_on(added)

        nl.fori_loop(0, 2, body)
        nl.store(x[0], tile)
        return x

    def crossing(found: Any) -> list[str]:
        return [item.message for item in found.diagnostics if item.code == "NKI404"]

    assert crossing(nki_lab.compile(kernel, X, target="trn2")) == [
        "added waits for first, and a device loop lies between them"
    ]
    scheduled = kernel.with_schedule([("last", "first")])
    assert len(crossing(nki_lab.profile(scheduled, X, target="trn2"))) == 2
