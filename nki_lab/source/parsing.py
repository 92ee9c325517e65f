"""From text to a tree: of a file that is being typed too, and at the cost of what has changed since the last time."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nki_lab.diagnostic import Diagnostic, Span, diagnose
from nki_lab.source.module import PARSER_FAILURES, Cell, ModuleSource, parsed, tree_of
from nki_lab.source.recovery import move, recovered
from nki_lab.source.reparsing import change_inside
from nki_lab.source.trees import first_line


def recovered_module(text: str, file: str) -> ModuleSource:
    """Return the module of a text that may be half typed, parsed once: lines that keep it from parsing are left out.

    Raises `PARSER_FAILURES` where nothing can be read.
    """
    try:
        return parsed(text, file)
    except SyntaxError as failure:
        return _recovered(text, file, failure)


def parsed_as_typed(text: str, file: str, before: ModuleSource | None = None) -> ModuleSource:
    """The tree of a text that may be half typed: lines that keep it from parsing are left out.

    Statements that stand as they stood in `before` are taken from there, and moved: its tree is used up. Raises
    `PARSER_FAILURES` where nothing can be read.
    """
    if before is not None and not before.cells:
        lines = tuple(text.split("\n"))
        inside = _changed_inside(before, lines, text, file)
        if inside is not None:
            return inside
        kept = _kept(before, lines)
        if kept is not None:
            return kept.parsed(text, lines, file)
    return _read(text, file)


def parsed_cells(texts: Sequence[str], file: str, before: ModuleSource | None = None) -> ModuleSource:
    """The tree of a notebook: no mistake reaches beyond its cell.

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
    placed = "\n" * start + text
    try:
        read = _read(placed, file)
    except PARSER_FAILURES as failure:
        lines = placed.split("\n")
        return Cell(text, start, (), (unparsable(failure, file, lines),), frozenset(range(start + 1, len(lines) + 1)))
    return Cell(text, start, tuple(read.tree.body), read.faults, read.unread)


def _moved_cell(cell: Cell, start: int) -> Cell:
    count = start - cell.start
    move(cell.body, count)
    faults = tuple(_down(item, count) for item in cell.faults)
    return Cell(cell.text, start, cell.body, faults, frozenset(line + count for line in cell.unread))


def _down(fault: Diagnostic, count: int) -> Diagnostic:
    """A fault at a place further down, or up."""
    if not count or fault.span is None:
        return fault
    span = replace(fault.span, line=fault.span.line + count, end_line=fault.span.end_line + count)
    message = re.sub(r"(?<=\bline )\d+", lambda found: str(int(found[0]) + count), fault.message)
    return replace(fault, span=span, message=message)


def _read(text: str, file: str) -> ModuleSource:
    """The module of a text, around lines that cannot be read; nobody else has its tree."""
    try:
        return ModuleSource(text, file, tree_of(text, file))
    except SyntaxError as failure:
        return _recovered(text, file, failure)


def _recovered(text: str, file: str, failure: SyntaxError) -> ModuleSource:
    lines = text.split("\n")
    found = recovered(lines, failure, lambda part: tree_of(part, file))
    faults = [unparsable(item, file, lines) for item in found.failures]
    faults.sort(key=lambda item: (item.line, item.column))
    return ModuleSource(text, file, found.tree, tuple(faults), found.unread)


# -- what has changed ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Kept:
    """The statements around a change, and the lines (0-based, the end exclusive) between them."""

    head: Sequence[ast.stmt]
    tail: Sequence[ast.stmt]
    start: int
    stop: int
    moved: int  # lines that the tail has moved down

    def parsed(self, text: str, lines: Sequence[str], file: str) -> ModuleSource:
        """The module of the new text, whose lines between the kept statements are read."""
        read = _read("\n" * self.start + "\n".join(lines[self.start : self.stop]), file)
        move(self.tail, self.moved)
        body = [*self.head, *read.tree.body, *self.tail]
        return ModuleSource(text, file, ast.Module(body=body, type_ignores=[]), read.faults, read.unread)


def _span_of_change(before: ModuleSource, lines: tuple[str, ...]) -> tuple[int, int]:
    """How many lines at the beginning and at the end are as they were; lines that were left out count as changed."""
    old = before.lines
    same = min(len(old), len(lines))
    first = next((i for i in range(same) if old[i] != lines[i]), same)
    last = next((i for i in range(same - first) if old[-1 - i] != lines[-1 - i]), same - first)
    if before.unread:
        first = min(first, min(before.unread) - 1)
        last = min(last, len(old) - max(before.unread))
    return first, last


def _changed_inside(before: ModuleSource, lines: tuple[str, ...], text: str, file: str) -> ModuleSource | None:
    """The text read as a change of one block; None where that is not possible."""
    first, last = _span_of_change(before, lines)
    change = change_inside(before.tree.body, before.lines, lines, first, last)
    if change is None:
        return None
    try:
        read = _read("\n".join(change.text(lines)), file)
    except PARSER_FAILURES:
        return None
    between = change.statements(read.tree)
    if between is None or any(line <= change.start for line in read.unread):
        return None
    tree = ast.Module(body=change.applied(before.tree.body, between), type_ignores=[])
    return ModuleSource(text, file, tree, read.faults, read.unread)


def _kept(before: ModuleSource, lines: tuple[str, ...]) -> _Kept | None:
    """What of `before` stands unchanged; None where that is not worth while.

    A statement beside the change counts as changed: it may go on there. So do those between lines that were left out:
    what is typed elsewhere may mend them.
    """
    old, body = before.lines, before.tree.body
    first, last = _span_of_change(before, lines)
    head = _without_neighbour([node for node in body if (node.end_lineno or 0) <= first], at_end=True)
    tail = _without_neighbour([node for node in body if first_line(node) > len(old) - last], at_end=False)
    if len(head) + len(tail) == 0:
        return None
    moved = len(lines) - len(old)
    start = (head[-1].end_lineno or 0) if head else 0
    return _Kept(head, tail, start, first_line(tail[0]) - 1 + moved if tail else len(lines), moved)


def _without_neighbour(nodes: list[ast.stmt], *, at_end: bool) -> list[ast.stmt]:
    """The statements but for the one beside the change, and those that share a line with it."""
    edge = -1 if at_end else 0
    if nodes:
        dropped = nodes.pop(edge)
        first, last = first_line(dropped), dropped.end_lineno or dropped.lineno
        while nodes and first_line(nodes[edge]) <= last and (nodes[edge].end_lineno or 0) >= first:
            dropped = nodes.pop(edge)
            first, last = min(first, first_line(dropped)), max(last, dropped.end_lineno or 0)
    return nodes


# -- what is wrong --------------------------------------------------------------------------------------------------


def unparsable(failure: BaseException, file: str, lines: Sequence[str], *, in_bytes: bool = False) -> Diagnostic:
    """The NKI101 diagnostic of a failed parse or compilation; Python's compiler gives offsets `in_bytes`."""
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


def not_python(message: str, span: Span) -> Diagnostic:
    """The NKI101 diagnostic."""
    return diagnose("NKI101", message, span=span, help="until then the other checks pass over what cannot be read")
