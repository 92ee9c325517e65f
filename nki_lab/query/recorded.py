"""Calls of earlier runs: which of them tell the checker something, and why the others do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from nki_lab.call_records import store
from nki_lab.call_records.projects import project_of
from nki_lab.call_records.signatures import StaleCallError, signature_of
from nki_lab.call_records.store import CallRecord
from nki_lab.diagnostic import Diagnostic, NkiError, Related, Span, diagnose
from nki_lab.file_system import relative
from nki_lab.isa.arch import Arch, arch_of
from nki_lab.kernel_runtime.interpreter import Signature
from nki_lab.query.evaluation_cache import KernelEvaluation, Operation, Verdict
from nki_lab.source.trees import FunctionNode

MOST_EVALUATED: Final = 8
"""Recorded calls of one function that are evaluated in one check."""
IDLE: Final = 3
"""So many evaluations that reach nothing new end the search."""
RECORDED: Final = "with the arguments of a recorded call"
"""The beginning of the related place of findings under a recorded call."""

_CONTRACTS: Final = frozenset({"NKI002", "NKI003", "NKI007"})
"""Findings that say that the function does not take such arguments: its own assertions among them."""

Calls = Mapping[str, tuple[CallRecord, ...]]


def recorded_calls(path: str) -> Calls:
    """Return the recorded calls of the functions of a file, by name; none for a text that is no file."""
    folder = project_of(path).folder if path else ""
    if not folder:
        return {}
    inside = Path(relative(path, folder)).as_posix()
    return {name: calls for (file, name), calls in store.read(folder).table.items() if file == inside}


def first_recorded(calls: Iterable[CallRecord], function: FunctionNode, arch: Arch) -> Signature | None:
    """Return the signature of the first recorded launch that a function still takes, before others one for `arch`;
    None without one.
    """
    for call in sorted(calls, key=lambda item: item.target != arch.target):
        if not call.inner:
            with suppress(StaleCallError):
                return signature_of(call, function)
    return None


def remarks(folder: str | Path) -> list[Diagnostic]:
    """Return the findings about a project's file of records."""
    contents, place = store.read(folder), str(store.place_of(folder))
    return [
        diagnose(
            "NKI026",
            f"{problem}: {'no recorded call is' if contents.refused else 'the other calls are'} used",
            span=Span(place, 1, 1, 1, 2),
            help="nki-lab signatures --clear removes what is recorded; the next run records again",
        )
        for problem in contents.problems
    ]


class Telling(NamedTuple):
    """A recorded call under which a function reaches operations that it reaches under no other known arguments."""

    signature: Signature
    call: CallRecord
    evaluation: KernelEvaluation


@dataclass(slots=True)
class RecordSearch:
    """The search for the telling ones among the recorded calls of one function.

    `evaluate` takes a signature and its call. `known` are the operations that are evaluated already; `verdicts` says of
    each call what became of it.
    """

    function: FunctionNode
    evaluate: Callable[[Signature, CallRecord], KernelEvaluation | None]
    known: set[Operation]
    verdicts: list[Verdict]

    def among(self, calls: Iterable[CallRecord]) -> Iterator[Telling]:
        """Yield the telling calls, in order."""
        evaluated = idle = 0
        for call in calls:
            try:
                signature = signature_of(call, self.function)
            except StaleCallError as error:
                self._judge(call, str(error), stale=True)
                continue
            if evaluated == MOST_EVALUATED or idle == IDLE:
                self._judge(call, f"{evaluated} other calls were evaluated before it")
                continue
            evaluation = self.evaluate(signature, call)
            evaluated += 1
            if evaluation is None:
                self._judge(call, "there was no time for it")
                continue
            refusal = next((item for item in evaluation.findings if item.code in _CONTRACTS), None)
            new = evaluation.operations - evaluation.unknown - self.known
            idle = 0 if new else idle + 1
            if refusal is not None:
                self._judge(call, f"the function refuses its arguments: {refusal.message}", stale=True)
            elif not new:
                self._judge(call, "it reaches no call of NKI that others do not")
            else:
                self.known |= new
                plural = "s" * (len(new) != 1)
                self._judge(call, f"it reaches {len(new)} call{plural} of NKI that others do not", used=True)
                yield Telling(signature, call, evaluation)

    def _judge(self, call: CallRecord, reason: str, *, used: bool = False, stale: bool = False) -> None:
        name = self.function.name
        self.verdicts.append(Verdict(function=name, call=call, used=used, stale=stale, reason=reason))


def target_of(call: CallRecord, arch: Arch) -> Arch:
    """Return the target that a call was made for, whose limits its shapes are made for; else `arch`."""
    try:
        return arch_of(call.target)
    except NkiError:
        return arch


def with_call(function: str, telling: Telling, found: Iterable[Diagnostic], arch: Arch) -> Iterator[Diagnostic]:
    """Yield the findings under a recorded call that count in a check for `arch`, with that call.

    In a helper these are the ones that hold in its callers; advice for another target is none for this one.
    """
    call = telling.call
    other = target_of(call, arch).target != arch.target
    origins = f", from {', '.join(call.origins)}" if call.origins else ""
    target = f" on {call.target}" if other else ""
    text = f"{RECORDED}{target}: {function}{telling.signature}{origins}"
    for item in found:
        if (not call.inner or _holds_in_callers(item)) and not (other and item.outcome == "advice"):
            yield replace(item, related=(*item.related, Related(text)))


def is_recorded(item: Diagnostic) -> bool:
    """Return whether a finding comes from a recorded call."""
    return any(other.message.startswith(RECORDED) for other in item.related)


def _holds_in_callers(item: Diagnostic) -> bool:
    """Return whether a finding in a helper that is evaluated by itself holds in its callers.

    That is so for what single instructions demand of operands: what tensors hold, and where, is the callers' affair.
    """
    return item.span is not None and item.code[3] == "2" and item.outcome != "advice"
