"""The loss of precision of a run: the instruction to blame, and the path of its error to the results, for users."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa.dtype import F32, DType
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.numerics.deviation import largest, relative_errors
from nki_lab.kernel_runtime.numerics.precision import Culprit, Errors, rows_of
from nki_lab.printable import escape
from nki_lab.result.tensors import Instruction, Tensors
from nki_lab.testing import GROWTH

_SHOWN: Final = 12  # links of a path in a text
_RESTARTS: Final = 4  # instructions without exact values that a text names
_DOTS: Final = 240  # columns of the chart
_LEAST: Final = 4
"""Roundings that an instruction may introduce at least: products of two rounded operands are that far off in places."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An instruction on the path of an error: what it wrote, its relative error, and what of it is introduced there.

    `growth` is the error by that of the link before, 1 for the first.
    """

    instruction: Instruction
    tensor: str
    error: float
    introduced: float
    growth: float

    def __str__(self) -> str:
        grown = f", x {self.growth:.2g}" if self.growth != 1 else ""
        return f"{self.instruction} -> {self.tensor}: {_number(self.error)}{grown}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blamed:
    """The instruction that introduces too large an error.

    `tensor` is what it writes, of `dtype`; at `index` the error is largest: `value` is the run's, `exact` without any
    rounding, `rounded` what the instruction makes of exact inputs that are rounded to its operands' dtypes.
    `introduced` and `inherited` are the largest relative errors.
    """

    instruction: Instruction
    tensor: str
    dtype: str
    index: tuple[int, ...]
    value: float
    exact: float
    rounded: float
    introduced: float
    inherited: float
    reason: str

    def __str__(self) -> str:
        return (
            f'{self.instruction}: {self.reason}; at {_place(self.index)} of "{self.tensor}" it is {self.value:.8g} '
            f"instead of {self.exact:.8g}. Introduced {_number(self.introduced)}, inherited {_number(self.inherited)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputError:
    """The largest relative error of a result: of the run by exact arithmetic, and by a reference where one was given.

    `exact_to_reference` is how far exact arithmetic is from the reference. None where a result has no floats.
    """

    number: int
    error: float | None
    index: tuple[int, ...] = ()
    to_reference: float | None = None
    reference_index: tuple[int, ...] = ()
    exact_to_reference: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Blame:
    """The loss of precision of a run. It is true where an instruction is blamed.

    `blamed` is the first instruction, in program order, that introduces a relative error of more than `tolerance`, None
    without one; `path` leads from it to the result with the largest error. `introduced` and `total` are the largest
    relative errors that the instruction of each step introduces and that its results have; NaN where the search did not
    come, which `complete` tells. `prevailing` is the dtype whose rounding the tolerance allows. `restarts` names
    instructions whose results have no exact values: later errors are counted from there.
    """

    kernel: str
    target: str
    tolerance: float
    prevailing: str
    blamed: Blamed | None
    path: tuple[Link, ...]
    outputs: tuple[OutputError, ...]
    introduced: NDArray[np.float64] = field(repr=False)
    total: NDArray[np.float64] = field(repr=False)
    restarts: tuple[str, ...] = ()
    complete: bool = True

    def __bool__(self) -> bool:
        return self.blamed is not None

    @property
    def step(self) -> int | None:
        """The step of the blamed instruction; None without one."""
        return None if self.blamed is None else self.blamed.instruction.step

    @property
    def instruction(self) -> Instruction | None:
        """The blamed instruction; None without one."""
        return None if self.blamed is None else self.blamed.instruction

    @property
    def algorithm_differs(self) -> bool:
        """Whether exact arithmetic is beyond the tolerance of the reference, and at least half as far off as the run.

        Then rounding is not the cause. A reference may be rounded itself.
        """
        return any(
            (item.exact_to_reference or 0.0) > max(self.tolerance, (item.to_reference or 0.0) / 2)
            for item in self.outputs
        )

    @property
    def headline(self) -> str:
        """The result in a sentence."""
        if self.algorithm_differs:
            most = max(item.exact_to_reference or 0.0 for item in self.outputs)
            return f"exact arithmetic differs from the reference as well, by {_number(most)}: rounding is not the cause"
        if self.blamed is not None:
            return str(self.blamed)
        worst = "" if np.isnan(self.introduced).all() else f"; the most is {_number(float(np.nanmax(self.introduced)))}"
        what = "instruction" if self.complete else "instruction that was looked at"
        return f"no {what} introduces an error of more than {_number(self.tolerance)}{worst}"

    def __str__(self) -> str:
        lines = [f"{self.kernel} on {self.target}: {self.headline}"]
        if self.algorithm_differs and self.blamed is not None:
            lines.append(f"  rounding: {self.blamed}")
        lines += [f"  {label}: {text}" for label, text in self._rows()]
        if len(self.path) > 1:
            lines.append("  path of the error:")
            lines += [f"    {text}" for text in self._links()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        left = 'style="text-align:left"'
        rows = "".join(
            f"<tr><th {left}>{escape(label)}</th><td {left}>{escape(text)}</td></tr>" for label, text in self._rows()
        )
        links = "".join(f"<li>{escape(text)}</li>" for text in self._links())
        path = f"<p>Path of the error</p><ol>{links}</ol>" if len(self.path) > 1 else ""
        title = escape(f"{self.kernel} on {self.target}")
        table = f"<table><caption>{title}</caption>{rows}</table>"
        return f"<p>{escape(self.headline)}</p>{table}{_chart(self)}{path}"

    def _rows(self) -> Iterator[tuple[str, str]]:
        if self.prevailing:
            why = f"that of {self.prevailing}, the coarsest dtype among arguments and results"
            yield "tolerance", f"{_number(self.tolerance)} of an element and the scale of its row, {why}"
        else:
            yield "tolerance", f"{_number(self.tolerance)} of an element and the scale of its row"
        for item in self.outputs:
            name = "result" if len(self.outputs) == 1 else f"result {item.number}"
            if item.error is not None:
                yield name, f"largest error {_number(item.error)} at {_place(item.index)}"
            if item.to_reference is not None:
                exact = (
                    "" if item.exact_to_reference is None else f"; exact arithmetic {_number(item.exact_to_reference)}"
                )
                where = f" at {_place(item.reference_index)}" if item.reference_index else ""
                yield f"{name} and reference", f"{_number(item.to_reference)}{where}{exact}"
        if self.restarts:
            more = f"; and {len(self.restarts) - _RESTARTS} more" if len(self.restarts) > _RESTARTS else ""
            yield "exact values begin again", "; ".join(self.restarts[:_RESTARTS]) + more
        if not self.complete:
            done = int(np.count_nonzero(~np.isnan(self.introduced)))
            yield "not complete", f"{done:,} of {len(self.introduced):,} instructions were looked at"

    def _links(self) -> list[str]:
        """Return the path as lines: links of one place in a row are one, and a long path is cut in the middle."""
        texts = []
        for _, links in groupby(self.path, key=lambda link: (link.instruction.name, link.instruction.line)):
            several = list(links)
            count = f" ({len(several)} times)" if len(several) > 1 else ""
            texts.append(f"{several[-1]}{count}")
        if len(texts) > _SHOWN:
            half = _SHOWN // 2
            texts[half:-half] = [f"... {len(texts) - 2 * half} more"]
        return texts


def prevailing_dtype(program: Program) -> DType:
    """Return the coarsest floating-point dtype among the arguments and results of a program: float32 without any.

    Data that comes or goes in a dtype has its rounding errors anyway.
    """
    kinds = {buffer.dtype for buffer in program.inputs} | {tensor._dtype for tensor in program.outputs}
    floats = [kind for kind in kinds if kind.mantissa_bits]
    return min(floats, key=lambda kind: kind.mantissa_bits, default=F32)


def default_tolerance(dtype: DType) -> float:
    """Return what an instruction may introduce where `dtype` prevails: the tolerance of `nki_lab.testing`, and at least
    four roundings.
    """
    return float(max(GROWTH.get(dtype, 0), _LEAST) * unit_roundoff(dtype))


def unit_roundoff(dtype: DType) -> float:
    """Return the largest relative error of rounding to a dtype."""
    return float(2.0 ** -(dtype.mantissa_bits + 1))


def described(
    errors: Errors,
    tensors: Tensors,
    *,
    kernel: str,
    target: str,
    tolerance: float,
    prevailing: str,
    outputs: Iterable[OutputError],
) -> Blame:
    """Return the errors of a run with the names of the views, by step."""
    order = np.argsort(tensors.step_of)
    return Blame(
        kernel=kernel,
        target=target,
        tolerance=tolerance,
        prevailing=prevailing,
        blamed=None if errors.culprit is None else _blamed(errors.culprit, tensors),
        path=tuple(_links(errors, tensors)),
        outputs=tuple(outputs),
        introduced=errors.introduced[order],
        total=errors.total[order],
        restarts=tuple(f"{tensors.instruction(op)}, as {reason}" for op, reason in sorted(errors.restarts.items())),
        complete=errors.complete,
    )


def output_errors(errors: Errors, actual: Sequence[Any], references: Sequence[Any] | None) -> Iterator[OutputError]:
    """Yield the errors of the results, `actual`; also by `references`, one array for each."""
    for number, found in enumerate(errors.outputs):
        error, index = (None, ()) if found is None else found
        if references is None or found is None:
            yield OutputError(number=number, error=error, index=index)
            continue
        have, want = (np.asarray(item).astype(np.float64) for item in (actual[number], references[number]))
        rows = rows_of(want.shape)
        off, place = largest(relative_errors(have, want, rows))
        exact = relative_errors(errors.exact_outputs[number].reshape(want.shape), want, rows)
        yield OutputError(
            number=number,
            error=error,
            index=index,
            to_reference=off,
            reference_index=place,
            exact_to_reference=largest(exact)[0],
        )


def _blamed(culprit: Culprit, tensors: Tensors) -> Blamed:
    dtype = culprit.view.type.dtype
    if culprit.introduced <= 2 * unit_roundoff(dtype):
        reason = f"its result is rounded to {dtype.name}"
    elif not math.isfinite(culprit.rounded) and math.isfinite(culprit.exact):
        reason = f"its result has no finite value in {dtype.name}"
    else:
        reason = "it makes the rounding errors of its inputs larger, as a difference of nearly equal numbers does"
    return Blamed(
        instruction=tensors.instruction(culprit.op),
        tensor=tensors.labels[culprit.view.buffer.id],
        dtype=dtype.name,
        index=culprit.index,
        value=culprit.run,
        exact=culprit.exact,
        rounded=culprit.rounded,
        introduced=culprit.introduced,
        inherited=culprit.inherited,
        reason=reason,
    )


def _links(errors: Errors, tensors: Tensors) -> Iterator[Link]:
    former = math.nan
    for op in errors.path:
        error = float(errors.total[op])
        written = tensors.program.op(op).writes
        yield Link(
            instruction=tensors.instruction(op),
            tensor=tensors.labels[next(view for view in written if view.type.dtype.is_float).buffer.id],
            error=error,
            introduced=float(errors.introduced[op]),
            growth=error / former if former > 0 else 1.0,
        )
        former = error


def _number(value: float) -> str:
    return "0" if value == 0 else f"{value:.2g}"


def _place(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]"


def _chart(blame: Blame) -> str:
    """Return the errors over the steps as SVG, on a logarithmic scale: total as bars, the tolerance as a line."""
    total = blame.total[~np.isnan(blame.total)]
    if not len(total):
        return ""
    parts = [part.max() for part in np.array_split(total, min(_DOTS, len(total)))]
    finite = [math.log10(value) for value in (*parts, blame.tolerance) if 0 < value < math.inf]
    low, high = min(finite, default=-8.0) - 0.5, max(finite, default=0.0) + 0.5

    def height(value: float) -> float:
        if not value > 0:
            return 0.0
        return 60 * (min(math.log10(value), high) - low) / (high - low) if math.isfinite(value) else 60.0

    wide = 480 / len(parts)
    bars = "".join(
        f'<rect x="{place * wide:.1f}" y="{60 - height(value):.1f}" width="{max(wide - 0.5, 0.5):.1f}" '
        f'height="{height(value):.1f}" opacity="{1 if value > blame.tolerance else 0.45}"/>'
        for place, value in enumerate(parts)
    )
    line = 60 - height(blame.tolerance)
    label = escape(f"Largest relative error of each step; the line is the tolerance, {_number(blame.tolerance)}")
    return (
        f'<svg role="img" aria-label="{label}" viewBox="0 0 480 60" width="480" height="60" fill="currentColor">'
        f'<title>{label}</title>{bars}<line x1="0" x2="480" y1="{line:.1f}" y2="{line:.1f}" stroke="currentColor" '
        f'stroke-dasharray="4 3"/></svg>'
    )
