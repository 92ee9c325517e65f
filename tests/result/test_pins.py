"""Pinned tiles: notebooks and pages keep a picture of their values, within a budget."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab import widgets
from nki_lab.diagnostic import NkiError
from nki_lab.export.html import VALUES_CLASS
from nki_lab.kernel_runtime.recording.folder import MANIFEST
from nki_lab.result import outcome
from nki_lab.wire.labels import tensor_labels
from nki_lab.wire.rows import Steps
from tests.wire.reader import read


@nki.jit
def doubled(x):
    """Twice of x, by way of a tile."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nl.store(out, tile)
    return out


@pytest.fixture
def run() -> nki_lab.Run:
    return nki_lab.run(doubled, np.arange(128 * 512, dtype=np.float32).reshape(128, 512), target="trn2")


def kept(bundle: Any) -> list[tuple[dict[str, Any], Any]]:
    return [read(zlib.decompress(base64.b64decode(item))) for item in bundle[widgets.MIME].get("values", [])]


def test_a_notebook_keeps_the_pinned_tiles(run: nki_lab.Run) -> None:
    assert kept(run._repr_mimebundle_()) == []
    assert run.pin("tile", step=0).pin("tile") is run
    (first, cells), (last, _) = kept(run._repr_mimebundle_())
    assert (first["step"], first["high"]) == (0, 128 * 512 - 1)
    assert (last["step"], last["high"]) == (2, 2 * (128 * 512 - 1))
    assert len(cells["cells"]["value"]) <= 1 << 14
    assert len(cells["excerpt"]["value"]) == 1024


def test_a_page_keeps_the_pinned_tiles(run: nki_lab.Run, tmp_path: Path) -> None:
    text = run.pin("tile").to_html(tmp_path / "a.html").read_text("utf-8")
    assert text.count(f'class="{VALUES_CLASS}"') == 1


def test_more_than_the_budget_is_refused(run: nki_lab.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.pin("tile")
    monkeypatch.setattr(outcome, "PINNED_BYTES", 1000)
    with pytest.raises(NkiError, match="NKI028 the pinned tiles of doubled take"):
        run.pin("out")
    assert len(run.pins) == 1


def test_what_has_no_values_cannot_be_pinned(run: nki_lab.Run) -> None:
    with pytest.raises(NkiError, match="NKI027"):
        run.pin("nothing")
    profile = nki_lab.profile(doubled, nki_lab.spec((128, 512), "float32"), target="trn2")
    with pytest.raises(NkiError, match="NKI028"):
        profile.pin("tile")
    assert profile.pins == ()


def test_a_folder_keeps_the_pinned_tiles_and_every_door_of_it_shows_them(run: nki_lab.Run, tmp_path: Path) -> None:
    run.pin("tile", step=0).pin("tile").pin("tile").save(tmp_path / "a.nkirec")
    saved = nki_lab.open(tmp_path / "a.nkirec")
    assert saved.pins == run.pins
    assert len(saved.pins) == 2
    assert [header["step"] for header, _ in kept(saved._repr_mimebundle_())] == [0, 2]
    assert saved.to_html(tmp_path / "a.html").read_text("utf-8").count(f'class="{VALUES_CLASS}"') == 2
    saved.save(tmp_path / "b.nkirec")
    assert nki_lab.open(tmp_path / "b.nkirec").pins == run.pins
    nki_lab.run(doubled, np.zeros((128, 512), np.float32), target="trn2").save(tmp_path / "b.nkirec")
    assert nki_lab.open(tmp_path / "b.nkirec").pins == ()


@pytest.mark.parametrize("damage", ["!!", 7, None, [], base64.b64encode(b"nothing").decode()])
def test_a_damaged_pin_in_a_folder_is_left_out(run: nki_lab.Run, tmp_path: Path, damage: object) -> None:
    run.pin("tile", step=0).pin("tile").save(tmp_path / "a")
    manifest = tmp_path / "a" / MANIFEST
    content = json.loads(manifest.read_text("utf-8"))
    content["pins"][0] = damage
    manifest.write_text(json.dumps(content), "utf-8")
    assert nki_lab.open(tmp_path / "a").pins == run.pins[1:]
    content["pins"] = damage
    manifest.write_text(json.dumps(content), "utf-8")
    assert nki_lab.open(tmp_path / "a").pins == ()


def test_the_page_pins_as_the_notebook_does(run: nki_lab.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[dict[str, Any], Any]] = []
    widget = run.pin("out").view()
    monkeypatch.setattr(widget, "send", lambda content, buffers=None: told.append((content, buffers)))
    number = tensor_labels(Steps(run.recording)).index("tile")
    widget._answer(widget, {"kind": "pin", "request": 4, "step": 1, "buffer": number}, [])
    assert told == [({"kind": "pin", "request": 4}, [run.pins[1]])]
    assert len(run.pins) == 2
    told.clear()
    widget._answer(widget, {"kind": "load"}, [])
    assert told[0] == ({"kind": "kept"}, list(run.pins))
    assert told[1][0]["kind"] == "part"
    told.clear()
    monkeypatch.setattr(outcome, "PINNED_BYTES", 1000)
    for step, buffer in ((0, number), (0, 10_000), (10_000, number), ("0", number)):
        widget._answer(widget, {"kind": "pin", "request": 5, "step": step, "buffer": buffer}, [])
        content, buffers = told[-1]
        assert content["reason"].endswith(".")
        assert buffers is None
    assert len(run.pins) == 2


def test_a_saved_run_shows_its_pins_in_a_widget_and_takes_no_more(
    run: nki_lab.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.pin("tile").save(tmp_path / "a")
    told: list[tuple[dict[str, Any], Any]] = []
    widget = nki_lab.open(tmp_path / "a").view()
    monkeypatch.setattr(widget, "send", lambda content, buffers=None: told.append((content, buffers)))
    widget._answer(widget, {"kind": "load"}, [])
    assert told[0] == ({"kind": "kept"}, list(run.pins))
    widget._answer(widget, {"kind": "pin", "request": 5, "step": 0, "buffer": 0}, [])
    assert "saved run" in told[-1][0]["reason"]
