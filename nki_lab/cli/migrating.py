"""One file of `nki-lab migrate`: rewritten, mended, checked, and compared on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nki_lab.diagnostic import Diagnostic, NkiError, Span, diagnose, error_of
from nki_lab.isa.arch import arch_of
from nki_lab.kernel_runtime.garbage import gc_relaxed
from nki_lab.kernel_runtime.interpreter import Signature
from nki_lab.kernel_runtime.issue.target import DEFAULT_TARGET
from nki_lab.migrate import migrated
from nki_lab.migrate.migration import BETA1, STEPS
from nki_lab.migrate.rows import BY_CODE, OTHERS
from nki_lab.query import EvaluationRequest
from nki_lab.query.checking import examine
from nki_lab.query.evaluation_cache import EvaluationCache
from nki_lab.query.fixes.source_fixes import FIXABLE, fixed, new_error
from nki_lab.query.kernels import signatures
from nki_lab.rules import check_syntax
from nki_lab.source import syntax_facts
from nki_lab.source.module import decoded

if TYPE_CHECKING:
    from nki_lab.cli.verifying import Verdict

_ROUNDS: Final = 4
"""Most rounds in which removed and deprecated spellings of later releases are mended."""
_LEFT: Final = ("NKI304", "NKI603")
"""Findings about index expressions and names that Beta 1 had."""


@dataclass(slots=True)
class Report:
    """The migration of one file: its bytes before and after, what was rewritten, found and compared."""

    file: str
    before: bytes = b""
    after: bytes = b""
    applied: Counter[int] = field(default_factory=Counter)
    findings: list[Diagnostic] = field(default_factory=list)
    errors: list[Diagnostic] = field(default_factory=list)
    kernels: Sequence[str] = ()
    verdicts: list[Verdict] = field(default_factory=list)
    is_written: bool = False

    @property
    def is_changed(self) -> bool:
        """Return whether the migration changes the file."""
        return self.before != self.after


def migrated_file(
    report: Report, settings: Any, target: str | None, given: Mapping[str, object], *, release: str, verify: bool
) -> None:
    """Fill in the report of a file whose bytes it has. Raises NKI018 for one that is no text."""
    try:
        text, encoding = decoded(report.before)
    except (SyntaxError, UnicodeError, LookupError) as error:
        raise error_of(_undecoded(report.file, error)) from None
    file = Path(report.file)
    plain = text.replace("\r\n", "\n")
    request = EvaluationRequest(
        arch=arch_of(target or DEFAULT_TARGET),
        given={**settings.signatures(file), **_given(plain, report.file, given)},
        library=settings.library(),
    )
    since = BETA1 if release == "beta1" else release
    done = migrated(plain, report.file, request, since)
    report.applied, report.findings, report.kernels = done.applied, list(done.findings), done.kernels
    after = done.text
    before = _checked(after, report, request)
    mended, found = (
        _mended(after, report, request, before, since) if not report.findings or after != plain else (after, before)
    )
    if since != BETA1:
        report.findings += _left(found, report, since)
    if mended != plain:
        old = _checked(plain, report, request) if release != "beta1" else []
        known = {(item.code, item.message) for item in old}
        report.errors = [item for item in found if item.severity == "error" and (item.code, item.message) not in known]
    report.after = _with_ends(mended, text).encode(encoding) if mended != plain else report.before
    if verify:
        _verify(report, plain, mended, request)


def _with_ends(after: str, before: str) -> str:
    """Return a text of newline characters with the line ends that its lines had; new lines have those beside them."""
    old = before.split("\n")
    returns = [line.endswith("\r") for line in old[:-1]]
    if not any(returns):
        return after
    if all(returns):
        return after.replace("\n", "\r\n")
    plain, lines = [*(line.removesuffix("\r") for line in old[:-1]), old[-1]], after.split("\n")
    for _, first, last, place, end in SequenceMatcher(None, plain, lines, autojunk=False).get_opcodes():
        for number in range(place, min(end, len(lines) - 1)):
            beside = max(0, min(first + number - place, last - 1, len(returns) - 1))
            lines[number] += "\r" * returns[beside]
    return "\n".join(lines)


def _given(text: str, file: str, values: Mapping[str, object]) -> dict[str, tuple[Signature, ...]]:
    """Return the arguments of the command line for each kernel whose parameters without defaults they name."""
    if not values:
        return {}
    try:
        facts = syntax_facts(text, file, None, as_typed=True, once=True)
    except NkiError:
        return {}
    found: dict[str, tuple[Signature, ...]] = {}
    for node in facts.kernels:
        arguments = node.args
        names = [item.arg for item in (*arguments.posonlyargs, *arguments.args)]
        needed = {*names[: len(names) - len(arguments.defaults)]}
        needed |= {
            item.arg for item, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if not value
        }
        names += [item.arg for item in arguments.kwonlyargs]
        if needed <= values.keys():
            found[node.name] = (Signature(kwargs={name: values[name] for name in names if name in values}),)
    return found


def _undecoded(file: str, error: Exception) -> Diagnostic:
    return diagnose(
        "NKI018",
        f"{file}: it is no text that Python reads: {error}",
        span=Span(file, 1, 1, 1, 2),
        help="save it as UTF-8, or declare its encoding in the first line; the file is unchanged",
    )


def _checked(text: str, report: Report, request: EvaluationRequest) -> list[Diagnostic]:
    """Return the findings in a text, within the steps of a migration; a text that is no Python has one."""
    try:
        facts = syntax_facts(text, report.file, None, as_typed=True, once=True)
    except NkiError as error:
        return list(error.diagnostics)
    asked = replace(request, judged=False, light=True, steps=STEPS)
    with gc_relaxed():
        return list(examine(facts, check_syntax(facts), asked, EvaluationCache()).findings)


def _left(found: Sequence[Diagnostic], report: Report, since: str) -> list[Diagnostic]:
    """Return the errors that a later release brought and that no rewrite mends."""
    rows = [
        (item, BY_CODE[item.code])
        for item in found
        if item.severity == "error" and item.code in BY_CODE and item.file == report.file and item.span is not None
    ]
    return [
        diagnose(
            "NKI610",
            f"not migrated (row {row.number}): {row.before.replace('`', '')}: {item.message}",
            span=item.span,
            limit=f"NKI {row.release} and later refuse it; see {row.link}",
            help=item.help or row.remedy,
        )
        for item, row in rows
        if row.release > since and item.message.startswith(row.call)
    ]


def _is_left(item: Diagnostic) -> bool:
    """Return whether a finding is about what the rows of Beta 1 left: no fix knows more than they do."""
    return item.code in _LEFT or (item.code == "NKI602" and item.operand in ("mask", "dtype"))


def _mended(
    text: str, report: Report, request: EvaluationRequest, found: list[Diagnostic], since: str
) -> tuple[str, list[Diagnostic]]:
    """Write what later releases spell otherwise, as `nki-lab check --fix` does, where that brings no error along."""
    for _ in range(_ROUNDS):
        wanted = [
            item
            for item in found
            if item.code in FIXABLE
            and item.file == report.file
            and not _is_left(item)
            and BY_CODE.get(item.code, OTHERS).release > since
        ]
        if not wanted:
            break
        try:
            after = fixed(text.encode(), wanted)
        except NkiError:  # without libcst the findings stay
            break
        if after is None:
            break
        later = _checked(after.source.decode(), report, request)
        if new_error(found, later) is not None:
            break
        rows = Counter(BY_CODE.get(item.code, OTHERS).number for item in wanted)
        rows.subtract(BY_CODE.get(item.code, OTHERS).number for item in later if item.code in FIXABLE)
        report.applied += rows
        text, found = after.source.decode(), later
    return text, found


def _verify(report: Report, before: str, after: str, request: EvaluationRequest) -> None:
    from nki_lab.cli.verifying import verified

    facts = syntax_facts(before, report.file, None, as_typed=True, once=True)
    known = signatures(facts, replace(request))
    report.verdicts = verified(Path(report.file), before, after, known, list(report.kernels), request.arch)
