"""What the documents show, runs, as `scripts/pages/blocks.py` says. `make` targets and links have to exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
