"""The editor's open texts and notebooks, and the modules that they make."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lsprotocol import types as lsp

from nki_lab.diagnostic import Span
from nki_lab.lsp.convert import ended_lines, from_units, lines_of, range_of, replace_range
from nki_lab.source import magics
from nki_lab.source.magics import PRELUDE


class Text:
    """One text of the editor's: a file, or a cell."""

    def __init__(self, item: lsp.TextDocumentItem) -> None:
        self.uri = item.uri
        self.version = item.version
        self.language = item.language_id
        self.text = item.text
        self._lines: list[str] | None = None

    def apply(self, version: int, changes: Iterable[lsp.TextDocumentContentChangeEvent], encoding: str) -> None:
        """Take in what was typed, change by change."""
        lines: list[str] | None = None  # of the text so far, with their ends
        for change in changes:
            if isinstance(change, lsp.TextDocumentContentChangePartial):
                lines = ended_lines(self.text) if lines is None else lines
                replace_range(lines, change.range, change.text, encoding)
            else:
                self.text, lines = change.text, None
        if lines is not None:
            self.text = "".join(lines)
        self._lines = None
        self.version = version

    @property
    def lines(self) -> Sequence[str]:
        """Return the lines, without their ends."""
        if self._lines is None:
            self._lines = lines_of(self.text)
        return self._lines

    def line(self, number: int) -> str:
        """Return a 1-based line, empty beyond the last."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""


@dataclass(frozen=True)
class Module:
    """A unit of checking: a file, or the code cells of a notebook one below the other.

    `parts` are the editor's texts as they were when the module was made, `starts` the lines above each of them.
    """

    uri: str
    sources: tuple[str, ...]
    parts: tuple[tuple[str, tuple[str, ...]], ...]
    starts: tuple[int, ...]
    is_notebook: bool  # or otherwise made of several sources

    @cached_property
    def targets(self) -> tuple[tuple[int, int, str], ...]:
        """Return the first and last line of each cell that names a target, with that."""
        cells = ["\n".join(lines) for _, lines in self.parts]
        return tuple(magics.named_targets(cells, self.starts)) if self.is_notebook else ()

    @cached_property
    def file(self) -> str:
        """Return the file's path, the URI where it is none."""
        return path_of(self.uri) or self.uri

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """Return the lines that are checked."""
        return tuple(line for source in self.sources for line in lines_of(source))

    @property
    def text(self) -> str:
        """Return the whole, with newline characters between the lines."""
        return "\n".join(self.lines)

    def first_line(self, uri: str) -> int:
        """Return the 1-based line at which one of its texts begins; 0 where that is none of them."""
        starts = (start for (part, _), start in zip(self.parts, self.starts, strict=True) if part == uri)
        return next(starts, -1) + 1

    def location(self, span: Span, encoding: str) -> lsp.Location | None:
        """Return the place of a span in the editor; None where it is not in one of the module's texts."""
        if span.file != self.file:
            # The lines of a file that is not open are not at hand, and taken for ASCII.
            path, opening = Path(span.file), lsp.Position(span.line - 1, span.column - 1)
            place = lsp.Range(opening, lsp.Position(span.end_line - 1, span.end_column - 1))
            return lsp.Location(path.as_uri(), place) if path.is_absolute() else None
        number = bisect_right(self.starts, span.line - 1) - 1
        if number < 0:
            return None
        uri, lines = self.parts[number]
        start = self.starts[number]
        last = min(span.end_line - start, len(lines))
        end = span.end_column if last == span.end_line - start else len(lines[last - 1]) + 1
        inside = Span(span.file, span.line - start, span.column, last, end)
        if not 0 < inside.line <= len(lines):
            return None
        return lsp.Location(uri, range_of(inside, lambda line: lines[line - 1], encoding))

    def place(self, uri: str, position: lsp.Position, encoding: str) -> tuple[int, int] | None:
        """Return the 1-based line and character of a position in one of its texts."""
        for (part, lines), start in zip(self.parts, self.starts, strict=True):
            if part == uri and 0 <= position.line < len(lines):
                column = from_units(lines[position.line], position.character, encoding)
                return start + position.line + 1, column + 1
        return None


