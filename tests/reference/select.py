"""Selections, searches and gathers by their documentation, row by row."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.reference.activation import Registers, column
from tests.reference.elementwise import FORMULAS
from tests.reference.grid import Array, Operand, Result, Rounded, Stored, narrow, single, wide

LOWEST = float(np.float32(-3.4028235e38))
KEEP = 255


def rows_of(operand: Operand) -> Array:
    """Partitions by elements, as the float32 an engine sees."""
    return wide(operand.array.reshape(operand.array.shape[0], -1), operand.dtype)


def raw(operand: Operand) -> Array:
    """Partitions by elements, as they are stored."""
    return operand.array.reshape(operand.array.shape[0], -1)


def _maximum(out: dict[str, Result], ins: Mapping[str, Any], attrs: Mapping[str, Any], state: Registers, data: Operand,
             default: str) -> dict[str, Result]:  # fmt: skip
    chosen = out["dst"].value
    lanes = slice(data.start, data.start + data.array.shape[0])
    command = attrs.get("reduce_cmd", default)
    if command != "idle":
        first = state.vector[lanes] if command == "reduce" else np.full(len(chosen), -np.inf)
        last = first if command == "reset" else np.maximum(first, np.max(chosen, axis=1))
        state.vector[lanes], state.vector_slack[lanes] = last, 0
    if "reduce_res" in ins:
        out["reduce_res"] = Rounded(state.vector[lanes].copy())
    return out


def range_select(ins: Mapping[str, Any], attrs: Mapping[str, Any], state: Registers) -> dict[str, Result]:
    data = rows_of(ins["on_true_tile"])
    index = single(attrs.get("range_start", 0) + np.arange(data.shape[1], dtype=np.float64))[None]
    with np.errstate(all="ignore"):
        mask = FORMULAS[attrs["comp_op0"]](index, column(ins["bound0"])) & FORMULAS[attrs["comp_op1"]](
            index, column(ins["bound1"])
        )
    out: dict[str, Result] = {"dst": Rounded(np.where(mask, data, LOWEST))}
    return _maximum(out, ins, attrs, state, ins["on_true_tile"], "reset_reduce")


def select_reduce(ins: Mapping[str, Any], attrs: Mapping[str, Any], state: Registers) -> dict[str, Result]:
    mask = (raw(ins["predicate"]) != 0) ^ attrs.get("reverse_pred", False)
    chosen = np.where(mask, rows_of(ins["on_true"]), column(ins["on_false"]))
    return _maximum({"dst": Rounded(chosen)}, ins, attrs, state, ins["on_true"], "idle")


def affine_select(ins: Mapping[str, Any], attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    data = rows_of(ins["on_true_tile"])
    pattern = attrs["pattern"]
    steps = [sum(s * i for (s, _), i in zip(pattern, at, strict=True))
             for at in itertools.product(*(range(n) for _, n in pattern))]  # fmt: skip
    place = np.add.outer(np.arange(len(data)) * attrs["channel_multiplier"], steps) + attrs.get("offset", 0)
    mask = FORMULAS[attrs.get("cmp_op", "equal")](place.astype(np.int32), 0)
    number, dst = single(np.float64(attrs["on_false_value"])), ins["dst"]
    if dst.dtype is ins["on_true_tile"].dtype:
        return {"dst": Stored(np.where(mask, raw(ins["on_true_tile"]), narrow(number, dst.dtype)))}
    return {"dst": Rounded(np.where(mask, data, number))}


def tensor_copy_predicated(ins: Mapping[str, Any], attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    dst = raw(ins["dst"])
    mask = (raw(ins["predicate"]) != 0) ^ attrs.get("reverse_pred", False)
    given = ins["src"]
    new = raw(given) if isinstance(given, Operand) else narrow(np.float64(given), ins["dst"].dtype)
    return {"dst": Stored(np.where(mask, new, dst).astype(dst.dtype))}


def max8(ins: Mapping[str, Any], _attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    return {"dst": Rounded(np.sort(rows_of(ins["src"]), axis=1)[:, ::-1][:, :8])}


def _places(row: Array, values: Array) -> list[int | None]:
    """A place of each value in turn, the first that was not taken before."""
    taken: set[int] = set()
    found: list[int | None] = []
    for value in values:
        place = next((int(i) for i in np.flatnonzero(row == value) if int(i) not in taken), None)
        found.append(place)
        taken |= {place} - {None}
    return found


def topk(ins: Mapping[str, Any], attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    data, n = rows_of(ins["src"]), attrs["n"]
    size = ins["val_dst"].array.reshape(len(data), -1).shape[1]
    values, places = np.zeros((len(data), size)), np.zeros((len(data), size))
    for row in range(len(data)):
        first = row - row % 16
        snake = sorted((float(data[first + s % 16, s // 16]), s) for s in range(n))[n - size :]
        values[row], places[row] = zip(*snake, strict=True)
    return {"val_dst": Rounded(values), "idx_dst": Rounded(places)}


def nc_find_index8(ins: Mapping[str, Any], _attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    kind = raw(ins["dst"]).dtype
    none = np.iinfo(kind).max
    found = [
        [none if place is None else place for place in _places(row, values)]
        for row, values in zip(rows_of(ins["data"]), rows_of(ins["vals"]), strict=True)
    ]
    return {"dst": Stored(np.array(found, kind))}


def nc_match_replace8(ins: Mapping[str, Any], attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    data, values = rows_of(ins["data"]).copy(), rows_of(ins["vals"])
    indices = np.zeros((len(data), 8), np.float64)
    for row, (held, wanted) in enumerate(zip(data, values, strict=True)):
        places = _places(held, wanted[::-1])[::-1]
        for slot, place in enumerate(places):
            indices[row, slot] = 2.0**32 if place is None else place
        for place in places:
            if place is not None:
                held[place] = single(np.float64(attrs["imm"]))
    out: dict[str, Result] = {"dst": Rounded(data)}
    if "dst_idx" in ins:
        out["dst_idx"] = Rounded(indices)
    return out


def nc_stream_shuffle(ins: Mapping[str, Any], attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    out, src = raw(ins["dst"]).copy(), raw(ins["src"])
    for row in range(len(out)):
        entry = attrs["shuffle_mask"][row % 32]
        source = row // 32 * 32 + entry
        if entry != KEEP and source < len(src):
            out[row] = src[source]
    return {"dst": Stored(out)}


def nc_n_gather(ins: Mapping[str, Any], _attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    data, indices = raw(ins["data"]), raw(ins["indices"])
    return {"dst": Stored(np.stack([row[at.astype(np.int64)] for row, at in zip(data, indices, strict=True)]))}


def local_gather(ins: Mapping[str, Any], attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    data, index = raw(ins["src_buffer"]), raw(ins["index"])
    each = attrs.get("num_elem_per_idx", 1)
    picked = []
    for row in range(len(data)):
        core = row // 16 * 16
        wanted = index[core : core + 16].flatten(order="F")[: attrs.get("num_valid_indices")]
        picked.append(np.concatenate([data[row, int(at) : int(at) + each] for at in wanted]))
    return {"dst": Stored(np.array(picked))}


def nonzero_with_count(ins: Mapping[str, Any], attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    src, out = raw(ins["src"]), raw(ins["dst"]).copy()
    for row in range(len(src)):
        if (ins["src"].start + row) % 16:
            continue
        found = [i + attrs.get("index_offset", 0) for i, value in enumerate(src[row]) if value != 0]
        out[row] = [*found, *[attrs.get("padding_val", -1)] * (src.shape[1] - len(found)), len(found)]
    return {"dst": Stored(out)}


def sequence_bounds(ins: Mapping[str, Any], _attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    ids = rows_of(ins["segment_ids"])[0]
    count = len(ids)
    starts, ends = np.zeros(count), np.zeros(count)
    for i in range(count):
        starts[i] = count if ids[i] == 0 else i if i == 0 or ids[i] != ids[i - 1] else starts[i - 1]
    for i in reversed(range(count)):
        ends[i] = -1 if ids[i] == 0 else i + 1 if i == count - 1 or ids[i] != ids[i + 1] else ends[i + 1]
    return {"dst": Rounded(np.concatenate([starts, ends])[None])}


__all__ = [
    "affine_select", "local_gather", "max8", "nc_find_index8", "nc_match_replace8", "nc_n_gather", "nc_stream_shuffle",
    "nonzero_with_count", "range_select", "select_reduce", "sequence_bounds", "tensor_copy_predicated", "topk",
]  # fmt: skip
