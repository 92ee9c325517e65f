"""Lines above kernels: what an editor offers to do, and what is known of time, memory and findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from nki_lab.diagnostic import Diagnostic, Span
from nki_lab.quantities import bounds, nanoseconds, ratio, share, size, whole
from nki_lab.query.estimate import Estimate
from nki_lab.source import SyntaxFacts
from nki_lab.source.trees import first_line

RUN: Final = "▶ run in a notebook cell"
PENDING: Final = "estimating…"
_SOURCE: Final = ("error", "warning")


def kernels(facts: SyntaxFacts) -> dict[str, Span]:
    """Return the kernels that a module has at its end, by name, with the places of their names."""
    nodes = [item.node for item in facts.functions if item.is_entry]
    return {node.name: facts.name_span(node) for node in nodes if facts.parsed.function(node.name) is node}


def extents(facts: SyntaxFacts) -> dict[str, tuple[int, int]]:
    """Return the first and last lines of the kernels of a module, decorators included."""
    found = {}
    for name in kernels(facts):
        node = facts.parsed.function(name)
        if node is not None:
            found[name] = (first_line(node), node.end_lineno or node.lineno)
    return found


def time_title(estimate: Estimate) -> str:
    """Return the latency with its interval, or the reason why there is none."""
    if estimate.reason:
        return f"no latency estimate: {estimate.reason}"
    interval = None if estimate.interval is None else (1000 * estimate.interval[0], 1000 * estimate.interval[1])
    return f"≈ {nanoseconds(estimate.time)}{bounds(interval, whole(1000 * estimate.time))} on {estimate.target}"


def memory_title(estimate: Estimate) -> str:
    """Return the peaks of SBUF and PSUM, per partition."""
    if estimate.reason:
        return "no peaks of SBUF and PSUM"  # an editor draws an empty title as a gap
    parts = []
    for label, (used, limit) in (("SBUF", estimate.sbuf), ("PSUM", estimate.psum)):
        parts.append(f"{label} {size(used)} of {size(limit)} ({share(ratio(used, limit))})")
    return " · ".join(parts) + " per partition"


def findings_title(counts: Mapping[str, int]) -> str:
    """Return how many errors and warnings there are, by target."""
    (first, count), *others = counts.items()
    text = f"{count} finding{'s' * (count != 1)} on {first}"
    return ", ".join([text, *(f"{number} on {target}" for target, number in others)])


def count(found: Iterable[Diagnostic], file: str, lines: tuple[int, int]) -> int:
    """Return how many errors and warnings stand in some lines of a file."""
    first, last = lines
    return sum(
        item.severity in _SOURCE and item.span is not None and item.span.file == file and first <= item.line <= last
        for item in found
    )
