"""Draws kernels, calls each several times, and holds every call against one of which nothing was known before.

    python tests/fuzz/repeated.py --kernels 5000 --processes

Programs of several instructions, tiled matrix products, gathers, two cores that synchronize, and device loops whose
iterations are data. Under `matmul_order="tile"` all bits are the same in the first call, in one by the plan of the
first, and in another process with another number of threads; products under `slab` and `free` repeat their bits too,
and stay within the ulp bound of `tile`. Findings and errors are those of the arguments of the call. Half of the kernels
have all arguments in the caller's memory, three of seven what is done for large arrays before a run. Exit status 1 where
something differs.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import ml_dtypes
import numpy as np

import nki_lab
from nki_lab import session
from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.numerics import pool, repeating, slab
from nki_lab.kernel_runtime.options import Options
from tests.calls import contents, source
from tests.draws import Choice, Seeded
from tests.programs import draw_program
from tests.strategies import arches
from tests.tolerances import ulps

Array = np.ndarray[Any, Any]
SMALL, LARGE = repeating.SMALL, pool._LARGE


@dataclass(frozen=True)
class Drawn:
    """A kernel as text, what it is called with in turn, and whether it is a product, of its first two arguments."""

    text: str
    target: str
    calls: tuple[tuple[Any, ...], ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    product: str = ""
    grid: tuple[int, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """The outcome of a call: the bits of results and of arguments afterwards, findings, and whether it had a plan."""

    bits: tuple[bytes, ...]
    findings: tuple[str, ...]
    planned: bool = field(default=False, compare=False)
    values: tuple[Array, ...] = field(default=(), compare=False)


# -- kernels -----------------------------------------------------------------------------------------------------------


def program(choice: Choice) -> Drawn:
    """Several instructions on views that overlap and reinterpret."""
    case = draw_program(choice, choice.pick(arches()), exact=False)
    first = tuple(contents(memory) for memory in case.memories)
    other = tuple(contents(replace(memory, seed=memory.seed + 1)) for memory in case.memories)
    return Drawn(source(case), case.target, (first, other), case.options)


PRODUCT = """
def kernel(left, right):
    K, M = left.shape
    N = right.shape[1]
    out = nl.ndarray({shape}, {dtype}, buffer=nl.shared_hbm)
    more = nl.ndarray((M, N), {dtype}, buffer=nl.shared_hbm)
    for m in range(0, M, {tm}):
        for n in range(0, N, {tn}):
            acc = nl.ndarray(({tm}, {tn}), nl.float32, buffer=nl.psum)
            for k in range(0, K, {tk}):
                a = nl.ndarray(({tk}, {tm}), left.dtype)
                b = nl.ndarray(({tk}, {tn}), right.dtype)
                nisa.dma_copy(a, left[k : k + {tk}, m : m + {tm}])
                nisa.dma_copy(b, right[k : k + {tk}, n : n + {tn}])
                nisa.nc_matmul(acc, a, b)
            tile = nl.ndarray(({tm}, {tn}), {dtype})
            {evacuated}
            nisa.dma_copy({place}, tile)
            {stored}
    {after}
    return out{results}
