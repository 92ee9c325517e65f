"""Faults that nki_lab once had, to be put back: each seed of seeds.txt must notice the one it is listed with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nki_lab.isa.dtype import BOOL
from nki_lab.isa.spec import TABLE
from nki_lab.kernel_runtime.issue import legality
from nki_lab.kernel_runtime.numerics import variant_plan
from nki_lab.kernel_runtime.numerics.rounding import from_shadow

Numerics = Callable[[Any, Any, Any, Any], None]


def _instead(name: str, wrong: Callable[[Any], Numerics]) -> Callable[[pytest.MonkeyPatch], None]:
    """Replaces an instruction's arithmetic by what `wrong` makes of the right one."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        changed = replace(TABLE[name], numerics=wrong(TABLE[name].numerics))
        monkeypatch.setitem(TABLE, name, changed)

    return plant


def _numpy_negation(right: Numerics) -> Numerics:
    """np.negative in place, which is wrong where elements lie 16 bytes apart."""

    def numerics(out: Any, ins: Any, use: Any, state: Any) -> None:
        if not use.attrs["negate"]:
            right(out, ins, use, state)
            return
        use.attrs["op"].reduce(ins.data, tuple(range(out.dst.ndim, ins.data.ndim)), out.dst)
        np.negative(out.dst, out=out.dst)

    return numerics


def _constants_as_they_are(_right: Numerics) -> Numerics:
    def numerics(out: Any, _ins: Any, use: Any, _state: Any) -> None:
        out.dst[...] = use.attrs["value"]

    return numerics


def _patterns_cut_to_bytes(right: Numerics) -> Numerics:
    def numerics(out: Any, ins: Any, use: Any, state: Any) -> None:
        if use.dtypes["dst"] is not BOOL:
            right(out, ins, use, state)
            return
        values = np.zeros(1, np.int64)
        for step, count in use.attrs["pattern"]:
            values = np.add.outer(values, step * np.arange(count, dtype=np.int64)).reshape(-1)
        out.dst[...] = np.clip(values, 0, 255)

    return numerics


def _one_integer_type(_right: Numerics) -> Numerics:
    def numerics(out: Any, ins: Any, use: Any, _state: Any) -> None:
        use.attrs["op"].apply(ins.data1, ins.data2, out.dst)

    return numerics


def _masks_in_the_views_shape(right: Numerics) -> Numerics:
    def numerics(out: Any, ins: Any, use: Any, state: Any) -> None:
        if isinstance(state.add, np.ndarray):
            np.add(np.where(state.add, out.dst, np.float32(0)), ins.stationary.T @ ins.moving, out=out.dst)
        else:
            right(out, ins, use, state)

    return numerics


def _rounded_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moved floats go through a rounding, which does not keep the payload of a NaN."""
    monkeypatch.setattr(
        variant_plan, "to_storage", lambda values, dtype: from_shadow(np.ascontiguousarray(values), dtype)
    )


def _unchecked(function: str) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(legality, function, lambda *_: ())

    return plant


FAULTS: Mapping[str, Callable[[pytest.MonkeyPatch], None]] = {
    "negation": _instead("tensor_reduce", _numpy_negation),
    "boolean-constants": _instead("memset", _constants_as_they_are),
    "boolean-patterns": _instead("iota", _patterns_cut_to_bytes),
    "mixed-integers": _instead("tensor_tensor", _one_integer_type),
    "partial-sums": _instead("nc_matmul", _masks_in_the_views_shape),
    "moved-integers": _rounded_moves,
    "last-partition": _unchecked("partition_problems"),
    "packed-numbers": _unchecked("_packed_numbers"),
}
