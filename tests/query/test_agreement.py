"""Findings without shapes on values, views and whole programs: those that no argument changes."""

from __future__ import annotations

import pytest

from nki_lab import check

HEAD = """import nki
import nki.isa as nisa
import nki.language as nl

P = 128


def load(src, columns, dtype=nl.float32):
    tile = nl.ndarray((P, columns), dtype=dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=src[0:P, 0:columns])
    return tile


def store(dst, tile):
    nisa.dma_copy(dst=dst[0:P, 0:tile.shape[1]], src=tile)

"""
KERNEL = """
@nki.jit
def kernel(x, wide: bool):
    M, N = x.shape
    out = nl.ndarray((M, N), dtype=x.dtype, buffer=nl.shared_hbm)
    t = load(x, 64)
    {}
    store(out, t)
    return out
"""


def found(source: str) -> list[tuple[str, int]]:
    """The findings on code below `HEAD`, by code and line."""
    lines = HEAD.count("\n")
    return [(item.code, item.line - lines) for item in check("k.py", source=HEAD + source) if item.code != "NKI121"]


def body(*lines: str) -> list[tuple[str, int]]:
    """The findings on lines of a kernel, by code and line from 1."""
    return [(code, line - 6) for code, line in found(KERNEL.format("\n    ".join(lines)))]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("nisa.tensor_scalar(dst=t, data=tt, op0=nl.add, operand0=1.0)", "NKI102"),
        ("u = load(x, 64, space=nl.psum)", "NKI007"),
        ("u = t.as_type(nl.bfloat16)", "NKI006"),
        ("t = nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)\n    nisa.memset(t, value=0)", "NKI013"),
        ("if t > 0: nisa.memset(t, value=0)", "NKI017"),
        ("u = nl.ndarray((P, N / 2), dtype=x.dtype, buffer=nl.sbuf)", "NKI307"),
        ("nisa.memset(t[:, 0 : N / 2], value=0)", "NKI304"),
        ("u = t.reshape((64, 128))", "NKI312"),
        ("u = t.reshape((128, 128))", "NKI305"),
    ],
)
def test_a_wrong_kind_of_value_is_found(line: str, code: str) -> None:
    assert body("pass") == []
    assert body(line)[0] == (code, line.count("\n") + 1)


def test_an_example_is_told_where_the_words_hold_a_size() -> None:
    (item,) = (
        item for item in check("k.py", source=HEAD + KERNEL.format("u = t[:, 0 : N / 2]")) if item.code == "NKI304"
    )
    assert item.related[-1].message == "for example with x (1024, 1024)"


def test_a_note_with_sizes_that_are_assumed_is_left_out() -> None:
    for tile, note in (("(P, N)", ""), ("(P, 64)", "(128, 64) float32")):
        made = f"return nl.ndarray({tile}, dtype=nl.float32, buffer=nl.sbuf)"
        items = check("k.py", source=HEAD + KERNEL.format(made))
        assert [item.note for item in items if item.code == "NKI607"] == [note]


@pytest.mark.parametrize(
    "lines",
    [
        ("u = load(x, 64) if wide else load(x, 128)", "u = u.reshape((128, 64))"),
        ("if wide: u = load(x, 64)", "if wide: nisa.memset(u, value=0)"),
        ("if len(x.shape) == 3: x[0, 0, 0:4]",),
        ("heads = x.num_heads",),  # no tensor
        ("u = nl.ndarray((P, N), dtype=x.dtype, buffer=nl.sbuf)", "if wide: nisa.memset(u, value=0)", "store(out, u)"),
        ("u = nl.ndarray((P, 64), dtype=x.dtype, buffer=nl.sbuf)", "other(u)", "nisa.tensor_copy(dst=t, src=u)"),
        (
            "u = nl.ndarray((P, 64), dtype=x.dtype, buffer=nl.sbuf)",
            "for i in range(N // 64): nisa.memset(u[:, i : i + 1], value=0)",
            "nisa.tensor_copy(dst=t[:, 0:1], src=u[:, 0:1])",
        ),
    ],
)
def test_what_is_right_on_one_way_is_no_fault(lines: tuple[str, ...]) -> None:
    first, *others = [code for code, _ in body(*lines)] or [""]
    assert first in ("", "NKI102", "NKI124"), others  # `other` is nobody's


def test_a_result_on_the_chip_is_found() -> None:
    kernel = "\n@nki.jit\ndef kernel(x):\n    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n    {}\n"
    assert [code for code, _ in found(kernel.format("t = load(x, 64)\n    store(out, t)\n    return t"))] == ["NKI607"]
    written = "for i in range(x.shape[0] // P):\n        nisa.dma_copy(dst=out[i], src=x[i])\n    return out"
    assert found(kernel.format(written)) == []


def test_what_loops_do_that_no_assumed_size_enters_counts_as_done() -> None:
    source = """
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((P, 64), dtype=x.dtype, buffer=nl.sbuf)
    for i in range(x.shape[0] // 2**20):
        nisa.memset(t, value=0)
    for i in range(x.shape[0] // 2**20):
        nisa.dma_copy(dst=out[nl.ds(i * P, P), 0:64], src=t)
    return out
"""
    assert found(source) == []


def test_a_value_that_an_object_may_have_is_no_fault() -> None:
    source = """
from dataclasses import dataclass

@dataclass
class Scales:
    weights: nl.ndarray = None

@nki.jit
def kernel(x, scales: Scales):
    t = load(x, 64)
    nisa.dma_copy(dst=t, src=scales.weights[0:P, 0:64])
    out = nl.ndarray((P, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    store(out, t)
    return out
"""
    assert [item for item in found(source) if item[0] != "NKI122"] == []


def test_tiles_of_constant_sizes_that_do_not_fit_are_found() -> None:
    source = """
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    w, r, sums = load(x, P), load(x, 512), []
    for i in range({}):
        total = nl.ndarray((P, 512), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=total, stationary=w, moving=r)
        sums.append(total)
    for total in sums:
        t = nl.ndarray((P, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=t, src=total)
        store(out, t)
    return out
"""
    assert found(source.format("9")) == [("NKI315", 8)]
    assert found(source.format("8")) == []
    assert found(source.format("min(8, x.shape[0] // 128)")) == []


def test_tensors_of_a_framework_are_left_alone() -> None:
    source = """
def launch(state, gates):
    for i, gate in enumerate(gates):
        if i == 1:
            start = i
        state = state.reshape([2, -1])
    return start, state.to("cpu"), state.shape[0]
"""
    assert found(source) == []


def test_a_fault_that_other_memories_hide_is_found() -> None:
    source = """
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x[0:256, 0:64])
    nl.store(out[0:256, 0:64], t)
    return out
"""
    assert found(source)[0] == ("NKI204", 5)
