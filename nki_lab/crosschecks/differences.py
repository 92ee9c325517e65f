"""The differences between two runs of a kernel: results by tensor, the first instruction, and refusals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import NkiError
from nki_lab.isa.dtype import DType, dtype_of
from nki_lab.printable import escape
from nki_lab.result import Run
from nki_lab.session.arrays import Array
from nki_lab.testing import compare

_HEADS: Final = ("result", "shape", "dtype", "differ", "max abs", "max rel", "max ulp", "first at", "ours", "theirs")


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorDifference:
    """A result of both sides: shapes, dtypes, and where the values differ.

    `differing` of `size` elements are not the same value; NaN is the same as NaN. The first of them is at `place`, with
    the values `ours` and `theirs`. `largest_error`, `largest_relative_error` and `largest_ulps` are over all elements,
    the last in units in the last place of theirs; infinite where one side is not finite. `close` says whether the
    tolerances of `nki_lab.testing` explain the difference. Where shapes differ, nothing is compared.
    """

    name: str
    shape: tuple[int, ...]
    other_shape: tuple[int, ...]
    dtype: str
    other_dtype: str
    differing: int = 0
    size: int = 0
    largest_error: float = 0.0
    largest_relative_error: float = 0.0
    largest_ulps: float = 0.0
    place: tuple[int, ...] = ()
    ours: float = 0.0
    theirs: float = 0.0
    close: bool = True

    @property
    def equal(self) -> bool:
        """Whether shape, dtype and all values are the same."""
        return (self.shape, self.dtype) == (self.other_shape, self.other_dtype) and not self.differing

    def row(self) -> tuple[str, ...]:
        """Return the cells of the table."""
        shape = str(self.shape) if self.shape == self.other_shape else f"{self.shape} / {self.other_shape}"
        dtype = self.dtype if self.dtype == self.other_dtype else f"{self.dtype} / {self.other_dtype}"
        if not self.differing:
            return (self.name, shape, dtype, "-" if self.shape != self.other_shape else "0", *[""] * 6)
        errors = (self.largest_error, self.largest_relative_error, self.largest_ulps)
        return (
            self.name,
            shape,
            dtype,
            f"{self.differing} of {self.size}",
            *(f"{value:.3g}" for value in errors),
            f"[{', '.join(map(str, self.place))}]",
            *(f"{value:.9g}" for value in (self.ours, self.theirs)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionDifference:
    """The first instruction, in program order, whose result differs; `tensor` compares what it writes."""

    name: str
    file: str
    line: int
    tensor: TensorDifference

    def __str__(self) -> str:
        found = self.tensor
        if found.shape != found.other_shape:
            return f"{self.name}, line {self.line}: it writes {found.shape}, the other side {found.other_shape}"
        return (
            f"{self.name}, line {self.line}: {found.differing} of {found.size} elements of its result differ, the "
            f"first at {list(found.place)}: {found.ours:.9g} here, {found.theirs:.9g} there"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Crosscheck:
    """The comparison of a run of nki_lab with one of the installed NKI.

    `tensors` compares the results. `error` is our refusal, `other_error` the other side's (its exception, a crash, or
    the end of its time), empty without one; `other_traceback` is its whole text. `first` is the first instruction whose
    result differs by more than rounding explains, else the first that differs at all; None where all are the same, or
    where the other side does not `expose` the values in between: then `cause` has what our own run suspects.
    """

    kernel: str
    target: str
    where: str
    version: str
    run: Run = field(repr=False)
    tensors: tuple[TensorDifference, ...] = ()
    error: NkiError | None = None
    other_error: str = ""
    other_traceback: str = field(default="", repr=False)
    counts: tuple[int, int] = (0, 0)
    first: InstructionDifference | None = None
    exposes: bool = False
    cause: str = ""

    @property
    def equal(self) -> bool:
        """Whether both sides accept the kernel and give the same shapes, dtypes and values, or both refuse it."""
        if self.error is not None or self.other_error:
            return self.error is not None and bool(self.other_error)
        return self.counts[0] == self.counts[1] and all(item.equal for item in self.tensors)

    @property
    def close(self) -> bool:
        """Whether the sides are equal but for differences that the dtypes' rounding explains."""
        if self.error is not None or self.other_error:
            return self.equal
        return self.counts[0] == self.counts[1] and all(item.close for item in self.tensors)

    @property
    def headline(self) -> str:
        """The result in a sentence."""
        if self.error is not None and self.other_error:
            return "both refuse the kernel"
        if self.error is not None:
            return "nki_lab refuses the kernel, the installed NKI accepts it"
        if self.other_error:
            return "nki_lab accepts the kernel, the installed NKI does not"
        if self.counts[0] != self.counts[1]:
            return f"nki_lab gives {self.counts[0]} results, the installed NKI {self.counts[1]}"
        if self.equal:
            return "the results are the same"
        return "the results differ by no more than rounding" if self.close else "the results differ"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def _lines(self) -> Iterator[str]:
        yield f"{self.kernel} on {self.target}, nki_lab and {self.where}: {self.headline}"
        if self.error is not None:
            yield f"  nki_lab: {self.error!s}"
        if self.other_error:
            yield f"  installed NKI: {self.other_error}"
        if self.tensors:
            yield from (f"  {line}" for line in _aligned([_HEADS, *(item.row() for item in self.tensors)]))
        if self.first is not None:
            yield f"  first difference: {self.first}"
        elif self.cause:
            yield f"  cause: {self.cause}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    used = [column for column in range(len(rows[0])) if any(row[column] for row in rows[1:])]
    widths = {column: max(len(row[column]) for row in rows) for column in used}
    return ["  ".join(row[column].ljust(widths[column]) for column in used).rstrip() for row in rows]


