"""Random numbers: bits, uniform numbers, dropout, and the generators' state.

A lane of the Vector Engine has four generators of six words, a lane of GpSimd one. Each is XORWOW (Marsaglia 2003):
five words that shift, and a counter that is added to what comes out. NKI names XORWOW for the Vector Engine of
NeuronCore-v4 and for the states of 6 and 24 words; the rest of the scheme is not published, so that a seed gives the
same numbers here at each run and on each target, and other numbers than on the chip.
"""


# mypy: disable-error-code="misc"

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa import enums
from nki_lab.isa.arch import Arch
from nki_lab.isa.dtype import (
    BF16,
    F16,
    F32,
    FP8_E4M3,
    FP8_E4M3FN,
    FP8_E5M2,
    INT8,
    INT16,
    INT32,
    TF32,
    UINT8,
    UINT16,
    UINT32,
)
from nki_lab.isa.ops.cycles import engine_cost, free_size
from nki_lab.isa.ops.shapes import one_dtype
from nki_lab.isa.spec import ONCHIP, SBUF, Cost, Legacy, Unmodelled, Use, arg, attr, instruction, out, predicate

Words = NDArray[np.uint32]

WORDS: Final = 6
STREAMS: Final[Mapping[str, int]] = {"vector": 4, "gpsimd": 1}
"""Generators of a lane, by engine."""
_WEYL: Final = 362437  # what the counter grows by (Marsaglia 2003)
_GOLDEN: Final = 0x9E3779B97F4A7C15  # splitmix64
_INTEGERS: Final = (INT8, INT16, INT32, UINT8, UINT16, UINT32)
_NOT_TIMED: Final = "not published: one element a cycle"


def seeded(seed: int, lanes: int, engine: str) -> Words:
    """The words of each lane's generators, (lanes, generators * 6), for one 32-bit seed.

    guess: how a seed fills the lanes is not published. Word k of all lanes' words in order is the upper half of
    splitmix64's number k after the seed.
    """
    count = STREAMS[engine] * WORDS
    place = np.arange(1, lanes * count + 1, dtype=np.uint64)
    z = np.uint64(seed) + place * np.uint64(_GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(32)).astype(np.uint32).reshape(lanes, count)


def xorwow(words: Words, count: int) -> Words:
    """The next `count` numbers of generators whose words are rows, (generators, count); the words move on."""
    first = words[:, :5].T
    history = np.empty((count + 5, len(words)), np.uint32)
    history[:5] = first
    shifted = np.empty(len(words), np.uint32)
    for begin in range(0, count, 5):
        # The oldest five words are known before the five that come of them.
        end = min(begin + 5, count)
        mixed = history[begin:end] ^ (history[begin:end] >> np.uint32(2))
        mixed ^= mixed << np.uint32(1)
        for step in range(begin, end):
            newest, made = history[step + 4], history[step + 5]
            np.left_shift(newest, np.uint32(4), out=shifted)
            np.bitwise_xor(newest, shifted, out=made)
            made ^= mixed[step - begin]
    grown = np.arange(1, count + 1, dtype=np.uint32) * np.uint32(_WEYL)
    numbers = history[5:].T + (words[:, 5, None] + grown)
    words[:, :5] = history[count:].T
    words[:, 5] += np.uint32(count * _WEYL % 2**32)
    return numbers


def _generators(state: Any, engine: str) -> Words:
    """The words of an engine's generators. guess: after power-up they are those of seed 0."""
    known = state.random.get(engine)
    if known is None:
        known = state.random[engine] = seeded(0, len(state.vector_accumulators), engine)
    words: Words = known
    return words


def _lanes(use: Use, operand: str) -> slice:
    view: Any = use.types[operand]
    return slice(view.start_partition, view.start_partition + view.shape[0])


