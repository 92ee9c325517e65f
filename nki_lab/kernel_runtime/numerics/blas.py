"""Single-precision matrix products into place: NumPy's own BLAS where it can be called, else NumPy.

The threads of a product wait for each other. Where another process has one of two processors, a product of 128 x 128 by
128 x 512 by two threads takes as long as the system lets that process run, 30 ms, and 0.15 ms by one: `Pace` notices.
"""

from __future__ import annotations

import ctypes
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Array = NDArray[Any]

if TYPE_CHECKING:
    from ctypes import _NamedFuncPointer as _Function

_ROW_MAJOR: Final = 101
_NO_TRANSPOSE: Final = 111
_TRANSPOSE: Final = 112
_BLOCK: Final = 1024  # rows and columns of the product of one call without BLAS: it stays in the last-level cache


@cache
def _libraries() -> list[ctypes.CDLL]:
    """Return the BLAS libraries that NumPy's wheels carry."""
    found = []
    for path in sorted((Path(np.__file__).parent.parent / "numpy.libs").glob("libscipy_openblas64*")):
        with suppress(OSError):
            found.append(ctypes.CDLL(str(path)))
    return found


@cache
def _function(name: str) -> _Function | None:
    """Return a function of the BLAS library that NumPy's wheels carry; None where there is none."""
    found = (getattr(library, name, None) for library in _libraries())
    return cast("_Function | None", next(filter(None, found), None))


@cache
def _sgemm() -> Callable[..., object] | None:
    """Return cblas_sgemm with 64-bit sizes; None where there is none."""
    function = _function("scipy_cblas_sgemm64_")
    if function is not None:
        size, scalar, pointer = ctypes.c_int64, ctypes.c_float, ctypes.c_void_p
        function.argtypes = [
            *[ctypes.c_int] * 3,
            *[size] * 3,
            scalar,
            pointer,
            size,
            pointer,
            size,
            scalar,
            pointer,
            size,
        ]
        function.restype = None
    return function


_sgemm()  # now, not in the first run: to find it takes a third of a millisecond


def _pitch(array: Floats) -> int | None:
    """Return the elements from row to row of a matrix whose rows are dense; None for another layout."""
    rows, columns = array.strides
    if columns != array.itemsize or rows % array.itemsize or rows < array.shape[1] * array.itemsize:
        return None
    return rows // array.itemsize


def accumulate(left: Floats, right: Floats, out: Floats, *, add: bool) -> None:
    """Set out = left.T @ right, or out += left.T @ right; left [K, M], right [K, N], out [M, N] float32."""
    function = _sgemm()
    pitches, turned = [_pitch(left), _pitch(right), _pitch(out)], [False, False]
    for place, operand in enumerate((left, right)):
        if pitches[place] is None:
            pitches[place], turned[place] = _pitch(operand.T), True
    if function is not None and None not in pitches and min(out.shape) > 0:
        (k, m), n = left.shape, right.shape[1]
        paced(
            (k, m, n),
            function,
            _ROW_MAJOR,
            _NO_TRANSPOSE if turned[0] else _TRANSPOSE,
            _TRANSPOSE if turned[1] else _NO_TRANSPOSE,
            m,
            n,
            k,
            1.0,
            left.ctypes.data,
            pitches[0],
            right.ctypes.data,
            pitches[1],
            1.0 if add else 0.0,
            out.ctypes.data,
            pitches[2],
        )
        return
    for row in range(0, out.shape[0], _BLOCK):
        for column in range(0, out.shape[1], _BLOCK):
            target = out[row : row + _BLOCK, column : column + _BLOCK]
            product = left[:, row : row + _BLOCK].T @ right[:, column : column + _BLOCK]
            if add:
                np.add(target, product, out=target)
            else:
                np.copyto(target, product)


def multiply(left: Array, right: Array, out: Array | None = None) -> Array:
    """Return left.T @ right, in `out` where it is given; left [K, M], right [K, N], out [M, N] of one dtype."""
    product: Array = paced((*left.shape, right.shape[1]), np.matmul, left.T, right, out)
    return product


def multiply_add(left: Array, right: Array, out: Array) -> None:
    """Set out += left.T @ right; left [K, M], right [K, N], out [M, N] of one dtype."""
    if left.dtype == right.dtype == out.dtype == np.float32:
        accumulate(left, right, out, add=True)
    else:
        np.add(out, multiply(left, right), out=out)


def available() -> bool:
    """Whether products accumulate in place."""
    return _sgemm() is not None


def library() -> str:
    """Return the name of the library that multiplies matrices here, for `nki-lab doctor`."""
    config = cast("dict[str, dict[str, dict[str, str]]]", np.show_config(mode="dicts"))
    blas = config.get("Build Dependencies", {}).get("blas", {})
    name = f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()
    return f"{name}, {'in place' if available() else 'through NumPy'}"


