"""What a case must give, by the references; and what a call with one thing wrong must be refused with."""

from __future__ import annotations

import copy
import math
from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import NkiError
from nki_lab.isa.arch import arch_of
from nki_lab.isa.dtype import DTYPES
from nki_lab.isa.spec import TABLE
from tests.calls import Call, Case, Part, Ran, Word, argument_text, contents, kernel_of, source, traced
from tests.reference.activation import Registers
from tests.reference.grid import Array, Operand, Rounded, host, narrow
from tests.reference.move import AXES
from tests.reference.table import REFERENCES
from tests.tolerances import bounds, within

MATRIX_PRODUCTS: Final = ("nc_matmul", "nc_matmul_mx")


class Expected:
    """Contents of the tensors as the references make them: the least and greatest right value of each element."""

    def __init__(self, case: Case) -> None:
        self.arrays = [contents(memory) for memory in case.memories]
        self.low = [array.copy() for array in self.arrays]
        self.high = [array.copy() for array in self.arrays]
        self.slack: dict[int, Array] = {}
        self.multiplied = [np.zeros(array.nbytes, bool) for array in self.arrays]
        self.seen: dict[int, str] = {}
        self.registers = Registers()
        self.case = case
        for call in case.calls:
            self._apply(call)

    def _apply(self, call: Call) -> None:
        # What an earlier call computed may be any value of its interval, and functions such as exp spread that.
        between = (self.low, self.high) if self._reads_intervals(call) else ()
        registers = [copy.deepcopy(self.registers) for _ in between]
        results = self._results(call, self.arrays, self.registers)
        ends = [self._results(call, arrays, end) for arrays, end in zip(between, registers, strict=True)]
        for end in registers:
            self.registers.include(end)
        for name, result in results.items():
            if name in call.parts:
                self._store(call.arguments[name], [result, *(end[name] for end in ends)], call)

    def _reads_intervals(self, call: Call) -> bool:
        """Whether an operand has elements of which a reference allows several values.

        A matrix product has its own account of them, `slack`.
        """
        return call.name not in MATRIX_PRODUCTS and any(
            self._flat(self.low, part)[self.places(part)[0]].tobytes()
            != self._flat(self.high, part)[self.places(part)[0]].tobytes()
            for part in call.parts.values()
        )

    def _results(self, call: Call, arrays: list[Array], registers: Registers) -> dict[str, Any]:
        ins: dict[str, Any] = {}
        attrs: dict[str, Any] = {"generation": arch_of(self.case.target).generation}
        for name, value in call.arguments.items():
            if isinstance(value, Part):
                ins[name] = self._operand(value, arrays)
            elif TABLE[call.name].operands[name].is_tensor:
                ins[name] = value
            else:
                attrs[name] = value.meaning if isinstance(value, Word) else value
        return REFERENCES[call.name](ins, attrs, registers)

    def places(self, part: Part) -> tuple[Array, Array]:
        """Element numbers of the view, in units of its dtype, and which of them lie inside the tensor."""
        places = np.array(part.offset, np.int64)
        for dim, (size, step) in enumerate(zip(part.shape, part.strides, strict=True)):
            along = np.arange(size, dtype=np.int64) * step
            if dim == 0 and part.kind == "vector":
                along = self._indices(part).reshape(-1)[:size] * part.stride
            places = np.add.outer(places, along)
        inside = np.ones(part.shape, bool)
        if part.index is not None:
            index = self._indices(part)
            fine = (index >= part.lowest) & (index <= part.highest)
            if part.kind == "scalar":
                places = places + int(index.reshape(-1)[0]) * part.stride
                inside &= fine.reshape(-1)[0]
            else:
                inside &= fine.reshape(-1)[: part.shape[0]].reshape(-1, *(1,) * (len(part.shape) - 1))
        return np.where(inside, places, 0), inside

    def _indices(self, part: Part) -> Array:
        assert part.index is not None
        return self._flat(self.arrays, part.index)[self.places(part.index)[0]].astype(np.int64)

    @staticmethod
    def _flat(arrays: list[Array], part: Part) -> Array:
        return arrays[part.memory].reshape(-1).view(np.uint8).view(host(part.dtype))

    def _touched(self, part: Part) -> Array:
        """For each byte of each element of the tensor, in units of the view's dtype: did a matmul write it."""
        return self.multiplied[part.memory].reshape(-1, DTYPES[part.dtype].nbytes)

    def _operand(self, part: Part, arrays: list[Array]) -> Operand:
        memory = self.case.memories[part.memory]
        places, _ = self.places(part)
        row = math.prod(memory.shape[1:]) * DTYPES[memory.dtype].nbytes // DTYPES[part.dtype].nbytes
        start = 0 if memory.space == "hbm" else part.offset // row + (memory.address or (0, 0))[0]
        multiplied = self._touched(part)[places].all(axis=-1)
        array = self._flat(arrays, part)[places]
        return Operand(array, part.dtype, memory.space, start, multiplied)

    def _store(self, part: Part, results: list[Any], call: Call) -> None:
        """Store the first result; the others, of the ends of intervals, are right as well, and what lies between."""
        result = results[0]
        places, inside = self.places(part)
        if "src" in call.parts:
            inside = inside & self._kept(call.arguments["src"], part.shape, transposed=call.name == "dma_transpose")
        if call.name in MATRIX_PRODUCTS and part.memory in self.slack and isinstance(result, Rounded):
            result = Rounded(result.value, result.slack + self.slack[part.memory][places].reshape(result.value.shape))
        low, high = bounds(result, part.dtype)
        for end in results[1:]:
            least, most = bounds(end, part.dtype)
            with np.errstate(all="ignore"):
                low, high = np.minimum(low, least), np.fmax(high, most)  # an end that is NaN leaves the lower side open
        middle = narrow(result.value, part.dtype) if isinstance(result, Rounded) else result.array
        for arrays, values in ((self.low, low), (self.high, high), (self.arrays, middle)):
            self._flat(arrays, part)[places[inside]] = values.reshape(part.shape)[inside]
        self.seen[part.memory] = part.dtype
        if call.name in MATRIX_PRODUCTS:
            self._touched(part)[places] = True
            # What is added to next may be any right value, and its own cast may fall to either side.
            slack = self.slack.setdefault(part.memory, np.zeros(self._flat(self.arrays, part).size))
            with np.errstate(all="ignore"):
                spread = high.astype(np.float64) - low.astype(np.float64)
            slack[places] = np.where(np.isfinite(spread), spread, 0).reshape(part.shape)

    def _kept(self, source_part: Part, shape: tuple[int, ...], *, transposed: bool) -> Array:
        """Which elements of the destination a source with run-time rows gives; skipped rows keep their old values."""
        _, inside = self.places(source_part)
        if transposed:
            return inside.transpose(AXES[inside.ndim])
        return inside.reshape(shape) if inside.size == math.prod(shape) else np.ones(shape, bool)


