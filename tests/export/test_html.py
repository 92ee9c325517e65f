"""Runs as one HTML file: nothing is loaded, nothing of the user's becomes markup, and the views find the run."""

from __future__ import annotations

import ast
import base64
import json
import os
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from nki_lab.diagnostic import NkiError, Related, Span, diagnose
from nki_lab.export import html as exporting
from nki_lab.export.html import MESSAGE_ID, ROWS_CLASS, html, write
from nki_lab.kernel_runtime.recording import Recording
from tests.recordings import drawn, synthetic
from tests.scale import scaled

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
    def header(self) -> Any:
        """The header of the run's message."""
        (island,) = [code for attrs, code in self.scripts if attrs.get("id") == MESSAGE_ID]
        return header_of(island)


def header_of(island: str) -> Any:
    message = zlib.decompress(base64.b64decode(island, validate=True))
    assert message[:4] == b"NKIW"
    return json.loads(message[16 : 16 + int.from_bytes(message[8:12], "little")])


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


def test_a_page_loads_nothing_and_says_what_matters() -> None:
    summary = {"kernel": "flash_fwd", "target": "trn2", "mfu": 0.072, "hbm_read_bytes": 4 << 20,
               "confidence": {"documented": 0.58, "measured": 0.33, "inferred": 0.09},
               "sbuf_peak_bytes_per_partition": 4608, "psum_peak_bytes_per_partition": 2048,
               "diagnostics": [diagnose("NKI308", "nothing writes it", help="write it",
                                        related=[Related("made here", Span("k.py", 7, 1, 7, 2))]).as_dict()]}  # fmt: skip
    page = check(html(Recording(synthetic(500), summary)))
    for text in (
        "flash_fwd on trn2: ", "500 instructions", "58 % documented · 33 measured · 9.0 ", "4.5 KiB of 224 KiB",
        "NKI308", "nothing writes it", "Simulated by nki_lab",
    ):  # fmt: skip
        assert text in page.text, text
    head = page.header
    assert (head["kernel"], head["steps"], head["count"], head["fault"]) == ("flash_fwd", 500, 500, -1)
    assert [item["code"] for item in head["findings"]] == ["NKI308"]


def test_names_with_markup_are_text() -> None:
    page = check(html(Recording(evil_tables(), EVIL_SUMMARY)))
    assert EVIL in page.text
    assert len(page.scripts) == len(check(html(Recording(synthetic(200)))).scripts)
    assert page.header["kernel"] == EVIL


@settings(max_examples=scaled(30))
@given(drawn())
def test_any_recording_has_a_page(recording: Recording) -> None:
    assert check(html(recording)).header["steps"] == len(recording)


def test_a_run_without_instructions_has_a_page() -> None:
    page = check(html(Recording({}, {"kernel": "empty", "target": "trn2"})))
    assert page.header["steps"] == 0
    assert "No instruction was recorded." in page.text


def test_a_failed_run_says_where_it_stopped() -> None:
    recording = Recording(synthetic(40), {"kernel": "k", "fault": 39})
    assert check(html(recording)).header["fault"] == recording.step_of(39)


def test_a_very_long_run_carries_a_part_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "WHOLE", 100)
    monkeypatch.setattr(exporting, "RANGE", 30)
    assert check(html(Recording(synthetic(100)))).header["count"] == 100
    head = check(html(Recording(synthetic(101)))).header
    assert (head["steps"], head["count"]) == (101, 30)


def test_pages_of_equal_runs_are_equal() -> None:
    first, second = (html(Recording(synthetic(300), {"kernel": "k"})) for _ in range(2))
    assert first == second


def test_a_profile_of_a_device_is_not_called_simulated() -> None:
    page = check(html(Recording(synthetic(10), {"profile": "neuron explorer"})))
    assert "Read from a Neuron Explorer profile" in page.text
    assert "Simulated by" not in page.text


def test_a_page_replaces_the_old_one_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "report.html"
    file.write_text("old")
    write(Recording(synthetic(10)), file)
    assert file.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    file.write_text("old")

    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(NkiError, match="NKI021"):
        write(Recording(synthetic(10)), file)
    assert [item.name for item in tmp_path.iterdir()] == ["report.html"]
    assert file.read_text() == "old"


def test_pages_and_recordings_are_loaded_by_those_who_want_them() -> None:
    modules = ["nki_lab.export", "nki_lab.wire", "nki_lab.widgets", "pyarrow", "anywidget", "IPython"]
    script = (
        f"import sys, nki_lab; nki_lab.run, nki_lab.open; print([name for name in {modules} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"pyarrow", "anywidget", "IPython", "nki_lab.widgets"} & set(ast.literal_eval(done.stdout))


def test_a_large_run_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page draws with the first rows; all others stand behind the script, in order."""
    monkeypatch.setattr("nki_lab.export.html.CHUNK", 60)
    page = check(html(Recording(synthetic(200), {"kernel": "k"})))
    assert (page.header["first"], page.header["count"]) == (0, 60)
    places = [place for place, (attrs, _) in enumerate(page.scripts) if attrs.get("class") == ROWS_CLASS]
    assert places == [2, 3, 4]
    heads = [header_of(page.scripts[place][1]) for place in places]
    assert [(head["first"], head["count"]) for head in heads] == [(60, 60), (120, 60), (180, 20)]


def test_pages_of_a_site_share_the_views_script() -> None:
    text = html(Recording(synthetic(20)))
    shared = exporting.sharing(text, "views/visualizer.js")
    assert len(shared) < len(text) / 4
    page = Page(shared)
    assert ("script", {"src": "views/visualizer.js"}) in page.tags
    assert not [code for attrs, code in page.scripts if attrs.get("type") != "text/plain" and code]
    (policy,) = (str(attrs["content"]) for tag, attrs in page.tags if tag == "meta" and "http-equiv" in attrs)
    assert "script-src 'self' file: 'unsafe-inline'" in policy
    assert "default-src 'none'" in policy


def test_only_a_page_of_these_views_is_shared() -> None:
    with pytest.raises(ValueError, match="does not carry"):
        exporting.sharing("<html></html>", "visualizer.js")
