"""From text to a tree: of a file that is being typed too, and at the cost of what has changed since the last time."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from nki_lab.diagnostic import Diagnostic, Span, diagnose
from nki_lab.source.endings import OPEN_TEXT
from nki_lab.source.module import PARSER_FAILURES, Cell, ModuleSource, parsed, tree_of
from nki_lab.source.moved_lines import moved_finding
from nki_lab.source.recovery import SMALL, goes_on, move, recovered, seems_several, without_frames
from nki_lab.source.reparsing import Change, between, change_between, change_inside, common_ends


def recovered_module(text: str, file: str, *, shared: bool = True) -> ModuleSource:
    """Return the module of a text that may be half typed: lines that keep it from parsing are left out.

    It is parsed once; but of a text that is not `shared` nobody else has the tree. Raises `PARSER_FAILURES` where
    nothing can be read.
    """
    try:
        return parsed(text, file) if shared else ModuleSource(text, file, tree_of(text, file))
    except SyntaxError as failure:
        whole = without_frames(failure)
    # Not inside of `except`: the failures of parts would hold that of the whole as their context.
    lines = text.split("\n")
    found = recovered(lines, whole, lambda part: tree_of(part, file))
    faults = sorted(
        (unparsable(item, file, lines) for item in found.failures), key=lambda item: (item.line, item.column)
    )
    # What follows an open text is read as code for the sake of the other checks, and may be the text.
    last = next((place for place, item in enumerate(faults) if OPEN_TEXT in item.message), len(faults))
    return ModuleSource(text, file, found.tree, tuple(faults[: last + 1]), found.unread)


_OPEN: Final = (OPEN_TEXT, "EOF", "indent")
"""Mistakes that reach beyond the statement that they are in."""


def parsed_as_typed(text: str, file: str, before: ModuleSource | None = None) -> ModuleSource:
    """Return the tree of a text that may be half typed: lines that keep it from parsing are left out.

    Statements that stand as they stood in `before` are taken from there, and moved: its tree is used up. Raises
    `PARSER_FAILURES` where nothing can be read.
    """
    if before is not None and not before.cells:
        lines = tuple(text.split("\n"))
        half = between(before.lines, lines, before.unread)
        if half is not None:  # otherwise all between two changes would be read
            before = _read_again(before, "\n".join(half), half, file) or before
        module = _read_again(before, text, lines, file)
        if module is not None:
            return module
    return recovered_module(text, file, shared=False)


def _read_again(before: ModuleSource, text: str, lines: Sequence[str], file: str) -> ModuleSource | None:
    """Return the module of a text of which only a change is read; None where all of it has to be."""
    first, last = _unchanged(before, lines)
    for find in (change_inside, change_between):
        change = find(before.tree.body, before.lines, lines, first, last)
        module = None if change is None else _changed(before, change, text, lines, file)
        if module is not None:
            return module
    return None


def parsed_cells(texts: Sequence[str], file: str, before: ModuleSource | None = None) -> ModuleSource:
    """Return the tree of a notebook: no mistake reaches beyond its cell.

    Cells of `before`, wherever they stand now, are taken from there, and moved: its tree is used up.
    """
    known = {} if before is None else {cell.text: cell for cell in before.cells}
    cells: list[Cell] = []
    start = 0
    for text in texts:
        cell = known.pop(text, None)
        cells.append(_cell(text, start, file) if cell is None else _moved_cell(cell, start))
        start += text.count("\n") + 1
    return ModuleSource(
        "\n".join(texts),
        file,
        ast.Module(body=[node for cell in cells for node in cell.body], type_ignores=[]),
        tuple(item for cell in cells for item in cell.faults),
        frozenset(line for cell in cells for line in cell.unread),
        tuple(cells),
    )


def _cell(text: str, start: int, file: str) -> Cell:
    count = text.count("\n") + 1
    above = start if count * SMALL > start else 0
    try:
        read = recovered_module("\n" * above + text, file, shared=False)
    except PARSER_FAILURES as failure:
        fault = unparsable(failure, file, text.split("\n"))
        return _moved_cell(Cell(text, 0, (), (fault,), frozenset(range(1, count + 1))), start)
    return _moved_cell(Cell(text, above, tuple(read.tree.body), read.faults, read.unread), start)


def _moved_cell(cell: Cell, start: int) -> Cell:
    count = start - cell.start
    if not count:
        return cell
    move(cell.body, count)
    faults = tuple(moved_finding(item, lambda line: line + count, item.file) for item in cell.faults)
    return Cell(cell.text, start, cell.body, faults, frozenset(line + count for line in cell.unread))


# -- changes ---------------------------------------------------------------------------------------------------------


def _unchanged(before: ModuleSource, lines: Sequence[str]) -> tuple[int, int]:
    """Return the number of unchanged lines at the beginning and at the end; lines left out count as changed."""
    first, last = common_ends(before.lines, lines)
    if before.unread:
        first = min(first, min(before.unread) - 1)
        last = min(last, len(before.lines) - max(before.unread))
    return first, last


def _changed(before: ModuleSource, change: Change, text: str, lines: Sequence[str], file: str) -> ModuleSource | None:
    """Return the module of a text of which the lines in `change` alone are read; None where that is not possible."""
    try:
        read = recovered_module("\n".join(change.text(lines)), file, shared=False)
    except PARSER_FAILURES:
        return None
    statements = change.statements(read.tree)
    if statements is None or any(line <= change.start for line in read.unread):
        return None
    if any(text in fault.message for fault in read.faults for text in _OPEN):
        return None  # what the mistake is depends on the lines below
    if read.faults and any(goes_on(line) for line in lines[change.start : change.stop]):
        return None  # so it does here
    if read.faults and change.path and (change.leaves_block(lines) or seems_several(change.outermost(lines))):
        return None  # around a mistake, its beginning and its end are read as statements of their own
    tree = ast.Module(body=change.applied(before.tree.body, statements), type_ignores=[])
    return ModuleSource(text, file, tree, read.faults, read.unread)


# -- what is wrong --------------------------------------------------------------------------------------------------


def unparsable(failure: BaseException, file: str, lines: Sequence[str], *, in_bytes: bool = False) -> Diagnostic:
    """Return the NKI101 diagnostic of a failed parse or compilation; Python's compiler gives offsets `in_bytes`."""
    if isinstance(failure, SyntaxError):
        line = min(max(failure.lineno or 1, 1), len(lines))
        text = lines[line - 1]
        offsets = [max(failure.offset or 1, 1), failure.end_offset or 0]
        if in_bytes:
            offsets = [len(text.encode()[: max(item - 1, 0)].decode(errors="ignore")) + 1 for item in offsets]
        column = min(offsets[0], len(text) + 1)
        same_line = (failure.end_lineno or line) == line
        stop = min(offsets[1], len(text) + 1) if same_line and offsets[1] > column else column + 1
        return not_python(failure.msg, Span(file, line, column, line, stop))
    if isinstance(failure, RecursionError | MemoryError | SystemError):
        return not_python("nested too deeply for Python's parser", Span(file, 1, 1, 1, 2))
    return not_python(f"Python cannot read the source: {failure}", Span(file, 1, 1, 1, 2))


_UNTIL_THEN: Final = "until then the other checks pass over what cannot be read"


def not_python(message: str, span: Span, remedy: str = _UNTIL_THEN) -> Diagnostic:
    """Return the NKI101 diagnostic."""
    return diagnose("NKI101", message, span=span, help=remedy)
