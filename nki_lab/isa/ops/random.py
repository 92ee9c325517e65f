"""Random numbers: bits, uniform numbers, dropout, and the generators' state.

A lane of the Vector Engine has four generators of six words, a lane of GpSimd one. Each is XORWOW (Marsaglia 2003):
five words that shift, and a counter that is added to what comes out. NKI names XORWOW for the Vector Engine of
NeuronCore-v4 and for the states of 6 and 24 words; the rest of the scheme is not published, so that a seed gives the
same numbers here at each run and on each target, and other numbers than on the chip.
"""


# mypy: disable-error-code="misc"

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa import enums
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
from nki_lab.isa.ops.cycles import free_size, streaming
from nki_lab.isa.ops.masks import blend
from nki_lab.isa.ops.registers import lanes_of
from nki_lab.isa.ops.shapes import one_dtype
from nki_lab.isa.spec import (
    ONCHIP,
    SBUF,
    Arrays,
    Beta1,
    EngineState,
    Fault,
    Predicate,
    Unmodelled,
    Use,
    arg,
    choice,
    column,
    instruction,
    out,
)
from nki_lab.kernel_runtime.compiled_code import WhenWorthwhile, compilable

Words = NDArray[np.uint32]

WORDS: Final = 6
STREAMS: Final[Mapping[str, int]] = {"vector": 4, "gpsimd": 1}
"""Generators of a lane, by engine."""
_WEYL: Final = 362437  # what the counter grows by (Marsaglia 2003)
_GOLDEN: Final = 0x9E3779B97F4A7C15  # splitmix64
_INTEGERS: Final = (INT8, INT16, INT32, UINT8, UINT16, UINT32)
_NOT_TIMED: Final = "not published: one element a cycle"


def seeded(seed: int, lanes: int, engine: str) -> Words:
    """Return the words of each lane's generators, (lanes, generators * 6), for one 32-bit seed.

    guess: how a seed fills the lanes is not published. Word k of all lanes' words in order is the upper half of
    splitmix64's number k after the seed.
    """
    count = STREAMS[engine] * WORDS
    z = np.uint64(seed) + np.arange(1, lanes * count + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(32)).astype(np.uint32).reshape(lanes, count)


def _shifted(words: Words, count: int) -> Words:
    """Return the next `count` words that generators shift in, oldest first: (count, generators). Those of `words`,
    (5, generators) and oldest first as well, move on.
    """
    width = words.shape[1]
    history = np.empty((count + 5, width), np.uint32)
    history[:5] = words
    mixed, shifted = (np.empty((5, width), np.uint32) for _ in range(2))
    one, two, four = (np.full((5, width), places, np.uint32) for places in (1, 2, 4))  # faster than numbers
    parts, own, four = list(mixed), shifted[0], four[0]
    newest = history[4]
    for begin in range(0, count, 5):
        # The oldest five words are known before the five that come of them.
        oldest = history[begin : begin + 5]
        np.right_shift(oldest, two, mixed)
        np.bitwise_xor(oldest, mixed, mixed)
        np.left_shift(mixed, one, shifted)
        np.bitwise_xor(mixed, shifted, mixed)
        for made, part in zip(history[begin + 5 : begin + 10], parts, strict=False):
            np.left_shift(newest, four, own)
            np.bitwise_xor(newest, own, own)
            np.bitwise_xor(own, part, made)
            newest = made
    words[...] = history[count:]
    return history[5:]


def xorwow(words: Words, count: int) -> Words:
    """Return the next `count` numbers of generators whose words are rows, (generators, count); the words move on."""
    return _numbers(words.reshape(len(words), 1, WORDS), count)


def _numbers(words: Words, count: int) -> Words:
    """Return the next `count` numbers of each lane's generators, in turns: (lanes, count * generators).

    `words` are (lanes, generators, 6), and move on.
    """
    compiled = _COMPILED.get()
    if compiled is None:
        with _COMPILED.replaced():
            return _by_steps(words, count)
    dense, numbers = np.ascontiguousarray(words), np.empty((len(words), count * words.shape[1]), np.uint32)
    compiled(dense, count, numbers)
    if dense is not words:
        words[...] = dense
    return numbers


