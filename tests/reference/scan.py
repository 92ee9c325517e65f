"""Scans, register reductions and statistics by their documentation, element by element in float32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.reference.activation import ERROR, Registers, apply, column
from tests.reference.elementwise import FORMULAS, UNARY, arithmetic, cut
from tests.reference.grid import EPSILON, SMALLEST, Array, Operand, Result, Rounded, single, wide
from tests.reference.reduce import BITS, total

START = {"add": 0.0, "subtract": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf, "abs_max": 0.0,
         "abs_min": np.inf}  # fmt: skip


def rows_of(operand: Operand) -> Array:
    """Partitions by elements."""
    return wide(operand.array.reshape(operand.array.shape[0], -1), operand.dtype)


def _step(op: str, a: Array, b: Array) -> Array:
    with np.errstate(all="ignore"):
        return single(np.asarray(FORMULAS[op](a, b), np.float64))


def tensor_tensor_scan(ins: Mapping[str, Any], attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    left, right = rows_of(ins["data0"]), rows_of(ins["data1"])
    state = np.broadcast_to(column(ins["initial"]).reshape(-1), left.shape[:1])
    out = np.empty(left.shape)
    for i in range(left.shape[1]):
        first = (state, left[:, i]) if attrs.get("reverse0") else (left[:, i], state)
        between = _step(attrs["op0"], *first)
        second = (right[:, i], between) if attrs.get("reverse1") else (between, right[:, i])
        state = out[:, i] = _step(attrs["op1"], *second)
    return {"dst": Rounded(out)}


def _begin(state: Registers, lanes: slice, attrs: Mapping[str, Any], op: str, given: Any) -> Rounded:
    """What a reduction starts from."""
    count = lanes.stop - lanes.start
    command = attrs.get("reduce_cmd", "reset_reduce")
    if command == "reset_reduce":
        return Rounded(np.full(count, START[op]), np.zeros(count))
    if command == "load_reduce":
        return Rounded(np.broadcast_to(column(given).reshape(-1), (count,)).copy(), np.zeros(count))
    return Rounded(state.vector[lanes].copy(), state.vector_slack[lanes].copy())


def _lanes(operand: Operand) -> slice:
    return slice(operand.start, operand.start + operand.array.shape[0])


def tensor_scalar_cumulative(ins: Mapping[str, Any], attrs: Mapping[str, Any], state: Registers) -> dict[str, Result]:
    lanes = _lanes(ins["src"])
    given = _step(attrs["op0"], rows_of(ins["src"]), column(ins["imm0"]))
    held = _begin(state, lanes, attrs, attrs["op1"], ins.get("imm1")).value
    out = np.empty(given.shape)
    for i in range(given.shape[1]):
        held = out[:, i] = _step(attrs["op1"], given[:, i], held)
    state.vector[lanes], state.vector_slack[lanes] = held, 0
    return {"dst": Rounded(out)}


def _reduced(op: str, results: Rounded) -> Rounded:
    with np.errstate(all="ignore"):
        value = results.value
        slack = np.broadcast_to(results.slack, value.shape)
        if op == "add":
            summed = total(value, (1,))
            return Rounded(summed.value, summed.slack + slack.sum(axis=1))
        if op == "multiply":
            product = value.prod(axis=1)
            return Rounded(product, value.shape[1] * (4 * EPSILON * np.abs(product) + SMALLEST))
        if op in ("maximum", "minimum"):
            return Rounded(getattr(np, op).reduce(value, axis=1), slack.max(axis=1))
        held = np.full(value.shape[0], START[op])
        for i in range(value.shape[1]):
            held = FORMULAS[op](held, value[:, i])
        return Rounded(held, slack.max(axis=1))


def _combined(op: str, first: Rounded, more: Rounded) -> Rounded:
    with np.errstate(all="ignore"):
        value = np.asarray(FORMULAS[op](first.value, more.value), np.float64)
        if op == "multiply":
            slack = np.abs(first.value) * more.slack + np.abs(more.value) * first.slack
            return Rounded(value, slack + 4 * EPSILON * np.abs(value) + SMALLEST)
        rounding = 2 * EPSILON * np.abs(value) if op == "add" else 0.0
        return Rounded(value, first.slack + more.slack + rounding)


def tensor_scalar_reduce(ins: Mapping[str, Any], attrs: Mapping[str, Any], state: Registers) -> dict[str, Result]:
    lanes = _lanes(ins["data"])
    data = Rounded(rows_of(ins["data"]))
    op = attrs["op0"]
    other = data if op in UNARY else Rounded(column(ins["operand0"]))
    out: dict[str, Result] = {"dst": arithmetic(op, data, other)}
    folded = _reduced(attrs["reduce_op"], out["dst"])
    held = _combined(
        attrs["reduce_op"], _begin(state, lanes, attrs, attrs["reduce_op"], ins.get("reduce_init")), folded
    )
    state.vector[lanes], state.vector_slack[lanes] = held.value, held.slack
    if "reduce_res" in ins:
        sign = -1.0 if attrs.get("reduce_res_negate") else 1.0
        out["reduce_res"] = Rounded(sign * held.value, held.slack)
    return out


def exponential(ins: Mapping[str, Any], attrs: Mapping[str, Any], state: Registers) -> dict[str, Result]:
    lanes = _lanes(ins["src"])
    with np.errstate(all="ignore"):
        z = single(rows_of(ins["src"]) - column(ins.get("max_value", 0.0)))
        value = np.exp(z)
        results = Rounded(value, ERROR * np.maximum(SMALLEST, np.abs(value)))
    if attrs.get("reduce_cmd", "idle") != "idle":
        first = _begin(state, lanes, attrs, "add", ins.get("reduce_init", 0.0))
        held = _combined("add", first, _reduced("add", results))
        state.vector[lanes], state.vector_slack[lanes] = held.value, held.slack
    out: dict[str, Result] = {"dst": results}
    if "reduce_res" in ins:
        out["reduce_res"] = Rounded(state.vector[lanes].copy(), state.vector_slack[lanes].copy())
    return out


def activate2(ins: Mapping[str, Any], attrs: Mapping[str, Any], state: Registers) -> dict[str, Result]:
    z = rows_of(ins["data"])
    lanes = _lanes(ins["data"])
    for stage in "01":
        op = attrs.get(f"op{stage}", "bypass")
        if op == "bypass":
            continue
        sides = (z, column(ins[f"imm{stage}"]))
        z = _step(op, *(reversed(sides) if attrs.get(f"reverse{stage}") else sides))
    if attrs["op"] == "prelu":
        with np.errstate(all="ignore"):
            results = Rounded(np.where(z > 0, z, single(z * column(ins.get("relu_param", 0.0)))))
    else:
        results = apply(attrs["op"], z)
    command, op = attrs.get("reduce_cmd", "idle"), attrs.get("reduce_op")
    if command in ("reset", "reset_reduce"):
        state.value[lanes], state.slack[lanes] = START[op], 0
    if command in ("reduce", "reset_reduce"):
        held = _combined(op, Rounded(state.value[lanes], state.slack[lanes]), _reduced(op, results))
        state.value[lanes], state.slack[lanes] = held.value, held.slack
    out: dict[str, Result] = {"dst": results}
    if "reduce_res" in ins:
        out["reduce_res"] = Rounded(state.value[lanes].copy(), state.slack[lanes].copy())
    return out


def bn_stats(ins: Mapping[str, Any], _attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    data = rows_of(ins["data"])
    value, slack = np.zeros((data.shape[0], 6)), np.zeros((data.shape[0], 6))
    for first in (0, 1):
        part = data[:, first::2]
        count = part.shape[1]
        value[:, 3 * first] = count
        if not count:
            continue
        mean = part.mean(axis=1)
        off = (count + 2) * EPSILON * np.abs(part).mean(axis=1)
        apart = part - mean[:, None]
        spread = (apart**2).sum(axis=1)
        value[:, 3 * first + 1], slack[:, 3 * first + 1] = mean, off
        value[:, 3 * first + 2] = spread
        slack[:, 3 * first + 2] = 2 * (
            (count + 4) * EPSILON * spread + 2 * np.abs(apart).sum(axis=1) * off + count * off**2
        )
    return {"dst": Rounded(value, slack)}


def bn_aggr(ins: Mapping[str, Any], _attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    data = rows_of(ins["data"])
    triples = data.reshape(data.shape[0], -1, 3)
    count, mean, spread = triples[..., 0], triples[..., 1], triples[..., 2]
    with np.errstate(all="ignore"):
        whole = count.sum(axis=1)
        middle = (count * mean).sum(axis=1) / whole
        apart = mean - middle[:, None]
        variance = (spread.sum(axis=1) + (count * apart**2).sum(axis=1)) / whole
        # Counts of either sign, which no bn_stats writes, make sums that cancel.
        steps = 4 * (triples.shape[1] + 4) * EPSILON
        size, worse = np.abs(whole), np.abs(count).sum(axis=1) / np.abs(whole)
        off = steps * (np.abs(count * mean).sum(axis=1) / size + np.abs(middle) * worse)
        inner = np.abs(spread).sum(axis=1) + np.abs(count * apart**2).sum(axis=1)
        moved = (np.abs(count) * (np.abs(apart) * off[:, None] + off[:, None] ** 2)).sum(axis=1)
        loose = steps * (inner / size + np.abs(variance) * worse) + 4 * moved / size
    return {"dst": Rounded(np.stack([middle, variance], axis=1), np.stack([off, loose], axis=1))}


def tensor_partition_reduce(ins: Mapping[str, Any], attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    op = attrs["op"]
    if op in BITS:
        bits = ins["data"].array.reshape(ins["data"].array.shape[0], -1)
        fold = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or}[op]
        return {"dst": cut(fold.reduce(bits.view(f"u{bits.dtype.itemsize}"), axis=0)[None], ins["dst"].array)}
    data = rows_of(ins["data"])
    if op == "maximum":
        return {"dst": Rounded(np.maximum.reduce(data, axis=0)[None])}
    summed = total(data, (0,))
    value, slack = summed.value[None], np.asarray(summed.slack)[None]
    if op == "average":
        with np.errstate(all="ignore"):
            value, slack = value / data.shape[0], slack / data.shape[0] + 2 * EPSILON * np.abs(value)
    return {"dst": Rounded(value, slack)}


__all__ = [
    "activate2", "bn_aggr", "bn_stats", "exponential", "tensor_partition_reduce", "tensor_scalar_cumulative",
    "tensor_scalar_reduce", "tensor_tensor_scan",
]  # fmt: skip