def module_of(uri: str, texts: Sequence[Text], *, is_notebook: bool) -> Module:
    """Return the module that a text, or the cells of a notebook, make.

    A text in language `nki` is what an extension has cut out of the cells of a notebook, and some editors open each
    cell by itself: names of the other cells are not at hand.
    """
    alone = not is_notebook and (texts[0].language == "nki" or "notebook-cell" in _split(texts[0].uri)[0])
    opened = is_notebook and any(magics.binds_unseen(text.text) for text in texts)
    sources = [PRELUDE] if alone or opened else []
    starts, above = [], len(sources)
    for text in texts:
        is_cell = is_notebook or alone or text.uri.endswith(".ipynb")
        source = magics.python_of("\n".join(text.lines)) if is_cell else text.text
        starts.append(above)
        above += len(text.lines)
        sources.append(source)
    parts = tuple((text.uri, tuple(text.lines)) for text in texts)
    return Module(uri, tuple(sources), parts, tuple(starts), is_notebook or len(sources) > 1)


def path_of(uri: str) -> str:
    """Return the path of a `file:` URI; empty for others. Windows drives lose the slash above them."""
    scheme, host, place = _split(uri)
    path = unquote(place)
    if scheme != "file" or "\0" in path:
        return ""
    if len(path) > 2 and path[0] == "/" and path[2] == ":":
        path = path[1:]
    return f"//{host}{path}" if host not in ("", "localhost") else path


def _split(uri: str) -> tuple[str, str, str]:
    """Return the scheme, host and path of a URI; empty ones of what is no URI."""
    try:
        parts = urlsplit(uri)
    except ValueError:  # a bracket or a letter that cannot be in the name of a host
        return "", "", ""
    return parts.scheme, parts.netloc, parts.path


@dataclass(slots=True)
class Texts:
    """Everything open, by URI."""

    texts: dict[str, Text] = field(default_factory=dict)
    notebooks: dict[str, list[lsp.NotebookCell]] = field(default_factory=dict)  # their cells in order
    _owner: dict[str, str] = field(default_factory=dict)

    def unit(self, uri: str) -> str:
        """Return the URI of what a text is checked with: its notebook's, else its own."""
        return self._owner.get(uri, uri)

    def open(self, item: lsp.TextDocumentItem, notebook: str = "") -> None:
        """Take in a text; `notebook` is the URI of the one that it is a cell of."""
        self.texts[item.uri] = Text(item)
        if notebook:
            self._owner[item.uri] = notebook

    def close(self, uri: str) -> None:
        """Forget a text."""
        self.texts.pop(uri, None)
        self._owner.pop(uri, None)

    def module(self, unit: str) -> Module | None:
        """Return the module of a text or notebook; None where it is not open."""
        cells = self.notebooks.get(unit)
        if cells is None:
            text = self.texts.get(unit)
            return None if text is None else module_of(unit, [text], is_notebook=False)
        code = [cell.document for cell in cells if cell.kind == lsp.NotebookCellKind.Code]
        return module_of(unit, [self.texts[uri] for uri in code if uri in self.texts], is_notebook=True)

    def open_notebook(self, params: lsp.DidOpenNotebookDocumentParams) -> None:
        """Take in a notebook with its cells."""
        given = params.notebook_document
        self.notebooks[given.uri] = list(given.cells)
        for item in params.cell_text_documents:
            self.open(item, given.uri)

    def change_notebook(self, params: lsp.DidChangeNotebookDocumentParams, encoding: str) -> None:
        """Take in changes of a notebook."""
        changes = params.change.cells
        if changes is None:
            return
        if changes.structure is not None:
            self._restructure(params.notebook_document.uri, changes.structure)
        self._retype(params.notebook_document.uri, changes.data or ())
        for item in changes.text_content or ():
            text = self.texts.get(item.document.uri)
            if text is not None:
                text.apply(item.document.version, item.changes, encoding)

    def _restructure(self, notebook: str, structure: lsp.NotebookDocumentCellChangeStructure) -> None:
        """Take in new cells, and those that were removed or moved."""
        array = structure.array
        self.notebooks[notebook][array.start : array.start + array.delete_count] = array.cells or ()
        for removed in structure.did_close or ():
            self.close(removed.uri)
        for item in structure.did_open or ():  # a cell of another language is closed and opened at once
            self.open(item, notebook)

    def _retype(self, notebook: str, cells: Iterable[lsp.NotebookCell]) -> None:
        """Take in cells that have become code, or are no longer."""
        found = {cell.document: cell for cell in cells}
        self.notebooks[notebook] = [found.get(cell.document, cell) for cell in self.notebooks[notebook]]

    def close_notebook(self, uri: str) -> list[str]:
        """Forget a notebook; gives its cells."""
        cells = [cell.document for cell in self.notebooks.pop(uri, ())]
        for cell in cells:
            self.close(cell)
        return cells
