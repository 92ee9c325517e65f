"""Results of evaluations, kept for as long as nothing that they read has changed."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeVar

from nki_lab.call_records.store import CallRecord
from nki_lab.diagnostic import Diagnostic
from nki_lab.kernel_runtime.interpreter import KnownCalls, Launches, Reads, Signature, Variable
from nki_lab.query.estimate import Estimate
from nki_lab.query.issued import Issued
from nki_lab.query.reach import Operation, Reach
from nki_lab.source import ModuleSource
from nki_lab.source.moved_lines import LineOf, moved_finding, moved_span
from nki_lab.source.trees import first_line

R = TypeVar("R")
V = TypeVar("V")

Place = tuple[int, int]
"""A 1-based line and a 0-based UTF-8 byte column."""

KEPT: Final = 512
"""Results that one cache holds, and more where one text has more: all of them are asked for again after an edit."""
MOST_KEPT: Final = 8192
"""Results that it holds at most, then too; one takes some kilobytes."""
UNUSED: Final = 6
"""Examinations that had no use for a result, after which it goes: each holds the text of its module."""


@dataclass(frozen=True, slots=True)
class Block:
    """A statement at module level: its text, and of a function the text above its body."""

    function: str
    head: str
    text: str
    line: int
    end_line: int


def blocks_of(module: ModuleSource) -> tuple[Block, ...]:
    """Return the statements of a module's body."""
    return module.once("blocks", lambda: tuple(_blocks_of(module.tree.body, module.lines)))


def _blocks_of(body: Iterable[ast.stmt], lines: Sequence[str]) -> Iterator[Block]:
    for node in body:
        first = first_line(node)
        last = node.end_lineno or node.lineno
        text = "\n".join(lines[first - 1 : last])
        name, head = "", text
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.body[0].lineno > node.lineno:
            name, head = node.name, "\n".join(lines[first - 1 : node.body[0].lineno - 1])
        yield Block(name, head, text, first, last)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The fate of a recorded call of a function: whether findings under it count, and why.

    A `stale` one does not fit the function any more.
    """

    function: str
    call: CallRecord
    used: bool
    stale: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """The results of evaluating the kernels of a text.

    `findings` are in the order of the source. `variables` says what names stood for where they were bound, `issued`
    what calls turned into, both by 1-based line and 0-based UTF-8 byte column; `expressions` what calls and
    subscripts were, by where they end. `reach` has the operations of NKI that evaluation came to. `recorded` says what
    became of the recorded calls.
    """

    findings: tuple[Diagnostic, ...] = ()
    variables: Mapping[Place, Variable] = field(default_factory=dict)
    issued: Mapping[Place, Issued] = field(default_factory=dict)
    expressions: Mapping[Place, Variable] = field(default_factory=dict)
    reach: Reach = field(default_factory=Reach)
    recorded: tuple[Verdict, ...] = ()

    @property
    def operations(self) -> frozenset[Operation]:
        """Return the operations of NKI that evaluation came to."""
        return self.reach.operations

    @property
    def unknown(self) -> frozenset[Operation]:
        """Return the operations of which some, or all, could not be evaluated each time."""
        return self.reach.unknown | self.reach.omitted


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelEvaluation(Examination):
    """The results of evaluating one kernel with one signature.

    `depends` are the functions of the module, by name, whose bodies it read, `reads` is what it depends on outside of
    it. `unentered` says why the kernel itself was not entered, if so.
    It took `steps` where `allowed` ones were; the statements of the module took `module_steps`, which a function
    without shapes has beside its own; one of these took as many `runs`.
    """

    depends: frozenset[str]
    unentered: str = ""
    reads: Reads = field(default_factory=dict)
    steps: int = 0
    module_steps: int = 0
    allowed: int = 0
    runs: int = 0

    def is_within(self, allowed: int) -> bool:
        """Return whether an evaluation with `allowed` steps has this result."""
        return allowed == self.allowed or self.steps < min(allowed, self.allowed)


class EvaluationCache:
    """Evaluations by their keys, and by the text of all that they read.

    Bodies of functions that they did not enter may change, and everything may move to other lines.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, tuple[tuple[Block, ...], object, frozenset[str]]] = OrderedDict()
        self._used: dict[Hashable, int] = {}  # the examination that had use for a result
        self._examinations = 0
        self._calls: OrderedDict[Hashable, KnownCalls] = OrderedDict()
        self._changes: dict[tuple[int, int], _Change] = {}

    def calls(self, key: Hashable) -> KnownCalls:
        """Return the known calls of the evaluations that `key` tells apart from others."""
        self._calls.setdefault(key, KnownCalls())
        self._calls.move_to_end(key)
        while len(self._calls) > 4:
            self._calls.popitem(last=False)
        return self._calls[key]

    def recall(self, key: Hashable, blocks: tuple[Block, ...], file: str, kind: type[R]) -> R | None:
        """Return the result of a `kind` at today's lines; None where there is none, or it may differ by now."""
        entry = self._kept.get(key)
        if entry is None:
            return None
        then, result, depends = entry
        change = self._change(then, blocks)
        if change.bodies is None or not depends.isdisjoint(change.bodies):
            return None
        self._note_use(key)
        if change.line_of is not None:
            result = moved_lines(result, change.line_of, file)
        self._kept[key] = (blocks, result, depends)  # the blocks hold a text of the module: today's is there anyway
        assert isinstance(result, kind)
        return result

    def keep(self, key: Hashable, blocks: tuple[Block, ...], result: object, depends: frozenset[str]) -> None:
        """Remember a result that read the module but for the bodies of functions outside `depends`."""
        self._kept[key] = (blocks, result, depends)
        self._note_use(key)
        while len(self._kept) > KEPT:
            oldest = next(iter(self._kept))
            if self._used[oldest] >= self._examinations - 1 and len(self._kept) <= MOST_KEPT:
                break  # the text of now has it, or that of before, of which the rest is still to be asked for
            self._forget(oldest)

    def end_examination(self) -> None:
        """Note that a text has been examined to its end, and forget results of texts that are long gone."""
        self._examinations += 1
        self._changes.clear()
        for key in [key for key, used in self._used.items() if used < self._examinations - UNUSED]:
            self._forget(key)

    def __len__(self) -> int:
        """Return the number of results."""
        return len(self._kept)

    def _change(self, then: tuple[Block, ...], now: tuple[Block, ...]) -> _Change:
        """Return what has changed between two states of a module, which is found out once for all results."""
        if then is now:
            return _UNCHANGED
        key = id(then), id(now)
        known = self._changes.get(key)
        if known is None or known.then is not then or known.now is not now:
            known = self._changes[key] = _Change(then, now, _changed_bodies(then, now), _lines_between(then, now))
        return known

    def _note_use(self, key: Hashable) -> None:
        self._kept.move_to_end(key)
        self._used[key] = self._examinations

    def _forget(self, key: Hashable) -> None:
        del self._kept[key], self._used[key]


