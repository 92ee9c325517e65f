"""Fenced blocks of the documents, and how they are run.

A `python` block is a program of its own, run in the folder of its document. `python file=NAME.py` also leaves it there
under that name, for the blocks after it. In `console` and `bash` blocks the `nki-lab` commands are run (after `$ ` in
`console`); `console exit=1` says that they end with that status. What is not to be run says `text`. Blocks that say
`needs=jax` are run by the slow tests, where that library is.

Three options matter to the site alone: `output=text` shows below the block what it prints, `output=markdown` takes that
for Markdown; `view=NAME.html` shows a page that the block writes; `code=folded` folds the block itself away.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^ {0,3}```(?P<info>[^`\n]*)\n(?P<body>.*?)^ {0,3}```\s*$", re.MULTILINE | re.DOTALL)
LANGUAGES = {"python", "console", "bash", "text", "toml", "json", "yaml", "lua"}
COMMAND = "import sys; from nki_lab.cli import main; sys.argv[0] = 'nki-lab'; sys.exit(main())"
SECONDS = 120


class Block(NamedTuple):
    """A block: its first line, its language, its options, its text, and where it stands in the document."""

    line: int
    language: str
    options: dict[str, str]
    body: str
    span: tuple[int, int]


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a Markdown document; directives of the site, `{toctree}`, are none."""
    out = []
    for fence in FENCE.finditer(text):
        language, *options = fence["info"].split() or [""]
        if language.startswith("{"):
            continue
        pairs = dict(option.split("=", 1) for option in options)
        out.append(Block(text.count("\n", 0, fence.start()) + 1, language, pairs, fence["body"], fence.span()))
    return out


def commands(block: Block) -> list[list[str]]:
    """Return the arguments of each `nki-lab` command that the block shows."""
    mark = {"console": "$ ", "bash": ""}.get(block.language)
    if mark is None:
        return []
    shown = block.body.replace("\\\n", " ").splitlines()
    lines = [line.removeprefix(mark).strip() for line in shown if line.startswith(mark)]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("nki-lab ")]


class Done(NamedTuple):
    """What became of a block's program or command."""

    shown: str
    status: int
    output: str
    errors: str


def execute(block: Block, folder: Path) -> Iterator[Done]:
    """Run a block in `folder`: its program, or each of its commands. Warnings are errors."""
    jobs = [["-c", COMMAND, *command] for command in commands(block)]
    if block.language == "python":
        file = block.options.get("file", "block.py")
        (folder / file).write_text(block.body, encoding="utf-8")
        jobs = [[file]]
    for job in jobs:
        done = run(job, folder)
        yield Done(" ".join(job).removeprefix(f"-c {COMMAND} "), done.returncode, done.stdout, done.stderr)


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a Python process in `folder` for which a warning is an error."""
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
    """Return what goes wrong when those blocks of a document that need a library are run in order in `folder`."""
    out = []
    for block in blocks(text):
        if block.language not in LANGUAGES:
            out.append(f"line {block.line}: a block says what it is: {', '.join(sorted(LANGUAGES))}")
        if block.options.get("needs") != needs:
            continue
        status = int(block.options.get("exit", 0))
        out += [
            f"line {block.line}: {done.shown} ended with {done.status}\n{done.output}{done.errors}"
            for done in execute(block, folder)
            if done.status != status
        ]
        view = block.options.get("view")
        if view and not (folder / view).is_file():
            out.append(f"line {block.line}: the block writes no {view}")
    return out