def difference(name: str, ours: Array, theirs: Array) -> TensorDifference:
    """Return the difference of two arrays."""
    facts = {
        "name": name,
        "shape": ours.shape,
        "other_shape": theirs.shape,
        "dtype": ours.dtype.name,
        "other_dtype": theirs.dtype.name,
    }
    if ours.shape != theirs.shape:
        return TensorDifference(**facts, close=False)
    kind = _kind(ours)
    wide, other = _wide(ours), _wide(theirs)
    with np.errstate(all="ignore"):
        same = (wide == other) | (np.isnan(wide) & np.isnan(other))
        if same.all():
            return TensorDifference(**facts, size=ours.size, close=ours.dtype == theirs.dtype)
        error = np.where(same, 0.0, np.abs(wide - other))
        error[np.isnan(error)] = np.inf
        relative = np.where(same, 0.0, error / np.abs(other))
        ulps = np.where(same, 0.0, error / _units(other, kind))
    place = tuple(int(i) for i in np.argwhere(~same)[0])
    return TensorDifference(
        **facts,
        differing=int(np.count_nonzero(~same)),
        size=ours.size,
        largest_error=float(error.max()),
        largest_relative_error=float(np.nan_to_num(relative, nan=np.inf).max()),
        largest_ulps=float(np.nan_to_num(ulps, nan=np.inf).max()),
        place=place,
        ours=float(wide[place]),
        theirs=float(other[place]),
        close=ours.dtype == theirs.dtype and compare(wide, other, kind).close,
    )


def _kind(array: Array) -> DType | None:
    try:
        return dtype_of(array.dtype)
    except NkiError:
        return None


def _wide(array: Array) -> np.ndarray[Any, np.dtype[np.float64]]:
    bits = array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "V" and array.dtype.fields else array
    return bits.astype(np.float64)


def _units(values: Array, kind: DType | None) -> Any:
    """Return the distance between neighbours of each value in a dtype; 1 for integers."""
    if kind is None or not kind.mantissa_bits:
        return 1.0
    exponent = np.frexp(np.where(np.isfinite(values), values, 1.0))[1] - 1
    lowest = kind.smallest_exponent + kind.mantissa_bits  # of normal numbers
    return np.ldexp(1.0, np.maximum(exponent, lowest) - kind.mantissa_bits)
