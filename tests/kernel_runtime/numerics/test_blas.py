"""The threads that products take, and where their results go."""

import math
import os
import platform
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.kernel_runtime.numerics import blas
from nki_lab.processors import processor_count


@pytest.mark.skipif(blas.threads() == 0, reason="the library does not say how many threads it takes")
def test_one_thread_inside_and_as_many_as_before_afterwards() -> None:
    before = blas.threads()
    with blas.single_thread():
        assert blas.threads() == 1
        with pytest.raises(ValueError, match="x"), blas.single_thread():
            raise ValueError("x")
        assert blas.threads() == 1
    assert blas.threads() == before


def test_values_leave_the_threads_as_they_are() -> None:
    before, seen = blas.threads(), []

    def use() -> None:
        for _ in range(200):
            with blas.single_thread():
                seen.append(blas.threads())

    users = [threading.Thread(target=use) for _ in range(4)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert len(seen) == 800
    assert set(seen) <= {0, 1}
    assert blas.threads() == before


SIDES = st.integers(2, 600)


@pytest.mark.skipif(blas.threads() < 2, reason="products have one thread here")
@pytest.mark.skipif(blas.bits_depend_on_threads(), reason="the kernels of this processor add in an order of their own")
@given(st.integers(1, 256), SIDES, SIDES, st.integers(0, 2**32 - 1))
def test_products_of_tiles_have_the_same_bits_with_any_number_of_threads(k: int, m: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    left, right, sums = (rng.standard_normal(shape, np.float32) for shape in ((k, m), (k, n), (m, n)))

    def products() -> list[bytes]:
        added = sums.copy()
        blas.accumulate(left, right, added, add=True)
        return [np.matmul(left.T, right).tobytes(), added.tobytes()]

    with blas.single_thread():
        alone = products()
    assert products() == alone


CORES = ("Nehalem", "Sandybridge", "Haswell", "SkylakeX")
PRODUCTS = """
import numpy as np
from nki_lab.kernel_runtime.numerics import blas

draws, differing = np.random.default_rng(0), 0
for _ in range(40):
    k, m, n = draws.integers(2, blas.ONE_PASS + 1), draws.integers(2, 600), draws.integers(2, 600)
    left, right = draws.standard_normal((k, m), np.float32), draws.standard_normal((k, n), np.float32)
    with blas.single_thread():
        alone = np.matmul(left.T, right).tobytes()
    differing += alone != np.matmul(left.T, right).tobytes()
print(blas.bits_depend_on_threads(), differing > 0)
"""


@pytest.mark.extended
@pytest.mark.skipif(processor_count() < 2, reason="products have one thread here")
@pytest.mark.skipif(blas.threads() == 0, reason="the library does not say how many threads it takes")
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the kernels are those of x86")
@pytest.mark.parametrize("core", CORES)
def test_it_is_known_on_which_processors_bits_depend_on_threads(core: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRODUCTS],
        env={**os.environ, "OPENBLAS_CORETYPE": core, "OPENBLAS_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == -signal.SIGILL:
        pytest.skip("this processor lacks instructions of those kernels")
    assert done.returncode == 0, done.stderr
    known, differing = done.stdout.split()
    assert known == differing


class Machine:
    """A clock, and products that take one nanosecond a multiplication alone, and `together` times that with others."""

    def __init__(self, usual: float = math.inf, *, learns: bool = True) -> None:
        self.time, self.is_alone, self.together = 0, False, 0.5
        self.pace = blas.Pace(lambda: self.time, self.alone, usual, learns=learns)

    @contextmanager
    def alone(self) -> Iterator[None]:
        self.is_alone = True
        yield
        self.is_alone = False

    def multiply(self, count: int) -> bool:
        self.time += int(count * (1 if self.is_alone else self.together))
        return self.is_alone

    def run(self, count: int = 1_000_000) -> bool:
        """Return whether a product took one thread."""
        return bool(self.pace.run(count, 2, self.multiply, count))

    def alone_for(self) -> int:
        """Return the milliseconds, which are products, before one takes all threads again."""
        count = 0
        while self.run():
            count += 1
        return count


def test_the_first_products_of_a_size_take_one_thread() -> None:
    machine = Machine()
    assert [machine.run() for _ in range(6)] == [True, True, True, False, False, False]
    assert [machine.run(5_000_000) for _ in range(4)] == [True, True, True, False]
    assert not machine.run(1_010_000)


def test_no_product_takes_one_thread_to_be_learned_from_where_that_makes_other_bits() -> None:
    machine = Machine(usual=1.0, learns=False)
    assert not any(machine.run() for _ in range(6))
    machine.together = 30
    assert [machine.alone_for() for _ in range(3)] == [0, 50, 100]


def test_large_products_take_all_threads_from_the_first_on() -> None:
    machine, large = Machine(), 100_000_000
    assert not any(machine.run(large) for _ in range(20))
    machine.together = 4.5
    assert [machine.run(large), machine.run(large), machine.run(large)] == [False, True, False]


def test_two_large_products_that_are_held_up_are_enough() -> None:
    machine, large = Machine(), 30_000_000
    assert not any(machine.run(large) for _ in range(20))
    machine.together = 1.6
    assert [machine.run(large) for _ in range(5)] == [False, False, True, True, False]  # for 50 ms
    machine.together = 0.5
    while machine.run(large):
        pass
    for _ in range(20):  # one now and then is nothing
        machine.together = 1.6
        assert not machine.run(large)
        machine.together = 0.5
        assert not machine.run(large)


def test_large_products_that_are_held_up_from_the_first_on_are_noticed() -> None:
    machine, large = Machine(usual=1.0), 30_000_000
    machine.together = 3
    assert [machine.run(large) for _ in range(4)] == [False, False, True, True]
    slow = Machine(usual=0.2)  # than is usual, and alone on its processors: seen at once
    assert [slow.run(large) for _ in range(5)] == [False, False, True, True, False]
    assert not any(slow.run(large) for _ in range(20))


def test_products_take_one_thread_for_a_while_where_others_make_them_wait() -> None:
    machine = Machine()
    for _ in range(3):
        machine.run()
    machine.together = 30
    assert [machine.alone_for() for _ in range(9)] == [0, 50, 100, 200, 400, 800, 1600, 2000, 2000]
    machine.together = 0.5
    assert machine.alone_for() == 2000
    assert not any(machine.run() for _ in range(20))


def test_the_pause_is_short_again_after_a_calm_time() -> None:
    machine = Machine()
    for _ in range(3):
        machine.run()
    machine.together = 30
    assert [machine.alone_for() for _ in range(4)] == [0, 50, 100, 200]
    machine.together = 0.5
    assert machine.alone_for() == 400
    machine.time += 10_000_000_000
    machine.together = 30
    assert [machine.alone_for() for _ in range(3)] == [0, 50, 100]


def test_a_product_that_is_a_little_slow_changes_nothing() -> None:
    machine = Machine()
    for _ in range(3):
        machine.run()
    machine.together = 3.9
    assert not any(machine.run() for _ in range(20))


def test_a_product_may_have_a_place_for_its_result() -> None:
    left, right = np.arange(6.0).reshape(2, 3), np.arange(8.0).reshape(2, 4)
    out = np.zeros((3, 4))
    assert blas.multiply(left, right, out) is out
    assert (out == blas.multiply(left, right)).all()
    assert (out == left.T @ right).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "layout", [np.s_[:40, :60], np.s_[::2, ::2], np.s_[39::-1, :60]], ids=["dense", "steps", "back"]
)
def test_a_product_is_added_wherever_its_sums_lie(dtype: type[np.floating], layout: tuple[slice, slice]) -> None:
    rng = np.random.default_rng(3)
    left, right = (rng.integers(-9, 9, shape).astype(dtype) for shape in ((16, 40), (16, 60)))
    memory = np.ones((80, 120), dtype)
    sums = memory[layout]
    blas.multiply_add(left, right, sums)
    assert (sums == 1 + left.T @ right).all()
    assert memory.sum() == memory.size + (left.T @ right).sum()
