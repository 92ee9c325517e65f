"""Reports as one HTML file: nothing is loaded, nothing of the user's becomes markup, and size is bounded."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from nki_lab.diagnostic import NkiError, Related, Span, diagnose
from nki_lab.export.html import html, write
from nki_lab.export.html.colours import KINDS, of_lane, of_reason
from nki_lab.kernel_runtime.recording import Lane, Recording
from nki_lab.kernel_runtime.timing import STALL_REASONS
from tests.recordings import drawn, synthetic

EVIL = "</script><script>alert(1)</script><img src=https://evil.example/x onerror='alert(2)'>$$x$$"
LOADING = {"src", "href", "srcset", "data", "poster", "action", "background", "code", "formaction", "manifest"}
VOID = {"meta", "br", "img", "link", "input", "hr", "base"}


class Page(HTMLParser):
    """A page taken apart: its tags, its text outside of scripts and styles, and these."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.styles = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            attrs, code = self.scripts[-1]
            self.scripts[-1] = (attrs, code + data)
        elif self.open and self.open[-1] == "style":
            self.styles += data
        else:
            self.text += data

    @property
    def figures(self) -> Any:
        return next((json.loads(code) for attrs, code in self.scripts if attrs.get("id") == "figures"), None)


def check(text: str) -> Page:
    """The page, which loads nothing."""
    page = Page(text)
    assert page.open == []
    for tag, attrs in page.tags:
        assert not LOADING & attrs.keys(), (tag, attrs)
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "video", "audio")
        assert not [name for name in attrs if name.startswith("on")]
    assert "url(" not in page.styles
    assert "@import" not in page.styles
    policy = next(attrs for tag, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in str(policy["content"])
    assert "http" not in str(policy["content"])
    return page


def evil_tables(count: int = 200) -> dict[str, dict[str, Any]]:
    """A recording in which every text is markup."""
    tables = synthetic(count)
    tables["ops"] = {"name": [EVIL] * 200, "detail": [EVIL] * 200}
    tables["lanes"]["name"] = [f"{EVIL}{number}" for number in range(21)]
    tables["stalls"] = {"name": ["none", *(f"{EVIL}{number}" for number in range(4))]}
    tables["sources"] = {"path": [EVIL], "text": [f"{EVIL}\n" * 500]}
    tables["sites"]["function"] = [EVIL] * 500
    return tables


EVIL_SUMMARY = {
    "target": EVIL, "kernel": EVIL, "options": {EVIL: EVIL}, "sbuf_peak_bytes_per_partition": 5,
    "confidence": {EVIL: 0.5, "documented": 0.5},
    "diagnostics": [{"code": EVIL, "message": EVIL, "severity": "error", "outcome": EVIL, "file": EVIL, "line": 1,
                     "column": 1, "limit": EVIL, "help": EVIL}, 7],
}  # fmt: skip


def test_a_report_loads_nothing_and_says_what_matters() -> None:
    summary = {"kernel": "flash_fwd", "target": "trn2", "mfu": 0.072, "hbm_read_bytes": 4 << 20,
               "confidence": {"documented": 0.58, "measured": 0.33, "inferred": 0.09},
               "sbuf_peak_bytes_per_partition": 4608, "psum_peak_bytes_per_partition": 2048,
               "options": {"launch_overhead": True},
               "diagnostics": [diagnose("NKI308", "nothing writes it", help="write it",
                                        related=[Related("made here", Span("k.py", 7, 1, 7, 2))]).as_dict()]}  # fmt: skip
    page = check(html(Recording(synthetic(500), summary)))
    for text in (
        "flash_fwd", "trn2 · 500 instructions · launch_overhead = True", "58 % documented · 33 % measured · 9.0 %",
        "What holds it back", "MFU7.2 %", "4.5 KiB of 224 KiB", "Where the time goes", "Lines that cost most", "x = 1",
        "NKI308", "nothing writes it", "help: write it", "made here (line 7)",
    ):  # fmt: skip
        assert text in page.text, text
    names = {model["attributes"].get("name") for model in models(page.figures)}
    assert {"timeline", "memory of SBUF", "memory of PSUM"} <= names


def models(value: Any) -> list[dict[str, Any]]:
    """Every Bokeh model in a document."""
    if isinstance(value, dict):
        mine = [value] if value.get("type") == "object" and "attributes" in value else []
        return mine + [found for item in value.values() for found in models(item)]
    return [found for item in value for found in models(item)] if isinstance(value, list) else []


def test_names_with_markup_are_text() -> None:
    page = check(html(Recording(evil_tables(), EVIL_SUMMARY)))
    assert EVIL in page.text
    assert len(page.scripts) == len(check(html(Recording(synthetic(200)))).scripts)
    labels = next(m["attributes"]["major_label_overrides"] for m in models(page.figures)
                  if m["attributes"].get("major_label_overrides"))  # fmt: skip
    assert not [label for _, label in labels["entries"] if "$" in label], "a formula would be typeset"
    assert EVIL in json.dumps(page.figures)


def test_a_script_cannot_be_left_from_within_the_drawing() -> None:
    text = html(Recording(evil_tables(), EVIL_SUMMARY))
    (island,) = re.findall(r'id="figures">(.*?)</script>', text, re.DOTALL)
    assert "<" not in island


@settings(max_examples=30)
@given(drawn())
def test_any_recording_has_a_report(recording: Recording) -> None:
    page = check(html(recording))
    assert ("figures" in {attrs.get("id") for attrs, _ in page.scripts}) == (recording.makespan > 0)


def test_a_long_run_is_drawn_in_stretches_and_stays_small() -> None:
    scripts = len(html(Recording(synthetic(10))))
    text = html(Recording(synthetic(150_000), {"kernel": "long"}))
    assert len(text) - scripts < 2_000_000
    page = check(text)
    assert "in stretches of" in page.text
    sums = html(Recording(synthetic(300_000), {"kernel": "longer"}))
    assert len(sums) < 1.2 * len(text), "size is bounded, not proportional"


def test_many_lanes_are_counted_where_they_are_not_drawn() -> None:
    page = check(html(Recording(synthetic(1_000, lanes=100))))
    assert "36 more lanes are not drawn" in page.text


def test_a_run_of_no_time_has_a_report_without_drawings() -> None:
    page = check(html(Recording({}, {"kernel": "empty", "target": "trn2"})))
    assert page.figures is None
    assert "No instruction takes any time." in page.text


def test_reports_of_equal_runs_are_equal() -> None:
    first, second = (Page(html(Recording(synthetic(300), {"kernel": "k"}))) for _ in range(2))
    assert first.text == second.text


def test_a_memory_that_is_too_small_has_its_line_in_the_drawing() -> None:
    tables = synthetic(200)
    tables["buffers"]["partition_bytes"][:] = 1 << 20
    summary = {"target": "trn2", "sbuf_peak_bytes_per_partition": 3 << 20}
    page = check(html(Recording(tables, summary)))
    assert "3 MiB of 224 KiB" in page.text
    texts = [model["attributes"].get("text") for model in models(page.figures)]
    assert [text for text in texts if isinstance(text, str) and "capacity 224 KiB" in text]
    (limit,) = (m["attributes"] for m in models(page.figures) if m["name"] == "Span")
    assert limit["location"] == 224


def test_a_report_replaces_the_old_one_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "report.html"
    file.write_text("old")
    write(Recording(synthetic(10)), file)
    assert file.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    file.write_text("old")

    def full(self: Path, *_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(NkiError, match="NKI021"):
        write(Recording(synthetic(10)), file)
    assert [item.name for item in tmp_path.iterdir()] == ["report.html"]
    assert file.read_text() == "old"


def test_every_wait_has_the_colour_of_what_is_waited_for() -> None:
    colours = {name: of_reason(name) for name in STALL_REASONS}
    assert set(colours.values()) <= set(KINDS)
    assert colours["data from vector"] == "vector"
    assert colours["bandwidth"] == colours["data from dma"] == "dma"
    assert colours["table load"] == "scalar"
    assert of_reason("vector") == "sync"


@pytest.mark.parametrize(
    ("name", "kind", "colour"),
    [("tensor", "engine", "tensor"), ("vector 2", "engine", "vector"), ("dma q3 sync", "dma", "dma"),
     ("ring", "collective", "cc"), ("tpu", "engine", "sync")],
)  # fmt: skip
def test_a_lane_has_the_colour_of_its_engine(name: str, kind: str, colour: str) -> None:
    assert of_lane(Lane(number=0, name=name, kind=kind, core=0)) == colour


def test_bokeh_is_loaded_by_those_who_want_a_report() -> None:
    script = "import sys, nki_lab; nki_lab.run, nki_lab.open; print('bokeh' in sys.modules, 'pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
