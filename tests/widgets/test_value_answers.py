"""A page that asks for values gets them, or the reason why there are none; the kernel goes on whatever it asks."""

from __future__ import annotations

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab.kernel_runtime.protocols import Search
from nki_lab.widgets.visualizer import Visualizer
from nki_lab.wire.values import MARKS
from tests.wire.reader import Tables, read


@nki.jit
def scaled(x):
    """Half of a tile is written, then the other half; the result has an infinity times zero."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf, name="tile")
    nisa.dma_copy(dst=tile[0:64], src=x[0:64])
    nisa.dma_copy(dst=tile[64:128], src=x[64:128])
    wide = nl.ndarray(x.shape, nl.float32, buffer=nl.sbuf, name="wide")
    nisa.tensor_scalar(dst=wide, data=tile, op0=nl.multiply, operand0=0.0)
    nl.store(out, wide)
    return out


class Page:
    """The page's side of a widget."""

    def __init__(self, widget: Visualizer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.widget = widget
        self.told: list[tuple[dict[str, Any], bytes | None]] = []
        monkeypatch.setattr(widget, "send", self._take)

    def _take(self, content: dict[str, Any], buffers: Any = None) -> None:
        self.told.append((content, bytes(buffers[0]) if buffers else None))

    def ask(self, **asked: Any) -> tuple[dict[str, Any], bytes | None]:
        self.told.clear()
        self.widget._answer(self.widget, asked, [])
        (answer,) = self.told
        return answer

    def values(self, step: int, buffer: int, when: str = "after", **more: Any) -> tuple[dict[str, Any], Tables]:
        told, message = self.ask(kind="values", request=1, step=step, buffer=buffer, when=when, **more)
        assert message is not None, told
        return read(message)


def argument() -> np.ndarray[Any, np.dtype[np.float32]]:
    x = np.random.default_rng(0).standard_normal((128, 16)).astype(np.float32)
    x[3, 5] = np.inf
    return x


@pytest.fixture
def run() -> nki_lab.Run:
    return nki_lab.run(scaled, argument(), target="trn2")


@pytest.fixture
def page(run: nki_lab.Run, monkeypatch: pytest.MonkeyPatch) -> Page:
    return Page(run.view(), monkeypatch)


def buffer_of(run: nki_lab.Run, name: str) -> int:
    return next(buffer.id for buffer in run.program.buffers if buffer.name == name)


def step_of(run: nki_lab.Run, row: int) -> int:
    return int(np.flatnonzero(np.asarray(run.recording.order) == row)[0])


def test_values_before_and_after_each_write_are_those_of_the_program(run: nki_lab.Run, page: Page) -> None:
    x, tile = argument(), buffer_of(run, "tile")
    for row, (before, after) in {0: (0, 64), 1: (64, 128)}.items():
        for when, rows in (("before", before), ("after", after)):
            header, tables = page.values(step_of(run, row), tile, when)
            marks = tables["cells"]["marks"].reshape(128, 16)
            unwritten = marks & MARKS["unwritten"] != 0
            # A transfer that ends later is no part of what was there before this one.
            assert not unwritten[:rows].any() or when == "before"
            assert header["counts"]["unwritten"] == unwritten.sum()
            shown = tables["cells"]["value"].reshape(128, 16)
            assert np.array_equal(shown[~unwritten], x[~unwritten])
        if when == "after":
            assert not unwritten[:after].any()


def test_a_change_is_what_the_instruction_did(run: nki_lab.Run, page: Page) -> None:
    _, tables = page.values(step_of(run, 2), buffer_of(run, "wide"), "change")
    assert (tables["cells"]["marks"] & MARKS["unwritten"] != 0).all()


def test_the_first_nan_is_found(run: nki_lab.Run, page: Page) -> None:
    told, _ = page.ask(kind="nonfinite", request=9, step=-1)
    assert told == {"kind": "nonfinite", "request": 9, "step": step_of(run, 0), "until": -1}  # the infinity is loaded
    told, _ = page.ask(kind="nonfinite", request=9, step=step_of(run, 0))
    assert told["step"] == step_of(run, 2)
    last = page.ask(kind="nonfinite", request=9, step=step_of(run, len(run.recording) - 1))[0]
    assert (last["step"], last["until"]) == (-1, -1)


def test_a_search_can_go_on(run: nki_lab.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from nki_lab.session.tiles import tiles_of

    tiles = tiles_of(run.values)
    found = tiles.next_nonfinite(step_of(run, 0), -1, 0.0)
    assert found == Search(-1, 2) or found.step == step_of(run, 2)
    for _ in range(5):
        if found.until < 0:
            break
        found = tiles.next_nonfinite(-1, found.until, 0.0)
    assert found.step == step_of(run, 2)


def test_an_argument_that_is_changed_later_changes_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    x = argument()
    run = nki_lab.run(scaled, x, target="trn2")
    first = x.copy()
    x[:] = 7
    page = Page(run.view(), monkeypatch)
    _, tables = page.values(len(run.recording) - 1, run.program.inputs[0].id)
    assert np.array_equal(tables["cells"]["value"], first.ravel())


def test_outputs_are_compared_with_the_checked_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones((128, 16), np.float32)
    run = nki_lab.run(scaled, x, target="trn2")
    with pytest.raises(AssertionError):
        run.check(x)
    page = Page(run.view(), monkeypatch)
    out = run.program.outputs[0]._buffer.id
    header, tables = page.values(len(run.recording) - 1, out, against="checked")
    assert header["against"] == "checked"
    assert "checked" in header["references"]
    assert (tables["cells"]["reference"] == 1).all()
    assert (tables["cells"]["error"] == 1).all()
    header, tables = page.values(0, buffer_of(run, "tile"), against="checked")
    assert header["against"] == ""
    assert "reference" not in tables["cells"]


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"step": 10**6, "buffer": 0}, "Step 1000000"),
        ({"step": 0, "buffer": 10**6}, "no tensor"),
        ({"step": "0", "buffer": 0}, "not a number"),
        ({"step": 0}, "not a number"),
        ({"step": 0, "buffer": 0, "when": "later"}, "no values later"),
        ({"step": 0, "buffer": 0, "excerpt": ["<b>", 2]}, "nvalid literal"),
    ],
)
def test_a_question_that_makes_no_sense_is_answered_with_a_reason(page: Page, asked: Any, reason: str) -> None:
    told, message = page.ask(kind="values", request=3, **asked)
    assert (told["kind"], told["request"], message) == ("values", 3, None)
    assert reason in told["reason"]