def objections(illegal: Any, file: str = "<kernel>") -> str:
    """What is wrong with the refusal of a call that has one thing wrong, in words; empty where all is right.

    `illegal` has the case, the codes of which one is right, the operand at fault and numbers the message must name.
    """
    case = illegal.case
    arrays = [np.empty(memory.shape, host(memory.dtype)) for memory in case.memories]
    text = source(case)
    try:
        traced(kernel_of(text, file), arrays, [memory.dtype for memory in case.memories], case.target, **case.options)
    except NkiError as error:
        return _judged(error, illegal, text)
    except Exception as error:  # noqa: BLE001 - whatever is not coded is what the fuzzer looks for
        return f"{illegal.what}: a bare {type(error).__name__}: {error}"
    return f"{illegal.what}: accepted"


def _judged(error: NkiError, illegal: Any, text: str) -> str:
    first = error.diagnostics[0]
    call = illegal.case.call
    if first.code not in illegal.codes:
        return f"{illegal.what}: {first.code} instead of {' or '.join(illegal.codes)}: {first.message}"
    if first.span is None:
        return f"{illegal.what}: no place in the source"
    line = text.splitlines()[first.span.line - 1]
    found = line[first.span.column - 1 : first.span.end_column - 1]
    if first.code == "NKI204" and first.operand == "shape":  # all of a tensor: told where it is allocated
        used = any(
            call.name in item.message and item.span and item.span.line > first.span.line for item in first.related
        )
        named = not illegal.numbers or any(number in first.message for number in illegal.numbers)
        made = "ndarray" in line and first.limit and found.startswith("(")
        return "" if used and named and made else f"{illegal.what}: at {line!r}: {first.message}"
    if call.name not in line:
        return f"{illegal.what}: found in line {first.span.line}, which is not the call"
    if illegal.operand and first.operand != illegal.operand:
        return f"{illegal.what}: blames {first.operand!r}, expected {illegal.operand!r}"
    if first.code == "NKI002" and first.operand in call.arguments:
        return "" if found == first.operand else f"{illegal.what}: points at {found!r}"
    if first.operand in call.arguments and found != argument_text(call.arguments[first.operand]):
        return f"{illegal.what}: points at {found!r}"
    if call.name not in first.message:
        return f"{illegal.what}: the message does not name {call.name}: {first.message}"
    if illegal.numbers and not any(number in first.message for number in illegal.numbers):
        return f"{illegal.what}: the message names none of {illegal.numbers}: {first.message}"
    if not first.limit:
        return f"{illegal.what}: no rule is given"
    return ""


def differences(case: Case, ran: Ran) -> str:
    """What is wrong with a run, in words; empty where all is right. Tensors are compared in the dtype last written."""
    wanted = Expected(case)
    for number, stored in ran.written.items():
        if stored.dtype != wanted.low[number].dtype or stored.shape != wanted.low[number].shape:
            return f"t{number} is {stored.dtype} {stored.shape}, expected {wanted.low[number].dtype}"
        kind = host(wanted.seen[number])
        got, low, high = (
            np.ascontiguousarray(array).reshape(-1).view(np.uint8).view(kind).reshape(stored.shape[0], -1)
            for array in (stored, wanted.low[number], wanted.high[number])
        )
        wrong = ~within(got, low, high)
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            return (
                f"t{number}[{', '.join(map(str, at))}] is {got[at]!r}, expected {low[at]!r} to {high[at]!r}; "
                f"{int(wrong.sum())} of {wrong.size} elements are wrong"
            )
    return ""
