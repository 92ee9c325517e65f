"""Random numbers number by number: XORWOW in Python's integers, and how seeds and elements are laid out over lanes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.reference.grid import Array, Operand, Result, Rounded, Stored, single, wide

MASK = 2**32 - 1
STREAMS = {"vector": 4, "gpsimd": 1}
LANES = 128


def step(words: list[int]) -> int:
    """One number of a generator, x y z w v d; Marsaglia, Xorshift RNGs (2003)."""
    x, y, z, w, v, d = words
    t = x ^ (x >> 2)
    v, w, z, y, x = (v ^ (v << 4)) ^ (t ^ (t << 1)), v, w, z, y
    words[:] = [x, y, z, w, v & MASK, (d + 362437) & MASK]
    return (words[4] + words[5]) & MASK


def mixed(number: int) -> int:
    """splitmix64's finaliser (Steele, Lea, Flood 2014), upper half."""
    number &= 2**64 - 1
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
    return (number ^ (number >> 31)) >> 32


def seeded(seed: int, engine: str) -> list[list[int]]:
    """The words of each lane."""
    each = 6 * STREAMS[engine]
    return [
        [mixed(seed + (lane * each + word + 1) * 0x9E3779B97F4A7C15) for word in range(each)] for lane in range(LANES)
    ]


def words_of(state: Any, engine: str) -> list[list[int]]:
    known: dict[str, list[list[int]]] = state.random
    return known.setdefault(engine, seeded(0, engine))


def bits(state: Any, engine: str, start: int, rows: int, columns: int) -> Array:
    """Numbers for each element; generators of a lane take turns and finish their round."""
    streams = STREAMS[engine]
    out = np.zeros((rows, columns), np.uint64)
    for row, words in enumerate(words_of(state, engine)[start : start + rows]):
        own = [words[6 * k : 6 * k + 6] for k in range(streams)]
        made = [step(own[k]) for _ in range(-(-columns // streams)) for k in range(streams)]
        words[:] = [word for generator in own for word in generator]
        out[row] = made[:columns]
    return out


def _sizes(operand: Operand) -> tuple[int, int, int]:
    rows = operand.array.shape[0]
    return operand.start, rows, operand.array.size // rows


def _uniform(numbers: Array) -> Array:
    return (numbers >> np.uint64(8)).astype(np.float64) / 2**24


def _column(given: Any) -> Array:
    return wide(given.array, given.dtype).reshape(-1, 1) if isinstance(given, Operand) else single(np.float64(given))


def rng(ins: Mapping[str, Any], attrs: Mapping[str, Any], state: Any) -> dict[str, Result]:
    dst = ins["dst"]
    numbers = bits(state, attrs.get("engine", "vector"), *_sizes(dst))
    kind = np.dtype(dst.dtype)
    low = (numbers % 2 ** (8 * kind.itemsize)).astype(f"u{kind.itemsize}")
    return {"dst": Stored(low.view(kind))}


def rand2(ins: Mapping[str, Any], _attrs: Mapping[str, Any], state: Any) -> dict[str, Result]:
    u = _uniform(bits(state, "vector", *_sizes(ins["dst"])))
    low, high = _column(ins["min"]), _column(ins["max"])
    return {"dst": Rounded(single(single(single(high - low) * u) + low))}


def dropout(ins: Mapping[str, Any], _attrs: Mapping[str, Any], state: Any) -> dict[str, Result]:
    dst, data = ins["dst"], ins["data"]
    dropped = _uniform(bits(state, "vector", *_sizes(dst))) < _column(ins["prob"])
    kept = data.array.reshape(dropped.shape)
    if data.dtype.startswith(("int", "uint", "bool")):
        return {"dst": Stored(np.where(dropped, kept.dtype.type(0), kept))}
    return {"dst": Rounded(np.where(dropped, 0.0, wide(kept, data.dtype)))}


def set_rng_seed(ins: Mapping[str, Any], _attrs: Mapping[str, Any], state: Any) -> dict[str, Result]:
    seed = np.ascontiguousarray(ins["src_seeds"].array).reshape(-1).view(np.uint32)[0]
    state.random["vector"] = seeded(int(seed), "vector")
    return {}


def rand_set_state(ins: Mapping[str, Any], attrs: Mapping[str, Any], state: Any) -> dict[str, Result]:
    seeds = ins["src_seeds"]
    words = words_of(state, attrs.get("engine", "gpsimd"))
    for row, own in enumerate(seeds.array):
        words[seeds.start + row] = [int(word) for word in own]
    return {}


def rand_get_state(ins: Mapping[str, Any], attrs: Mapping[str, Any], state: Any) -> dict[str, Result]:
    start, rows, _ = _sizes(ins["dst"])
    words = words_of(state, attrs.get("engine", "gpsimd"))[start : start + rows]
    return {"dst": Stored(np.array(words, np.uint32))}