def _bits(state: Any, use: Use) -> Words:
    """32 random bits for each element of dst: (partitions, elements).

    guess: a lane's generators take turns, element by element, and move on together: an instruction whose elements are
    no multiple of four leaves the rest of the last four unused.
    """
    streams, lanes = STREAMS[use.engine], _lanes(use, "dst")
    words = _generators(state, use.engine)[lanes]
    elements = free_size(use, "dst")
    steps = -(-elements // streams)
    numbers = xorwow(words.reshape(-1, WORDS), steps)  # whole rows: a view, whose words move on
    return numbers.reshape(len(words), streams, steps).transpose(0, 2, 1).reshape(len(words), -1)[:, :elements]


def _uniform(bits: Words) -> NDArray[np.float32]:
    """Numbers in [0, 1). guess: the upper 24 bits of each word, since float32 holds as many."""
    return (bits >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def _generators_of(use: Use) -> str | None:
    if use.attrs["engine"] is enums.engine.gpsimd and use.arch.generation < 3:
        return f"GpSimd makes random numbers from NeuronCore-v3, the target is {use.arch.name}"
    return None


@instruction(engine=("vector", "gpsimd"), see="NKI API, nki.isa.rng")
class rng:
    """dst = random bits: the lowest bits of 32 for each element, by the generators of the engine's lanes.

    nisa.set_rng_seed seeds those of the Vector Engine, nisa.rand_set_state those of either engine.
    """

    dst = out("P F", ONCHIP, "tile of integers to fill; GpSimd reaches SBUF only", dtypes=_INTEGERS)
    engine = attr("enum", "vector or gpsimd", default=enums.engine.vector, enum=enums.engine)

    from_v3 = predicate("NKI221", "engine=gpsimd from NeuronCore-v3", _generators_of, operand="engine",
                        help="leave engine= out", target="trn1", accepts={"engine": enums.engine.vector},
                        refuses={"engine": enums.engine.gpsimd})  # fmt: skip

    example = {"dst": "sbuf uint32 128x64"}

    choose = "vector"
    precision = "native"

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        out.dst[...] = _bits(state, use).reshape(out.dst.shape).astype(out.dst.dtype)

    def cost(arch: Arch, use: Use) -> Cost:
        return engine_cost(arch, use, free_size(use, "dst"), source=_NOT_TIMED, confidence="guess")

    legacy = Unmodelled("Beta 1 has no rng")


def _range(use: Use) -> str | None:
    low, high = use.attrs["min"], use.attrs["max"]
    if use.types["min"] is not None or use.types["max"] is not None or low < high:
        return None
    return f"min is {low} and max is {high}"


@instruction(engine="vector", since=4, see="NKI API, nki.isa.rand2")
class rand2:
    """dst = uniform random numbers from min to max, computed in float32: min + (max - min) * u with u in [0, 1)."""

    dst = out(
        "P F", ONCHIP, "tile to fill, cast on write", dtypes=(F32, BF16, F16, TF32, FP8_E4M3, FP8_E5M2, *_INTEGERS)
    )
    min = arg("P 1", ONCHIP, "lower end: a number, or a float32 tile of one column", scalar=True, dtypes=(F32,))
    max = arg("P 1", ONCHIP, "upper end: a number, or a float32 tile of one column", scalar=True, dtypes=(F32,))

    ordered = predicate("NKI012", "min < max", _range, operand="min", help="swap them", accepts={"min": -1.0},
                        refuses={"min": 2.0})  # fmt: skip

    example = {"dst": "sbuf float32 128x64", "min": 0.0, "max": 1.0}

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        u = _uniform(_bits(state, use)).reshape(out.dst.shape)
        out.dst[...] = (ins.max - ins.min) * u + ins.min

    def cost(arch: Arch, use: Use) -> Cost:
        return engine_cost(arch, use, free_size(use, "dst") / STREAMS["vector"],
                           source="Trainium3 architecture guide: four numbers a cycle in each lane")  # fmt: skip

    legacy = Unmodelled("Beta 1 has no rand2")


def _probability(use: Use) -> str | None:
    data, prob = use.dtypes["data"], use.dtypes["prob"]
    assert data is not None
    if prob is None or prob is F32 or data.is_float:
        return None
    return f"data is {data.name} and prob is {prob.name}"


@instruction(engine="vector", see="NKI API, nki.isa.dropout")
class dropout:
    """dst = data, each element replaced by zero with the probability prob of its partition.

    What is kept is not scaled. 0 keeps every element and 1 none.
    """

    one_dtype = predicate("NKI207", "dst has the dtype of data", one_dtype("dst", "data"), operand="dst",
                          help="cast the result with nisa.tensor_copy", accepts={"data": "psum float32 128x64"},
                          refuses={"data": "sbuf bfloat16 128x64"})  # fmt: skip
    wide = predicate("NKI207", "prob is float32 where data are integers", _probability, operand="prob",
                     help="copy prob to a float32 tile",
                     accepts={"dst": "sbuf int32 128x64", "data": "sbuf int32 128x64", "prob": "sbuf float32 128x1"},
                     refuses={"dst": "sbuf int32 128x64", "data": "sbuf int32 128x64",
                              "prob": "sbuf bfloat16 128x1"})  # fmt: skip

    dst = out("P F", ONCHIP, "what is left of data")
    data = arg("P F", ONCHIP, "tile to drop elements of")
    prob = arg("P 1", ONCHIP, "probability of zero: a number, or a tile of one column", scalar=True,
               dtypes=(F32, BF16, F16, TF32, FP8_E4M3, FP8_E4M3FN, FP8_E5M2))  # fmt: skip

    example = {"dst": "sbuf float32 128x64", "data": "sbuf float32 128x64", "prob": 0.5}

    def precision(use: Use) -> str:
        dtype = use.dtypes["data"]
        return "native" if dtype is not None and dtype.kind in ("int", "uint", "bool") else "float32"

    exact = True

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        u = _uniform(_bits(state, use)).reshape(out.dst.shape)
        np.copyto(out.dst, np.where(u < ins.prob, ins.data.dtype.type(0), ins.data))

    def cost(arch: Arch, use: Use) -> Cost:
        return engine_cost(arch, use, free_size(use, "data"))

    legacy = Legacy(order=("data", "prob"))


@instruction(engine="vector", see="NKI API, nki.isa.set_rng_seed")
class set_rng_seed:
    """Seeds the generators of the Vector Engine's lanes from one 32-bit value; the same seed gives the same numbers."""

    src_seeds = arg("1 1", ONCHIP, "a tile of one element whose bits are the seed", dtypes=(UINT32, INT32, F32))

    example = {"src_seeds": "sbuf uint32 1x1"}

    precision = "bits"

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        state.random["vector"] = seeded(int(ins.src_seeds.reshape(-1)[0]), len(state.vector_accumulators), "vector")

    def cost(arch: Arch, use: Use) -> Cost:
        return engine_cost(arch, use, 1, source="not published", confidence="guess")

    legacy = Unmodelled("Beta 1 has no set_rng_seed")


def _state_size(operand: str) -> Any:
    def test(use: Use) -> str | None:
        view: Any = use.types[operand]
        words = STREAMS[use.engine] * WORDS
        if tuple(view.shape[1:]) == (words,):
            return None
        return f"{operand} is {tuple(view.shape)}, a lane of the {use.engine} engine has {words} words"

    return test


def _state_engine(use: Use) -> str | None:
    if use.attrs["engine"] is enums.engine.vector and use.arch.generation < 4:
        return f"the Vector Engine's state is accessible from NeuronCore-v4, the target is {use.arch.name}"
    return None


@instruction(engine=("gpsimd", "vector"), since=3, see="NKI API, nki.isa.rand_set_state")
class rand_set_state:
    """Sets the words of the generators of an engine's lanes: those of partition p become the row of p in src_seeds.

    A generator's six words are the five that shift, oldest first, and the counter; the Vector Engine's four generators
    stand one after the other.
    """

    # guess: the order of the words; the documentation gives their number.
    src_seeds = arg("P W", (SBUF,), "words of each lane: 6, of the Vector Engine 24", dtypes=(UINT32,))
    engine = attr("enum", "gpsimd or vector", default=enums.engine.gpsimd, enum=enums.engine)

    sizes = predicate("NKI203", "6 words for each lane of GpSimd, 24 of the Vector Engine", _state_size("src_seeds"),
                      operand="src_seeds", help="give src_seeds the shape (partitions, 6), with engine=vector (.., 24)",
                      accepts={"src_seeds": "sbuf uint32 64x6"},
                      refuses={"src_seeds": "sbuf uint32 128x24"})  # fmt: skip
    from_v4 = predicate("NKI221", "engine=vector from NeuronCore-v4", _state_engine, operand="engine",
                        help="use engine=gpsimd, or nisa.set_rng_seed", target="trn2",
                        accepts={"engine": enums.engine.gpsimd},
                        refuses={"engine": enums.engine.vector, "src_seeds": "sbuf uint32 128x24"})  # fmt: skip

    example = {"src_seeds": "sbuf uint32 128x6"}

    choose = "gpsimd"
    precision = "native"

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        _generators(state, use.engine)[_lanes(use, "src_seeds")] = ins.src_seeds

    def cost(arch: Arch, use: Use) -> Cost:
        return engine_cost(arch, use, free_size(use, "src_seeds"), source=_NOT_TIMED, confidence="guess")

    legacy = Unmodelled("Beta 1 has no rand_set_state")


@instruction(engine=("gpsimd", "vector"), since=3, see="NKI API, nki.isa.rand_get_state")
class rand_get_state:
    """dst[p] = the words of the generators of lane p of an engine, in the order of nisa.rand_set_state."""

    dst = out("P W", ONCHIP, "words of each lane: 6, of the Vector Engine 24", dtypes=(UINT32,))
    engine = attr("enum", "gpsimd or vector", default=enums.engine.gpsimd, enum=enums.engine)

    sizes = predicate("NKI203", "6 words for each lane of GpSimd, 24 of the Vector Engine", _state_size("dst"),
                      operand="dst", help="give dst the shape (partitions, 6), with engine=vector (.., 24)",
                      accepts={"dst": "sbuf uint32 64x6"}, refuses={"dst": "sbuf uint32 128x24"})  # fmt: skip
    from_v4 = predicate("NKI221", "engine=vector from NeuronCore-v4", _state_engine, operand="engine",
                        help="use engine=gpsimd", target="trn2", accepts={"engine": enums.engine.gpsimd},
                        refuses={"engine": enums.engine.vector, "dst": "sbuf uint32 128x24"})  # fmt: skip

    example = {"dst": "sbuf uint32 128x6"}

    choose = "gpsimd"
    precision = "native"

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        out.dst[...] = _generators(state, use.engine)[_lanes(use, "dst")]

    def cost(arch: Arch, use: Use) -> Cost:
        return engine_cost(arch, use, free_size(use, "dst"), source=_NOT_TIMED, confidence="guess")

    legacy = Unmodelled("Beta 1 has no rand_get_state")


__all__ = ["dropout", "rand2", "rand_get_state", "rand_set_state", "rng", "seeded", "set_rng_seed", "xorwow"]
