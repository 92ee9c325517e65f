"""Schedules examinations and their reports to the editor: of the newest version only, and nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from nki_lab.diagnostic import Diagnostic
from nki_lab.lsp.examiner import Examiner
from nki_lab.lsp.messages import Answer, Buffers, Job, Reset
from nki_lab.lsp.settings import Settings
from nki_lab.lsp.texts import Module, Texts, path_of
from nki_lab.own_faults import ended_evaluation
from nki_lab.query import Examination
from nki_lab.query.checking import in_order
from nki_lab.query.project_files import may_import
from nki_lab.query.still_true import StillTrue, still_true
from nki_lab.source import SyntaxFacts
from nki_lab.source.moved_lines import moved_finding
from nki_lab.source.reparsing import common_ends

V = TypeVar("V")

QUIET_SECONDS: Final = 0.02
"""After a keystroke, so long without another before a text is examined,"""
OTHERS_SECONDS: Final = 0.25
"""and so long before those that import it are."""


class LineMap:
    """Maps the lines of an old text to those of a new text. Lines between the first change and the last have none."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        self._above, self._below = common_ends(old, new)
        self._old = len(old)
        self._moved = len(new) - len(old)

    def line(self, number: int) -> int:
        """Return the new number of a 1-based line; 0 for a line that has changed."""
        if number <= self._above:
            return number
        return number + self._moved if number > self._old - self._below else 0

    def findings(self, found: Iterable[Diagnostic], file: str) -> Iterator[Diagnostic]:
        """Yield the findings whose lines have not changed."""
        for item in found:
            if item.span is None or (self.line(item.line) and self.line(item.end_line)):
                yield moved_finding(item, lambda line: self.line(line) or line, file) if self._moved else item

    def examination(self, known: Examination) -> Examination:
        """Return the part of an examination that is about lines which have not changed."""
        return Examination(
            variables=self._moved_places(known.variables),
            issued=self._moved_places(known.issued),
            expressions=self._moved_places(known.expressions),
        )

    def _moved_places(self, table: Mapping[tuple[int, int], V]) -> dict[tuple[int, int], V]:
        moved = (((self.line(line), column), value) for (line, column), value in table.items())
        return {place: value for place, value in moved if place[0]}


@dataclass(slots=True)
class Unit:
    """A file or notebook over its versions."""

    key: str
    revision: int = 0
    module: Module | None = None  # as of `revision`
    syntax: tuple[Diagnostic, ...] | None = None  # of `revision`; None while it is not looked at
    early: tuple[Diagnostic, ...] = ()  # of `revision`, while its kernels are evaluated
    known: Examination = field(default_factory=Examination)  # of `known_module`
    known_module: Module | None = None
    evaluated: tuple[Diagnostic, ...] = ()  # the findings of `known` but those on the syntax
    standing: tuple[Module, Module, StillTrue] | None = None  # what holds of the first module's `known` in the second
    reads: frozenset[str] = frozenset()  # paths that its evaluation looked at
    mapped: tuple[Module, Module, Examination] | None = None  # the first module's `known` at the lines of the second
    is_unasked: bool = False  # it is examined again though its own text is the same
    is_new: bool = False  # its text is not sent to be examined yet
    waiting: asyncio.TimerHandle | None = None
    published: set[str] = field(default_factory=set)  # URIs whose findings the editor has
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_settled(self) -> bool:
        """Return whether everything is known of the newest version."""
        return self.known_module is not None and self.known_module is self.module

    def cancel(self) -> None:
        """Drop the examination that is about to start."""
        if self.waiting is not None:
            self.waiting.cancel()


