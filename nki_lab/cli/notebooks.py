"""Notebooks on disk: their code cells as one module, and findings at the cell that they are about."""

from __future__ import annotations

import itertools
import json
import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from nki_lab.diagnostic import Diagnostic, Related, Span, diagnose, error_of
from nki_lab.query.call_sites import CallSite
from nki_lab.source.magics import PRELUDE, binds_unseen, named_targets, python_of
from nki_lab.source.moved_lines import moved_text

_MADE: Final = re.compile(r"\bline (\d+)\b")
"""The words with which a message or note names another line."""
_VERSION: Final = 4


@dataclass(frozen=True, slots=True)
class Notebook:
    """The code cells of a notebook. `sources` are read one below the other, `starts` are the lines above each cell.

    `numbers` are the cells' places in the notebook, counted from 1 with those of prose. `faults` are the cells that
    are none, and what is wrong with the notebook's metadata.
    """

    file: str
    sources: tuple[str, ...]
    cells: tuple[str, ...]
    starts: tuple[int, ...]
    numbers: tuple[int, ...]
    faults: tuple[Diagnostic, ...] = ()

    def placed(self, found: Iterable[Diagnostic]) -> list[Diagnostic]:
        """The findings with their places in cells: file `a.ipynb:cell 3`, lines counted from the cell's first."""
        return [
            replace(
                item,
                span=self._place(item.span),
                message=self._message(item),
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

    def _message(self, item: Diagnostic) -> str:
        """Return the message of Python's parser with the lines that it names counted from the cell's first."""
        cell = self._cell_at(item.line) if item.code == "NKI101" and item.file == self.file else None
        if cell is None:
            return item.message
        return moved_text(item.message, lambda line: line - cell[1])

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
                placed = item._replace(line=item.line - start, end_line=item.end_line - start)
                found[name] = (*found.get(name, ()), placed)
        return found

    def texts(self) -> dict[str, tuple[str, ...]]:
        """The lines of the cells, by the names that findings give them."""
        named = zip(self.numbers, self.cells, strict=True)
        return {f"{self.file}:cell {number}": tuple(text.split("\n")) for number, text in named}


def notebook_of(data: bytes, file: str) -> Notebook:
    """The code cells of a notebook, none where it is not about Python; NKI018 where it is no notebook.

    A cell that is none, and settings that are not understood, are a fault each, and cost nothing else.
    """
    content = _content(data, file)
    language, faults = _language(content, file)
    cells: list[tuple[int, str]] = []
    for number, cell in enumerate(content["cells"], start=1):
        try:
            text = _code(cell)
        except ValueError as error:
            faults.append(_fault(f"{file}:cell {number}", f"cell {number} of {file} {error}"))
        else:
            cells += [] if text is None else [(number, text)]
    if language not in (None, "python"):
        cells, faults = [], []
    sources = [PRELUDE] if any(binds_unseen(text) for _, text in cells) else []
    texts = tuple(text for _, text in cells)
    *starts, _ = itertools.accumulate((text.count("\n") + 1 for text in texts), initial=len(sources))
    numbers = tuple(number for number, _ in cells)
    return Notebook(file, (*sources, *map(python_of, texts)), texts, tuple(starts), numbers, tuple(faults))


def _content(data: bytes, file: str) -> dict[str, Any]:
    """Return the object that a notebook is, with a list of cells."""
    try:
        content = json.loads(data, parse_int=float)  # the longest numbers too
    except json.JSONDecodeError as error:
        reason = f"is no notebook: it is no JSON: {error.msg}"
        raise error_of(_fault(file, f"{file} {reason}", error.lineno, error.colno)) from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise error_of(_fault(file, f"{file} is no notebook: it is not text: {error}", line)) from None
    except RecursionError:
        raise error_of(_fault(file, f"{file} is no notebook: it is nested too deeply")) from None
    if not isinstance(content, dict):
        raise error_of(_fault(file, f"{file} is no notebook: it holds {_kind(content)}, not an object"))
    version = content.get("nbformat")
    if "worksheets" in content or (isinstance(version, float) and version < _VERSION):
        number = f"{version:g}" if isinstance(version, float) else "3 or less"
        remedy = f"convert it to nbformat {_VERSION}: jupyter nbconvert --to notebook --inplace {file}"
        raise error_of(_fault(file, f"{file} has nbformat {number}, which keeps no list of cells", remedy=remedy))
    if not isinstance(content.get("cells"), list):
        found = f"its cells are {_kind(content['cells'])}, not a list" if "cells" in content else "it has no cells"
        raise error_of(_fault(file, f"{file} is no notebook: {found}"))
    return content


def _language(content: dict[str, Any], file: str) -> tuple[str | None, list[Diagnostic]]:
    """Return the language that a notebook's metadata name, if any, and what is wrong with them."""
    metadata, faults = content.get("metadata", {}), []
    named: list[str | None] = []
    if not isinstance(metadata, dict):
        faults.append(f"metadata of {file} are {_kind(metadata)}, not an object")
        metadata = {}
    for table, key in (("language_info", "name"), ("kernelspec", "language")):
        part = metadata.get(table, {})
        name = part.get(key) if isinstance(part, dict) else None
        if not isinstance(part, dict):
            faults.append(f"{table} in the metadata of {file} is {_kind(part)}, not an object")
        elif name is not None and not isinstance(name, str):
            faults.append(f"{table}.{key} in the metadata of {file} is {_kind(name)}, not a text")
        named.append(name if isinstance(name, str) else None)
    return named[0] or named[1], [_fault(file, faults[0])] if faults else []


def _code(cell: object) -> str | None:
    """Return the text of a cell of code, which nbformat keeps whole or by lines; None for other cells.

    Raises ValueError with what is wrong with it.
    """
    if not isinstance(cell, dict):
        raise ValueError(f"is {_kind(cell)}, not an object")
    if cell.get("cell_type") != "code":
        return None
    source = cell.get("source", "")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        wrong = next(item for item in (source if isinstance(source, list) else [source]) if not isinstance(item, str))
        part = "a line of its source" if isinstance(source, list) else "its source"
        raise ValueError(f"cannot be read: {part} is {_kind(wrong)}, not a text")
    return source.replace("\r\n", "\n").replace("\r", "\n")


def _kind(value: object) -> str:
    """Name what a value of JSON is."""
    kinds = ((dict, "an object"), (list, "a list"), (str, "a text"), (bool, "true or false"), (float, "a number"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "null")


def _fault(
    file: str, message: str, line: int = 1, column: int = 1, remedy: str = "open and save it in Jupyter"
) -> Diagnostic:
    return diagnose(
        "NKI018",
        message,
        span=Span(file, line, column, line, column + 1),
        limit=f"a notebook is JSON of nbformat {_VERSION} with a list of cells",
        help=remedy,
    )
