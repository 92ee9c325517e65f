"""Findings at the ops of a program, and the words that they share."""

from __future__ import annotations

from collections.abc import Iterable

from nki_lab.diagnostic import Diagnostic, Related, Span, diagnose
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.issue.source_location import placed, span_of
from nki_lab.kernel_runtime.tensor import Buffer


def finding_at(
    program: Program,
    op: int,
    code: str,
    message: str,
    *,
    operand: str = "",
    note: str = "",
    limit: str = "",
    remedy: str = "",
    related: Iterable[Related] = (),
) -> Diagnostic:
    """Return a diagnostic at an op, whose message begins with the name of its instruction."""
    item = diagnose(
        code,
        f"{instruction_name(program, op)}: {message}",
        operand=operand,
        note=note,
        limit=limit,
        help=remedy,
        related=related,
    )
    return placed(item, program.site_of(op))


def instruction_name(program: Program, op: int) -> str:
    """Return the name of an op's instruction."""
    return program.variant_of(op).instruction.name


def span_at(program: Program, site: int) -> Span | None:
    """Return the span of a numbered site; None for -1, and where the source is unknown."""
    found = program.sites[site] if site >= 0 else None
    return span_of(found) if found is not None and found.file else None


def origin(program: Program, buffer: Buffer, text: str) -> list[Related]:
    """Return `text` at the place in the source where a tensor is made, nothing where that is unknown."""
    span = span_at(program, buffer.site)
    return [Related(text, span)] if span is not None else []


def title(buffer: Buffer) -> str:
    """Return a tensor's name in messages: the user's, else its shape and dtype."""
    return f"{buffer.name!r}" if buffer.name else f"a {buffer.shape} {buffer.dtype.name} tensor"