"""
HERE = "out[m : m + {tm}, n : n + {tn}]"
BLOCK = "out[m // {tm}, n // {tn}]"


def product(choice: Choice) -> Drawn:
    """A tiled matrix product whose sums are taken out of PSUM in one way or another."""
    tk, tm, tn = choice.pick((128, 64)), choice.pick((64, 128, 32)), choice.pick((32, 128, 64, 256))
    size = [choice.integer(1, 3) * step for step in (tk, tm, tn)]
    dtype = choice.pick(("float32", "bfloat16", "float16"))
    evacuated = choice.pick((
        "nisa.tensor_copy(tile, acc)",
        "nisa.tensor_copy(tile, acc)",
        "nisa.activation(tile, op=nl.copy, data=acc)",
        "nisa.tensor_copy(tile, acc); nisa.tensor_scalar(tile, tile, nl.multiply, 1.0)",
        "nisa.tensor_copy(tile[:, 0:16], acc[:, 0:16]); nisa.tensor_copy(tile[:, 16:], acc[:, 16:])",
    ))  # fmt: skip
    upside_down = choice.chance(20)
    in_blocks = not upside_down and choice.chance(30)
    place = "out[M - m - {tm} : M - m, n : n + {tn}]" if upside_down else BLOCK if in_blocks else HERE
    stored = choice.pick((
        "", "", "nisa.dma_copy(more[m : m + {tm}, n : n + {tn}], tile)",
        "nisa.dma_copy(out[0:{tm}, 0:{tn}], tile)",
        ("other = nl.ndarray(({tm}, {tn}), {dtype}); nisa.tensor_copy(other, acc)"
         "; nisa.dma_copy(more[m : m + {tm}, n : n + {tn}], other)"),
    ))  # fmt: skip
    after = choice.pick((
        "", "", "again = nl.load(out[0:{tm}, 0:{tn}]); nl.store(more[0:{tm}, 0:{tn}], again)",
    ))  # fmt: skip
    if in_blocks:
        stored, after = stored.replace("out[0:{tm}, 0:{tn}]", "out[0, 0]"), ""
    sizes = {"tk": tk, "tm": tm, "tn": tn, "dtype": f"nl.{dtype}"}
    shape = f"(M // {tm}, N // {tn}, {tm}, {tn})" if in_blocks else "(M, N)"
    text = PRODUCT.format(
        **sizes, shape=shape, evacuated=evacuated, place=place.format(**sizes), stored=stored.format(**sizes),
        after=after.format(**sizes), results=", more" if "more" in stored + after else "",
    )  # fmt: skip
    given = choice.pick((np.float32, ml_dtypes.bfloat16, np.float16))
    plain = not upside_down and "out[0" not in stored
    return Drawn(text, "trn2", _matrices(choice, size, given), product=dtype if plain else "")


def _matrices(choice: Choice, size: Sequence[int], dtype: Any) -> tuple[tuple[Array, ...], ...]:
    rng = np.random.default_rng(choice.integer(0, 10_000))
    k, m, n = size
    calls = [tuple(rng.standard_normal((k, columns)).astype(dtype) for columns in (m, n)) for _ in range(2)]
    if choice.chance(20):
        calls[1][0].flat[0] = np.nan
    return tuple(calls)


GATHER = """
def kernel(table, index):
    rows = nl.ndarray((128, 1), nl.uint32)
    nisa.dma_copy(rows, index)
    tile = nl.ndarray((128, 64), table.dtype)
    nisa.dma_copy(tile, table.ap(pattern=[[64, 128], [1, 64]], offset=0, vector_offset=rows, indirect_dim=0))
    {more}
    out = nl.ndarray((128, 64), table.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out
"""


def gather(choice: Choice) -> Drawn:
    """Rows that are fetched by indices, which may lie outside."""
    rows = choice.integer(130, 300)
    rng = np.random.default_rng(choice.integer(0, 10_000))
    dtype = choice.pick((np.float32, ml_dtypes.bfloat16))
    more = choice.pick(("", "nisa.tensor_tensor(tile, tile, tile, nl.add)", "nisa.reciprocal(tile, tile)"))
    calls = []
    for top in (rows, choice.pick((rows, rows + 40))):
        table = rng.standard_normal((rows, 64)).astype(dtype)
        calls.append((table, rng.integers(0, top, (128, 1)).astype(np.uint32)))
    oob = choice.pick(("error", "warn"))
    return Drawn(GATHER.format(more=more), "trn2", tuple(calls), {"oob": oob})


LOOP = """
def kernel(x, given):
    n = nisa.register_alloc()
    nisa.register_load(n, given)
    out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
    total = nl.zeros((128, 64), nl.float32)
    tile = nl.ndarray((128, 64), nl.float32)
    for i in nl.dynamic_range(n):
        nisa.dma_copy(dst=tile, src=x[{which}])
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.{op})
    nl.store(out, total)
    return out
"""


def loop(choice: Choice) -> Drawn:
    """A device loop with as many iterations as an argument says."""
    text = LOOP.format(which=choice.pick(("i", "0")), op=choice.pick(("add", "maximum", "subtract")))
    rng = np.random.default_rng(choice.integer(0, 10_000))
    calls = tuple(
        (rng.standard_normal((4, 128, 64), np.float32), np.array([[choice.integer(0, 5)]], np.int32)) for _ in range(2)
    )
    return Drawn(text, "trn2", calls)


CORES = """
def kernel(x):
    me = nl.program_id(0)
    rows, columns = x.shape
    out = nl.ndarray((2, {tiles}, rows, columns), nl.{dtype}, buffer=nl.shared_hbm)
    sums = nl.ndarray((2, rows, 1), nl.float32, buffer=nl.shared_hbm)
    board = nl.ndarray((2, rows, columns), nl.{dtype}, buffer=nl.shared_hbm)
    total = nl.ndarray((rows, 1), nl.float32)
    tiles = []
    for number in range({tiles}):
        tile = nl.ndarray((rows, columns), nl.{dtype})
        nisa.dma_copy(tile, x)
        nisa.tensor_scalar(tile, tile, nl.add, float(10 * me + number))
        tiles.append(tile)
    reset, go_on = nisa.reduce_cmd.reset_reduce, nisa.reduce_cmd.reduce
    nisa.activation(tiles[0], op=nl.copy, data=tiles[0], reduce_op=nl.add, reduce_cmd=reset)
    {moves}
    nisa.activation(tiles[0], op=nl.copy, data=tiles[0], reduce_op=nl.add, reduce_cmd=go_on, reduce_res=total)
    nisa.dma_copy(sums[me], total)
    for number in range({tiles}):
        nisa.dma_copy(out[me, number], tiles[number])
    return out, sums
