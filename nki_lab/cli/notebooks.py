"""Notebooks on disk: their code cells as one module, and findings at the cell that they are about."""

from __future__ import annotations

import itertools
import json
import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from nki_lab.diagnostic import Diagnostic, Related, Span, diagnose, error_of
from nki_lab.query.call_sites import CallSite
from nki_lab.source.magics import PRELUDE, binds_unseen, named_targets, python_of

_MADE: Final = re.compile(r"\bline (\d+)\b")
"""The words with which a note names the line that defined an operand."""


@dataclass(frozen=True, slots=True)
class Notebook:
    """The code cells of a notebook. `sources` are read one below the other, `starts` are the lines above each cell.

    `numbers` are the cells' places in the notebook, counted from 1 with those of prose.
    """

    file: str
    sources: tuple[str, ...]
    cells: tuple[str, ...]
    starts: tuple[int, ...]
    numbers: tuple[int, ...]

    def placed(self, found: Iterable[Diagnostic]) -> list[Diagnostic]:
        """The findings with their places in cells: file `a.ipynb:cell 3`, lines counted from the cell's first."""
        return [
            replace(
                item,
                span=self._place(item.span),
                note=_MADE.sub(self._line, item.note),
                related=tuple(Related(part.message, self._place(part.span)) for part in item.related),
            )
            for item in found
        ]

    def targets(self) -> tuple[tuple[int, int, str], ...]:
        """The first and last line of each cell that names a target, with that."""
        return tuple(named_targets(self.cells, self.starts))

    def _cell_at(self, line: int) -> tuple[int, int] | None:
        """Return the number of the cell of a line, and the lines above that cell; None above all cells."""
        at = bisect_right(self.starts, line - 1) - 1
        return None if at < 0 else (self.numbers[at], self.starts[at])

    def _place(self, span: Span | None) -> Span | None:
        cell = None if span is None or span.file != self.file else self._cell_at(span.line)
        if span is None or cell is None:
            return span
        number, start = cell
        name = f"{self.file}:cell {number}"
        return Span(name, span.line - start, span.column, span.end_line - start, span.end_column)

    def _line(self, found: re.Match[str]) -> str:
        """Return words about a line of the whole as words about a line of a cell."""
        cell = self._cell_at(int(found[1]))
        return found[0] if cell is None else f"line {int(found[1]) - cell[1]} of cell {cell[0]}"

    def by_cell(self, sites: Iterable[CallSite]) -> dict[str, tuple[CallSite, ...]]:
        """The calls of NKI's functions by the names that findings give their cells, lines counted from the cell's
        first.
        """
        found: dict[str, tuple[CallSite, ...]] = {}
        for item in sites:
            cell = self._cell_at(item.line)
            if cell is not None:
                number, start = cell
                name = f"{self.file}:cell {number}"
                placed = replace(item, line=item.line - start, end_line=item.end_line - start)
                found[name] = (*found.get(name, ()), placed)
        return found

    def texts(self) -> dict[str, tuple[str, ...]]:
        """The lines of the cells, by the names that findings give them."""
        named = zip(self.numbers, self.cells, strict=True)
        return {f"{self.file}:cell {number}": tuple(text.split("\n")) for number, text in named}


def notebook_of(data: bytes, file: str) -> Notebook:
    """The code cells of a notebook, none where it is not about Python; NKI018 where it is no notebook."""
    try:
        content = json.loads(data)
        cells = [(str(cell.get("cell_type")), _text(cell.get("source", ""))) for cell in content["cells"]]
        metadata = content.get("metadata", {})
        language = metadata.get("language_info", {}).get("name") or metadata.get("kernelspec", {}).get("language")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = str(error) or type(error).__name__
        raise error_of(
            diagnose(
                "NKI018",
                f"{file} is no notebook: {reason}",
                span=Span(file, 1, 1, 1, 2),
                limit="a notebook is JSON of nbformat 4 with a list of cells",
                help="open and save it in Jupyter",
            )
        ) from None
    numbered = [(i, text) for i, (kind, text) in enumerate(cells, start=1) if kind == "code"]
    if language not in (None, "python"):
        numbered = []
    sources = [PRELUDE] if any(binds_unseen(text) for _, text in numbered) else []
    texts = tuple(text for _, text in numbered)
    *starts, _ = itertools.accumulate((text.count("\n") + 1 for text in texts), initial=len(sources))
    numbers = tuple(number for number, _ in numbered)
    return Notebook(file, (*sources, *map(python_of, texts)), texts, tuple(starts), numbers)


def _text(source: str | list[str]) -> str:
    """A cell's text, which nbformat keeps whole or by lines."""
    return (source if isinstance(source, str) else "".join(source)).replace("\r\n", "\n").replace("\r", "\n")