def generate(words: Words, count: int, numbers: Words) -> None:
    """Draw `count` numbers of each generator into `numbers`, as `_numbers` returns them."""
    lanes, streams, _ = words.shape
    two, one, four, weyl = np.uint32(2), np.uint32(1), np.uint32(4), np.uint32(_WEYL)
    for lane in range(lanes):
        for stream in range(streams):
            a, b, c, d, e, counter = words[lane, stream]
            for step in range(count):
                mixed = np.uint32(a ^ (a >> two))
                a, b, c, d = b, c, d, e
                e = np.uint32(e ^ np.uint32(e << four) ^ mixed ^ np.uint32(mixed << one))
                counter = np.uint32(counter + weyl)
                numbers[lane, step * streams + stream] = np.uint32(e + counter)
            last = words[lane, stream]
            last[0], last[1], last[2], last[3], last[4], last[5] = a, b, c, d, e, counter


_COMPILED: Final = WhenWorthwhile(compilable(generate))


def _by_steps(words: Words, count: int) -> Words:
    """Return what `_numbers` does, a step of all generators at a time."""
    lanes, streams, _ = words.shape
    shifting = words[:, :, :5].reshape(-1, 5).T
    made = _shifted(shifting, count)
    words[:, :, :5] = shifting.T.reshape(lanes, streams, 5)
    made += words[:, :, 5].reshape(-1)
    made += (np.arange(1, count + 1, dtype=np.uint32) * np.uint32(_WEYL))[:, None]
    words[:, :, 5] += np.uint32(count * _WEYL % 2**32)
    # The numbers of a step stand together: they are moved as one element.
    return np.ascontiguousarray(made.view(f"V{4 * streams}").T).view(np.uint32)


def _generators(state: EngineState, engine: str) -> Words:
    """Return the words of an engine's generators. guess: after power-up they are those of seed 0."""
    if engine not in state.random:
        state.random[engine] = seeded(0, len(state.vector_accumulators), engine)
    return state.random[engine]


