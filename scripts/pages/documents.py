"""The documents of the repository as pages: with what their blocks print, and the runs that these write."""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

from nki_lab.export.html import sharing
from scripts.pages.blocks import ROOT, Block, blocks, execute
from scripts.pages.markdown import FRAME, RUNS, SCRIPT, frame, of_the_site

SHOWN: Final = ("output", "view")
"""The options of blocks that are run for the site."""

_TOP: Final = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


_CONTENTS: Final = re.compile(r"^```\{toctree\}\n.*?^```$", re.MULTILINE | re.DOTALL)
_OTHERS: Final = "others"
"""The line of a table of contents that stands for all documents of its folder and of the top one that none names."""


class BlockError(Exception):
    """A block of a document that did not end as it says."""


def sources() -> dict[str, Path]:
    """Return the documents of the repository by their places on the site."""
    inside = {file.relative_to(ROOT / "docs").as_posix(): file for file in sorted((ROOT / "docs").rglob("*.md"))}
    return inside | {place: ROOT / file for file, place in _TOP.items()}


def page(place: str, file: Path, out: Path) -> str:
    """Return the Markdown of a document; pages of runs that its blocks write go below `out`."""
    text = of_the_site(file.read_text(encoding="utf-8"), file.relative_to(ROOT).as_posix())
    text = _CONTENTS.sub(lambda match: _with_others(match[0], posixpath.dirname(place)), text)
    found = blocks(text)
    if not any(option in block.options for block in found for option in SHOWN):
        return text
    with tempfile.TemporaryDirectory() as folder:
        return _executed(text, found, place, Path(folder), out)


def _with_others(contents: str, folder: str) -> str:
    """Return a table of contents that lists the documents that no table lists."""
    lines = contents.split("\n")
    return "\n".join(item for line in lines for item in (unlisted(folder) if line == _OTHERS else [line]))


def unlisted(folder: str) -> list[str]:
    """Return the documents of the top folder and of `folder` that no table of contents names, as one names them."""
    listed = set()
    for place, file in sources().items():
        for contents in _CONTENTS.finditer(file.read_text(encoding="utf-8")):
            names = (line.rpartition("<")[2].rstrip(">") for line in contents[0].split("\n"))
            listed |= {posixpath.join("/", posixpath.dirname(place), name) for name in names}
    names = (f"/{place.removesuffix('.md')}" for place in sources() if posixpath.dirname(place) in ("", folder))
    return [name for name in names if name not in listed and posixpath.basename(name) != "index"]


def _executed(text: str, found: list[Block], place: str, folder: Path, out: Path) -> str:
    """Return a text with the output of each block that shows one, below the block."""
    parts, end = [], 0
    for block in found:
        printed = []
        for done in () if "needs" in block.options else execute(block, folder):
            if done.status != int(block.options.get("exit", 0)):
                raise BlockError(f"{place}: line {block.line} ended with {done.status}\n{done.output}{done.errors}")
            printed.append(done.output.replace(f"{folder}{os.sep}", ""))
        parts += [text[end : block.span[0]], _block(text, block), *_shown(block, "".join(printed), place, folder, out)]
        end = block.span[1]
    return "".join([*parts, text[end:]])


def _block(text: str, block: Block) -> str:
    """Return a block as the page has it: as it is, or below a line that unfolds it."""
    whole = text[slice(*block.span)]
    if block.options.get("code") != "folded":
        return whole
    return f'<details class="code"><summary>The block that prints this</summary>\n\n{whole}\n\n</details>'


def _shown(block: Block, printed: str, place: str, folder: Path, out: Path) -> list[str]:
    """Return what stands below a block."""
    parts = []
    kind = block.options.get("output")
    if kind == "text":
        parts.append(f"\n\n```{{code-block}} text\n:class: output\n\n{printed.rstrip()}\n```\n")
    elif kind == "markdown":
        parts.append(f"\n\n{printed.rstrip()}\n")
    view = block.options.get("view")
    if view:
        name = f"{place.removesuffix('.md').replace('/', '-')}-{view}"
        put_run(out, name, (folder / view).read_text(encoding="utf-8"))
        parts.append(f"\n\n{frame(name, f'{Path(view).stem}, in the visualizer', depth=place.count('/'))}\n")
    return parts


def put_run(out: Path, name: str, text: str) -> None:
    """Write the page of a run so that it shares the views' script with the others, and fits into a frame."""
    written = out / RUNS / name
    written.parent.mkdir(parents=True, exist_ok=True)
    framed = sharing(text, SCRIPT).replace("</body>", f'<script src="{FRAME}"></script>\n</body>')
    written.write_text(framed, encoding="utf-8")


def copy_files(out: Path) -> None:
    """Copy what is no document: configuration, pictures, styles."""
    for file in sorted((ROOT / "docs").rglob("*")):
        if file.is_file() and file.suffix != ".md" and "__pycache__" not in file.parts:
            target = out / file.relative_to(ROOT / "docs")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
