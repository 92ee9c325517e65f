"""`nki-lab check` says how much of the calls of NKI it checked: in a sentence, a table, JSON and pages."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab import cli
from nki_lab.diagnostic import Span, diagnose
from nki_lab.export.coverage_pages import Part, SourceFile, file_page, index_page, page_name
from nki_lab.printable import printable
from nki_lab.query.call_sites import REASONS, STATES, CallSite
from tests.cli.test_check import found

HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\nimport nki.typing as nt\n"
SHAPED = (
    HEAD
    + "from helper import fill\n\n@nki.jit\ndef kernel(x: nt.tensor[128, 64]):\n    t = nl.load(x)\n    fill(t)\n    return x\n"
)
HELPER = (
    HEAD
    + "\ndef fill(t):\n    nisa.memset(dst=t, value=0.0)\n    for _ in range(0):\n        nisa.memset(dst=t, value=1.0)\n"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "shaped.py").write_text(SHAPED, encoding="utf-8")
    (folder / "helper.py").write_text(HELPER, encoding="utf-8")
    return folder


def printed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    cli.main(["check", *map(str, arguments)])
    return capsys.readouterr().out


def test_no_findings_says_what_was_not_evaluated(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, project / "helper.py")
    assert text == "no findings in 2 NKI calls: 1 checked with known shapes, 1 by name only\n"
    (project / "shaped.py").unlink()
    text = printed(capsys, project / "helper.py")
    assert text == (
        "no findings in 2 NKI calls: none checked with known shapes, 1 with assumed or unknown arguments, "
        "1 by name only\n"
    )


def test_no_findings_in_fully_checked_calls_are_no_findings(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = SHAPED.replace("    fill(t)\n", "").replace(
        "return x", "out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n    nl.store(out, t)\n    return out"
    )
    (project / "shaped.py").write_text(text, encoding="utf-8")
    assert printed(capsys, project / "shaped.py") == "no findings\n"


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_helper_counts_with_the_runs_of_the_files_that_call_it(
    project: Path, jobs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = printed(capsys, project, "--statistics", "--jobs", jobs).splitlines()
    head = next(i for i, line in enumerate(shown) if line.startswith("NKI calls"))
    rows = [line.split() for line in shown[head:]]
    assert [row[-5:] for row in rows if row and row[0].endswith("helper.py")] == [["2", "1", "0", "1", "0"]]
    assert [row[-5:] for row in rows if row[:2] == ["all", "files"]] == [["3", "2", "0", "1", "0"]]


def test_json_has_the_counts_on_demand(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(found(capsys, project, status=0), list)
    data: dict[str, Any] = json.loads(printed(capsys, project, "--statistics", "--format", "json"))
    calls = data["nki_calls"]
    assert set(data) == {"findings", "nki_calls"}
    assert (calls["version"], calls["calls"]) == (1, 3)
    assert calls["counts"] == {"fully": 2, "partly": 0, "by name": 1, "skipped": 0}
    assert calls["because"] == [{"state": "by name", "reason": "other-branch", "count": 1}]
    assert calls["reasons"].keys() == REASONS.keys()
    assert calls["states"].keys() == STATES.keys()
    helper, _ = calls["files"]
    assert helper["file"] == str(project / "helper.py")
    assert helper["sites"] == [
        {"file": str(project / "helper.py"), "line": 9, "column": 9, "name": "nki.isa.memset", "function": "fill",
         "state": "by name", "reason": "other-branch"}
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["sarif", "github"])
def test_other_formats_stay_what_they_are(project: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    plain = printed(capsys, project, "--format", kind)
    assert printed(capsys, project, "--format", kind, "--statistics") == plain


def test_cells_of_notebooks_count_by_their_own_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = ["# prose", HEAD, "def f(t):\n    nisa.memset(dst=t)\n"]
    content = {
        "nbformat": 4, "nbformat_minor": 5, "metadata": {},
        "cells": [{"cell_type": "code", "metadata": {}, "source": text, "outputs": []} for text in cells],
    }  # fmt: skip
    (tmp_path / "n.ipynb").write_text(json.dumps(content), encoding="utf-8")
    data = json.loads(printed(capsys, tmp_path, "--statistics", "--format", "json"))
    (site,) = data["nki_calls"]["files"][0]["sites"]
    assert (site["file"], site["line"], site["column"]) == (f"{tmp_path / 'n.ipynb'}:cell 3", 2, 5)
    cli.main(["check", str(tmp_path), "--coverage-html", str(tmp_path / "pages")])
    (page,) = [item for item in (tmp_path / "pages").iterdir() if item.name != "index.html"]
    assert "<h3>cell 3</h3>" in page.read_text(encoding="utf-8")


# -- pages -------------------------------------------------------------------------------------------------------------


class Reader(HTMLParser):
    """The elements and texts of a page; every element that needs an end must have it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag != "meta":
            self.open.append(tag)
        given = dict(attrs)
        self.links += [given["href"] or ""] if "href" in given else []
        self.ids += [given["id"] or ""] if "id" in given else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data


