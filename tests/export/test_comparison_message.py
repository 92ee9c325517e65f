"""The message of a comparison, the page that carries it, and the widget that sends it."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki_lab
from nki_lab import widgets
from nki_lab.export.comparison.message import Sides, encode, labels
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import whole
from nki_lab.result.comparison import RunComparison
from nki_lab.widgets import parts
from tests.comparison.versions import KERNEL, edited, profiled


def read(message: bytes) -> dict[str, Any]:
    """Return the header of a message, and its columns in `tables`."""
    size = int.from_bytes(message[8:12], "little")
    header: dict[str, Any] = json.loads(message[16 : 16 + size])
    body = message[16 + size :]
    for columns in header["tables"].values():
        for name, entry in columns.items():
            values = np.frombuffer(body, "<" + entry["dtype"], entry["length"], entry["offset"])
            columns[name] = np.cumsum(values, dtype=np.int64) if entry.get("delta") else values
    return header


@pytest.fixture(scope="module")
def compared() -> RunComparison:
    return profiled(edited("TILE = 512", "TILE = 256")).compare(profiled(KERNEL))


def message(found: RunComparison) -> dict[str, Any]:
    return read(encode(found.figures, Sides(found._before, found._after)))


def test_partners_are_the_pairs_of_the_comparison_by_step(compared: RunComparison) -> None:
    partners = message(compared)["tables"]["partners"]["after"]
    pairs = compared.figures.rows
    before, after = whole(compared._before.order), whole(compared._after.order)
    told = {(int(before[step]), int(after[mate])) for step, mate in enumerate(partners) if mate >= 0}
    assert told == set(zip(pairs.before.tolist(), pairs.after.tolist(), strict=True))
    assert (partners < 0).sum() == len(pairs.only_before) == 24


def test_the_words_and_sums_are_those_of_python(compared: RunComparison) -> None:
    told = message(compared)
    assert (told["sentence"], told["notes"]) == (compared.sentence, list(compared.notes))
    latency = told["latency"]
    parts_of_path = [*told["work"], *told["waits"]]
    for side in ("before", "after"):
        assert sum(item[side] for item in parts_of_path) == latency[side]
        assert sum(item["critical"][side] for item in told["lines"]) == latency[side]
    assert [edit["text"] for edit in told["edits"]] == ["TILE = 256"]
    assert all(item["label"] for item in told["memory"])


def test_runs_are_called_by_what_tells_them_apart() -> None:
    trn2, trn3 = profiled(KERNEL), profiled(KERNEL, target="trn3")
    other = profiled(KERNEL.replace("def scaled", "def halved"), name="halved")
    assert labels(trn2.compare(trn2).figures) == ["before", "after"]
    assert labels(trn2.compare(trn3).figures) == ["trn2", "trn3"]
    assert labels(trn2.compare(other).figures) == ["scaled", "halved"]


def test_runs_of_different_kernels_have_no_partners() -> None:
    different = profiled(
        "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n\n@nki.jit\ndef other(a):\n"
        "    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)\n"
        "    nisa.dma_copy(dst=out, src=a)\n    return out\n",
        name="other",
    )
    told = message(profiled(KERNEL).compare(different))
    assert told["same_kernel"] is False
    assert (told["tables"]["partners"]["after"] == -1).all()
    assert len(told["tables"]["iterations"]["value"]) == len(told["tables"]["stretches"]["line"]) == 0


def test_a_page_carries_both_runs_and_asks_nobody(compared: RunComparison, tmp_path: Path) -> None:
    text = compared.to_html(tmp_path / "compared.html").read_text(encoding="utf-8")
    found = re.findall(r'class="nki-lab-compared" data-of="(\w+)">([^<]*)<', text)
    assert [name for name, _ in found] == ["comparison", "before", "after"]
    steps = [read(zlib.decompress(base64.b64decode(content))).get("steps") for _, content in found]
    assert steps[1:] == [len(compared._before), len(compared._after)]
    assert not re.findall(r"""(?:src|href)=["'](?!data:)""", re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL))
    assert "critical path" in text  # the tables, where no scripts run


def test_a_notebook_keeps_small_runs_and_draws_large_ones_with_the_kernel(
    compared: RunComparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: Any = compared._repr_mimebundle_()
    assert [item["of"] for item in kept[widgets.COMPARISON_MIME]["messages"]] == ["comparison", "before", "after"]
    monkeypatch.setenv("NKI_LAB_NOTEBOOK_BYTES", "100")
    large = compared._repr_mimebundle_()
    assert widgets.COMPARISON_MIME not in large
    assert "application/vnd.jupyter.widget-view+json" in large
    assert "<table" in str(large["text/html"])


def test_the_widget_answers_each_view_with_everything(compared: RunComparison, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART", 1000)
    widget = compared.view()
    sent: list[tuple[dict[str, Any], bytes]] = []
    monkeypatch.setattr(widget, "send", lambda told, buffers=None: sent.append((told, bytes(buffers[0]))))
    widget._answer(widget, {"kind": "load", "view": 7}, [])
    assert {told["view"] for told, _ in sent} == {7}
    assert list(dict.fromkeys(told["of"] for told, _ in sent)) == ["comparison", "before", "after"]
    first = b"".join(content for told, content in sent if told["of"] == "comparison")
    assert read(first)["sentence"] == compared.sentence
    sent.clear()
    widget._answer(widget, {"kind": "steps", "of": "after", "first": 3, "count": 2, "view": 1}, [])
    rows = read(b"".join(content for _, content in sent))
    assert (rows["first"], rows["count"]) == (3, 2)


def test_empty_runs_are_compared() -> None:
    empty = Recording({}, {"kernel": "k", "target": "trn2"})
    told = message(RunComparison(empty, empty))
    assert told["latency"]["before"] == told["latency"]["after"] == 0
    assert told["loops"] == []


def test_a_run_of_a_saved_folder_is_drawn_too(tmp_path: Path) -> None:
    run = profiled(KERNEL)
    saved = nki_lab.open(run.save(tmp_path / "run.nkirec"))
    told = message(saved.compare(run))
    assert told["sentence"].startswith("No difference")