class Checker:
    """Examines what is open whenever it changes, and reports to `report(unit, final)`."""

    def __init__(
        self, texts: Texts, settings: Settings, examiner: Examiner, report: Callable[[Unit, bool], None]
    ) -> None:
        self._texts = texts
        self._settings = settings
        self._report = report
        self.examiner = examiner
        examiner.answered = self._answered
        examiner.greeting = self.buffers
        self.units: dict[str, Unit] = {}

    # -- what happens --------------------------------------------------------------------------------------------

    def changed(self, uri: str, *, quiet: float = QUIET_SECONDS) -> None:
        """Schedule the examination of a text with new content, and of those that import it."""
        key = self._texts.unit(uri)
        unit = self.units.setdefault(key, Unit(key))
        unit.is_new = True
        self._schedule(unit, quiet)
        text = self._texts.texts.get(key)  # None of a notebook, whose cells no file imports
        self.file_changed(path_of(key), quiet=OTHERS_SECONDS, text="" if text is None else text.text)

    def file_changed(self, path: str, *, quiet: float = 0, text: str = "") -> None:
        """Schedule the examination of what depends on a file, and of what it imports as it is now: it may call that."""
        data = text.encode("utf-8", "surrogatepass")
        for other in self.units.values():
            place = path_of(other.key)
            if path and place != path and (path in other.reads or (place and may_import(data, place))):
                self._again(other, quiet)

    def saved(self, uri: str) -> None:
        """Examine a text, and those that import it, without waiting for anything else to be typed."""
        unit = self.units.get(self._texts.unit(uri))
        if unit is None:
            return
        path = path_of(unit.key)
        for other in (unit, *(item for item in self.units.values() if path in item.reads)):
            if other.waiting is not None:
                other.waiting.cancel()
                self._examine(other)

    def buffers(self) -> Buffers:
        """Return the texts of the files that are open."""
        alone = ((path_of(uri), text) for uri, text in self._texts.texts.items() if self._texts.unit(uri) == uri)
        return Buffers({path: text.text for path, text in alone if path})

    def _again(self, unit: Unit, quiet: float) -> None:
        unit.is_unasked = True
        if not unit.is_new:  # else it is examined sooner, with what others have become
            self._schedule(unit, quiet)

    def _schedule(self, unit: Unit, quiet: float) -> None:
        unit.revision += 1
        unit.module = unit.syntax = None
        unit.early = ()
        unit.cancel()
        unit.waiting = asyncio.get_running_loop().call_later(quiet, self._examine, unit)

    def closed(self, key: str) -> Unit | None:
        """Forget a file or notebook that is closed."""
        unit = self.units.pop(key, None)
        if unit is not None:
            unit.cancel()
            unit.changed.set()
            self.examiner.forget(key)
            self.file_changed(path_of(key))
        return unit

    def again(self) -> None:
        """Examine everything again after a change of settings."""
        self.examiner.tell(Reset())
        self.files_changed()

    def files_changed(self) -> None:
        """Examine everything again after changes on the disk; what read nothing of them is kept."""
        for unit in self.units.values():
            self._again(unit, 0)

    def _examine(self, unit: Unit) -> None:
        for other in self.units.values():  # the examination of one text reads the others as they are now
            if other.is_new and other is not unit:
                self._begin(other)
        self._begin(unit)

    def _begin(self, unit: Unit) -> None:
        unit.cancel()
        unit.waiting = None
        unit.is_new = False
        module = self._texts.module(unit.key)
        if module is None:
            return
        unit.module = module
        self.examiner.examine(self.job(unit, module))

    def job(self, unit: Unit, module: Module, target: str = "") -> Job:
        """Return the job to examine the newest version of a unit.

        It is for the targets that its cells and the settings name, or for another one.
        """
        settings = self._settings
        return Job(
            unit.key,
            unit.revision,
            module.file,
            module.sources,
            module.is_notebook,
            target or settings.arch(module.file).target,
            settings.steps(module.file),
            settings.python(module.file),
            targets=() if target else module.targets,
        )

    def _answered(self, answer: Answer) -> None:
        unit = self.units.get(answer.key)
        if unit is None or unit.revision != answer.revision or unit.module is None:
            return
        if answer.early is not None:
            unit.early = answer.early
            self._note(unit, final=False)
            return
        if answer.examination is None and not answer.failure:
            unit.syntax = answer.syntax
            self._note(unit, final=False)
            return
        syntax = unit.syntax or ()
        unit.known = examination_of(answer, unit.module.file, syntax)
        unit.known_module = unit.module
        unit.reads = answer.reads
        known_syntax = frozenset(syntax)
        unit.evaluated = tuple(item for item in unit.known.findings if item not in known_syntax)
        self._note(unit, final=True)

    def _note(self, unit: Unit, *, final: bool) -> None:
        unit.changed.set()
        unit.changed = asyncio.Event()
        self._report(unit, final)

    # -- what is asked -------------------------------------------------------------------------------------------

    async def settled(self, uri: str, seconds: float, *, fully: bool = True) -> Unit | None:
        """Return the unit of a text, once everything is known of its newest version, but after `seconds` at the latest.

        Not `fully`, its syntax is enough. None where the text is not open.
        """
        deadline = asyncio.get_running_loop().time() + seconds
        while (unit := self.units.get(self._texts.unit(uri))) is not None:
            left = deadline - asyncio.get_running_loop().time()
            if unit.is_settled or (not fully and unit.syntax is not None) or left <= 0:
                return unit
            try:
                await asyncio.wait_for(unit.changed.wait(), left)
            except TimeoutError:
                return unit
        return None

    def module(self, uri: str) -> Module | None:
        """Return the module of a text as it is now, examined or not."""
        unit = self.units.get(self._texts.unit(uri))
        return unit.module if unit is not None and unit.module else self._texts.module(self._texts.unit(uri))


