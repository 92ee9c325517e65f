"""From text to a tree: of a file that is being typed too, and at the cost of what has changed since the last time."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from nki_lab.diagnostic import Diagnostic, Span, diagnose
from nki_lab.rules.recovery import move, recovered
from nki_lab.rules.reparsing import change_inside

NEWLINE: Final = re.compile(r"\r\n|\r|\n")  # what Python's tokenizer ends a line with; str.splitlines() has more
PARSER_FAILURES: Final = (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError, SystemError)


@dataclass(frozen=True, slots=True)
class Cell:
    """A part of a module that is read by itself: `text` begins after `start` lines."""

    text: str
    start: int
    body: tuple[ast.stmt, ...]
    faults: tuple[Diagnostic, ...]
    unread: frozenset[int]


@dataclass(frozen=True, slots=True)
class Parsed:
    """A module's text and tree.

    `faults` are the NKI101 findings of the `unread` lines (1-based), which the tree has no statements for. `cells` are
    the parts of a notebook.
    """

    text: str
    lines: tuple[str, ...]
    tree: ast.Module
    faults: tuple[Diagnostic, ...] = ()
    unread: frozenset[int] = frozenset()
    cells: tuple[Cell, ...] = ()


def parsed(text: str, file: str) -> Parsed:
    """The tree of `text`, whose lines end with newlines; raises what Python's parser raises (`PARSER_FAILURES`)."""
    return Parsed(text, tuple(text.split("\n")), _tree(text, file))


def parsed_as_typed(text: str, file: str, before: Parsed | None = None) -> Parsed:
    """The tree of a text that may be half typed: lines that keep it from parsing are left out.

    Statements that stand as they stood in `before` are taken from there, and moved: its tree is used up. Raises as
    `parsed` where nothing can be read.
    """
    lines = tuple(text.split("\n"))
    if before is not None and not before.cells:
        inside = _changed_inside(before, lines, text, file)
        if inside is not None:
            return inside
        kept = _kept(before, lines)
        if kept is not None:
            return kept._parsed(text, lines, before, file)
    return _read(lines, file)


def parsed_cells(texts: Sequence[str], file: str, before: Parsed | None = None) -> Parsed:
    """The tree of a notebook: no mistake reaches beyond its cell.

    Cells of `before`, wherever they stand now, are taken from there, and moved: its tree is used up.
    """
    known = {} if before is None else {cell.text: cell for cell in before.cells}
    lines = tuple("\n".join(texts).split("\n"))
    cells: list[Cell] = []
    start = 0
    for text in texts:
        cell = known.pop(text, None)
        cells.append(_cell(text, start, file) if cell is None else _moved_cell(cell, start))
        start += text.count("\n") + 1
    return Parsed(
        "\n".join(texts),
        lines,
        ast.Module(body=[node for cell in cells for node in cell.body], type_ignores=[]),
        tuple(item for cell in cells for item in cell.faults),
        frozenset(line for cell in cells for line in cell.unread),
        tuple(cells),
    )


def _cell(text: str, start: int, file: str) -> Cell:
    lines = ("",) * start + tuple(text.split("\n"))
    try:
        read = _read(lines, file)
    except PARSER_FAILURES as failure:
        fault = unparsable(failure, file, lines)
        return Cell(text, start, (), (fault,), frozenset(range(start + 1, len(lines) + 1)))
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


def _read(lines: tuple[str, ...], file: str) -> Parsed:
    """The tree of lines, around those that cannot be read."""
    text = "\n".join(lines)
    try:
        return Parsed(text, lines, _tree(text, file))
    except SyntaxError as failure:
        found = recovered(lines, failure, lambda part: _tree(part, file))
        faults = [unparsable(item, file, lines) for item in found.failures]
        faults.sort(key=lambda item: (item.line, item.column))
        return Parsed(text, lines, found.tree, tuple(faults), found.unread)


def _tree(text: str, file: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an odd escape in the user's string is not ours to report
        return ast.parse(text, filename=file)


# -- what has changed ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Kept:
    """The statements around a change, and the lines (0-based, the end exclusive) between them."""

    head: Sequence[ast.stmt]
    tail: Sequence[ast.stmt]
    start: int
    stop: int
    moved: int  # lines that the tail has moved down

    def _parsed(self, text: str, lines: tuple[str, ...], before: Parsed, file: str) -> Parsed:
        between = ("",) * self.start + lines[self.start : self.stop]
        read = _read(between, file)
        move(self.tail, self.moved)
        body = [*self.head, *read.tree.body, *self.tail]
        return Parsed(text, lines, ast.Module(body=body, type_ignores=[]), read.faults, read.unread)


def _span_of_change(before: Parsed, lines: tuple[str, ...]) -> tuple[int, int]:
    """How many lines at the beginning and at the end are as they were; lines that were left out count as changed."""
    old = before.lines
    same = min(len(old), len(lines))
    first = next((i for i in range(same) if old[i] != lines[i]), same)
    last = next((i for i in range(same - first) if old[-1 - i] != lines[-1 - i]), same - first)
    if before.unread:
        first = min(first, min(before.unread) - 1)
        last = min(last, len(old) - max(before.unread))
    return first, last


def _changed_inside(before: Parsed, lines: tuple[str, ...], text: str, file: str) -> Parsed | None:
    """The text read as a change of one block; None where that is not possible."""
    first, last = _span_of_change(before, lines)
    change = change_inside(before.tree.body, before.lines, lines, first, last, first_line)
    if change is None:
        return None
    try:
        read = _read(change.text(lines), file)
    except PARSER_FAILURES:
        return None
    between = change.statements(read.tree)
    if between is None or any(line <= change.start for line in read.unread):
        return None
    tree = ast.Module(body=change.applied(before.tree.body, between), type_ignores=[])
    return Parsed(text, lines, tree, read.faults, read.unread)


def _kept(before: Parsed, lines: tuple[str, ...]) -> _Kept | None:
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


def first_line(node: ast.stmt) -> int:
    """The line that a statement begins on, decorators included."""
    decorators = getattr(node, "decorator_list", ())
    return min([node.lineno, *(item.lineno for item in decorators)])


# -- what is wrong --------------------------------------------------------------------------------------------------


def unparsable(failure: BaseException, file: str, lines: tuple[str, ...], *, in_bytes: bool = False) -> Diagnostic:
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
