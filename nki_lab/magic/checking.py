"""The check of a cell in a process beside the notebook's, so that nothing in a cell can end the notebook."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nki_lab import query
from nki_lab.call_records.store import CallRecord
from nki_lab.contained import SuddenEnd, note
from nki_lab.diagnostic import Diagnostic, NkiError
from nki_lab.isa.arch import arch_of
from nki_lab.kernel_runtime.interpreter import Budget
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.magic.companion import companion
from nki_lab.own_faults import ended_evaluation
from nki_lab.rules import known_syntax_findings
from nki_lab.source import ModuleSource, facts_of
from nki_lab.source.module import tree_of

MOST_ENDED: Final = 32
"""Texts that ended the process and are remembered."""


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a cell under the name of its file, below the statements of `head`, which count as its line 1."""

    text: str
    file: str
    head: str

    def module(self, line: int = 0) -> ModuleSource:
        """Return the parsed text; the head stands on `line`."""
        return ModuleSource(self.text, self.file, tree_of(self.text, self.file)).under(self.head, line=line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A cell to be checked, its target, and the other cells, arrays and folders that it may import from."""

    cell: Text
    target: str
    steps: int
    judged: bool
    folder: str
    paths: tuple[str, ...]
    cells: Mapping[str, Text]
    arrays: Mapping[str, TensorSpec]
    recorded: Mapping[str, Sequence[CallRecord]]


def answer(question: Question) -> list[Diagnostic]:
    """Return the findings in a cell. Nothing of it is run."""
    library = query.library(
        folder=Path(question.folder),
        paths=question.paths,
        given={name: text.module() for name, text in question.cells.items()},
        arrays=question.arrays,
    )
    return query.check(
        source=question.cell.module(line=1),
        target=arch_of(question.target),
        budget=Budget(steps=question.steps, begun=note),
        library=library,
        judged=question.judged,
        recorded={name: tuple(calls) for name, calls in question.recorded.items()},
    )


_ended: Final[OrderedDict[tuple[str, str], SuddenEnd]] = OrderedDict()
"""The cells that ended the process: they are not evaluated again."""


def findings(question: Question) -> list[Diagnostic]:
    """Return the findings in a cell; where its evaluation ends its process, those on its syntax and what is missing."""
    key = (question.cell.text, question.cell.head)
    end = _ended.get(key)
    if end is None:
        try:
            found = companion.call(answer, question) if sys.executable else answer(question)
        except OSError:  # no process can be started
            found = answer(question)
        if not isinstance(found, SuddenEnd):
            return found
        end = _ended[key] = found
        while len(_ended) > MOST_ENDED:
            _ended.popitem(last=False)
    return [*_syntax(question.cell), ended_evaluation(question.cell.file, str(end), end.note)]


def _syntax(cell: Text) -> list[Diagnostic]:
    try:
        return list(known_syntax_findings(facts_of(cell.module(line=1))))
    except NkiError as error:
        return list(error.diagnostics)
