"""Views that leave their tensor or are empty: legal to make, a fault where something uses their elements."""

from __future__ import annotations

import linecache
import operator
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nki_lab
from nki_lab import query
from nki_lab.diagnostic import Diagnostic, NkiError
from nki_lab.kernel_runtime.tensor import NkiTensor, ds

HEAD = """
import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt


@nki.jit
def kernel(x: nt.tensor[128, 64]):
"""

MAKERS: dict[str, Callable[[NkiTensor], NkiTensor]] = {
    "slice": lambda t: t[0:200],
    "slice from its end": lambda t: t[128:256, 0:64],
    "empty slice": lambda t: t[5:5],
    "descending slice": lambda t: t[:, 9:3],
    "ds": lambda t: t[ds(120, 16), :],
    "empty ds": lambda t: t[:, ds(3, 0)],
    "method": lambda t: t.slice(1, 0, 65),
    "method from before the start": lambda t: t.slice(1, -2, 4),
    "pattern": lambda t: t.ap([[64, 128], [1, 65]]),
    "pattern from before the start": lambda t: t.ap([[64, 4], [1, 8]], -64),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_each_use_of_the_elements_raises_the_same_fault(make, in_hbm, refused) -> None:
    tensor = in_hbm(128, 64)
    view = make(tensor)
    found = refused("NKI303", view.numpy)
    assert refused("NKI303", lambda: operator.setitem(view, np.s_[0:1], 1.0)) == found


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_views_of_an_invalid_view_are_invalid_too(make, in_hbm, refused) -> None:
    view = make(in_hbm(128, 64))
    found = refused("NKI303", view.numpy)
    for derive in (
        lambda t: t[0:1],
        lambda t: t.expand_dim(1),
        lambda t: t.permute((1, 0)),
        lambda t: t.flatten_dims(0, 1),
        lambda t: t.reshape((t.size,)),
        lambda t: t.view("uint32"),
        lambda t: t.expand_dim(0).broadcast(0, 3),
        lambda t: t.rearrange(("a", "b"), ("b", "a")),
    ):
        assert refused("NKI303", lambda derive=derive: derive(view)) == found


def test_the_layout_of_an_empty_view_changes_like_any_other(in_hbm) -> None:
    view = in_hbm(128, 64)[5:5]
    assert view.flatten_dims(0, 1).shape == (0,)
    assert view.reshape((0, 8, 8)).reshape_dim(2, (2, -1)).shape == (0, 8, 2, 4)
    assert view.rearrange(("a", ("b", "c")), (("a", "b"), "c"), {"b": 4}).shape == (0, 16)
    assert view.permute((1, 0))[0:3].shape == (3, 0)


def test_an_invalid_view_has_the_size_that_was_asked_for(in_hbm) -> None:
    tensor = in_hbm(128, 64)
    assert tensor[100:200].shape == (100, 64)
    assert tensor[5:5].shape == (0, 64)
    assert tensor[5:3].shape == (0, 64)
    assert tensor[:, ds(60, 8)].shape == (128, 8)
    assert tensor.slice(1, -2, 4).shape == (128, 6)
    assert "(100, 64)" in repr(tensor[100:200])


def test_an_integer_outside_is_refused_at_once(in_hbm) -> None:
    for key in (128, np.s_[0, 64], np.s_[-129]):
        with pytest.raises(IndexError, match="NKI303"):
            in_hbm(128, 64)[key]


def outcomes(body: str) -> tuple[list[Diagnostic], list[Diagnostic]]:
    """The faults of the run and of the checker."""
    text = HEAD + textwrap.indent(textwrap.dedent(body).strip(), "    ") + "\n"
    names: dict[str, Any] = {}
    exec(compile(text, "invalid_views.py", "exec"), names)
    linecache.cache["invalid_views.py"] = (len(text), None, text.splitlines(True), "invalid_views.py")
    ran: list[Diagnostic] = []
    try:
        nki_lab.run(names["kernel"], np.ones((128, 64), np.float32), target="trn2")
    except NkiError as error:
        ran += error.diagnostics
    checked = query.check(source=text, path="invalid_views.py", target="trn2")
    return ran, [item for item in checked if item.outcome == "fault"]


def test_a_loop_may_compute_a_view_that_its_last_iteration_does_not_use() -> None:
    body = """
        out = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
        following = x[0:32]
        for i in range(4):
            tile = nl.load(following)
            following = x[(i + 1) * 32 : (i + 2) * 32]
            rest = x[i * 32 + 32 : 128].ap([[64, 128 - i * 32 - 31], [1, 64]])
            empty = tile[:, nl.ds(0, 0)]
            nl.store(out[i * 32 : (i + 1) * 32], tile)
        return out
        """
    assert outcomes(body) == ([], [])


@pytest.mark.parametrize(
    "use",
    ["nl.load(part)", "nisa.dma_copy(dst=tile, src=part)", "nl.store(part, tile)", "part[0:1] = 1.0", "print(part + 1)",
     "nl.add(tile, part)", "nl.add(part, tile)", "nl.exp(part)", "nisa.tensor_copy(dst=tile, src=part)", "return part",
     "nl.store(x, nl.load(x.vector_select(0, part)))"],
)  # fmt: skip
@pytest.mark.parametrize("made", ["x[0:200]", "x[4:4]", "x.ap([[64, 128], [1, 65]])", "tile[:, nl.ds(0, 0)]"])
def test_run_and_checker_report_the_place_where_the_view_was_made(made: str, use: str) -> None:
    ran, checked = outcomes(f"tile = nl.load(x)\npart = {made}\n{use}\nreturn x")
    (fault,) = ran
    assert fault.code == "NKI303"
    assert (fault.line, fault.column, fault.end_column) == (11, 12, 12 + len(made))
    places = [(item.code, item.span, item.message) for item in checked]
    assert places == [(fault.code, fault.span, fault.message)]


def test_the_fault_of_a_view_is_reported_once() -> None:
    _, checked = outcomes("part = x[0:200]\nnl.load(part)\nnl.load(part)\nreturn x")
    assert len(checked) == 1
