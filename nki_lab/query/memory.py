"""What evaluations gave, kept for as long as nothing that they read has changed."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from nki_lab.diagnostic import Diagnostic
from nki_lab.kernel_runtime.interpreter import Launches, Reads, Variable
from nki_lab.query.issued import Issued
from nki_lab.source.moved_lines import moved_finding, moved_span
from nki_lab.source.trees import first_line

Place = tuple[int, int]
"""A 1-based line and a 0-based UTF-8 byte column."""
Operation = tuple[str, int, int]
"""A call of NKI's: file, and place in it."""

KEPT: Final = 512
"""Evaluations that one memory holds."""


@dataclass(frozen=True, slots=True)
class Block:
    """A statement at module level: its text, and of a function the text above its body."""

    function: str
    head: str
    text: str
    line: int
    end_line: int


def blocks_of(body: Iterable[ast.stmt], lines: Sequence[str]) -> tuple[Block, ...]:
    """The statements of a module's body."""
    found = []
    for node in body:
        first = first_line(node)
        last = node.end_lineno or node.lineno
        text = "\n".join(lines[first - 1 : last])
        name, head = "", text
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.body[0].lineno > node.lineno:
            name, head = node.name, "\n".join(lines[first - 1 : node.body[0].lineno - 1])
        found.append(Block(name, head, text, first, last))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What one evaluation gave.

    `depends` are the functions of the module, by name, whose bodies it read, `reads` is what it depends on outside of
    it. Of the `operations` that it came to, some may be `unknown`: they, or their arguments, could not be evaluated.
    """

    findings: tuple[Diagnostic, ...] = ()
    variables: Mapping[Place, Variable]
    issued: Mapping[Place, Issued]
    expressions: Mapping[Place, Variable] = field(default_factory=dict)
    depends: frozenset[str]
    entered: frozenset[str] = frozenset()
    reads: Reads = field(default_factory=dict)
    operations: frozenset[Operation] = frozenset()
    unknown: frozenset[Operation] = frozenset()


class Memory:
    """Evaluations by what they were asked, and by the text of all that they read: bodies of functions that they did
    not enter may change, and everything may move to other lines."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, tuple[tuple[Block, ...], Any, frozenset[str]]] = OrderedDict()

    def recall(self, question: Hashable, blocks: tuple[Block, ...], file: str) -> Any:
        """The answer to `question`, at today's lines; None where there is none, or it may differ by now."""
        entry = self._kept.get(question)
        if entry is None:
            return None
        then, answer, depends = entry
        if len(then) != len(blocks) or not all(map(_agree, then, blocks, [depends] * len(blocks))):
            return None
        self._kept.move_to_end(question)
        line_of = _lines_between(then, blocks)
        if line_of is None:
            return answer
        moved = moved_lines(answer, line_of, file)
        self._kept[question] = (blocks, moved, depends)
        return moved

    def keep(self, question: Hashable, blocks: tuple[Block, ...], answer: Any, depends: frozenset[str]) -> None:
        """Remember an answer that read the module but for the bodies of functions outside `depends`."""
        self._kept[question] = (blocks, answer, depends)
        self._kept.move_to_end(question)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)


def _agree(then: Block, now: Block, depends: frozenset[str]) -> bool:
    if then.function != now.function:
        return False
    return then.head == now.head if then.function and then.function not in depends else then.text == now.text


def _lines_between(then: tuple[Block, ...], now: tuple[Block, ...]) -> Callable[[int], int] | None:
    """Where lines of agreeing blocks stand now; None where they stand as before."""
    starts = [block.line for block in then]
    offsets = [new.line - old.line for old, new in zip(then, now, strict=True)]
    if not any(offsets):
        return None
    return lambda line: line + offsets[max(0, bisect_right(starts, line) - 1)]


# -- lines that have moved -----------------------------------------------------------------------------------------


def moved_lines(answer: Any, line_of: Callable[[int], int], file: str) -> Any:
    """An answer with the lines of `file` mapped."""
    match answer:
        case Made():
            return replace(
                answer,
                findings=tuple(moved_finding(item, line_of, file) for item in answer.findings),
                variables={(line_of(line), column): value for (line, column), value in answer.variables.items()},
                issued={(line_of(line), column): value for (line, column), value in answer.issued.items()},
                expressions={(line_of(line), column): value for (line, column), value in answer.expressions.items()},
                operations=_moved_places(answer.operations, line_of, file),
                unknown=_moved_places(answer.unknown, line_of, file),
            )
        case Launches():
            own, other = (moved_lines(dict(part), line_of, file) for part in (answer.own, answer.other))
            return replace(answer, own=own, other=other)
        case dict():
            return {key: moved_lines(value, line_of, file) for key, value in answer.items()}
        case tuple():
            return tuple(moved_lines(item, line_of, file) for item in answer)
        case _ if hasattr(answer, "span"):
            return replace(answer, span=moved_span(answer.span, line_of, file))
        case _:
            return answer


def _moved_places(places: Iterable[Operation], line_of: Callable[[int], int], file: str) -> frozenset[Operation]:
    return frozenset((name, line_of(line) if name == file else line, column) for name, line, column in places)