def test_a_profile_and_a_saved_run_say_why_they_have_no_values(
    run: nki_lab.Run, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = nki_lab.profile(scaled, nki_lab.spec((128, 16), "float32"), target="trn2")
    told, _ = Page(profile.view(), monkeypatch).ask(kind="values", request=1, step=0, buffer=0, when="after")
    assert told["reason"] == "Values not recorded: a profile computes none."
    saved = nki_lab.open(run.save(tmp_path / "a.nkirec"))
    told, _ = Page(saved.view(), monkeypatch).ask(kind="values", request=1, step=0, buffer=0, when="after")
    assert told["reason"] == "Values not recorded: a saved run has times only."


def test_a_failure_of_ours_is_a_reason(run: nki_lab.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(run.view(), monkeypatch)

    def fails(*_: Any, **__: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(type(run.values), "after", fails)
    told, _ = page.ask(kind="values", request=1, step=0, buffer=0, when="after")
    assert told["reason"] == "MemoryError."


@pytest.mark.parametrize(
    "asked", [{"kind": "values"}, {"kind": "values", "request": True}, {"kind": "x", "request": 1}]
)
def test_a_question_without_a_number_is_not_answered(page: Page, asked: Any) -> None:
    page.told.clear()
    page.widget._answer(page.widget, asked, [])
    assert page.told == []