def _bits(state: EngineState, use: Use) -> Words:
    """Return 32 random bits for each element of dst: (partitions, elements).

    guess: a lane's generators take turns, element by element, and move on together: an instruction whose elements are
    no multiple of four leaves the rest of the last four unused.
    """
    streams = STREAMS[use.engine]
    words = lanes_of(_generators(state, use.engine), use, "dst")
    elements = free_size(use, "dst")
    steps = -(-elements // streams)
    return _numbers(words.reshape(len(words), streams, WORDS), steps)[:, :elements]  # a view, whose words move on


def _uniform(bits: Words) -> NDArray[np.float32]:
    """Return numbers in [0, 1). guess: the upper 24 bits of each word, since float32 holds as many."""
    numbers = (bits >> np.uint32(8)).astype(np.float32)
    numbers *= np.float32(2.0**-24)
    return numbers


def _moves_generators(_use: Use) -> bool:
    """Always: a call leaves the generators of its engine in another state, and later calls draw other numbers."""
    return True


def _from(generation: int, engine: enums.engine, what: str, remedy: str, **refuses: str) -> Predicate:
    """Limit: an engine does `what` from a generation on; the other one always does."""

    def test(use: Use) -> Fault:
        return use.before(generation, f"{what} from") if use.attrs["engine"] is engine else None

    other = enums.engine.gpsimd if engine is enums.engine.vector else enums.engine.vector
    return Predicate(
        "NKI221",
        f"engine={engine.name} from NeuronCore-v{generation}",
        test,
        operand="engine",
        help=remedy,
        target=f"trn{generation - 2}",
        accepts={"engine": other},
        refuses={"engine": engine, **refuses},
    )


@instruction(engine=("vector", "gpsimd"), see="NKI API, nki.isa.rng")
class rng:
    """dst = random bits: the lowest bits of 32 for each element, by the generators of the engine's lanes.

    nisa.set_rng_seed seeds those of the Vector Engine, nisa.rand_set_state those of either engine.
    """

    dst = out("P F", ONCHIP, "tile of integers to fill; GpSimd reaches SBUF only", dtypes=_INTEGERS)
    engine = choice("vector or gpsimd", enums.engine.vector)

    from_v3 = _from(3, enums.engine.gpsimd, "GpSimd makes random numbers", "leave engine= out")

    example = {"dst": "sbuf uint32 128x64"}

    choose = "vector"
    precision = "native"

    continuous = False

    keeps_state = _moves_generators

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        out.dst[...] = _bits(state, use).reshape(out.dst.shape).astype(out.dst.dtype, copy=False)

    cost = streaming("dst", source=_NOT_TIMED, confidence="guess")

    beta1 = Unmodelled("Beta 1 has no rng")


def _range(use: Use) -> Fault:
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
    min = column("lower end: a number, or a float32 tile of one column", dtypes=(F32,))
    max = column("upper end: a number, or a float32 tile of one column", dtypes=(F32,))

    ordered = Predicate(
        "NKI012", "min < max", _range, operand="min", help="swap them", accepts={"min": -1.0}, refuses={"min": 2.0}
    )

    example = {"dst": "sbuf float32 128x64", "min": 0.0, "max": 1.0}

    continuous = False

    keeps_state = _moves_generators

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        out.dst[...] = (ins.max - ins.min) * _uniform(_bits(state, use)).reshape(out.dst.shape) + ins.min

    cost = streaming(
        "dst", 1 / STREAMS["vector"], source="Trainium3 architecture guide: four numbers a cycle in each lane"
    )

    beta1 = Unmodelled("Beta 1 has no rand2")


def _probability(use: Use) -> Fault:
    data, prob = use.types["data"].dtype, use.dtypes["prob"]
    return None if prob in (None, F32) or data.is_float else f"data is {data} and prob is {prob}"


@instruction(engine="vector", see="NKI API, nki.isa.dropout")
class dropout:
    """dst = data, each element replaced by zero with the probability prob of its partition.

    What is kept is not scaled. 0 keeps every element and 1 none.
    """

    one_dtype = Predicate(
        "NKI207",
        "dst has the dtype of data",
        one_dtype("dst", "data"),
        operand="dst",
        help="cast the result with nisa.tensor_copy",
        accepts={"data": "psum float32 128x64"},
        refuses={"data": "sbuf bfloat16 128x64"},
    )
    wide = Predicate(
        "NKI207",
        "prob is float32 where data are integers",
        _probability,
        operand="prob",
        help="copy prob to a float32 tile",
        accepts={"dst": "sbuf int32 128x64", "data": "sbuf int32 128x64", "prob": "sbuf float32 128x1"},
        refuses={"dst": "sbuf int32 128x64", "data": "sbuf int32 128x64", "prob": "sbuf bfloat16 128x1"},
    )

    dst = out("P F", ONCHIP, "what is left of data")
    data = arg("P F", ONCHIP, "tile to drop elements of")
    prob = column(
        "probability of zero: a number, or a tile of one column",
        dtypes=(F32, BF16, F16, TF32, FP8_E4M3, FP8_E4M3FN, FP8_E5M2),
    )

    example = {"dst": "sbuf float32 128x64", "data": "sbuf float32 128x64", "prob": 0.5}

    def precision(use: Use) -> str:
        return "native" if use.types["data"].dtype.kind in ("int", "uint", "bool") else "float32"

    exact = True

    continuous = False

    keeps_state = _moves_generators

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        dropped = _uniform(_bits(state, use)).reshape(out.dst.shape) < ins.prob
        blend(dropped, ins.data.dtype.type(0), ins.data, out.dst)

    cost = streaming("data")

    beta1 = Beta1(order="data prob")


@instruction(engine="vector", see="NKI API, nki.isa.set_rng_seed")
class set_rng_seed:
    """Seeds the generators of the Vector Engine's lanes from one 32-bit value; the same seed gives the same numbers."""

    src_seeds = arg("1 1", ONCHIP, "a tile of one element whose bits are the seed", dtypes=(UINT32, INT32, F32))

    example = {"src_seeds": "sbuf uint32 1x1"}

    precision = "bits"

    keeps_state = _moves_generators

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        state.random["vector"] = seeded(int(ins.src_seeds.reshape(-1)[0]), len(state.vector_accumulators), "vector")

    cost = streaming("src_seeds", source="not published", confidence="guess")

    beta1 = Unmodelled("Beta 1 has no set_rng_seed")


def _state_size(operand: str, remedy: str) -> tuple[Predicate, Predicate]:
    """Limits: a state has the words of the engine's lanes, and that of the Vector Engine is accessible."""

    def test(use: Use) -> Fault:
        shape, words = tuple(use.types[operand].shape), STREAMS[use.engine] * WORDS
        if shape[1:] == (words,):
            return None
        return f"{operand} is {shape}, a lane of the {use.engine} engine has {words} words"

    return (
        Predicate(
            "NKI203",
            "6 words for each lane of GpSimd, 24 of the Vector Engine",
            test,
            operand=operand,
            help=f"give {operand} the shape (partitions, 6), with engine=vector (.., 24)",
            accepts={operand: "sbuf uint32 64x6"},
            refuses={operand: "sbuf uint32 128x24"},
        ),
        _from(
            4, enums.engine.vector, "the Vector Engine's state is accessible", remedy, **{operand: "sbuf uint32 128x24"}
        ),
    )


@instruction(engine=("gpsimd", "vector"), since=3, see="NKI API, nki.isa.rand_set_state")
class rand_set_state:
    """Sets the words of the generators of an engine's lanes: those of partition p become the row of p in src_seeds.

    A generator's six words are the five that shift, oldest first, and the counter; the Vector Engine's four generators
    stand one after the other.
    """

    # guess: the order of the words; the documentation gives their number.
    src_seeds = arg("P W", (SBUF,), "words of each lane: 6, of the Vector Engine 24", dtypes=(UINT32,))
    engine = choice("gpsimd or vector", enums.engine.gpsimd)

    sizes, from_v4 = _state_size("src_seeds", "use engine=gpsimd, or nisa.set_rng_seed")

    example = {"src_seeds": "sbuf uint32 128x6"}

    choose = "gpsimd"
    precision = "native"

    keeps_state = _moves_generators

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        lanes_of(_generators(state, use.engine), use, "src_seeds")[...] = ins.src_seeds

    cost = streaming("src_seeds", source=_NOT_TIMED, confidence="guess")

    beta1 = Unmodelled("Beta 1 has no rand_set_state")


@instruction(engine=("gpsimd", "vector"), since=3, see="NKI API, nki.isa.rand_get_state")
class rand_get_state:
    """dst[p] = the words of the generators of lane p of an engine, in the order of nisa.rand_set_state."""

    dst = out("P W", ONCHIP, "words of each lane: 6, of the Vector Engine 24", dtypes=(UINT32,))
    engine = choice("gpsimd or vector", enums.engine.gpsimd)

    sizes, from_v4 = _state_size("dst", "use engine=gpsimd")

    example = {"dst": "sbuf uint32 128x6"}

    choose = "gpsimd"
    precision = "native"

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        out.dst[...] = lanes_of(_generators(state, use.engine), use, "dst")

    cost = streaming("dst", source=_NOT_TIMED, confidence="guess")

    beta1 = Unmodelled("Beta 1 has no rand_get_state")


__all__ = ["dropout", "rand2", "rand_get_state", "rand_set_state", "rng", "seeded", "set_rng_seed", "xorwow"]