_EVEN: Final = ("Sandybridge", "SkylakeX", "Cooperlake", "SapphireRapids")
"""Kernels of OpenBLAS whose sums of up to `ONE_PASS` terms have the same bits with any number of threads; those of
Haswell, which processors of AMD run too, and older ones have not. (Tried: products of 100 random sizes, with NumPy 2.0,
2.2 and 2.4.)"""


@cache
def bits_depend_on_threads() -> bool:
    """Return whether the last bits of a product may depend on the number of threads that it takes."""
    name = _function("scipy_openblas_get_corename64_")
    if name is None:
        return True
    name.restype = ctypes.c_char_p
    return name().decode() not in _EVEN


def threads() -> int:
    """Return the threads that a product may take, 0 where the library does not say."""
    count = _function("scipy_openblas_get_num_threads64_")
    return 0 if count is None else count()  # ctypes takes the result for an int


def set_threads(count: int) -> None:
    """Have products of this process take so many threads at most; nothing where the library cannot be told."""
    choose = _function("scipy_openblas_set_num_threads64_")
    if choose is not None:
        choose(count)


_lock = threading.Lock()
_users = 0
_before = 0


@contextmanager
def single_thread() -> Iterator[None]:
    """Multiply with one thread inside, and with as many as before afterwards, in the whole process.

    A program that is stepped through multiplies one tile at a time: waking other threads for that costs more than they
    save, and many times the product where the processors are busy.
    """
    global _users, _before  # noqa: PLW0603 - the number of threads is the process's
    with _lock:
        if not _users:
            _before = threads()
            set_threads(1)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                set_threads(_before)


_SHARED: Final = 1 << 18  # multiplications: fewer are not shared among threads
ONE_PASS: Final = 384
"""Rows of the contraction. With 448 the order of a sum depends on the number of threads with the kernels of
Sandybridge, with 512 with all."""
_QUICK: Final = 1 << 24  # multiplications: one thread takes a fifth of a millisecond
_SAMPLES: Final = 3
_SLOWER: Final = 4  # times: two threads that wait for each other take longer by far
_LATE: Final = 2_000_000  # ns: and longer than the system interrupts a process for
_HELD_UP: Final = 1.5  # times: of large products, which take longer than that, two in a row are enough
_USUAL: Final = 0.03  # ns a multiplication by one thread, where nothing is learned yet: 67 GFLOP/s
_PAUSES: Final = (50_000_000, 2_000_000_000)  # ns, the least and the most


class Pace:
    """Chooses the threads of small products: all, or one for a while after such a product took much too long.

    What one thread takes is learned from the first products of each small size, and of others no more than all threads
    together; a size is the number of multiplications, in powers of two. Where that makes other bits (`learns` is
    false), all threads take the first ones too: equal calls have equal bits then unless something holds them up. `now`
    and `alone` are the clock, in ns, and the context of one thread, `usual` the ns of a multiplication before anything
    is learned.
    """

    def __init__(
        self,
        now: Callable[[], int] = time.perf_counter_ns,
        alone: Callable[[], AbstractContextManager[None]] = single_thread,
        usual: float = _USUAL,
        *,
        learns: bool = True,
    ) -> None:
        self._now, self._alone, self._usual, self._learns = now, alone, usual, learns
        self._known: dict[int, tuple[int, float]] = {}  # the samples of a size, and the least ns a multiplication
        self._resume, self._pause = 0, _PAUSES[0] // 2
        self._held_up = False  # the large product before

    def run(self, count: int, most: int, function: Callable[..., Any], *arguments: object) -> Any:
        """Call the function, a product of `count` multiplications by `most` threads, and return its result."""
        size, start = count.bit_length(), self._now()
        samples, least = self._known.get(size, (0, math.inf))
        if start < self._resume or (samples < _SAMPLES and count <= _QUICK and self._learns):
            with self._alone():
                start = self._now()
                result = function(*arguments)
                took = self._now() - start
            self._known[size] = samples + 1, min(least, took / count)
            return result
        result = function(*arguments)
        end = self._now()
        took = end - start
        if count > _QUICK and took * most < least * count:
            self._known[size] = samples, took * most / count
        if not samples:
            least = min(least, self._usual)
        held_up = count > _QUICK and took > _HELD_UP * least * count
        if took > _SLOWER * least * count + _LATE or (held_up and self._held_up):
            calm = start - self._resume
            self._pause = _PAUSES[0] if calm > _SLOWER * self._pause else min(2 * self._pause, _PAUSES[1])
            self._resume = end + self._pause
        self._held_up = held_up
        return result


_pace = Pace(learns=not bits_depend_on_threads())


def paced(sizes: tuple[int, int, int], function: Callable[..., Any], *arguments: object) -> Any:
    """Call a product of [K, M] and [K, N] with the threads that suit it, and return its result; `sizes` are K, M, N."""
    count = math.prod(sizes)
    if count <= _SHARED or sizes[0] > ONE_PASS or (most := threads()) < 2:
        return function(*arguments)
    return _pace.run(count, most, function, *arguments)
