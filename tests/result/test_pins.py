"""Pinned tiles: notebooks and pages keep a picture of their values, within a budget."""

from __future__ import annotations

import base64
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
from nki_lab.result import outcome
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
