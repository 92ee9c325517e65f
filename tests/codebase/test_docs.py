"""What the documents show, runs.

A `python` block is a program of its own, run in an empty folder. `python file=NAME.py` also leaves it there under that
name, for the blocks after it. In `console` and `bash` blocks the `nki-lab` commands are run (after `$ ` in `console`);
`console exit=1` says that they end with that status. What is not to be run says `text`. `make` targets have to exist.
Blocks that say `needs=jax` are run by the slow tests, where that library is.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCE = re.compile(r"^ {0,3}```(?P<info>[^`\n]*)\n(?P<body>.*?)^ {0,3}```\s*$", re.MULTILINE | re.DOTALL)
LANGUAGES = {"python", "console", "bash", "text", "toml"}
COMMAND = "import sys; from nki_lab.cli import main; sys.argv[0] = 'nki-lab'; sys.exit(main())"
SECONDS = 120


class Block(NamedTuple):
    line: int
    language: str
    options: dict[str, str]
    body: str


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a Markdown document."""
    out = []
    for fence in FENCE.finditer(text):
        language, *options = fence["info"].split() or [""]
        pairs = dict(option.split("=", 1) for option in options)
        out.append(Block(text.count("\n", 0, fence.start()) + 1, language, pairs, fence["body"]))
    return out


def commands(block: Block) -> list[list[str]]:
    """The arguments of each `nki-lab` command that the block shows."""
    mark = {"console": "$ ", "bash": ""}.get(block.language)
    if mark is None:
        return []
    shown = block.body.replace("\\\n", " ").splitlines()
    lines = [line.removeprefix(mark).strip() for line in shown if line.startswith(mark)]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("nki-lab ")]


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A Python process in `folder` for which a warning is an error."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path, "PYTHONWARNINGS": "error"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def failures(text: str, folder: Path, needs: str | None = None) -> list[str]:
    """What goes wrong when those blocks of a document that need a library are run in order in `folder`."""
    out = []
    for block in blocks(text):
        if block.language not in LANGUAGES:
            out.append(f"line {block.line}: a block says what it is: {', '.join(sorted(LANGUAGES))}")
        if block.options.get("needs") != needs:
            continue
        jobs = [["-c", COMMAND, *command] for command in commands(block)]
        if block.language == "python":
            file = block.options.get("file", "block.py")
            (folder / file).write_text(block.body, encoding="utf-8")
            jobs = [[file]]
        for job in jobs:
            done = run(job, folder)
            if done.returncode != int(block.options.get("exit", 0)):
                shown = " ".join(job).removeprefix(f"-c {COMMAND} ")
                out.append(f"line {block.line}: {shown} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return out


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
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text(encoding="utf-8"))
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
