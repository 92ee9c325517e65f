"""Migrate the source of a module: from Beta 1 to the current dialect, and between releases of that."""

from __future__ import annotations

import ast
import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from nki_lab.diagnostic import Diagnostic, NkiError, Span, diagnose
from nki_lab.kernel_runtime.garbage import gc_relaxed
from nki_lab.migrate.context import Context
from nki_lab.migrate.kernels import rewrite_kernels, rewrite_signatures
from nki_lab.migrate.leftovers import without_dead_indices
from nki_lab.migrate.modules import rewrite_calls, rewrite_imports, rewrite_module
from nki_lab.migrate.names import Names
from nki_lab.migrate.releases import rewrite_releases
from nki_lab.migrate.rows import BY_NUMBER
from nki_lab.migrate.source_edits import SourceEdits
from nki_lab.migrate.statements import Statements
from nki_lab.migrate.values import Values, values_of
from nki_lab.query.one_kernel import EvaluationRequest
from nki_lab.source import SyntaxFacts, syntax_facts

STEPS = 400_000
"""Steps for the kernels of one file: what is known then is known; two seconds for the largest public ones."""


@dataclass(frozen=True, slots=True)
class Migrated:
    """A text after its migration: `applied` counts rewrites by row, `findings` are places that need the author, and
    `kernels` the functions that were looked at.
    """

    before: str
    text: str
    applied: Counter[int] = field(default_factory=Counter)
    findings: tuple[Diagnostic, ...] = ()
    kernels: tuple[str, ...] = ()

    @property
    def is_changed(self) -> bool:
        """Return whether there is anything new."""
        return self.text != self.before


BETA1 = "0.1"
"""The release of Beta 1."""


def migrated(text: str, file: str, request: EvaluationRequest, since: str = BETA1) -> Migrated:
    """Return a text in the current dialect, as far as that is safe; of one that is no Python nothing is changed.

    `since` is the release that it was written for: what earlier ones changed is left alone.

    Nothing of it is executed or imported. Kernels are evaluated with the signatures of `request`, of the text and of
    the project, as `nki-lab check` does.
    """
    try:
        facts = syntax_facts(text, file, None, as_typed=True, once=True)
    except NkiError as error:
        return Migrated(text, text, findings=tuple(error.diagnostics))
    if facts.parsed.faults:
        return Migrated(text, text, findings=facts.parsed.faults)
    is_beta1 = Names(SourceEdits(facts.parsed.text, facts.tree)).is_beta1
    if is_beta1 and since != BETA1:
        return Migrated(text, text, kernels=_kernels(facts))
    with gc_relaxed():
        values = values_of(facts, replace(request, judged=False, light=True, steps=min(request.steps, STEPS)))
        try:
            return _rewritten(text, facts, values) if is_beta1 else _later(text, facts, values, since)
        except RecursionError:
            pass
    return Migrated(text, text, findings=(_too_deep(file),), kernels=_kernels(facts))


def _too_deep(file: str) -> Diagnostic:
    return diagnose(
        "NKI610",
        "not migrated: statements or expressions are nested too deeply, as in a chain of hundreds of elif",
        span=Span(file, 1, 1, 1, 2),
        limit="what is rewritten does what it did before; the file is unchanged",
        help="split the chain, for example into functions, and migrate again",
    )


def line_edits(before: str, after: str, file: str) -> list[tuple[Span, str]]:
    """Return the edits of whole lines that make one text of another, as spans of the first with their new texts."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return [
        (Span(file, start + 1, 1, end + 1, 1), "".join(new[first:last]))
        for kind, start, end, first, last in matcher.get_opcodes()
        if kind != "equal"
    ]


def _kernels(facts: SyntaxFacts) -> tuple[str, ...]:
    return tuple(item.name for item in facts.kernels)


def _rewritten(text: str, facts: SyntaxFacts, values: Values) -> Migrated:
    context = Context.of(facts.parsed.text, facts.tree, values)
    rewrite_module(context)
    rewrite_kernels(context, facts.kernels, [item.node for item in facts.functions])
    Statements(context).run(facts.tree.body)
    rewrite_calls(context)
    used = _used(context.edits.text_of(facts.tree))
    if used is None:
        return _unreadable(text, facts)
    rewrite_imports(context, used)
    after = without_dead_indices(context.edits.text_of(facts.tree))
    if after is None:
        return _unreadable(text, facts)
    findings = tuple(_finding(facts, context, item.row, item.node, item.reason) for item in context.left)
    return Migrated(text, after, context.applied, _sorted(findings), _kernels(facts))


def _later(text: str, facts: SyntaxFacts, values: Values, since: str) -> Migrated:
    """Return a text of the current dialect as releases after `since` have it."""
    context = Context.of(facts.parsed.text, facts.tree, values)
    if BY_NUMBER[28].release > since:
        rewrite_signatures(context, facts.kernels, [item.node for item in facts.functions])
    rewrite_releases(context, since)
    if context.edits.is_edited(facts.tree):
        used = _used(context.edits.text_of(facts.tree))
        if used is None:
            return _unreadable(text, facts)
        rewrite_imports(context, used)
    after = context.edits.text_of(facts.tree) if context.edits.is_edited(facts.tree) else text
    if _used(after) is None:
        return _unreadable(text, facts)
    findings = tuple(_finding(facts, context, item.row, item.node, item.reason) for item in context.left)
    return Migrated(text, after, context.applied, _sorted(findings), _kernels(facts))


def _sorted(found: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(sorted(found, key=lambda item: (item.line, item.column, item.message)))


def _used(text: str) -> set[str] | None:
    """Return the names that a text reads; None where it is no Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _finding(facts: SyntaxFacts, context: Context, row: int, node: ast.AST, reason: str) -> Diagnostic:
    del context
    about = BY_NUMBER[row]
    return diagnose(
        "NKI610",
        f"not migrated (row {row}): {about.before.replace('`', '')}: {reason}",
        span=facts.span(node),
        limit=f"what is rewritten does what it did before; see {about.link}",
        help=about.remedy or f"write {about.after.replace('`', '')}",
    )


def _unreadable(text: str, facts: SyntaxFacts) -> Migrated:
    item = diagnose(
        "NKI901",
        "the migration would make what is no Python",
        span=Span(facts.file, 1, 1, 1, 2),
        limit="nothing that a file contains makes the migration fail",
        help="report it with the file; the file is unchanged",
    )
    return Migrated(text, text, findings=(item,))