def test_pages_mark_the_lines(project: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    assert cli.main(["check", str(project), "--coverage-html", str(folder)]) == 0
    index = Reader((folder / "index.html").read_text(encoding="utf-8"))
    assert {*index.links} == {item.name for item in folder.iterdir()} - {"index.html"}
    assert "helper.py" in index.text
    (helper,) = folder.glob("helper*.html")
    page = Reader(helper.read_text(encoding="utf-8"))
    assert "L9" in page.ids
    assert "by name isa.memset: no run takes its branch" in page.text
    assert re.search(
        r'<mark class="full" title="fully: isa.memset">nisa.memset\(dst=t, value=0.0\)', helper.read_text()
    )
    assert page.tags.isdisjoint({"script", "img", "link", "iframe"})


def test_pages_replace_earlier_pages_and_nothing_else(project: Path, tmp_path: Path, capsys: Any) -> None:
    folder = tmp_path / "pages"
    arguments = ["check", str(project), "--coverage-html", str(folder)]
    assert cli.main(arguments) == 0
    (project / "helper.py").unlink()
    assert cli.main(arguments) == 0
    assert len(list(folder.iterdir())) == 2
    (folder / "mine.txt").write_text("mine", encoding="utf-8")
    before = sorted(folder.iterdir())
    capsys.readouterr()
    assert cli.main(arguments) == 2
    assert "NKI021" in capsys.readouterr().err
    assert sorted(folder.iterdir()) == before
    assert [item.name for item in tmp_path.iterdir() if item.name.startswith(".")] == []


@pytest.mark.parametrize("name", ["file", "file/inner", "", "nul\0l"])
def test_a_folder_that_cannot_be_is_refused(project: Path, tmp_path: Path, name: str, capsys: Any) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    target = str(tmp_path / name) if name else str(project)
    status = cli.main(["check", str(project), "--coverage-html", target])
    assert (status, capsys.readouterr().err.count("not written")) == (2, 1)
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=20) | st.sampled_from(
    ["</td><script>alert(1)</script>", "&lt;", '" onmouseover="x', "é" * 9]
)
SITES = st.builds(
    lambda line, column, lines, end, name, state, reason: CallSite(
        line=line, column=column, end_line=line + lines, end_column=end, name=name, function="f", state=state, reason=reason
    ),
    st.integers(1, 4), st.integers(0, 30), st.integers(0, 2), st.integers(0, 30), TEXTS, st.sampled_from([*STATES]),
    st.sampled_from(["", *REASONS]),
)  # fmt: skip


@given(st.lists(TEXTS, max_size=4), st.lists(SITES, max_size=5), TEXTS, TEXTS)
@settings(max_examples=60, deadline=None)
def test_pages_show_any_text_as_it_is(lines: list[str], sites: list[CallSite], name: str, message: str) -> None:
    finding = diagnose("NKI201", message or "m", span=Span(name, 1, 1, 1, 2), help=message)
    item = SourceFile(file=name, parts=[Part(lines=lines, sites=sites, findings=[finding], title=name)])
    page, index = Reader(file_page(item)), Reader(index_page([(item, page_name(name))]))
    for line in lines:
        assert printable(line) in page.text
    assert printable(message) in page.text
    assert printable(name) in index.text
    assert {*page.tags, *index.tags}.isdisjoint({"script"})


@given(TEXTS, TEXTS)
@settings(max_examples=40, deadline=None)
def test_pages_of_different_files_have_different_names(first: str, second: str) -> None:
    assert (page_name(first) == page_name(second)) == (first == second)
    assert re.fullmatch(r"[\w.-]+\.html", page_name(first), re.ASCII)
