"""Reading a change inside a long function: the statements around it, in the same block, stay as they were."""

from __future__ import annotations

import ast
import copy
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from nki_lab.source.recovery import move
from nki_lab.source.trees import first_line

_HEADED: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.For, ast.While, ast.With, ast.If)
_OPENER: Final = "if 1:"
"""Stands above the changed lines, so that they may be indented."""


FAR: Final = 100
"""Lines between two changes that are read one after the other,"""
MANY: Final = 20
"""and those that agree in a row where one of them has ended."""
_SHIFTS: Final = (0, 1, -1, 2, -2, 3, -3)
"""Lines by which a change moves those below it, the usual first."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A block on the way to the change, with the statement of it that the change is in (or stands between)."""

    owner: ast.stmt
    block: str
    at: int


@dataclass(frozen=True, slots=True)
class Change:
    """A changed stretch inside a block: `head` and `tail` are its statements before and after, which stay.

    Lines (0-based, the end exclusive) `start` to `stop` of the new text are to be read; what comes after them has moved
    down by `moved` lines.
    """

    path: tuple[_Step, ...]
    head: tuple[ast.stmt, ...]
    tail: tuple[ast.stmt, ...]
    start: int
    stop: int
    moved: int

    def text(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Return the lines to be read, at their places."""
        above = (*("",) * (self.start - 1), _OPENER) if self.path else ("",) * self.start
        return (*above, *lines[self.start : self.stop])

    def outermost(self, lines: Sequence[str]) -> Sequence[str]:
        """Return the lines of the statement at module level that the change is in."""
        owner = self.path[0].owner
        return lines[first_line(owner) - 1 : (owner.end_lineno or owner.lineno) + self.moved]

    def leaves_block(self, lines: Sequence[str]) -> bool:
        """Return whether a line has less indentation than the block that the change is in."""
        first = lines[first_line(self.head[0]) - 1]
        indent = first[: len(first) - len(first.lstrip())]
        return any(line.strip() and not line.startswith(indent) for line in lines[self.start : self.stop])

    def statements(self, read: ast.Module) -> list[ast.stmt] | None:
        """Return the statements that were read; None where they are no block any more."""
        if not self.path:
            return read.body
        if len(read.body) != 1 or not isinstance(read.body[0], ast.If) or read.body[0].orelse:
            return None
        opener = read.body[0]
        return opener.body if opener.lineno == self.start and isinstance(opener.test, ast.Constant) else None

    def applied(self, body: Sequence[ast.stmt], between: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return the module's statements with the change; statements around it are copied, so that nothing known of
        them is taken for what they are now.
        """
        move(self.tail, self.moved)
        inner = [*self.head, *between, *self.tail]
        for step in reversed(self.path):
            outer = copy.copy(step.owner)
            outer.end_lineno = (outer.end_lineno or outer.lineno) + self.moved
            setattr(outer, step.block, inner)
            if step.block == "body":
                move(getattr(outer, "orelse", ()), self.moved)
            siblings = self._siblings(step, body)
            move(siblings[step.at + 1 :], self.moved)
            inner = [*siblings[: step.at], outer, *siblings[step.at + 1 :]]
        return inner

    def _siblings(self, step: _Step, body: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
        place = self.path.index(step)
        if not place:
            return body
        above = self.path[place - 1]
        found: list[ast.stmt] = getattr(above.owner, above.block)
        return found


def change_inside(
    body: Sequence[ast.stmt], old: Sequence[str], new: Sequence[str], first: int, last: int
) -> Change | None:
    """Return the innermost block that holds all of a change between other statements; None where only a module does.

    The texts agree in their `first` first lines, and in their `last` last ones.
    """
    path: list[_Step] = []
    found: Change | None = None
    block = body
    end = len(old) - last
    while True:
        step = _entered(block, first, end)
        if step is None:
            return found
        path.append(step)
        block = getattr(step.owner, step.block)
        around = _around(block, first, end)
        if around is not None:
            head, tail = around
            moved = len(new) - len(old)
            start, stop = head[-1].end_lineno or 0, first_line(tail[0]) - 1 + moved
            if stop >= start and _is_plain(head[-1], tail[0], old):
                found = Change(tuple(path), head, tail, start, stop, moved)


def change_between(
    body: Sequence[ast.stmt], old: Sequence[str], new: Sequence[str], first: int, last: int
) -> Change | None:
    """Return the change between two statements of a module; None where it leaves no statement as it was.

    A statement beside the change counts as changed: it may go on there. So do those between lines that were left out:
    an edit in another line may mend them.
    """
    head = _without_neighbour([node for node in body if (node.end_lineno or 0) <= first], -1)
    tail = _without_neighbour([node for node in body if first_line(node) > len(old) - last], 0)
    if not head and not tail:
        return None
    moved = len(new) - len(old)
    start = (head[-1].end_lineno or 0) if head else 0
    stop = first_line(tail[0]) - 1 + moved if tail else len(new)
    return Change((), tuple(head), tuple(tail), start, stop, moved)


def _without_neighbour(nodes: list[ast.stmt], edge: int) -> list[ast.stmt]:
    """Return statements without the last or first (at index `edge`), and without those that share a line with it."""
    if nodes:
        dropped = nodes.pop(edge)
        first, last = first_line(dropped), dropped.end_lineno or dropped.lineno
        while nodes and first_line(nodes[edge]) <= last and (nodes[edge].end_lineno or 0) >= first:
            dropped = nodes.pop(edge)
            first, last = min(first, first_line(dropped)), max(last, dropped.end_lineno or 0)
    return nodes


def common_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return the number of lines that two texts share at their beginning, and of further lines at their end."""
    shorter = min(len(old), len(new))
    first = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    rest = shorter - first
    return first, next((i for i in range(rest) if old[-1 - i] != new[-1 - i]), rest)


def between(old: Sequence[str], new: Sequence[str], unread: Collection[int] = ()) -> tuple[str, ...] | None:
    """Return the text with one of two changes that are far from each other; None where there are no such two.

    It is the change nearer to the lines of the old text that are `unread`: as long as these are, all between them and
    another change is read.
    """
    first, last = common_ends(old, new)
    if min(len(old), len(new)) - first - last < FAR:
        return None
    is_later = bool(unread) and min(unread) - first > len(old) - last - max(unread)
    for latter in (is_later, not is_later):
        found = _agreement(old[::-1], new[::-1], last, first) if latter else _agreement(old, new, first, last)
        if found is not None:
            ends = len(old) - found[0], len(new) - found[1]
            return (*old[: ends[0]], *new[ends[1] :]) if latter else (*new[: found[1]], *old[found[0] :])
    return None


def _agreement(old: Sequence[str], new: Sequence[str], start: int, end: int) -> tuple[int, int] | None:
    """Return the lines of both texts from which many agree, the first from `start` on and before the `end` last ones;
    None where there are none. Where a change has moved the lines below it by a few, they are soon to be found.
    """
    for shift in _SHIFTS:
        stop = min(len(old), len(new) - shift) - end
        agreed = 0
        for line in range(start, stop if shift == 0 else min(stop, start + FAR)):
            agreed = agreed + 1 if old[line] == new[line + shift] else 0
            if agreed == MANY:
                return line + 1 - MANY, line + 1 - MANY + shift
    return None


def _entered(block: Sequence[ast.stmt], first: int, end: int) -> _Step | None:
    """Return the statement whose inner block the change is in."""
    at = bisect_right(block, first, key=lambda node: node.end_lineno or 0)
    node = block[at] if at < len(block) else None
    if not isinstance(node, _HEADED) or first_line(node) > first or (node.end_lineno or 0) < end:
        return None
    for name in ("body", "orelse"):
        inner = getattr(node, name, [])
        if inner and first_line(inner[0]) <= first and end < (inner[-1].end_lineno or 0):
            return _Step(node, name, at)
    return None


def _around(
    block: Sequence[ast.stmt], first: int, end: int
) -> tuple[tuple[ast.stmt, ...], tuple[ast.stmt, ...]] | None:
    """Return the statements before and after the change but for its neighbours, which may go on in it."""
    before = bisect_right(block, first, key=lambda node: node.end_lineno or 0)
    after = len(block) - bisect_right(block, end, key=first_line)
    head, tail = tuple(block[: max(0, before - 1)]), tuple(block[len(block) - max(0, after - 1) :])
    return (head, tail) if head and tail else None


def _is_plain(head: ast.stmt, tail: ast.stmt, old: Sequence[str]) -> bool:
    """Return whether nothing else stands on the lines where the kept statements end and begin."""
    last, begin = head.end_lineno or 0, first_line(tail)
    rest = old[last - 1].encode()[head.end_col_offset or 0 :].strip()
    column = tail.col_offset if begin == tail.lineno else len(old[begin - 1]) - len(old[begin - 1].lstrip())
    return (not rest or rest.startswith(b"#")) and not old[begin - 1].encode()[:column].strip() and begin > last