def examination_of(answer: Answer, file: str, syntax: Iterable[Diagnostic]) -> Examination:
    """Return the examination of a file: after a failure the findings on its syntax, and what is missing and why."""
    if answer.examination is not None:
        return answer.examination
    return Examination(findings=(*syntax, ended_evaluation(file, answer.failure, answer.kernel)))


def findings_of(unit: Unit, module: Module) -> list[Diagnostic]:
    """Return the findings in a unit: where its kernels are being evaluated, those that are sure by now, and those of
    unchanged lines as they were before.
    """
    if unit.is_settled and unit.known_module is module:
        return list(unit.known.findings)
    earlier: Iterable[Diagnostic] = ()
    if unit.known_module is not None:
        line_map = LineMap(unit.known_module.lines, module.lines)
        earlier = line_map.findings(unit.evaluated, module.file)
    return list(in_order([*(unit.early or unit.syntax or ()), *earlier]))


def known_of(unit: Unit, module: Module) -> Examination:
    """Return the known variables and calls of a module, as far as its lines have been examined."""
    known_module, known, before = unit.known_module, unit.known, unit.mapped
    if known_module is None:
        return Examination()
    if known_module is module:
        return known
    if before is not None and before[0] is known_module and before[1] is module:
        return before[2]
    found = LineMap(known_module.lines, module.lines).examination(known)
    unit.mapped = known_module, module, found
    return found


def standing_of(unit: Unit, module: Module) -> Callable[[SyntaxFacts], StillTrue]:
    """Return what gives the known variables and calls of a module that no later change can have made others.

    It takes the facts of the module, beside the event loop. Nothing is left when something that the module imports has
    changed, or the settings.
    """
    known_module, known, is_unasked = unit.known_module, unit.known, unit.is_unasked

    def standing(facts: SyntaxFacts) -> StillTrue:
        if known_module is module:
            return StillTrue(known)
        if known_module is None or is_unasked:
            return StillTrue()
        before = unit.standing
        if before is not None and before[0] is known_module and before[1].sources == module.sources:
            return before[2]
        found = still_true(known, known_module.lines, facts)
        unit.standing = known_module, module, found
        return found

    return standing
