"""IPython's own syntax in notebook cells, taken out so that the Python around it keeps its lines and columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

UNKNOWN: Final = "__builtins__"
"""A name that every module has and whose value no checker knows: the result of a magic."""

OTHER_CELLS: Final = "__other_cells__"
"""The module of the names that are bound elsewhere."""
PRELUDE: Final = (
    f"from {OTHER_CELLS} import *; import nki, nki.isa as nisa, nki.language as nl, nki.typing as nt, numpy as np"
)
"""The line above a text that is a part of something: its names may be bound elsewhere, those of NKI by custom."""

_PYTHON_BODIES: Final = frozenset({"nki", "time", "timeit", "capture", "prun", "memit", "mprun", "python", "python3"})
"""Cell magics below which Python stands."""
_BINDING: Final = frozenset({"run", "pylab", "load", "store", "autocall"})
"""Line magics that may bind names."""

_CELL_MAGIC: Final = re.compile(r"%%(\w*)")
_TARGET: Final = re.compile(r"%%nki\b.*?\s--target(?:=|\s+)['\"]?([\w-]+)")
_LINE_MAGIC: Final = re.compile(r"[%!]|\?{1,2}\s*[\w.*%]|,|;(?=\w)|/(?=\w)")
_ASSIGNED: Final = re.compile(
    r"(?P<head>[^\W\d](?:'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|[\w\s,.*\[\]():])*?=\s*)(?:%(?=[^\W\d])|!(?!=))"
)
_HELP: Final = re.compile(r"[%\w.*\[\]'\"()]+\?{1,2}\s*$")
_TOKEN: Final = re.compile(r"'''|\"\"\"|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|#.*|[(\[{]|[)\]}]|\\$")
"""Strings, comments, brackets, line joins."""


def python_of(cell: str) -> str:
    """Return the Python of a notebook cell: as many lines, magics replaced by statements that say nothing.

    A cell that is indented as a whole, which IPython runs, stands below a condition on the empty line above it.
    """
    lines = cell.split("\n")
    first = next((i for i, line in enumerate(lines) if line.strip()), 0)
    magic = _CELL_MAGIC.match(lines[first].lstrip())
    if magic is not None:
        if magic[1] not in _PYTHON_BODIES:
            return "\n" * (len(lines) - 1)
        lines[first] = ""
    body = next((i for i, line in enumerate(lines) if line.strip()), 0)
    code = next((line for line in lines[body:] if line.strip() and line.lstrip()[0] != "#"), "")
    if body and lines[body][0] in " \t" and code[:1] in (" ", "\t"):
        lines[body - 1] = "if 1:"
    state = _State()
    joined = False
    for number, line in enumerate(lines):
        if joined:  # the line above was a magic that goes on here
            joined = line.rstrip().endswith("\\")
            lines[number] = ""
        elif state.outside:
            lines[number] = _replaced(line)
            joined = lines[number] != line and line.rstrip().endswith("\\")
        state.read(lines[number])
    return "\n".join(lines)


def named_targets(cells: Sequence[str], starts: Sequence[int]) -> Iterator[tuple[int, int, str]]:
    """Yield the first and last line (1-based) of each cell that names a target, with that; `starts` are the lines above
    the cells.
    """
    for cell, start in zip(cells, starts, strict=True):
        found = _TARGET.match(cell.lstrip())
        if found is not None:
            yield start + 1, start + cell.count("\n") + 1, found[1]


def binds_unseen(cell: str) -> bool:
    """Return whether a magic of the cell may bind names that nobody sees: `%run setup.py`."""
    return any(found in _BINDING for found in re.findall(r"^\s*%(\w+)", cell, re.MULTILINE))


def _replaced(line: str) -> str:
    """Return a line at the start of a statement, without its magic."""
    text = line.lstrip()
    indent = line[: len(line) - len(text)]
    if _LINE_MAGIC.match(text):
        return f"{indent}pass"
    assigned = _ASSIGNED.match(text)
    if assigned is not None:
        return f"{indent}{assigned['head']}{UNKNOWN}"
    return f"{indent}pass" if _HELP.match(text) else line


@dataclass(slots=True)
class _State:
    """The strings and brackets that are open at the start of a line."""

    quote: str = ""
    depth: int = 0
    joined: bool = False

    @property
    def outside(self) -> bool:
        """Return whether a statement begins here."""
        return not (self.quote or self.depth or self.joined)

    def read(self, line: str) -> None:
        """Go on to the next line."""
        self.joined = False
        at = 0
        while at <= len(line):
            if self.quote:
                end = _end_of(line, at, self.quote)
                if end < 0:
                    return
                at, self.quote = end, ""
            found = _TOKEN.search(line, at)
            if found is None:
                return
            at = found.end()
            token = found[0]
            if token in ("'''", '"""'):
                self.quote = token
            elif token in "([{":
                self.depth += 1
            elif token in ")]}":
                self.depth = max(0, self.depth - 1)
            elif token == "\\":
                self.joined = True


def _end_of(line: str, at: int, quote: str) -> int:
    """Return the end of a long string that is open at `at` in the line; -1 where it does not end."""
    while at < len(line):
        if line[at] == "\\":
            at += 2
        elif line.startswith(quote, at):
            return at + len(quote)
        else:
            at += 1
    return -1
