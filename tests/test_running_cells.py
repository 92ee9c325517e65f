"""Cells while they run, in a shell that belongs to a kernel as far as they can tell."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import comm
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from ipywidgets.widgets.widget import _instances

from nki_lab.widgets import MIME
from tests.shells import ipython
from tests.test_magic import ADD, Notebook

pytestmark = pytest.mark.extended

SLOW = """
import time

@nki.jit
def slow(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    for i in range(600):
        tile = nl.add(tile, 1.0)
        if i % 100 == 50:
            time.sleep(0.15)
        if i == stop_at:
            raise KeyboardInterrupt
    nl.store(out, tile)
    return out
"""


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InteractiveShell]:
    with ipython(tmp_path_factory.mktemp("ipython")) as started:
        yield started


@pytest.fixture
def busy(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> Notebook:
    """A notebook whose first cell has imported what the others use."""
    shell.reset(new_session=True)
    monkeypatch.setattr(shell, "kernel", object(), raising=False)
    monkeypatch.setattr(comm, "create_comm", comm.DummyComm)  # ipykernel's wants a kernel, once something loaded it
    made = Notebook(shell)
    made.good("import numpy as np, nki, nki.language as nl, nki_lab\nx = np.ones((128, 16), np.float32)\nstop_at = -1")
    return made


def _shown(done: Any) -> list[Any]:
    """What a front end shows at the end: updates stand in place of what they update."""
    places: dict[str, int] = {}
    shown: list[Any] = []
    for item in done:
        identity = item.transient.get("display_id") if item.transient else None
        if item.update:
            shown[places[identity]] = item.data
            continue
        if identity:
            places[identity] = len(shown)
        shown.append(item.data)
    return shown


def _ran(notebook: Notebook, source: str) -> tuple[Any, list[Any], list[Any]]:
    with capture_output() as captured:
        result = notebook.shell.run_cell(source, store_history=True)
    outputs = captured.outputs
    return result, [item.data for item in outputs], _shown(outputs)


def test_a_long_run_shows_itself_and_gives_its_place_to_the_result(busy: Notebook) -> None:
    # Between two updates lie up to two seconds, where the first one took long: in a large process garbage is collected.
    longer = SLOW.replace("0.15", "0.6")
    result, all_shown, shown = _ran(busy, f"%%nki --no-check --target trn2\n{longer}\nnki_lab.run(slow, x)")
    assert result.success
    assert all_shown[0]["text/plain"] == "slow on trn2 is running"
    (drawn,) = [item for item in shown if MIME in item]
    assert drawn["text/plain"].startswith("slow on trn2: ")
    assert result.result.name == "slow"
    assert busy.good("_.name").value == "slow"


def test_a_short_run_shows_its_result_only(busy: Notebook) -> None:
    _, all_shown, shown = _ran(busy, f"%%nki --target trn2\n{ADD}\nadd(x, x);")
    assert all_shown == shown
    assert len(shown) == 1


def test_a_view_that_appears_as_its_run_ends_gives_its_place_up_too(
    busy: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A saved notebook had an empty output above the run, where the processor was busy with others."""
    from nki_lab.magic import live

    draw = live.draw

    def late(data: Any, *, update: bool = False, **rest: Any) -> None:
        draw(data, update=update, **rest)
        if not update:
            time.sleep(5.0)  # the view is on display, and its thread has not come to say so

    monkeypatch.setattr(live, "draw", late)
    longer = SLOW.replace("0.15", "0.4")
    _, all_shown, shown = _ran(busy, f"%%nki --no-check --target trn2\n{longer}\nslow(x)")
    assert all_shown[0]["text/plain"] == "slow on trn2 is running"
    assert all(item["text/plain"] for item in shown)
    assert [MIME in item for item in shown] == [True, False]  # and what is found in the cell


def test_a_cancelled_run_says_so_once_and_shows_what_was_done(busy: Notebook) -> None:
    busy.good("stop_at = 400")
    result, _, shown = _ran(busy, f"%%nki --no-check --target trn2\n{SLOW}\nslow(x)")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    lines = result.error_in_exec._render_traceback_()
    assert lines == ["Cancelled: slow was cancelled after 402 instructions were issued."]
    (drawn,) = [item for item in shown if MIME in item]
    assert "cancelled after 402 instructions" in drawn["text/plain"]
    assert "NKI008" not in drawn["text/html"]


def test_of_a_long_run_that_is_cancelled_early_stays_what_was_known(busy: Notebook) -> None:
    """Its times are not worked out any more: nobody waits for them."""
    busy.good("stop_at = 5000")
    longer = SLOW.replace("600", "9000").replace("i % 100 == 50", "i % 1000 == 50").replace("0.15", "0.6")
    result, _, shown = _ran(busy, f"%%nki --no-check --target trn2\n{longer}\nslow(x)")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert not any(MIME in item for item in shown)
    (view,) = [item for item in shown if "application/vnd.jupyter.widget-view+json" in item]
    assert view["text/plain"] == "slow  trn2 · 5\u202f002 instructions · cancelled"
    drawn = _instances[view["application/vnd.jupyter.widget-view+json"]["model_id"]]
    assert drawn.live["state"] == "cancelled"
    # The view was looked at some time before, and says the same as the cell.
    assert drawn.live["done"] == 5002
    assert drawn.growth["lanes"]["until"] in (5001, 5002)
    assert result.error_in_exec._render_traceback_() == [
        "Cancelled: slow was cancelled after 5,002 instructions were issued."
    ]


def test_a_cell_without_a_view_shows_none_while_it_runs(busy: Notebook) -> None:
    _, all_shown, _ = _ran(busy, f"%%nki --no-check --target trn2 --no-view\n{SLOW}\nslow(x);")
    assert not any("running" in item["text/plain"] for item in all_shown)
    assert all_shown[-1]["text/plain"].startswith("slow  trn2")


def test_a_page_that_cannot_be_told_keeps_no_run_from_its_end(busy: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    from nki_lab.magic import live

    def refuse(*_: object, **__: object) -> None:
        raise OSError("the page is gone")

    monkeypatch.setattr(live, "draw", refuse)
    result, _, shown = _ran(busy, f"%%nki --no-check --target trn2\n{SLOW}\nslow(x)")
    assert result.success
    assert len([item for item in shown if MIME in item]) == 1