"""
MOVES = (
    "nisa.sendrecv({a}, {b}, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id={bit})",
    "nisa.tensor_tensor({a}, {a}, {b}, nl.add)",
    "nisa.activation({a}, op=nl.tanh, data={b}, reduce_op=nl.add, reduce_cmd=go_on)",
    "if me == {bit}: nisa.tensor_scalar({a}, {b}, nl.multiply, -1.5)",
    "nisa.dma_copy(board[me], {a})\n    {meet}\n    nisa.dma_copy({b}, board[1 - me])\n    {meet}",
    "{meet}",
)
MEET = "nisa.core_barrier(board, (0, 1))"


def cores(choice: Choice) -> Drawn:
    """Two cores that synchronize, send tiles to each other, or exchange them through HBM."""
    tiles = choice.integer(1, 3)
    chosen = [
        choice.pick(MOVES).format(
            meet=MEET,
            a=f"tiles[{choice.integer(0, tiles - 1)}]",
            b=f"tiles[{choice.integer(0, tiles - 1)}]",
            bit=choice.integer(0, 1),
        )
        for _ in range(choice.integer(0, 6))
    ]
    text = CORES.format(tiles=tiles, dtype=choice.pick(("float32", "bfloat16")), moves="\n    ".join(chosen) or "pass")
    rng = np.random.default_rng(choice.integer(0, 10_000))
    shape = choice.pick((32, 128)), choice.pick((16, 100, 512))
    calls = tuple((rng.standard_normal(shape, np.float32),) for _ in range(2))
    return Drawn(text, choice.pick(("trn2", "trn3")), calls, grid=(2,))


KINDS: tuple[Callable[[Choice], Drawn], ...] = (
    program, product, program, gather, program, product, cores, program, loop,
)  # fmt: skip


def draw(number: int) -> Drawn:
    """Kernel number `number`."""
    return KINDS[number % len(KINDS)](Seeded(number))


# -- calls -------------------------------------------------------------------------------------------------------------


def function_of(text: str) -> Callable[..., Any]:
    """Return the function `kernel` of a text, as a module that imports NKI has it."""
    import nki.isa
    import nki.language

    names: dict[str, Any] = {"nl": nki.language, "nisa": nki.isa, "np": np, "ml_dtypes": ml_dtypes, "__name__": "drawn"}
    exec(compile(text, "<drawn>", "exec"), names)
    kernel: Callable[..., Any] = names["kernel"]
    return kernel


def launched(drawn: Drawn, kernel: Callable[..., Any], order: str) -> session.Launch:
    """Return the launch of a kernel whose products add in an order."""
    options = Options(**{**drawn.options, "matmul_order": order})
    return session.Launch(kernel, drawn.target, options, grid=drawn.grid)


def call(launch: session.Launch, arguments: Sequence[Any]) -> Outcome:
    """Call a kernel on copies of arguments."""
    given = tuple(item.copy() for item in arguments)
    try:
        made = session.execute(launch, given, {})
    except NkiError as error:
        return Outcome(_bits(given), tuple(str(item) for item in error.diagnostics))
    planned = made.cached and made.timings.check == 0.0
    return Outcome(_bits((*made.flat, *given)), tuple(map(str, made.diagnostics)), planned, made.flat)


def _bits(arrays: Sequence[Any]) -> tuple[bytes, ...]:
    return tuple(np.asarray(item).tobytes() for item in arrays)


def problem(drawn: Drawn, counts: Counter[str] | None = None) -> str:
    """Return what is wrong with the calls of a kernel; empty where nothing is."""
    counts = Counter() if counts is None else counts
    kernel = function_of(drawn.text)
    orders = ("tile", "slab", "free") if drawn.product else ("tile",)
    by_tile: list[Outcome] = []
    for order in orders:
        launch = launched(drawn, kernel, order)
        wanted = []
        for arguments in drawn.calls:
            session.forget()
            wanted.append(call(launch, arguments))
        session.forget()
        for number in (0, *range(len(drawn.calls)), 0, len(drawn.calls) - 1):
            found = call(launch, drawn.calls[number])
            counts["planned" if found.planned else "in full"] += 1
            if found != wanted[number]:
                what = "bits" if found.bits != wanted[number].bits else "findings"
                return f"{order}: {what} of call {number} differ{' by its plan' if found.planned else ''}"
        by_tile = by_tile or wanted
        for arguments, got, reference in zip(drawn.calls, wanted, by_tile, strict=True):
            if far := _distance(drawn, arguments, got, reference):
                return f"{order}: {far}"
    return ""


def _distance(drawn: Drawn, arguments: Sequence[Array], got: Outcome, reference: Outcome) -> str:
    """Return by how much a product differs from that by tiles, where it is too much."""
    if not drawn.product or not got.values:
        return ""
    a, b = (item.astype(np.float64) for item in arguments)
    here, there = (_matrix(item.values[0].astype(np.float32)) for item in (got, reference))
    scale = np.maximum(np.abs(a).T @ np.abs(b), np.abs(there))
    finite = np.isfinite(scale)
    if (np.isfinite(here) != np.isfinite(there)).any():
        return "other infinities or NaN than by tiles"
    if drawn.product != "float32":  # a sum that is rounded may go the other way
        step = {"bfloat16": 2.0**-8, "float16": 2.0**-11}[drawn.product]
        close = np.abs(here - there) <= 2 * step * np.abs(there) + slab.ULP_BOUND * 2.0**-23 * scale + 2.0**-24
        return "" if close[finite].all() else "more than a rounding from the product by tiles"
    most = ulps(here[finite], there[finite], scale[finite]) if finite.any() else 0
    return "" if most <= slab.ULP_BOUND else f"{most} ulp from the product by tiles"


def _matrix(values: Array) -> Array:
    """Return a result as a matrix, where it is one in blocks."""
    if values.ndim != 4:
        return values
    m, n, rows, columns = values.shape
    return values.transpose(0, 2, 1, 3).reshape(m * rows, n * columns)


def digest(number: int) -> str:
    """Return a digest of what the first call of a kernel gives."""
    drawn = draw(number)
    launch = launched(drawn, function_of(drawn.text), "tile")
    session.forget()
    outcome = call(launch, drawn.calls[0])
    return hashlib.sha256(repr((outcome.bits, outcome.findings)).encode()).hexdigest()[:16]


def elsewhere(first: int, kernels: int, threads: int) -> list[str]:
    """Return the digests of some kernels in another process, with its own hashes and number of threads."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": str(threads), "PYTHONHASHSEED": str(threads)}
    command = [sys.executable, __file__, "--digests", "--seed", str(first), "--kernels", str(kernels)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0, help="number of the first kernel")
    parser.add_argument("--processes", action="store_true", help="compare with processes of one and of two threads")
    parser.add_argument("--digests", action="store_true", help="print digests of first calls alone")
    given = parser.parse_args(arguments)
    numbers = range(given.seed, given.seed + given.kernels)
    nki_lab.activate()
    if given.digests:
        print("\n".join(digest(number) for number in numbers))
        return 0
    counts: Counter[str] = Counter()
    failed, start = 0, time.monotonic()
    for number in numbers:
        drawn = draw(number)
        repeating.SMALL = 0 if number % 2 else SMALL  # type: ignore[misc]
        pool._LARGE = LARGE if number % 7 % 3 else 1  # type: ignore[misc]
        try:
            told = problem(drawn, counts)
        finally:
            repeating.SMALL, pool._LARGE = SMALL, LARGE  # type: ignore[misc]
        if told:
            failed += 1
            print(f"kernel {number}, {told}:\n{drawn.text}")
    if given.processes:
        one, two = (elsewhere(given.seed, given.kernels, threads) for threads in (1, 2))
        for number, *digests in zip(numbers, one, two, strict=True):
            if len({*digests, digest(number)}) > 1:
                failed += 1
                print(f"kernel {number} differs between processes or threads")
    seconds = time.monotonic() - start
    print(f"{given.kernels} kernels, {counts['planned']} calls by plans, {counts['in full']} in full, {failed} failed, "
          f"{seconds:.0f} s")  # fmt: skip
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
