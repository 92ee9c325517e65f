"""The findings in a kernel under several signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nki_lab.diagnostic import Diagnostic
from nki_lab.kernel_runtime.interpreter import Signature
from nki_lab.query import messages
from nki_lab.query.evaluation_cache import KernelEvaluation
from nki_lab.query.shape_dependence import depends_on_shapes
from nki_lab.source import KernelFunction, SyntaxFacts

Asked = list[tuple[Signature, KernelEvaluation]]
"""Signatures of a kernel, with its evaluations."""


def under_signatures(facts: SyntaxFacts, kernel: KernelFunction, asked: Asked) -> list[Diagnostic]:
    """Return the findings under the signatures of a kernel."""
    found = []
    alone = len({str(signature) for signature, _ in asked}) == 1
    for signature, evaluation in asked:
        others = [other for _, other in asked if other is not evaluation]
        kept = [
            item for item in evaluation.findings if item.code not in _OF_ALL or not _serves(item, evaluation, others)
        ]
        if alone and signature.span is not None:  # one call of perhaps many
            kept = [item for item in kept if item.code not in _OF_ALL or not depends_on_shapes(facts, item)]
        found += [messages.named(facts, kernel, signature, item) for item in kept]
    return found


def sure_under(
    facts: SyntaxFacts, kernel: KernelFunction, signature: Signature, evaluation: KernelEvaluation
) -> list[Diagnostic]:
    """Return the findings under one signature that stay, whatever others find."""
    return [messages.named(facts, kernel, signature, item) for item in evaluation.findings if item.code not in _OF_ALL]


_OF_ALL: Final = frozenset({"NKI414"})
"""Findings about operations that serve no purpose: an operation that serves one under another signature is fine."""


def _serves(item: Diagnostic, evaluation: KernelEvaluation, others: Sequence[KernelEvaluation]) -> bool:
    """Return whether the operation of a finding is evaluated under another signature without that finding."""
    if item.span is None:
        return False
    file, place = item.span.file, (item.span.line, item.span.column)
    before = [operation for operation in evaluation.operations if operation[0] == file and operation[1:] <= place]
    return bool(before) and any(
        max(before) in other.operations
        and not any(found.code == item.code and found.span == item.span for found in other.findings)
        for other in others
    )
