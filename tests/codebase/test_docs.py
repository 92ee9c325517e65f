"""What the documents show, runs, as `scripts/pages/blocks.py` says. `make` targets and links have to exist."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import pytest

from nki_lab.cli import parser
from scripts.pages.blocks import COMMAND, ROOT, blocks, commands, failures, run

CODE = re.compile(r"`[^`\n]*\]\([^`\n]*`")  # `kernel[grid](a)` is no link
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.relative_to(ROOT).as_posix())
def test_what_a_document_shows_runs(document: Path, tmp_path: Path) -> None:
    assert not failures(document.read_text(encoding="utf-8"), tmp_path)


def test_every_make_target_that_a_document_names_exists(root: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {
        name
        for document in DOCUMENTS
        for name in re.findall(r"(?:`|^\$ |^)make ([a-z][a-z-]*)", document.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {"demo", "test", "lab"} <= named
    assert named <= targets


def test_every_command_that_a_document_names_exists(tmp_path: Path) -> None:
    known = run(["-c", COMMAND, "--help"], tmp_path)
    assert known.returncode == 0, known.stderr
    texts = [document.read_text(encoding="utf-8") for document in DOCUMENTS]
    named = {name for text in texts for name in re.findall(r"(?:`|^\$ |^)nki-lab ([a-z]+)", text, re.MULTILINE)}
    assert {"demo", "check"} <= named
    assert not [name for name in sorted(named) if not re.search(rf"\b{name}\b", known.stdout)]


def test_every_link_inside_the_project_leads_somewhere() -> None:
    links = [
        (document, target)
        for document in DOCUMENTS
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", CODE.sub("", document.read_text(encoding="utf-8")))
        if "://" not in target
    ]
    assert not [(document, target) for document, target in links if not (document.parent / target).exists()]


def test_a_failing_block_is_found(tmp_path: Path) -> None:
    text = "# T\n\n```python\nassert 1 + 1 == 2\n```\n\n```python\nassert 1 + 1 == 3\n```\n"
    (found,) = failures(text, tmp_path)
    assert found.startswith("line 7: block.py ended with 1")
    assert "AssertionError" in found


def test_a_block_starts_with_an_empty_namespace(tmp_path: Path) -> None:
    (found,) = failures("```python\nx = 1\n```\n```python\nprint(x)\n```\n", tmp_path)
    assert "NameError" in found


def test_a_warning_in_a_block_is_found(tmp_path: Path) -> None:
    (found,) = failures("```python\nimport warnings\nwarnings.warn('old')\n```\n", tmp_path)
    assert "UserWarning" in found


def test_a_named_block_stays_for_the_next(tmp_path: Path) -> None:
    assert not failures("```python file=first.py\nx = 1\n```\n```python\nfrom first import x\n```\n", tmp_path)


def test_a_block_without_a_language_is_found(tmp_path: Path) -> None:
    (found,) = failures("```\nnki-lab lsp\n```\n", tmp_path)
    assert found.startswith("line 1: a block says what it is")


def test_commands_are_those_after_the_prompt() -> None:
    console, bash, text = blocks(
        "```console exit=1\n$ make demo\n$ nki-lab check 'a b.py' \\\n    --format json  # as data\nnki-lab says\n```\n"
        "```bash\nnki-lab explain NKI213\n```\n```text\n$ nki-lab lsp\n```\n"
    )
    assert commands(console) == [["check", "a b.py", "--format", "json"]]
    assert console.options == {"exit": "1"}
    assert commands(bash) == [["explain", "NKI213"]]
    assert commands(text) == []


def test_a_page_that_a_block_does_not_write_is_found(tmp_path: Path) -> None:
    (found,) = failures("```python view=run.html\nprint(1)\n```\n", tmp_path)
    assert found == "line 1: the block writes no run.html"


def test_a_directive_of_the_site_is_no_block() -> None:
    assert not blocks("```{toctree}\n:glob:\n*\n```\n")


def _anchors(document: Path) -> set[str]:
    """Return the anchors of a document's headings."""
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", title.replace("`", "").strip().lower()).replace(" ", "-") for title in titles}


def test_every_anchor_that_a_document_names_exists() -> None:
    links = [
        (document, document.parent / target if target else document, anchor)
        for document in DOCUMENTS
        for target, anchor in re.findall(
            r"\]\(([^)#\s]*)#([^)\s]+)\)", CODE.sub("", document.read_text(encoding="utf-8"))
        )
        if "://" not in target and Path(target or document).suffix == ".md"
    ]
    assert links
    assert not [(document, anchor) for document, target, anchor in links if anchor not in _anchors(target)]


def test_the_readme_names_every_command() -> None:
    (commands_of,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert not [
        name for name in commands_of.choices if f"| `nki-lab {name}" not in text and f", `nki-lab {name}" not in text
    ]


def test_the_page_about_editors_has_every_setting_with_its_default() -> None:
    schema = json.loads((ROOT / "nki_lab" / "lsp" / "settings.schema.json").read_text(encoding="utf-8"))
    text = (ROOT / "docs" / "howto" / "editors.md").read_text(encoding="utf-8")
    for name, setting in schema["properties"].items():
        (row,) = re.findall(rf"^\| `{re.escape(name.removeprefix('nki-lab.'))}` \|.*$", text, re.MULTILINE)
        shown = {True: "on", False: "off"}.get(setting["default"], setting["default"])
        assert (f"{shown:,}" if isinstance(shown, int) else shown or "trn3") in row or name == "nki-lab.python"