class _Change(NamedTuple):
    """The functions whose bodies differ between two states; None where something else differs. With the lines' map."""

    then: tuple[Block, ...]
    now: tuple[Block, ...]
    bodies: frozenset[str] | None
    line_of: LineOf | None


_UNCHANGED: Final = _Change((), (), frozenset(), None)


def _changed_bodies(then: tuple[Block, ...], now: tuple[Block, ...]) -> frozenset[str] | None:
    """Return the functions whose bodies differ between two states of a module; None where something else does."""
    if len(then) != len(now):
        return None
    differing = [(old, new) for old, new in zip(then, now, strict=True) if old is not new and old.text != new.text]
    for old, new in differing:
        if not old.function or old.function != new.function or old.head != new.head:
            return None
    if any(old.function != new.function for old, new in zip(then, now, strict=True)):
        return None
    return frozenset(new.function for _, new in differing)


def _lines_between(then: tuple[Block, ...], now: tuple[Block, ...]) -> LineOf | None:
    """Return the map of lines between two states; None where no line has moved."""
    if len(then) != len(now):
        return None
    starts = [block.line for block in then]
    offsets = [new.line - old.line for old, new in zip(then, now, strict=True)]
    if not any(offsets):
        return None
    return lambda line: line + offsets[max(0, bisect_right(starts, line) - 1)]


# -- lines that have moved -----------------------------------------------------------------------------------------


def _as_it_is(names: frozenset[str]) -> frozenset[str]:
    return names


def moved_lines(
    result: object, line_of: LineOf, file: str, renamed: Callable[[frozenset[str]], frozenset[str]] = _as_it_is
) -> Any:
    """Return a result with the lines of `file` mapped, and the functions that one evaluation came to `renamed`."""

    def places(table: Mapping[Place, V]) -> dict[Place, V]:
        return {(line_of(line), column): value for (line, column), value in table.items()}

    def operations(found: Iterable[Operation]) -> frozenset[Operation]:
        return frozenset((name, line_of(line) if name == file else line, column) for name, line, column in found)

    def moved_reach(reach: Reach) -> Reach:
        return replace(
            reach,
            given=operations(reach.given),
            assumed=operations(reach.assumed),
            unknown=operations(reach.unknown),
            omitted=operations(reach.omitted),
            entered=renamed(reach.entered),
            exhausted=renamed(reach.exhausted),
            ends=frozenset((name, line_of(line) if name == file else line) for name, line in reach.ends),
        )

    match result:
        case KernelEvaluation():
            return replace(
                result,
                findings=tuple(moved_finding(item, line_of, file) for item in result.findings),
                variables=places(result.variables),
                issued=places(result.issued),
                expressions=places(result.expressions),
                depends=renamed(result.depends),
                reach=moved_reach(result.reach),
            )
        case Estimate():
            return result.moved(line_of)
        case Launches(own=own, other=other, made=made):
            return replace(
                result,
                own=moved_lines(dict(own), line_of, file),
                other=moved_lines(dict(other), line_of, file),
                made=moved_lines(dict(made), line_of, file),
            )
        case dict():
            return {key: moved_lines(value, line_of, file) for key, value in result.items()}
        case tuple():
            return tuple(moved_lines(item, line_of, file) for item in result)
        case Signature(span=span):
            return replace(result, span=moved_span(span, line_of, file))
        case _:
            return result
