"""The reference has a page for everything that is declared, and its links lead to pages that are there."""

from __future__ import annotations

import re
from dataclasses import fields
from functools import cache
from pathlib import Path

import nki_lab
from nki_lab import codes
from nki_lab.isa.arch import GENERATIONS
from nki_lab.isa.spec import TABLE
from nki_lab.kernel_runtime.language import namespaces
from nki_lab.query import explain
from scripts.pages import documents, gallery, interface, reference
from scripts.pages.__main__ import colours, write
from tests.every import for_each


@cache
def made() -> dict[str, str]:
    """The pages of the reference by their places."""
    found = [*reference.pages(), *interface.pages()]
    assert len(dict(found)) == len(found)
    return dict(found)


def test_each_instruction_function_and_code_has_a_page() -> None:
    places = made().keys()
    assert {f"reference/isa/{name}.md" for name in TABLE} <= places
    assert {f"reference/language/{name}.md" for name in namespaces.language_names()} <= places
    assert {f"codes/{entry.code}.md" for entry in codes.all_codes()} <= places


def test_the_page_of_a_code_has_a_stable_address() -> None:
    assert made()["codes/NKI301.md"].count("# NKI301: ") == 1


@for_each(list(TABLE))
def test_the_page_of_an_instruction_is_what_explain_prints(name: str) -> None:
    shown = re.sub(r"\[(NKI\d+|`[^`]*`)\]\([^)]*\)", r"\1", made()[f"reference/isa/{name}.md"])
    printed = explain(f"nisa.{name}")
    assert printed is not None
    missing = [
        line for line in printed.split("\n") if line and not line.startswith("**") and line not in shown.split("\n")
    ]
    assert not missing


def test_every_link_leads_to_a_page() -> None:
    places = made().keys() | documents.sources().keys() | {f"gallery/{stem}.md" for stem in gallery.stems()}
    for place, text in made().items():
        for target in re.findall(r"\]\((/[^)#\s]+\.md)", text):
            assert target.removeprefix("/") in places, place


def test_the_page_of_the_targets_has_every_number_with_its_source() -> None:
    text = made()["reference/targets.md"]
    for arch in GENERATIONS.values():
        for name, fact in arch.facts.items():
            (row,) = (line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
            assert f"*{fact.confidence}*: {fact.source}".replace("|", "\\|") in row


def test_the_python_page_has_every_public_name() -> None:
    text = made()["reference/python.md"]
    for name in interface.public_names():
        assert f"## nki_lab.{name}\n" in text or name == "testing"
    for name in nki_lab.testing.__all__:
        assert f"### nki_lab.testing.{name}\n" in text
    for field in fields(nki_lab.Options):
        assert f"### Options.{field.name}\n\n```python\n{field.name}: " in text
    for kind in ("SavedRun", "RankRuns", "RunComparison", "Sweep"):
        assert f"## {kind}\n" in text
    for name in ("outputs", "check", "blame", "to_html", "save"):
        assert f"### Run.{name}\n" in text or name == "outputs"


def test_the_command_line_s_page_has_every_command_and_option() -> None:
    text = made()["reference/cli.md"]
    assert "## nki-lab check\n" in text
    assert "`--coverage-html" in text
    assert "Exit status" in text


def test_signatures_are_short_or_broken() -> None:
    for line in made()["reference/python.md"].splitlines():
        if line.startswith("nki_lab."):
            assert len(line) <= 88


def test_colours_are_those_of_the_views_in_both_themes() -> None:
    text = colours()
    assert "--nki-tensor: #2b70dc;" in text
    assert text.count("--nki-tensor: #6aa6ff;") == 2  # chosen by the reader, and preferred by the system


def test_only_the_pages_that_were_asked_for_are_written(tmp_path: Path) -> None:
    assert write(tmp_path, ["codes/NKI21*.md"]) == len([c for c in codes.all_codes() if c.code.startswith("NKI21")])
    assert (tmp_path / "codes" / "NKI213.md").is_file()
    assert (tmp_path / "_static" / "runs" / "visualizer.js").is_file()
    assert (tmp_path / "conf.py").is_file()
    assert not (tmp_path / "gallery").exists()


def test_a_kernel_s_page_has_its_versions_source_and_runs(tmp_path: Path) -> None:
    ((place, text),) = gallery.pages(tmp_path, ["k01_add"])
    assert place == "gallery/k01_add.md"
    for name in ("add_rows", "add_long_rows"):
        assert f"## {name}\n" in text
        assert (tmp_path / "_static" / "runs" / f"k01_add-{name}.html").is_file()
    assert "## Source" in text
    assert "def reference(" in text
