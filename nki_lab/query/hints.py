"""Hints that stand in the code: shapes beside the names that are bound, iterations of loops, costs of lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nki_lab.kernel_runtime.interpreter import Variable
from nki_lab.quantities import nanoseconds, share, size
from nki_lab.query.estimate import Estimate
from nki_lab.query.evaluation_cache import Examination
from nki_lab.source import SyntaxFacts


@dataclass(frozen=True, slots=True)
class Hint:
    """A text that stands before the 0-based character of a 1-based line; `is_type` of one that reads as an annotation.

    `tip` is shown on demand.
    """

    line: int
    character: int
    text: str
    tip: str = ""
    is_type: bool = False


def variable_hints(
    lines: Sequence[str], known: Examination, *, shapes: bool, sizes: bool, trips: bool
) -> Iterator[Hint]:
    """Yield what is known of tensors and loops where their names are bound.

    `shapes` asks for shape, dtype and memory, `sizes` for the bytes of a partition, `trips` for iterations of loops.
    """
    for (line, column), variable in sorted(known.variables.items(), key=lambda item: item[0]):
        text = lines[line - 1] if 0 < line <= len(lines) else ""
        end = len(text.encode("utf-8", "surrogatepass")[:column].decode(errors="ignore")) + len(variable.name)
        if text[end:].lstrip().startswith(":"):
            continue  # annotated
        label = _tensor_label(variable, shapes=shapes, sizes=sizes) if variable.kind == "tensor" else ""
        if label:
            tip = f"{variable.partition_bytes} bytes per partition" if variable.partition_bytes else ""
            tip = tip or ("" if variable.shape else variable.text)
            yield Hint(line, end, label, "; ".join(filter(None, (tip, variable.others_text))), is_type=True)
        elif trips and variable.trips:
            yield Hint(line, end, f" {variable.trips:,}×", variable.text)


def _tensor_label(variable: Variable, *, shapes: bool, sizes: bool) -> str:
    """Return shape, dtype and memory, and bytes, as far as they are wanted and known; empty without a shape."""
    shape = _shape_text(variable)
    if not shape:
        return ""
    width = f"{size(variable.partition_bytes)}/partition" if sizes and variable.partition_bytes else ""
    if not shapes:
        return f": {width}" if width else ""
    dtype = variable.dtype.name if variable.dtype is not None else "?"
    return f": {' '.join(filter(None, (shape, dtype, variable.memory, width)))}"


def _shape_text(variable: Variable) -> str:
    """Return the shape of a tensor: of one that has several the least and the largest size of each dimension."""
    kinds = [(len(item.shape), item.dtype, item.memory) for item in (variable, *variable.others)]
    if len(set(kinds)) > 1:  # no range tells them
        return f"{'×'.join(map(str, variable.shape))} or others,"
    if not variable.others:
        return "×".join(map(str, variable.shape or variable.sizes))
    columns = zip(variable.shape, *(item.shape for item in variable.others), strict=True)
    ranges = ((min(sizes), max(sizes)) for sizes in columns)
    return "×".join(str(low) if low == high else f"{low}–{high}" for low, high in ranges)


def cost_hints(facts: SyntaxFacts, estimates: Iterable[Estimate]) -> Iterator[Hint]:
    """Yield the predicted time of each line at its end; of a call over several lines, behind its first line."""
    times: dict[int, float] = {}
    shares: dict[int, float] = {}
    for estimate in estimates:
        whole = sum(estimate.lines.values())
        for line, time in estimate.lines.items():
            times[line] = times.get(line, 0.0) + time
            shares[line] = shares.get(line, 0.0) + time / whole
    for line in sorted(times):
        if 0 < line <= len(facts.lines):
            tip = f"{share(shares[line])} of the work of all lanes, in the estimate of the kernel's latency"
            yield Hint(line, len(facts.lines[line - 1]), f"  {nanoseconds(times[line])}", tip)


def kernels_in(facts: SyntaxFacts, first: int, last: int) -> list[str]:
    """Return the kernels that the lines `first` to `last` take part in, and those that reach helpers there."""
    near = [item for item in facts.functions if item.node.lineno <= last and first <= (item.node.end_lineno or last)]
    return list(dict.fromkeys(item.kernel.name for item in near))
