"""What a notebook is offered of a run, and that it keeps what is small and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab import widgets
from nki_lab.diagnostic import NkiError, diagnose, error_of
from nki_lab.dialects.environment import NOTEBOOK_VARIABLE
from nki_lab.kernel_runtime.recording import stored
from nki_lab.widgets import ABOUT, MIME
from nki_lab.wire import encode
from tests.wire import reader


@nki.jit
def add(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(a), nl.load(b)))
    return out


@nki.jit
def stops(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile[:, 0:1], op=nl.add)
    nl.store(out, tile)
    return out


@pytest.fixture
def run() -> Any:
    return nki_lab.run(add, np.ones((4, 3), np.float32), np.ones((4, 3), np.float32), target="trn2")


def test_a_small_run_is_kept_whole_with_text_picture_and_card(run: Any) -> None:
    shown = run._repr_mimebundle_()
    assert set(shown) == {"text/plain", "text/html", "image/png", MIME, ABOUT}
    assert shown["text/plain"].startswith("add on trn2: ")
    assert shown["image/png"].startswith(b"\x89PNG")
    bounds = [round(1000 * bound) for bound in run.summary.makespan_interval_ns]
    assert shown[ABOUT] == [
        {"kernel": "add", "target": "trn2", "makespan": run.recording.makespan, "interval": bounds, "instructions": 4,
         "failed": False, "times": 1}
    ]  # fmt: skip
    assert "run.view() opens the visualizer" in shown["text/html"]


def test_a_saved_run_shows_the_same(run: Any, tmp_path: Path) -> None:
    run.save(tmp_path / "r")
    assert nki_lab.open(tmp_path / "r")._repr_mimebundle_() == run._repr_mimebundle_()


def test_a_run_over_the_limit_is_a_widget(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NOTEBOOK_VARIABLE, "1000")
    shown = run._repr_mimebundle_()
    assert MIME not in shown
    assert "application/vnd.jupyter.widget-view+json" in shown
    assert [about["kernel"] for about in shown[ABOUT]] == ["add"]
    assert "Too large to be kept in a notebook (NKI_LAB_NOTEBOOK_BYTES: 1000 B)" in shown["text/html"]


def test_over_the_limit_and_without_widgets_the_card_says_what_to_install(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise error_of(diagnose("NKI022", "the visualizer needs anywidget", help="pip install it"))

    monkeypatch.setenv(NOTEBOOK_VARIABLE, "0")
    monkeypatch.setattr(widgets, "view", refuse)
    shown = run._repr_mimebundle_()
    assert set(shown) == {"text/plain", "text/html", "image/png"}
    assert "the visualizer needs anywidget: pip install it." in shown["text/html"]


def test_a_limit_that_is_no_number_is_a_coded_error(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NOTEBOOK_VARIABLE, "5 MiB")
    with pytest.raises(NkiError, match="NKI012 NKI_LAB_NOTEBOOK_BYTES is '5 MiB'"):
        run._repr_mimebundle_()


def test_a_failed_run_is_kept_up_to_its_fault() -> None:
    failed = nki_lab.run(stops, np.ones((4, 3), np.float32), target="trn2", on_error="report")
    assert failed.error is not None
    assert failed.fault == len(failed.recording) - 1 == 0
    shown = failed._repr_mimebundle_()
    assert MIME in shown
    assert "up to the fault" in shown["text/html"]
    assert "NKI203" in shown["text/html"]


def test_a_fault_before_any_instruction_of_its_line_stands_after_the_last_one(tmp_path: Path) -> None:
    failed = nki_lab.run(stops, np.ones((4, 3), np.float32), target="trn2", on_error="report")
    assert failed.recording.summary["fault_after"] is True
    header, _ = reader.read(encode(failed.recording, fault=failed.fault))
    assert (header["fault"], header["fault_after"]) == (0, True)
    failed.save(tmp_path / "r")
    assert nki_lab.open(tmp_path / "r").recording.summary["fault_after"] is True


def test_a_fault_in_an_issued_instruction_stands_at_it() -> None:
    @nki.jit
    def kernel(x, i):
        tile = nl.load(x)
        index = nl.load(i)
        nisa.dma_copy(dst=tile, src=x.ap([[8, 128], [1, 8]], vector_offset=index))
        nl.store(x, tile)
        return x

    x, i = np.zeros((128, 8), np.float32), np.full((128, 1), 1000, np.int32)
    failed = nki_lab.run(kernel, x, i, target="trn2", on_error="report")
    assert failed.error is not None
    assert (failed.fault, failed.recording.summary.get("fault_after")) == (2, None)
    assert failed.program.site_of(2).line == failed.error.diagnostics[0].line


def test_a_rule_that_refuses_a_whole_kernel_stands_at_the_instruction_it_names() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=out, src=tile)
        nisa.dma_copy(dst=tile, src=x)
        nisa.dma_copy(dst=out, src=tile)
        return out

    options = nki_lab.Options(strict=True)
    failed = nki_lab.run(kernel, np.ones((128, 8), np.float32), target="trn2", options=options, on_error="report")
    assert failed.error is not None
    assert (failed.fault, "fault_after" in failed.recording.summary) == (0, False)


def test_a_failed_run_saves_and_opens(tmp_path: Path) -> None:
    failed = nki_lab.run(stops, np.ones((4, 3), np.float32), target="trn2", on_error="report")
    failed.save(tmp_path / "r")
    opened = nki_lab.open(tmp_path / "r")
    assert opened.fault == 0
    assert "fault" not in opened.summary
    assert [item.code for item in opened.diagnostics] == ["NKI203"]


def test_a_run_without_instructions_is_text() -> None:
    empty = nki_lab.run(add, np.ones(3), np.ones(3), on_error="report")
    shown = empty._repr_mimebundle_()
    assert set(shown) == {"text/plain"}
    assert "NKI001" in shown["text/plain"]


def test_a_run_that_came_to_its_end_has_no_fault(run: Any) -> None:
    assert run.fault == -1


def test_a_view_starts_at_a_step(run: Any) -> None:
    assert run.view().step == -1
    assert run.view(step=2).step == 2


def test_a_damaged_recording_is_said_and_ends_nothing(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "READ_WHOLE", 0)  # as a large one, of which parts are read later
    run.save(tmp_path / "r")
    opened = nki_lab.open(tmp_path / "r")
    for file in (tmp_path / "r").glob("nki_lab_rows.*"):
        content = bytearray(file.read_bytes())
        content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
        file.write_bytes(content)
    shown = opened._repr_mimebundle_()
    assert set(shown) == {"text/plain"}
    assert shown["text/plain"].startswith("add cannot be shown\n\nNKI019")
